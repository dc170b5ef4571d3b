"""The CUDA backend: CUDA C++ from scheduled loops, compiled by NVRTC."""
