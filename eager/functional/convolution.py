"""Convolutions along one, two or three axes, and their adjoints, the transposed convolutions."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from ..typenames import typename
from .arranging import pad_axes
from .joining import stack
from .pairs import Sizes, many
from .shaping import permute, reshape, squeeze, unsqueeze
from .slicing import slice_axes, slice_axis

CONV2D = TABLE["conv2d"]
CONV2D_INPUT, CONV2D_WEIGHT = TABLE["conv2d_input"], TABLE["conv2d_weight"]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, C, L] (or [C, L]) with weight [O, C/groups, K]; `padding` as in conv2d."""
    return convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, C, H, W] (or [C, H, W]) with weight [O, C/groups, KH, KW].

    padding: zeros on each side, a number or one an axis, "valid" (none) or "same" (the output has the input's size).
    """
    return convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, C, D, H, W] (or [C, D, H, W]) with weight [O, C/groups, KD, KH, KW]."""
    return convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def convolution(
    name: str,
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    """The convolution along the last `axes` axes of a batch, or of one sample without the axis of the batch."""
    if input.ndim == axes + 1:
        x = unsqueeze(input, 0)
        return squeeze(convolution(name, axes, x, weight, bias, stride, padding, dilation, groups), 0)
    check_operands(name, axes, input, weight, groups)
    check_bias(weight, bias, 0, "")
    strides, spread = many(stride, axes, "stride"), many(dilation, axes, "dilation")
    check_positive(stride=strides, dilation=spread)
    if isinstance(padding, str):
        input, zeros = same_padding(input, weight, padding, strides, spread)
    else:
        zeros = many(padding, axes, "padding")
        if min(zeros) < 0:
            raise RuntimeError("negative padding is not supported")
    check_kernel(input, weight, zeros, spread)
    plain = (conv1d_plain, conv2d_at, conv3d_plain)[axes - 1]
    return with_bias(plain(input, weight, strides, zeros, spread, groups), bias)


def check_operands(name: str, axes: int, x: Tensor, weight: Tensor, groups: int) -> None:
    """RuntimeError for ranks, dtypes, groups and kernels that no convolution has."""
    if weight.ndim != axes + 2 or x.ndim != axes + 2:
        raise RuntimeError(
            f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {name} and a {axes + 2}D weight, but "
            f"got input of size: {list(map(int, x.array.shape))} and weight of size: "
            f"{list(map(int, weight.array.shape))}"
        )
    if x.array.dtype != weight.array.dtype:
        raise RuntimeError(
            f"Input type ({typename(x)}) and weight type ({typename(weight)}) should be the same"
        )
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    shape = weight.array.shape
    if type(shape[0]) is int and shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(map(int, shape))} instead"
        )
    if any(type(n) is int and n == 0 for n in shape[2:]):
        raise RuntimeError(f"{name}: a kernel has elements, but got a weight of size {list(map(int, shape))}")


def check_kernel(x: Tensor, weight: Tensor, padding: Sizes, dilation: Sizes) -> None:
    """RuntimeError for a kernel that reaches further than the padded input."""
    sizes, kernel = x.array.shape[2:], weight.array.shape[2:]
    if not all(type(n) is int for n in (*sizes, *kernel)):
        return
    padded = [n + 2 * p for n, p in zip(sizes, padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(r > n for r, n in zip(reach, padded, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size"
        )


def check_bias(weight: Tensor, bias: Tensor | None, axis: int, given: str, groups: int = 1) -> None:
    """RuntimeError unless there is one bias for each output channel, `groups` times those of the weight's axis."""
    if bias is None:
        return
    count, shape = weight.array.shape[axis] * groups, bias.array.shape
    if len(shape) != 1 or (type(count) is int and type(shape[0]) is int and shape[0] != count):
        raise RuntimeError(
            f"Given {given}weight of size {list(map(int, weight.array.shape))}, expected bias to be 1-dimensional with "
            f"{int(count)} elements, but got bias of size {list(map(int, shape))} instead"
        )
    if bias.array.dtype != weight.array.dtype:
        raise RuntimeError(
            f"Input type ({typename(weight)}) and bias type ({typename(bias)}) should be the same"
        )


def check_positive(**settings: Sizes) -> None:
    """RuntimeError for a stride or dilation below 1."""
    for name, values in settings.items():
        if min(values) <= 0:
            raise RuntimeError(f"non-positive {name} is not supported, got {values}")


def same_padding(
    x: Tensor, weight: Tensor, padding: str, strides: Sizes, spread: Sizes
) -> tuple[Tensor, Sizes]:
    """The padding that a word stands for; where it is uneven, x is padded by the difference first."""
    if padding == "valid":
        return x, (0,) * len(strides)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; it is 'valid' or 'same'")
    if max(strides) > 1:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(spread, weight.array.shape[2:], strict=True)]
    if any(n % 2 for n in total):
        x = pad_axes(x, (0,) * x.ndim, (0, 0, *(n % 2 for n in total)))
    return x, tuple(n // 2 for n in total)


def with_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    """One bias per channel added."""
    if bias is None:
        return out
    return labelled(out + reshape(bias, (bias.array.shape[0], *(1,) * (out.ndim - 2))), "Convolution")


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d with time first: input [T, N, C], weight [K, C, O], result [T + 2·pad - K + 1, N, O]."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError(
            f"Input must have 3 dims: time, batch, in_channel, weight 3: kernel, in_channel, out_channel, and bias 1, "
            f"got {input.ndim}, {weight.ndim} and {bias.ndim}"
        )
    out = conv1d(permute(input, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(out, (2, 0, 1))


def conv2d_at(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """conv2d of a batch, every setting one number an axis."""
    return apply(CONV2D, x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv2d_plain(input: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
    """conv2d with the table's attributes."""
    return apply(CONV2D, input, weight, **attrs)


def conv2d_input(grad: Tensor, weight: Tensor, *, size: Any, **attrs: Any) -> Tensor:
    """The gradient of conv2d in its input of spatial size `size`."""
    return apply(CONV2D_INPUT, grad, weight, size=tuple(size), **attrs)


def conv2d_weight(grad: Tensor, input: Tensor, *, kernel: Any, **attrs: Any) -> Tensor:
    """The gradient of conv2d in its weight of kernel size `kernel`."""
    return apply(CONV2D_WEIGHT, grad, input, kernel=tuple(kernel), **attrs)


def conv1d_plain(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """conv1d of a batch: of images of height 1."""
    out = conv2d_at(
        unsqueeze(x, 2), unsqueeze(weight, 2), (1, *stride), (0, *padding), (1, *dilation), groups
    )
    return squeeze(out, 2)


def conv3d_plain(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """conv3d of a batch: one conv2d, whose channels are those of the planes that a window meets."""
    n, c = x.array.shape[:2]
    planes = depth_windows(x, weight.array.shape[2], stride[0], padding[0], dilation[0], 0)
    depth, (height, width) = planes.array.shape[3], x.array.shape[3:]
    kernel = weight.array.shape
    if depth < 1:
        raise RuntimeError(
            f"conv3d: Kernel size can't be greater than actual input size; input {list(map(int, x.array.shape))} has "
            f"no window of the kernel {list(map(int, kernel))}"
        )
    images = reshape(permute(planes, (0, 3, 1, 2, 4, 5)), (n * depth, c * kernel[2], height, width))
    flat = reshape(weight, (kernel[0], kernel[1] * kernel[2], *kernel[3:]))
    out = conv2d_at(images, flat, stride[1:], padding[1:], dilation[1:], groups)
    return permute(reshape(out, (n, depth, *out.array.shape[1:])), (0, 2, 1, 3, 4))


def depth_windows(x: Tensor, kernel: int, stride: int, padding: Any, dilation: int, fill: float) -> Tensor:
    """[N, C, D, H, W] as [N, C, kernel, windows, H, W]; `padding`: a number, or one for each end."""
    before, after = (padding, padding) if isinstance(padding, int) else padding
    if before or after:
        x = pad_axes(x, (0, 0, before, 0, 0), (0, 0, after, 0, 0), fill)
    count = (x.array.shape[2] - dilation * (kernel - 1) - 1) // stride + 1
    last = stride * (count - 1) + 1
    return stack([slice_axis(x, 2, k * dilation, k * dilation + last, stride) for k in range(kernel)], 2)


# ---- transposed --------------------------------------------------------------------------------------------


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of conv1d, used as a layer: x [N, C, L] (or [C, L]), weight [C, O/groups, K]."""
    return transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of conv2d, used as a layer: x [N, C, H, W] (or [C, H, W]), weight [C, O/groups, KH, KW]."""
    return transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of conv3d, used as a layer: x [N, C, D, H, W], weight [C, O/groups, KD, KH, KW]."""
    return transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def transposed(
    name: str,
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The adjoint of the convolution along the last `axes` axes."""
    if input.ndim == axes + 1:
        x = unsqueeze(input, 0)
        return squeeze(
            transposed(name, axes, x, weight, bias, stride, padding, output_padding, groups, dilation), 0
        )
    check_operands(name, axes, input, weight, groups)
    check_bias(weight, bias, 1, "transposed=1, ", groups)
    s, p = many(stride, axes, "stride"), many(padding, axes, "padding")
    e, d = many(output_padding, axes, "output_padding"), many(dilation, axes, "dilation")
    check_positive(stride=s, dilation=d)
    if min(p) < 0:
        raise RuntimeError("negative padding is not supported")
    if any(extra < 0 or extra >= max(step, gap) for extra, step, gap in zip(e, s, d, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding {e}, stride {s}, "
            f"dilation {d}"
        )
    check_channels(name, input, weight, groups)
    if axes == 1:
        x, w = unsqueeze(input, 2), unsqueeze(weight, 2)
        out = squeeze(transposed_planes(x, w, (1, *s), (0, *p), (0, *e), groups, (1, *d)), 2)
    elif axes == 2:
        out = transposed_planes(input, weight, s, p, e, groups, d)
    else:
        out = transposed_volumes(input, weight, s, p, e, groups, d)
    return with_bias(out, bias)


def check_channels(name: str, x: Tensor, weight: Tensor, groups: int) -> None:
    """RuntimeError unless the input has the channels that the weight wants."""
    if x.array.shape[1] != weight.array.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(map(int, weight.array.shape))}, expected input"
            f"{list(map(int, x.array.shape))} to have {int(weight.array.shape[0])} channels, but got "
            f"{int(x.array.shape[1])} channels instead"
        )
    if groups < 1 or weight.array.shape[0] % groups:
        raise RuntimeError(
            f"{name}: {int(weight.array.shape[0])} channels do not divide into {groups} groups"
        )


def transposed_planes(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, extra: Sizes, groups: int, dilation: Sizes
) -> Tensor:
    """conv_transpose2d of a batch. Where more is added at the end than a step, it is cut out of the full result."""
    reach = [
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(x.array.shape[2:], stride, dilation, weight.array.shape[2:], strict=True)
    ]
    size = [r - 2 * p + e for r, p, e in zip(reach, padding, extra, strict=True)]
    if min(size) < 1:
        raise RuntimeError(f"conv_transpose: the output size {size} is too small")
    if all(e < s for e, s in zip(extra, stride, strict=True)):
        return conv2d_input(
            x, weight, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
    full = conv2d_input(
        x, weight, size=reach, stride=stride, padding=(0, 0), dilation=dilation, groups=groups
    )
    return cut(full, (0, 0, *padding), (*full.array.shape[:2], *size))


def cut(x: Tensor, start: Sizes, size: Sizes) -> Tensor:
    """The part of `size` from `start` on; zeros beyond the end."""
    stops = tuple(min(a + n, m) for a, n, m in zip(start, size, x.array.shape, strict=True))
    inside = slice_axes(x, start, stops, (1,) * x.ndim)
    missing = tuple(a + n - b for a, n, b in zip(start, size, stops, strict=True))
    return pad_axes(inside, (0,) * x.ndim, missing) if any(missing) else inside


def transposed_volumes(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, extra: Sizes, groups: int, dilation: Sizes
) -> Tensor:
    """conv_transpose3d of a batch: one conv_transpose2d of all planes, whose results are added up along the depth."""
    n, c, depth, *size = x.array.shape
    kernel = weight.array.shape
    planes = reshape(permute(x, (0, 2, 1, 3, 4)), (n * depth, c, *size))
    flat = reshape(weight, (c, kernel[1] * kernel[2], *kernel[3:]))
    made = transposed_planes(planes, flat, stride[1:], padding[1:], extra[1:], groups, dilation[1:])
    out, plane = kernel[1] * groups, made.array.shape[2:]
    parts = permute(reshape(made, (n, depth, out, kernel[2], *plane)), (3, 0, 2, 1, 4, 5))
    reach = (depth - 1) * stride[0] + dilation[0] * (kernel[2] - 1) + 1
    total: Tensor | None = None
    for k in range(kernel[2]):
        spread = apart(parts[k], stride[0])
        before = k * dilation[0]
        after = reach - before - spread.array.shape[2]
        placed = pad_axes(spread, (0, 0, before, 0, 0), (0, 0, after, 0, 0))
        total = placed if total is None else total + placed
    assert total is not None
    length = reach - 2 * padding[0] + extra[0]
    return cut(total, (0, 0, padding[0], 0, 0), (n, out, length, *plane))


def apart(x: Tensor, step: int) -> Tensor:
    """[N, C, D, H, W] with step - 1 planes of zeros between any two."""
    n, c, depth, *plane = x.array.shape
    if step == 1:
        return x
    wide = pad_axes(unsqueeze(x, 3), (0,) * 6, (0, 0, 0, step - 1, 0, 0))
    return slice_axis(reshape(wide, (n, c, depth * step, *plane)), 2, 0, (depth - 1) * step + 1)
