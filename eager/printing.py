"""How tensors print: PyTorch's format, so that output and doctests carry over.

All elements of a tensor are padded to one width; beyond `threshold` elements only `edgeitems` at each end of each
axis are shown; floats are whole numbers with a point, fixed or scientific, as their range asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .dtypes import get_default_dtype
from .tensor import Tensor


@dataclass(frozen=True)
class PrintOptions:
    """precision: digits after the point. threshold: elements shown in full. linewidth: characters of a line."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print; profile: "default", "short" or "full". sci_mode None: as the values ask for."""
    global _options
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    base = _options if profile is None else PROFILES[profile]
    _options = replace(base, **{k: v for k, v in given.items() if v is not None}, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The options now, as arguments of `set_printoptions`."""
    return asdict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Other options within the block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


# ---- elements ----------------------------------------------------------------------------------------------


class Formatter:
    """How each element of an array is written: its kind of notation, and the common width."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.floating = values.dtype.kind not in "biu"
        self.scientific, self.whole, self.width = False, True, 1
        if not self.floating:
            self.width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
            return
        wide = values.ravel().astype("float64")
        shown = wide[np.isfinite(wide) & (wide != 0)]
        if shown.size:
            self.fit(shown)

    def fit(self, shown: np.ndarray[Any, Any]) -> None:
        """Choose the notation for these finite, nonzero numbers."""
        low, high = np.abs(shown).min(), np.abs(shown).max()
        self.whole = bool((shown == np.ceil(shown)).all())
        forced = _options.sci_mode
        # The ratio is compared as a product: a quotient of extremes would overflow.
        self.scientific = (
            bool(high > 1000.0 * low or high > 1.0e8 or low < 1.0e-4) if forced is None else forced
        )
        self.width = max(len(self.plain(v)) for v in shown.tolist())

    def plain(self, value: float) -> str:
        """One number, not padded."""
        if self.scientific:
            return f"{value:.{_options.precision}e}"
        if self.whole:
            return f"{value:.0f}." if np.isfinite(value) else f"{value:.0f}"
        return f"{value:.{_options.precision}f}"

    def __call__(self, value: Any) -> str:
        return (self.plain(value) if self.floating else str(value)).rjust(self.width)


class ComplexFormatter:
    """Real and imaginary parts, each in the notation of its own."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.real, self.imag = Formatter(values.real), Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


# ---- layout ------------------------------------------------------------------------------------------------


def edges(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements a summary shows."""
    n = _options.edgeitems
    for axis, size in enumerate(values.shape):
        if size > 2 * n:
            values = np.take(values, [*range(n), *range(size - n, size)], axis)
    return values


def layout(values: np.ndarray[Any, Any], indent: int, summarize: bool, element: Any) -> str:
    """Nested brackets, aligned at `indent`."""
    n = _options.edgeitems
    if values.ndim == 0:
        return element(values.item())
    cut = summarize and len(values) > 2 * n
    if values.ndim == 1:
        return row(values, indent, cut, element)
    shown = [values[:n], values[len(values) - n :]] if cut else [values]
    parts = [[layout(v, indent + 1, summarize, element) for v in block] for block in shown]
    lines = [*parts[0], "...", *parts[1]] if cut else parts[0]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(lines) + "]"


def row(values: np.ndarray[Any, Any], indent: int, cut: bool, element: Any) -> str:
    """One axis, broken where the line is full."""
    n = _options.edgeitems
    cells = [element(v) for v in (values[:n] if cut else values).tolist()]
    if cut:
        cells = [*cells, " ...", *(element(v) for v in values[len(values) - n :].tolist())]
    per_line = max(1, (_options.linewidth - indent) // (element.width + 2))
    lines = [", ".join(cells[k : k + per_line]) for k in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def tensor_text(t: Tensor) -> str:
    """`tensor([[1., 2.]], dtype=…, grad_fn=<…>)`; a traced value prints its type only."""
    prefix = "tensor(" if type(t).__name__ in ("Tensor", "Parameter", "Buffer") else f"{type(t).__name__}("
    if hasattr(t.array, "concrete"):
        return f"{prefix}..., shape={t.shape}, dtype={t.dtype})"
    values = t._read_cpu("repr")
    body, suffixes = "[]", []
    if t.device.type != "cpu":
        suffixes.append(f"device='{t.device}'")
    if values.size:
        summarize = values.size > _options.threshold
        kind = ComplexFormatter if values.dtype.kind == "c" else Formatter
        body = layout(values, len(prefix), summarize, kind(edges(values) if summarize else values))
    elif values.ndim != 1:
        suffixes.append(f"size={tuple(map(int, t.shape))}")
    if needs_dtype(t, values):
        suffixes.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        suffixes.append(f"grad_fn=<{t.grad_fn.name}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(prefix + body, suffixes, len(prefix))


def needs_dtype(t: Tensor, values: np.ndarray[Any, Any]) -> bool:
    """Whether the dtype does not follow from the elements."""
    obvious = {get_default_dtype().name, "int64", "bool"}
    if get_default_dtype().name == "float32":
        obvious.add("complex64")
    if not values.size:
        return t.dtype is not get_default_dtype()
    return t.dtype.name not in obvious


def with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """The suffixes after commas, on a new line where the last one is full."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
