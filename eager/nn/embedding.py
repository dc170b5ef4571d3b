"""The embedding layer."""

from __future__ import annotations

from typing import Any, Self

from .. import functional as F
from ..modes import no_grad
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class Embedding(Module):
    """A table of `num_embeddings` vectors, looked up by integers: shape (...) to (..., embedding_dim).

    The vector at `padding_idx` starts as zeros and gets no gradient. The others start as standard normals.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.max_norm, self.norm_type = max_norm, norm_type
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = row(padding_idx, num_embeddings)
        if _weight is None:
            table = F.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {list(_weight.shape)}"
            )
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding whose table is the matrix `embeddings`; frozen, it is not trained."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        settings = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, columns, *settings, _weight=embeddings, _freeze=freeze)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)
        return F.embedding(input, self.weight, *settings)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        limit = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        kind = "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        scaled = f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{limit}{kind}{scaled}{sparse}"


def row(padding_idx: int | None, rows: int) -> int | None:
    """`padding_idx` counted from the front; AssertionError, as in PyTorch, when it is outside of the table."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


class EmbeddingBag(Module):
    """Bags of rows of a table, each bag reduced by `mode`: sum, mean or max. See nn.functional.embedding_bag."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.mode = max_norm, norm_type, mode
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = row(padding_idx, num_embeddings)
        if _weight is None:
            self.weight = Parameter(F.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(_weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer with the given table, which is not trained unless `freeze` is False."""
        rows, width = embeddings.shape
        layer = cls(
            rows,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer

    def reset_parameters(self) -> None:
        """Draw the table from a standard normal distribution; the row of padding_idx is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        parts += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        parts += [f"scale_grad_by_freq={self.scale_grad_by_freq}"] if self.scale_grad_by_freq else []
        parts += [f"mode={self.mode!r}"]
        parts += [f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []
        return ", ".join(parts)
