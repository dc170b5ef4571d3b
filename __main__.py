"""`python -m tapecast` is the `tapecast` command."""

from .cli import main

if __name__ == "__main__":
    main()
