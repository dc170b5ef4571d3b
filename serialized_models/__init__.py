"""The two kinds of file: `model.tape`, a program, and `model.so`, an artifact. README.md is the promise about
them.
"""
