"""Images and volumes read at places between their elements: grid_sample, and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ..tensor import Tensor
from .choice import where
from .creation import ones_like
from .functions import floor
from .joining import stack
from .ranges import linspace
from .resizing import cubic_weights
from .scattering import gather
from .shaping import expand, flatten, reshape, unsqueeze

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input [N, C, H, W] (or [N, C, D, H, W]) at grid [N, OH, OW, 2] (x, y from -1 to 1): [N, C, OH, OW].

    mode: bilinear, nearest, bicubic. padding_mode, for places outside: zeros, border, reflection.
    """
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    return sampled(input, grid, mode, padding_mode, bool(align_corners))


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sample with its modes by number."""
    return sampled(input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def sampled(x: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    axes = x.ndim - 2
    check_grid(x, grid, axes, mode)
    size = x.array.shape[2:]
    places = [unnormalised(grid[..., axes - 1 - d], n, align) for d, n in enumerate(size)]
    if mode != "bicubic":
        places = [settled(p, n, padding, align) for p, n in zip(places, size, strict=True)]
    flat = flatten(x, 2)
    read = reader(flat, size, padding, align, tuple(grid.array.shape[1:-1]), mode == "bicubic")
    if mode == "nearest":
        return read([p.round() for p in places])
    low = [floor(p) for p in places]
    shares = [p - a for p, a in zip(places, low, strict=True)]
    if mode == "bicubic":
        weights, begin = [cubic_weights(t) for t in shares], -1
    else:
        weights, begin = [[1 - t, t] for t in shares], 0
    total: Tensor | None = None
    for corner in product(range(len(weights[0])), repeat=axes):
        weight = weights[0][corner[0]]
        for d in range(1, axes):
            weight = weight * weights[d][corner[d]]
        part = read([a + (begin + k) for a, k in zip(low, corner, strict=True)]) * unsqueeze(weight, 1)
        total = part if total is None else total + part
    assert total is not None
    return total


def check_grid(x: Tensor, grid: Tensor, axes: int, mode: str) -> None:
    """RuntimeError for shapes and dtypes that do not fit."""
    if axes not in (2, 3) or x.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(map(int, x.array.shape))} and grid with sizes {list(map(int, grid.array.shape))}"
        )
    if x.array.shape[0] != grid.array.shape[0]:
        raise RuntimeError("grid_sampler(): expected grid and input to have same batch size")
    if grid.array.shape[-1] != axes:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {axes} in last dimension")
    if any(type(n) is int and n == 0 for n in x.array.shape[2:]):
        raise RuntimeError("grid_sampler(): expected input to have non-empty spatial dimensions")
    if x.array.dtype != grid.array.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but got {x.dtype} and {grid.dtype}"
        )
    if mode == "bicubic" and axes == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def unnormalised(p: Tensor, n: Any, align: bool) -> Tensor:
    """A place from -1..1 in elements."""
    return (p + 1) * ((n - 1) / 2) if align else ((p + 1) * n - 1) / 2


def settled(p: Tensor, n: Any, padding: str, align: bool) -> Tensor:
    """A place outside moved inside, as `padding` has it."""
    if padding == "zeros":
        return p
    if padding == "reflection":
        p = reflected(p, n, align)
    return p.clamp(0, n - 1)


def reflected(p: Tensor, n: Any, align: bool) -> Tensor:
    """A place outside mirrored at the middles (align) or edges of the first and last element."""
    low, span = (0.0, n - 1) if align else (-0.5, n)
    if span == 0:
        return p * 0
    away = (p - low).abs()
    flips = floor(away / span)
    rest = away - flips * span
    even = flips - floor(flips / 2) * 2 == 0
    return where(even, rest + low, (span - rest) + low)


def reader(
    flat: Tensor, size: Sequence[Any], padding: str, align: bool, out: tuple[Any, ...], settle: bool
) -> Callable[[list[Tensor]], Tensor]:
    """A function of whole places, one tensor [N, *out] an axis: the elements there [N, C, *out]."""
    n, c = flat.array.shape[:2]

    def read(places: list[Tensor]) -> Tensor:
        if settle:
            places = [settled(p, m, padding, align) for p, m in zip(places, size, strict=True)]
        inside: Tensor | None = None
        index: Tensor | None = None
        for p, m in zip(places, size, strict=True):
            if padding == "zeros":
                here = (p >= 0) & (p <= m - 1)
                inside = here if inside is None else inside & here
            at = p.detach().nan_to_num(0.0).clamp(0, m - 1).long()
            index = at if index is None else index * m + at
        assert index is not None
        count = flatten(index, 1)
        taken = gather(flat, 2, expand(unsqueeze(count, 1), (n, c, count.array.shape[1])))
        values = reshape(taken, (n, c, *out))
        return values if inside is None else values * unsqueeze(inside.to(values.dtype), 1)

    return read


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid [N, H, W, 2] (or [N, D, H, W, 3]) of grid_sample for the affine maps theta [N, 2, 3] ([N, 3, 4])."""
    axes = len(size) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if theta.ndim != 3 or tuple(theta.array.shape[1:]) != (axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size {list(size)}. Got "
            f"{tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(size)}")
    lines = []
    for d, n in enumerate(size[2:]):
        line = linspace(-1, 1, n, dtype=theta.dtype) if n > 1 else linspace(0, 0, 1, dtype=theta.dtype)
        line = line if align_corners else line * ((n - 1) / n)
        place = [1] * axes
        place[d] = n
        lines.append(expand(reshape(line, tuple(place)), tuple(size[2:])))
    base = stack([*reversed(lines), ones_like(lines[0])], -1)
    rows = reshape(base, (1, -1, axes + 1))
    return reshape(rows @ theta.transpose(1, 2), (size[0], *size[2:], axes))
