"""Settings of products on a GPU."""


class Matmul:
    """`torch.backends.cuda.matmul`."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False


matmul = Matmul()


def is_built() -> bool:
    """Whether GPU support is installed: whether CuPy is."""
    from importlib.util import find_spec

    return find_spec("cupy") is not None
