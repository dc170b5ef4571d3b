"""Cross-entropy of a linear layer, row by row, without keeping the logits."""

from __future__ import annotations

from typing import Any

from .arrays import wide
from .table import composite
from .types import Aval, same_dtype


def _infer(x: Aval, w: Aval, t: Aval, *bias: Aval, chunk: int) -> Aval:
    """x [N, D], w [C, D], classes t [N], bias [C] -> [N]."""
    dtype = same_dtype("linear_nll", x, w, *bias)
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1] or t.shape != x.shape[:1]:
        raise RuntimeError(f"linear_nll: wants x [N, D], weight [C, D] and classes [N], got {x}, {w} and {t}")
    return Aval(x.shape[:1], dtype)


def _run(xp: Any, x: Any, w: Any, t: Any, *bias: Any, chunk: int) -> Any:
    out = xp.empty(x.shape[0], x.dtype)
    weight = wide(w).T
    for start in range(0, x.shape[0], chunk):
        rows = slice(start, start + chunk)
        logits = wide(x[rows]) @ weight
        if bias:
            logits += wide(bias[0])
        logits -= logits.max(axis=1, keepdims=True)
        picked = xp.take_along_axis(logits, t[rows, None], 1)[:, 0]
        out[rows] = (xp.log(xp.exp(logits).sum(axis=1)) - picked).astype(x.dtype, copy=False)
    return out


def _parts(F: Any, x: Any, w: Any, t: Any, *bias: Any, chunk: int) -> Any:
    logits = F.linear(x, w, *bias)
    return -F.squeeze(F.gather(F.log_softmax(logits, 1), 1, F.unsqueeze(t, 1)), 1)


def _vjp(F: Any, g: Any, out: Any, x: Any, w: Any, t: Any, *bias: Any, chunk: int) -> tuple[Any, ...]:
    """softmax(logits) less 1 at the class, times g, through the layer; piece by piece for the same reason."""
    size, dx, dw, db = x.shape[0], [], None, None
    for start in range(0, size, chunk):
        rows = min(chunk, size - start)
        part = F.narrow(x, 0, start, rows)
        p = F.softmax(F.linear(part, w, *bias), 1)
        hot = F.cast(F.unsqueeze(F.narrow(t, 0, start, rows), 1) == F.arange(w.shape[0]), p.dtype)
        slope = (p - hot) * F.unsqueeze(F.narrow(g, 0, start, rows), 1)
        dx.append(F.matmul(slope, w))
        more = F.matmul(F.transpose(slope, 0, 1), part)
        dw = more if dw is None else dw + more
        if bias:
            db = F.sum(slope, 0) if db is None else db + F.sum(slope, 0)
    if not dx:
        return (x * 0.0, w * 0.0, None, *(b * 0.0 for b in bias))
    return (F.cat(dx, 0), dw, None, *([db] if bias else []))


composite("linear_nll", _infer, _run, _parts, vjp=_vjp, arity=(3, 4))
