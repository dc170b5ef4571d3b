"""What PyTorch programs set and ask about the libraries under it. Settings are kept and change nothing here: compiled
and eager code of tapecast is deterministic, float32 products are float32, and no kernel is chosen by trial."""

from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
