"""Connectionist temporal classification (Graves et al., ICML 2006): the likelihood of labels, all alignments added.

Forward and backward variables are those of the paper, in logarithms, for a whole batch at a time. The steps of
time go one after another, so this is an op that a library computes: the compiler refuses it by name.
"""

from __future__ import annotations

from typing import Any

from .table import library
from .types import Aval


def _infer(lp: Aval, targets: Aval, steps: Aval, lengths: Aval, **attrs: Any) -> Aval:
    """lp [T, N, C], targets [N, S], steps [N], lengths [N] -> [N]."""
    return Aval(lp.shape[1:2], lp.dtype)


def _states(xp: Any, targets: Any, blank: int) -> tuple[Any, Any]:
    """The labels with blanks around each [N, 2S + 1], and where a path may step over a blank."""
    n, s = targets.shape
    states = xp.full((n, 2 * s + 1), blank, targets.dtype)
    states[:, 1::2] = targets
    leap = xp.zeros(states.shape, bool)
    leap[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
    return states, leap


def _logaddexp(xp: Any, *parts: Any) -> Any:
    out = parts[0]
    for part in parts[1:]:
        out = xp.logaddexp(out, part)
    return out


def _shift(xp: Any, x: Any, by: int) -> Any:
    """x [N, L] moved along its axis, -inf in the places that become free."""
    out = xp.full_like(x, -xp.inf)
    if by > 0:
        out[:, by:] = x[:, :-by] if by < x.shape[1] else out[:, by:]
    else:
        out[:, :by] = x[:, -by:] if -by < x.shape[1] else out[:, :by]
    return out


def _forward(xp: Any, lp: Any, states: Any, leap: Any) -> Any:
    """[T, N, L]: the logarithm of the probability of all beginnings that end in a state."""
    emitted = xp.take_along_axis(lp, xp.broadcast_to(states, (lp.shape[0], *states.shape)), 2)
    alpha = xp.full(emitted.shape, -xp.inf)
    if len(alpha):
        alpha[0, :, :2] = emitted[0, :, :2]
    for t in range(1, len(alpha)):
        last = alpha[t - 1]
        over = xp.where(leap, _shift(xp, last, 2), -xp.inf)
        alpha[t] = _logaddexp(xp, last, _shift(xp, last, 1), over) + emitted[t]
    return alpha


def _likelihood(xp: Any, alpha: Any, steps: Any, lengths: Any) -> Any:
    """[N]: paths that end in the last label or the blank behind it, at each sample's last step."""
    rows = xp.arange(len(steps))
    at = xp.maximum(steps - 1, 0)
    if not len(alpha):
        return xp.where(lengths == 0, 0.0, -xp.inf)
    blank = alpha[at, rows, 2 * lengths]
    label = xp.where(lengths > 0, alpha[at, rows, xp.maximum(2 * lengths - 1, 0)], -xp.inf)
    return xp.where(steps > 0, xp.logaddexp(blank, label), xp.where(lengths == 0, 0.0, -xp.inf))


def _run(xp: Any, lp: Any, targets: Any, steps: Any, lengths: Any, *, blank: int, zero_infinity: bool) -> Any:
    alpha = _forward(xp, lp.astype("float64"), *_states(xp, targets, blank))
    loss = -_likelihood(xp, alpha, steps, lengths)
    return (xp.where(xp.isinf(loss), 0.0, loss) if zero_infinity else loss).astype(lp.dtype)


def _backward(xp: Any, lp: Any, states: Any, leap: Any, steps: Any, lengths: Any) -> Any:
    """[T, N, L]: the logarithm of the probability of all endings that begin in a state."""
    emitted = xp.take_along_axis(lp, xp.broadcast_to(states, (lp.shape[0], *states.shape)), 2)
    beta = xp.full(emitted.shape, -xp.inf)
    ahead = xp.zeros_like(leap)
    ahead[:, :-2] = leap[:, 2:]
    places = xp.arange(states.shape[1])
    ends = (places == 2 * lengths[:, None]) | (places == 2 * lengths[:, None] - 1)
    after = xp.full(states.shape, -xp.inf)
    for t in range(len(beta) - 1, -1, -1):
        over = xp.where(ahead, _shift(xp, after, -2), -xp.inf)
        going = _logaddexp(xp, after, _shift(xp, after, -1), over)
        going = xp.where((steps == t + 1)[:, None], xp.where(ends, 0.0, -xp.inf), going)
        beta[t] = after = going + emitted[t]
    return beta


def _slope_run(
    xp: Any, g: Any, lp: Any, targets: Any, steps: Any, lengths: Any, *, blank: int, zero_infinity: bool
) -> Any:
    """As PyTorch's: exp(lp) less the posterior of each class, the gradient behind a log-softmax."""
    w = lp.astype("float64")
    states, leap = _states(xp, targets, blank)
    alpha = _forward(xp, w, states, leap)
    found = _likelihood(xp, alpha, steps, lengths)
    both = alpha + _backward(xp, w, states, leap, steps, lengths)
    top = both.max(axis=2, keepdims=True, initial=-xp.inf)
    top = xp.where(xp.isinf(top), 0.0, top)
    classes = xp.zeros(w.shape)
    rows = xp.arange(w.shape[1])[:, None]
    for t in range(len(w)):
        xp.add.at(classes[t], (rows, states), xp.exp(both[t] - top[t]))
    posterior = xp.exp(xp.log(classes) + top - found[:, None] - w)
    slope = (xp.exp(w) - posterior) * g[:, None]
    slope = xp.where((xp.arange(len(w))[:, None] < steps)[:, :, None], slope, 0.0)
    if zero_infinity:
        slope = xp.where(xp.isinf(found)[:, None], 0.0, slope)
    return slope.astype(lp.dtype)


def _vjp(F: Any, g: Any, out: Any, lp: Any, targets: Any, steps: Any, lengths: Any, **attrs: Any) -> Any:
    return F.ctc_loss_slope(g, lp, targets, steps, lengths, **attrs), None, None, None


library("ctc_loss", _infer, _run, vjp=_vjp, arity=(4, 4))
library("ctc_loss_slope", lambda g, lp, *rest, **attrs: lp, _slope_run, arity=(5, 5))
