"""Matrix products."""

from __future__ import annotations

from typing import Any

from .arrays import is_half, wide
from .table import composite, define
from .types import Aval, broadcast_shapes, same_dtype


def _matmul_infer(a: Aval, b: Aval) -> Aval:
    dtype = same_dtype("matmul", a, b)
    if a.ndim < 2 or b.ndim < 2:
        raise RuntimeError(f"matmul: operands are matrices or batches of them, got {a} and {b}")
    (m, k), (k2, n) = a.shape[-2:], b.shape[-2:]
    if k != k2:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({int(m)}x{int(k)} and {int(k2)}x{int(n)}): "
            f"matmul of {a} and {b} wants {int(k)} == {int(k2)}"
        )
    batch = broadcast_shapes("matmul", Aval(a.shape[:-2], dtype), Aval(b.shape[:-2], dtype))
    return Aval((*batch, m, n), dtype)


def matmul_run(xp: Any, a: Any, b: Any) -> Any:
    if a.ndim == b.ndim == 2 and a.dtype.char in "fd":
        return a.dot(b)  # quicker than @ where the matrices are small
    if is_half(a.dtype):
        return xp.matmul(wide(a), wide(b)).astype(a.dtype)
    return a | b if a.dtype.kind == "b" else a @ b


def _batch_index(s: Any, batch: tuple[Any, ...], x: Any) -> tuple[Any, ...]:
    """The batch index of an operand whose batch axes broadcast."""
    own = x.shape[:-2]
    return tuple(
        s.index(0) if n == 1 else i for n, i in zip(own, batch[len(batch) - len(own) :], strict=True)
    )


def _matmul_element(s: Any, index: tuple[Any, ...], a: Any, b: Any) -> Any:
    *batch, i, j = index
    at_a, at_b = _batch_index(s, tuple(batch), a), _batch_index(s, tuple(batch), b)
    return dot(s, a.shape[-1], lambda k: a(*at_a, i, k), lambda k: b(*at_b, k, j), a.dtype)


def dot(s: Any, size: int, left: Any, right: Any, dtype: str) -> Any:
    """Σ left(k)·right(k); half precision is multiplied and summed in float32."""
    if dtype not in ("float16", "bfloat16"):
        return s.reduce("add", (size,), lambda k: s.mul(left(k), right(k)))
    total = s.reduce("add", (size,), lambda k: s.mul(s.cast(left(k), "float32"), s.cast(right(k), "float32")))
    return s.cast(total, dtype)


define(
    "matmul",
    _matmul_infer,
    matmul_run,
    vjp=(
        lambda F, g, out, a, b: F.matmul(g, F.transpose(b, -1, -2)),
        lambda F, g, out, a, b: F.matmul(F.transpose(a, -1, -2), g),
    ),
    element=_matmul_element,
    kind="contract",
    arity=(2, 2),
)

# ---- linear ------------------------------------------------------------------------------------------------


def _linear_infer(x: Aval, weight: Aval, bias: Aval | None = None) -> Aval:
    dtype = same_dtype("linear", x, weight, *([] if bias is None else [bias]))
    if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        rows = int(x.size) // int(x.shape[-1]) if x.ndim and x.shape[-1] else 0
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{int(x.shape[-1]) if x.ndim else 0} and "
            f"{'x'.join(str(int(n)) for n in reversed(weight.shape))}): linear of {x} with weight {weight}"
        )
    if bias is not None and bias.shape != (weight.shape[0],):
        raise RuntimeError(f"linear: the bias wants shape [{int(weight.shape[0])}], got {bias}")
    return Aval((*x.shape[:-1], weight.shape[0]), dtype)


def _linear_run(xp: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    flat = x if x.ndim == 2 else x.reshape(-1 if x.size else 0, x.shape[-1])
    out = matmul_run(xp, flat, weight.T)
    if bias is not None:
        out = xp.add(out, bias, out=out)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], weight.shape[0])


def _linear(F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    out = F.matmul(x, F.transpose(weight, 0, 1))
    return out if bias is None else out + bias


def _rows(F: Any, x: Any) -> Any:
    """All leading axes as one."""
    return x if len(x.shape) == 2 else F.flatten(F.unsqueeze(x, 0), 0, -2)


composite(
    "linear",
    _linear_infer,
    _linear_run,
    _linear,
    vjp=(
        lambda F, g, out, x, weight, bias=None: F.matmul(g, weight),
        lambda F, g, out, x, weight, bias=None: F.matmul(F.transpose(_rows(F, g), 0, 1), _rows(F, x)),
        lambda F, g, out, x, weight, bias: g,
    ),
    arity=(2, 3),
)
