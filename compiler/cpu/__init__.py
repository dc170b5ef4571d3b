"""The CPU backend: LLVM text to object code, a thread pool, and the linker that makes one shared library."""
