"""Linear algebra, by PyTorch's names: factorisations, spectra, systems of equations, norms, products.

All functions take batches of matrices [..., m, n] and are differentiable where a gradient exists. LAPACK computes
them as a whole, so a program that uses them runs and is recorded but is not compiled.
"""

from .. import functional  # noqa: F401  (first: the modules below and it refer to each other)
from . import rules
from .checks import LinAlgError
from .factorisations import (
    cholesky,
    cholesky_ex,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    qr,
)
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .products import (
    cross,
    det,
    diagonal,
    matmul,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    vander,
    vecdot,
)
from .solvers import (
    inv,
    inv_ex,
    lstsq,
    lu_solve,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from .spectra import eig, eigh, eigvals, eigvalsh, svd, svdvals

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "rules",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
