"""Parametrizations of weights: by length and direction, with norm 1, and orthogonal."""

from __future__ import annotations

from typing import Any

from ... import functional as F
from ...linalg import householder_product, solve
from ...modes import no_grad
from ...tensor import Tensor
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A weight as magnitudes along `dim` (-1: one for all) times directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / F.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return F.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight by its magnitude and direction: `original0`, one for each index of `dim`, and `original1`.

    It also loads state dicts of the older `nn.utils.weight_norm`, with their `weight_g` and `weight_v`.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which each call in training mode estimates better."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            rows, columns = matrix.shape
            self.register_buffer("_u", F.normalize(matrix.new_empty(rows).normal_(0, 1), dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(matrix.new_empty(columns).normal_(0, 1), dim=0, eps=eps))
            self._improve(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        """The weight [rows, columns], with `dim` for rows."""
        return weight.movedim(self.dim, 0).flatten(1)

    def _improve(self, matrix: Tensor, times: int) -> None:
        """Power iterations of the two vectors."""
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(F.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(F.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._improve(matrix, self.n_power_iterations)
        # Copies, because a second call changes the vectors before the first one's backward pass.
        u, v = self._u.clone(), self._v.clone()
        return weight / F.vdot(u, F.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # whether its norm is 1 or not: the next call divides


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Parametrize a weight by division by its largest singular value.

    `dim`: the axis of the outputs, by default 1 for transposed convolutions and 0 for others.
    """
    weight = named(module, name)
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def named(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix [..., n, k] to one of orthonormal columns or, where n < k, rows."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        Q = self._reflections(X) if self.orthogonal_map == "householder" else self._rotation(X)
        if "base" in self._buffers and self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _rotation(self, X: Tensor) -> Tensor:
        """Of the skew-symmetric matrix that the lower triangle of X [..., n, k] makes: [..., n, k]."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = F.cat([X, X.new_zeros((*X.shape[:-1], n - k))], -1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            return F.matrix_exp(A)[..., :k]
        one = F.eye(n, dtype=A.dtype, device=A.device)
        return solve(one - 0.5 * A, one + 0.5 * A)[..., :k]

    def _reflections(self, X: Tensor) -> Tensor:
        """The product of the reflections at the columns below the diagonal, whose signs the diagonal gives."""
        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        signs = X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        return householder_product(A, tau) * signs

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        given, wide = Q, Q.shape[-2] < Q.shape[-1]
        Q = Q.mT if wide else Q
        if "base" not in self._buffers:
            out = self._reflected(Q)
            return out.mT if wide else out
        n, k = Q.shape[-2:]
        if n != k:
            Q = F.cat([Q, F.randn((*Q.shape[:-1], n - k), dtype=Q.dtype, device=Q.device)], -1)
        self.base = Q.clone() if n == k and is_orthogonal(Q) else nearest_orthogonal(Q)
        # The maps send -1 on the diagonal to the unit matrix, so that the product is the base.
        out = F.zeros_like(given)
        out.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return out

    def _reflected(self, Q: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        A, tau = F.geqrf(Q)
        signs = A.diagonal(dim1=-2, dim2=-1).sign()
        A.diagonal(dim1=-2, dim2=-1).copy_(F.where(tau == 0.0, -signs, signs))
        return A


def is_orthogonal(Q: Tensor) -> bool:
    """Whether the columns of Q [..., n, k] are orthonormal, to 10 n machine epsilons."""
    from ...dtypes import finfo

    n, k = Q.shape[-2:]
    eps = 10.0 * n * finfo(Q.dtype).eps
    return F.allclose(
        Q.mH @ Q, F.eye(k, dtype=Q.dtype, device=Q.device).expand(*Q.shape[:-2], k, k), atol=eps
    )


def nearest_orthogonal(A: Tensor) -> Tensor:
    """The Q of QR, with the signs that make the diagonal of R positive."""
    X, tau = F.geqrf(A)
    return householder_product(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Parametrize a matrix to be orthogonal, or of orthonormal columns or rows.

    `orthogonal_map`: matrix_exp (the default for square and complex matrices), cayley or householder.
    `use_trivialization` multiplies by a fixed orthogonal matrix, the nearest to the weight when it was assigned.
    """
    weight = named(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True
    )
