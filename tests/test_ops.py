"""Every op of the table, on every sample: oracle, shape rule, element rule, gradients of first and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreters import run_element
from oracles import ORACLES
from samples import SAMPLES, Sample

from tapecast.compiler.interpret import SCALAR_FUNCTIONS
from tapecast.eager import functional as F, tape
from tapecast.eager.autograd import grad, gradcheck, gradgradcheck
from tapecast.eager.ops.executor import run_eagerly
from tapecast.eager.ops.scalars import SCALARS
from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import aval_of, dtype_name, is_differentiable
from tapecast.eager.tensor import Tensor

CASES = [pytest.param(name, s, id=f"{name}-{s!r}") for name, group in SAMPLES.items() for s in group]
SMOOTH = [
    pytest.param(name, s, id=f"{name}-{s!r}")
    for name, group in SAMPLES.items()
    for s in group
    if s.smooth and (TABLE[name].vjp or TABLE[name].decompose)
    if (name, s.attrs.get("dtype")) != ("cast", "float32")  # finite differences do not survive float32
]
#: The ops that are no composites, whose parts have element rules.
ELEMENTS = [name for name in sorted(SAMPLES) if TABLE[name].element]


def close(found: Any, wanted: Any, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    np.testing.assert_allclose(found.astype("float64"), np.asarray(wanted).astype("float64"), rtol, atol)


def on_tape(sample: Sample) -> list[Tensor]:
    """The operands as leaves that want gradients, where their dtype has any."""
    return [Tensor(a.copy(), requires_grad=is_differentiable(a.dtype)) for a in sample.args]


def test_every_op_has_samples() -> None:
    assert sorted(SAMPLES) == sorted(name for name, op in TABLE.items() if op.kind != "library")


def test_every_op_has_a_meaning_for_loops() -> None:
    lacking = [op for op in TABLE.values() if op.element is None and op.decompose is None]
    assert all(op.kind == "library" for op in lacking)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_infer_is_what_run_gives(name: str, sample: Sample) -> None:
    for s in (sample, sample.in_dtype("float32")):
        op = TABLE[name]
        out = run_eagerly(op, s.args, s.attrs)
        assert isinstance(out, np.ndarray)
        assert aval_of(out) == op.infer(*map(aval_of, s.args), **s.attrs)
        if op.kind != "view":
            assert not any(np.shares_memory(out, a) for a in s.args), "the result is not its own memory"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_narrow_floats_keep_their_dtype(name: str, dtype: str) -> None:
    op, sample = TABLE[name], SAMPLES[name][0]
    narrow = sample.in_dtype(dtype)
    out = run_eagerly(op, narrow.args, narrow.attrs)
    assert aval_of(out) == op.infer(*map(aval_of, narrow.args), **narrow.attrs)
    wide = run_eagerly(op, sample.args, sample.attrs)
    if is_differentiable(out.dtype) and out.size and not op.random:
        close(out, wide, 0.1 if dtype != "float32" else 1e-4, 0.05 if dtype != "float32" else 1e-5)


def test_the_interpreter_has_every_scalar_function() -> None:
    assert set(SCALAR_FUNCTIONS) == SCALARS


@pytest.mark.parametrize(("name", "sample"), [c for c in CASES if c.values[0] in ELEMENTS])
def test_element_is_run(name: str, sample: Sample) -> None:
    op = TABLE[name]
    out = run_eagerly(op, sample.args, sample.attrs)
    found = run_element(op, list(sample.args), sample.attrs, out.shape, out.dtype)
    if sample.exact or out.dtype.kind in "biu":
        np.testing.assert_array_equal(found, out)
    else:
        loose = dtype_name(out.dtype) in ("float32", "float16", "bfloat16")
        close(found, out, 1e-5 if loose else 1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_element_is_run_in_half_precision(name: str, dtype: str) -> None:
    op, sample = TABLE[name], SAMPLES[name][0].in_dtype(dtype)
    out = run_eagerly(op, sample.args, sample.attrs)
    found = run_element(op, list(sample.args), sample.attrs, out.shape, out.dtype)
    close(found, out, 2e-2, 1e-2)


@pytest.mark.parametrize(("name", "sample"), [c for c in CASES if TABLE[c.values[0]].decompose])
def test_decompose_is_run(name: str, sample: Sample) -> None:
    op = TABLE[name]
    out = run_eagerly(op, sample.args, sample.attrs)
    parts = op.decompose(F, *map(Tensor, sample.args), **sample.attrs)
    close(parts.array, out)


@pytest.mark.parametrize(("name", "sample"), SMOOTH)
def test_gradients(name: str, sample: Sample) -> None:
    def call(*xs: Tensor) -> Tensor:
        return tape.apply(TABLE[name], *xs, **sample.attrs)

    args = on_tape(sample)
    assert gradcheck(call, args, eps=1e-5, atol=1e-7, rtol=1e-5)
    assert gradgradcheck(call, args, eps=1e-5, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("name", "sample"), [c for c in SMOOTH if TABLE[c.values[0]].decompose])
def test_closed_gradients_are_those_of_the_parts(name: str, sample: Sample) -> None:
    op, args = TABLE[name], on_tape(sample)
    out = tape.apply(op, *args, **sample.attrs)
    parts = op.decompose(F, *args, **sample.attrs)
    weights = Tensor(np.random.default_rng(1).normal(size=out.shape))
    wanted = [a for a in args if a.requires_grad]
    for g, h in zip(grad(out, wanted, weights), grad(parts, wanted, weights), strict=True):
        close(g.array, h.array)


def test_every_op_has_an_oracle() -> None:
    named = {name for name, op in TABLE.items() if not op.random and op.kind != "library"}
    without = named - ORACLES.keys()  # what a library computes is held against PyTorch's operator database
    assert without == INTERNAL


@pytest.mark.parametrize(("name", "sample"), [c for c in CASES if c.values[0] in ORACLES])
def test_oracle(name: str, sample: Sample) -> None:
    """Against numpy or torch in float64, written independently of the table."""
    out = run_eagerly(TABLE[name], sample.args, sample.attrs)
    wanted = ORACLES[name](*sample.args, **sample.attrs)
    assert tuple(out.shape) == tuple(np.shape(wanted))
    close(out, wanted, 1e-6 if out.dtype.itemsize < 8 and out.dtype.kind not in "biu" else 1e-9)


#: Ops torch has no function for; each is the adjoint of another, which second-order checks compare.
INTERNAL = {"max_pool2d_backward", "avg_pool2d_backward", "sum_to"}
