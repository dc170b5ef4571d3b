"""From a unit to CUDA modules: kernels scheduled for the GPU, their source, a cubin for each architecture, and how
to start each kernel. What an artifact for CUDA is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..loops import Kernel
from ..schedule.gpu import schedule_gpu
from ..unit import Unit
from .emit import Launch, launch, source
from .nvrtc import Compiled, compile_cuda

#: Compute capability 8.0 (A100) and 9.0 (H100, H200). A cubin also runs on later minor versions of its major one.
ARCHITECTURES = ("sm_80", "sm_90")


def cuda_kernels(unit: Unit) -> dict[str, Kernel]:
    """The unit's kernels as the GPU runs them, by name; buffers and sizes are those of the canonical ones."""
    return {name: schedule_gpu(kernel) for name, kernel in unit.kernels.items()}


def cuda_source(unit: Unit) -> str:
    """The CUDA C++ file with all kernels of a unit, for NVRTC or nvcc."""
    return source(cuda_kernels(unit).values())


def cuda_modules(kernels: Mapping[str, Kernel], archs: Sequence[str] = ARCHITECTURES) -> dict[str, Compiled]:
    """Scheduled kernels compiled into one module an architecture: "sm_90" gives a cubin, "compute_80" PTX.

    NvrtcError where NVRTC is missing or does not know the architecture.
    """
    text = source(kernels.values())
    with ThreadPoolExecutor(max_workers=len(archs)) as pool:
        return dict(zip(archs, pool.map(lambda arch: compile_cuda(text, arch), archs), strict=True))


def launches(kernels: Mapping[str, Kernel]) -> dict[str, Launch]:
    """How to start each scheduled kernel. Its arguments are its buffers' addresses, then its sizes, in order."""
    return {name: launch(kernel) for name, kernel in kernels.items()}
