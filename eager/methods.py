"""The methods of Tensor that are public functions by another spelling: x.sum() is sum(x), x + y is add(x, y)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from . import backward as engine, functional as F, hooks
from .functional import complexes, filling, inplace, pointwise, shaping, strides
from .storage import untyped_storage
from .tensor import Tensor
from .typenames import TensorType, dtype_named, type_of, typename

SAME_NAME = """
    abs absolute acos acosh add addcdiv addcmul addmm addmv addr all amax amin aminmax any arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bernoulli
    bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_to ceil chunk clamp clamp_max clamp_min clip clone
    contiguous cos cosh count_nonzero cpu cross cuda cumsum deg2rad diag diag_embed diagonal diagonal_scatter diff
    dist div dot eq erf erfc exp exp2 expand expand_as expm1 fix flatten flip fliplr flipud float_power floor
    floor_divide fmax fmin fmod frac gather ge ger greater greater_equal gt hypot index_add index_copy index_fill
    index_put index_select inner isclose isfinite isinf isnan isneginf isposinf kron kthvalue le lerp less
    less_equal log log10 log1p log2 log_softmax logaddexp logical_and logical_not logical_or logical_xor logit
    logsumexp lt masked_fill masked_scatter masked_select matmul matrix_power max maximum mean median min minimum
    mm moveaxis movedim mul multinomial mv nan_to_num nanmean nansum narrow ne neg negative new_empty new_full
    new_ones new_tensor new_zeros nonzero norm not_equal outer permute positive pow prod quantile rad2deg ravel
    reciprocal relu remainder renorm repeat repeat_interleave reshape reshape_as roll rot90 round rsqrt scatter
    scatter_add select select_scatter sigmoid sign signbit sin sinc sinh slice_scatter softmax sort split sqrt
    square squeeze std sub sum sum_to_size swapaxes swapdims t take take_along_dim tan tanh tensor_split tile to
    topk trace transpose tril triu trunc unbind unflatten unsqueeze vdot view view_as where xlogy var digamma erfinv
    igamma lgamma mvlgamma
    cumprod logcumsumexp cummax cummin nanmedian nanquantile cov corrcoef
    cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp orgqr pinverse
    qr slogdet svd triangular_solve
    angle bitwise_left_shift bitwise_right_shift conj conj_physical copysign frexp gcd heaviside i0 igammac is_conj
    is_neg isreal lcm ldexp logaddexp2 nextafter resolve_conj resolve_neg sgn
    addbmm
    adjoint as_strided as_strided_scatter bincount diagflat dsplit histc histogram hsplit index_reduce msort
    narrow_copy new_empty_strided nonzero_static put resize_ resize_as_ scatter_reduce split_with_sizes
    unique unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit
    hash_tensor istft stft
    get_device hardshrink is_distributed is_inference is_nonzero is_same_size is_signed ormqr prelu
    mode
""".split()
OTHER_NAME = {
    "divide": pointwise.div,
    "multiply": pointwise.mul,
    "subtract": pointwise.sub,
    "true_divide": pointwise.div,
    "cast": pointwise.cast,
    "register_hook": hooks.register_hook,
    "register_post_accumulate_grad_hook": hooks.register_post_accumulate_grad_hook,
    "retain_grad": hooks.retain_grad,
    "__getitem__": F.getitem,
    "__add__": pointwise.add,
    "__radd__": pointwise.add,
    "__sub__": pointwise.sub,
    "__rsub__": pointwise.rsub,
    "__mul__": pointwise.mul,
    "__rmul__": pointwise.mul,
    "__truediv__": pointwise.div,
    "__rtruediv__": pointwise.rdiv,
    "__floordiv__": pointwise.floor_divide,
    "__mod__": pointwise.remainder,
    "__pow__": pointwise.pow,
    "__rpow__": pointwise.rpow,
    "__matmul__": F.matmul,
    "__neg__": pointwise.neg,
    "__pos__": pointwise.positive,
    "__abs__": pointwise.abs,
    "__invert__": pointwise.bitwise_not,
    "__and__": pointwise.bitwise_and,
    "__rand__": pointwise.bitwise_and,
    "__or__": pointwise.bitwise_or,
    "__ror__": pointwise.bitwise_or,
    "__xor__": pointwise.bitwise_xor,
    "__rxor__": pointwise.bitwise_xor,
    "__lshift__": pointwise.bitwise_left_shift,
    "__rshift__": pointwise.bitwise_right_shift,
    "__rlshift__": lambda self, other: pointwise.bitwise_left_shift(other, self),
    "__rrshift__": lambda self, other: pointwise.bitwise_right_shift(other, self),
    "__lt__": pointwise.lt,
    "__le__": pointwise.le,
    "__gt__": pointwise.gt,
    "__ge__": pointwise.ge,
}
IN_PLACE_OPERATORS = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}
CONVERSIONS = {
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}


def converter(name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return F.cast(self, name)

    method.__doc__ = f"The tensor as {name}."
    return method


def swapped(function: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """The reflected operator: other ∘ self."""

    def method(self: Tensor, other: Any) -> Tensor:
        return function(other, self)

    return method


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where the condition holds, else other."""
    return F.where(condition, self, other)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype and on the device of `other`."""
    return F.to(self, other)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The type's name, such as "torch.FloatTensor", or the tensor in another dtype, which such a name may say too."""
    if dtype is None:
        return typename(self)
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        place, wanted = dtype_named(dtype)
        return F.to(self, place, wanted)
    return F.cast(self, dtype.dtype if isinstance(dtype, TensorType) else dtype)


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return F.polygamma(n, self)


def equal(self: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same."""
    return F.equal(self, other)


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor (weighted by `gradient`, 1 for a scalar) to the `.grad` of its leaves."""
    engine.backward(
        [self], [gradient], retain_graph, create_graph, None if inputs is None else engine.as_list(inputs)
    )


def set_(self: Tensor, source: Tensor) -> Tensor:
    """Take over another tensor's memory."""
    self.array = source.array
    return self


def unless_foreign(compare: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
    """A comparison that leaves what is no number to the other object: `tensor == None` is False."""

    @wraps(compare)
    def method(self: Tensor, other: Any) -> Any:
        try:
            return compare(self, other)
        except TypeError:
            return NotImplemented

    return method


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory of the tensor, and so of its views, to shared memory; returns the tensor."""
    from .multiprocessing.sharing import share_memory_

    return share_memory_(self)


def is_shared(self: Tensor) -> bool:
    """Whether the tensor lies in shared memory; on a GPU it always does."""
    from .multiprocessing.sharing import is_shared

    return is_shared(self)


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """In place: a Python function of each element. Slow, and for tensors in main memory."""
    return elementwise(self, "apply_", callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """In place: a Python function of each element and the other tensor's, broadcast."""
    return elementwise(self, "map_", callable, tensor)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """In place: a Python function of each element and those of two other tensors, broadcast."""
    return elementwise(self, "map2_", callable, x, y)


def elementwise(self: Tensor, name: str, function: Callable[..., Any], *others: Tensor) -> Tensor:
    if self.requires_grad or any(t.requires_grad for t in others):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    if self.device.type != "cpu":
        raise TypeError(f"{name} is only implemented on CPU tensors")
    columns = [F.flatten(F.expand(t, self.shape)).tolist() for t in (self, *others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    return inplace.copy_(self, F.reshape(F.tensor(values, dtype=self.dtype), self.shape))


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of the same dtype: of sizes, of a sequence's values, or empty."""
    return type_of(self.dtype)(*args, device=self.device if device is None else device)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of the same memory."""
    return (
        self.data_ptr() == tensor.data_ptr()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
        and self.storage_offset() == tensor.storage_offset()
    )


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The axes from that of the largest stride to that of the smallest."""
    return tuple(sorted(range(self.ndim), key=lambda axis: -self.stride()[axis]))


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: copies to a GPU read ordinary memory here."""
    return self


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned: never."""
    return False


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The tensor itself, in another dtype where one is given: all tensors are dense."""
    return self if dtype is None else F.cast(self, dtype)


def reversed_first_axis(self: Tensor) -> Tensor:
    """`reversed(x)`: the first axis from its end."""
    return self if self.ndim == 0 else F.flip(self, (0,))


def install() -> None:
    """Put the methods on the class."""
    for name in SAME_NAME:
        setattr(Tensor, name, getattr(pointwise, name, None) or getattr(F, name))  # without `out`
    for name, function in OTHER_NAME.items():
        setattr(Tensor, name, function)
    for name, function in inplace.METHODS.items():
        setattr(Tensor, name, function)
    for name, target in IN_PLACE_OPERATORS.items():
        setattr(Tensor, name, inplace.METHODS[target])
    for name, dtype in CONVERSIONS.items():
        setattr(Tensor, name, converter(dtype))
    for name in ("copy_ fill_ zero_ index_put_ fill_diagonal_ squeeze_ unsqueeze_ transpose_ t_").split():
        setattr(Tensor, name, getattr(inplace, name))
    for function in filling.FILLS:
        setattr(Tensor, function.__name__, function)
    for name, function in OWN.items():
        setattr(Tensor, name, function)


OWN: dict[str, Any] = {
    "backward": backward,
    "where": where_method,
    "__eq__": unless_foreign(pointwise.eq),
    "__ne__": unless_foreign(pointwise.ne),
    "type_as": type_as,
    "apply_": apply_,
    "untyped_storage": untyped_storage,
    "map_": map_,
    "map2_": map2_,
    "new": new,
    "is_set_to": is_set_to,
    "dim_order": dim_order,
    "pin_memory": pin_memory,
    "is_pinned": is_pinned,
    "to_dense": to_dense,
    "__reversed__": reversed_first_axis,
    "share_memory_": share_memory_,
    "is_shared": is_shared,
    "type": type_,
    "equal": equal,
    "polygamma": polygamma,
    "allclose": F.allclose,
    "set_": set_,
    "__rmatmul__": swapped(F.matmul),
    "__rfloordiv__": swapped(F.floor_divide),
    "__rmod__": swapped(F.remainder),
    "real": property(F.real, complexes.real_setter),
    "imag": property(F.imag, complexes.imag_setter),
    "T": property(shaping.reversed_axes),
    "mT": property(shaping.matrix_transpose),
    "mH": property(shaping.adjoint),
    "H": property(shaping.conjugate_transpose),
    "swapaxes_": inplace.transpose_,
    "swapdims_": inplace.transpose_,
    "as_strided_": inplace.as_strided_,
    "unfold": strides.unfold,
}
install()
