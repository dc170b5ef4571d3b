"""Elements added at the ends of axes."""

from __future__ import annotations

from collections.abc import Sequence

from ..tape import labelled
from ..tensor import Tensor
from .arranging import flip, pad_axes
from .joining import cat
from .shaping import expand
from .slicing import slice_axes, slice_axis


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at (or, where negative, taken from) both ends of the last axes.

    pad: (before, after) of the last axis, then of the one before it, … mode: constant, reflect, replicate, circular.
    """
    sides = sides_of(input, pad)
    if mode == "constant":
        return constant_ends(input, sides, 0 if value is None else value)
    check_wrapped(input, len(pad), mode, value)
    for d, (before, after) in enumerate(sides):
        if before or after:
            input = wrapped_pad(input, d, before, after, mode)
    return input


def check_wrapped(x: Tensor, ends: int, mode: str, value: float | None) -> None:
    """Errors as PyTorch's for what no padding with the tensor's own elements has: modes, values, ranks, no elements."""
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    axes = ends // 2
    if axes not in (1, 2, 3) or x.ndim not in (axes + 1, axes + 2):
        raise NotImplementedError(
            f"Padding size {ends} is not supported for {x.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode != "circular" and any(type(n) is int and n == 0 for n in x.array.shape[x.ndim - axes - 1 :]):
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(map(int, x.array.shape))}"
        )


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """A number added at the ends of the last axes: nn.functional.pad with mode constant."""
    return constant_ends(input, sides_of(input, pad), value)


def sides_of(x: Tensor, pad: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) of each axis, first to last. RuntimeError for a length that does not fit the tensor."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * x.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {x.ndim}"
        )
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def constant_ends(x: Tensor, sides: list[tuple[int, int]], value: float) -> Tensor:
    """`value` added at the ends of axes; negative counts cut off."""
    if any(a < 0 or b < 0 for a, b in sides):
        shape = x.array.shape
        starts = tuple(-a if a < 0 else 0 for a, _ in sides)
        stops = tuple(n + b if b < 0 else n for n, (_, b) in zip(shape, sides, strict=True))
        x = slice_axes(x, starts, stops, (1,) * x.ndim)
        sides = [(a if a > 0 else 0, b if b > 0 else 0) for a, b in sides]
    if not any(a or b for a, b in sides):
        return x
    return labelled(
        pad_axes(x, tuple(a for a, _ in sides), tuple(b for _, b in sides), value), "ConstantPadNd"
    )


def wrapped_pad(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """Padding with the tensor's own elements along one axis."""
    n = x.array.shape[d]
    if mode == "circular" and (before > n or after > n):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if mode == "reflect" and (before >= n or after >= n):
        raise RuntimeError(
            f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(map(int, x.array.shape))}"
        )
    if before + after + n < (0 if mode == "circular" else 1):
        raise RuntimeError(
            f"input of {int(n)} elements is too small for padding ({before}, {after}) at dimension {d}"
        )
    if mode == "circular" and (
        before < 0 or after < 0
    ):  # what is cut off does not come back at the other end
        x = slice_axis(x, d, max(-before, 0), n + min(after, 0))
        before, after = max(before, 0), max(after, 0)
    parts = [x]
    if before > 0:
        parts.insert(0, _edge(x, d, before, mode, first=True))
    if after > 0:
        parts.append(_edge(x, d, after, mode, first=False))
    out = cat(parts, d) if len(parts) > 1 else x
    if before < 0 or after < 0:
        size = out.array.shape[d]
        out = slice_axis(out, d, max(-before, 0), size + min(after, 0))
    return out


def _edge(x: Tensor, d: int, count: int, mode: str, first: bool) -> Tensor:
    n = x.array.shape[d]
    if mode == "circular":
        return slice_axis(x, d, n - count, n) if first else slice_axis(x, d, 0, count)
    if mode == "reflect":
        return flip(slice_axis(x, d, 1, count + 1) if first else slice_axis(x, d, n - 1 - count, n - 1), d)
    end = slice_axis(x, d, 0, 1) if first else slice_axis(x, d, n - 1, n)
    return expand(end, tuple(count if k == d else m for k, m in enumerate(x.array.shape)))
