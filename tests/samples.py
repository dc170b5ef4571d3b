"""Inputs and attributes for every op of the table: what all suites over ops run on.

`SAMPLES[name]` is a list of `Sample`s. Arrays are small, since the element interpreter is slow and finite differences
move every element. Floats are float64 and lie away from kinks and ties unless `smooth` is False.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapecast.eager.ops.types import DTYPES


@dataclass(frozen=True, eq=False)
class Sample:
    """Operands and attributes of one call at the level of the table.

    smooth: gradients may be checked against finite differences. exact: bits, not closeness, are compared.
    """

    args: tuple[np.ndarray, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True
    exact: bool = False

    def __repr__(self) -> str:
        shapes = ",".join(f"{a.dtype.name}{list(a.shape)}".replace(" ", "") for a in self.args)
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items()).replace(" ", "")
        return f"{shapes};{attrs}" if attrs else shapes

    def in_dtype(self, name: str) -> Sample:
        """The same sample with float operands, and dtype attributes, of another precision."""
        with np.errstate(over="ignore"):
            args = tuple(a.astype(DTYPES[name]) if a.dtype == "float64" else a for a in self.args)
        attrs = {k: name if v == "float64" else v for k, v in self.attrs.items()}
        return Sample(args, attrs, False, self.exact)


_rng = np.random.default_rng(20)


def normal(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape)


def apart(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Distinct numbers in random order, none near another or near a whole number: no ties, no kinks."""
    count = int(np.prod(shape))
    grid = np.linspace(low + 0.0137, high - 0.0171, count) if count else np.zeros(0)
    near = np.abs(grid - np.rint(grid * 2) / 2) < 0.01
    return _rng.permutation(np.where(near, grid + 0.02, grid)).reshape(shape)


def positive(*shape: int) -> np.ndarray:
    return apart(*shape, low=0.2, high=3.0)


def within(*shape: int) -> np.ndarray:
    """Inside (-1, 1)."""
    return apart(*shape, low=-0.9, high=0.9)


def above_one(*shape: int) -> np.ndarray:
    return apart(*shape, low=1.2, high=3.0)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64") -> np.ndarray:
    return _rng.integers(low, high, size=shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    return _rng.integers(0, 2, size=shape).astype(bool)


NASTY = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e-30])


def plain(*args: np.ndarray, **attrs: Any) -> Sample:
    return Sample(args, attrs)


def rough(*args: np.ndarray, **attrs: Any) -> Sample:
    """Not for gradient checks: integers, kinks, infinities."""
    return Sample(args, attrs, smooth=False)


def unary(*extra: Sample, make: Any = apart) -> list[Sample]:
    return [plain(make(2, 3)), plain(make()), plain(make(0, 2)), rough(NASTY), *extra]


def binary(*extra: Sample, make: Any = apart) -> list[Sample]:
    return [
        plain(make(2, 3), make(2, 3)),
        plain(make(2, 1, 3), make(2, 1)),
        plain(make(), make(3)),
        plain(make(0, 3), make(1, 3)),
        *extra,
    ]


def pairs(*extra: Sample) -> list[Sample]:
    """Two operands of every kind: floats, integers, bools, infinities."""
    nasty = rough(NASTY[:, None], NASTY[None, :])
    return binary(nasty, rough(ints(2, 3), ints(3)), rough(bools(4), bools(4)), *extra)


def comparisons() -> list[Sample]:
    same = ints(3, 3, high=2)
    return [
        *[rough(*s.args) for s in binary()],
        rough(same, same.T.copy()),
        rough(bools(4), bools(4)),
        rough(NASTY[:, None], NASTY),
    ]


def reductions(*extra: Sample, make: Any = apart, empty: bool = True) -> list[Sample]:
    out = [plain(make(2, 3, 4), axes=(1,)), plain(make(2, 3), axes=(0, 1)), plain(make(3), axes=(0,))]
    out += [plain(make(2, 3, 2), axes=(0, 2)), plain(make(), axes=()), plain(make(2, 0), axes=(0,))]
    return [*out, *([plain(make(2, 0), axes=(1,))] if empty else []), *extra]


STRIDED = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 1}
GROUPED = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}
BARE = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}

POOL = {"kernel": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 1)}
POOL_BARE = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
POOL_WIDE = {"kernel": (2, 2), "stride": (1, 2), "padding": (1, 1), "dilation": (2, 1)}
MEAN = {"kernel": (2, 3), "stride": (2, 1), "padding": (1, 1), "count_include_pad": True}
MEAN_BARE = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "count_include_pad": False}
MEAN_INNER = {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 1), "count_include_pad": False}

KEY = np.array([12345, 7], np.int64)
FAR_KEY = np.array([-(1 << 62), (1 << 33) + 5], np.int64)


def triangle() -> list[Sample]:
    return [plain(normal(3, 4), diagonal=d) for d in (0, 1, -2, 5)] + [plain(normal(2, 3, 3), diagonal=0)]


SAMPLES: dict[str, list[Sample]] = {
    # arithmetic
    "add": pairs(),
    "sub": binary(rough(ints(2, 3), ints(3)), rough(NASTY[:, None], NASTY)),
    "mul": pairs(),
    "div": binary(rough(NASTY[:, None], NASTY), make=positive),
    "floor_divide": [
        rough(normal(2, 3), normal(3)),
        rough(ints(2, 4), ints(4, low=1)),
        rough(ints(4), -ints(4, low=1)),
    ],
    "remainder": [
        plain(positive(2, 3), apart(3, low=3.0, high=5.0)),
        rough(normal(5) * 3, normal(5)),
        rough(ints(6), ints(6, low=1)),
    ],
    "fmod": [
        plain(positive(2, 3), apart(3, low=3.0, high=5.0)),
        rough(normal(5) * 3, normal(5)),
        rough(ints(6), ints(6, low=1)),
        rough(ints(6), -ints(6, low=1)),
        rough(ints(4, low=0, dtype="uint8"), ints(4, low=1, dtype="uint8")),
    ],
    "hypot": binary(rough(NASTY[:, None], NASTY), rough(np.array([1e300]), np.array([1e300])), make=positive),
    "pow": binary(rough(NASTY[:, None], NASTY), rough(ints(2, 3), ints(3, low=0)), make=positive),
    "atan2": binary(
        rough(NASTY[:, None], NASTY), rough(np.array([0.0, -0.0])[:, None], np.array([1.0, -1.0, 0.0, -0.0]))
    ),
    "maximum": pairs(rough(np.zeros(3), np.zeros(3))),
    "minimum": pairs(rough(np.zeros(3), np.zeros(3))),
    # functions
    "neg": unary(rough(ints(3))),
    "abs": unary(rough(ints(3)), rough(ints(3, low=0, dtype="uint8"))),
    "sign": unary(rough(ints(4)), rough(bools(3)), rough(ints(3, low=0, dtype="uint8"))),
    "exp": unary(),
    "expm1": unary(),
    "log": unary(make=positive),
    "log1p": unary(make=positive),
    "log2": unary(make=positive),
    "log10": unary(make=positive),
    "exp2": unary(),
    "sqrt": unary(make=positive),
    "rsqrt": unary(make=positive),
    "reciprocal": unary(make=positive),
    "sin": unary(),
    "cos": unary(),
    "tan": unary(make=within),
    "asin": unary(make=within),
    "acos": unary(make=within),
    "atan": unary(),
    "sinh": unary(rough(np.array([1e-9, -20.0, 709.0, 710.0, 711.0]))),
    "cosh": unary(rough(np.array([20.0, 710.0, -711.0]))),
    "asinh": unary(rough(np.array([1e-9, -1e4, 1e5, -1e300]))),
    "acosh": unary(rough(np.array([1.0, 1.0 + 1e-9, 1e4, 1e5, 1e300, 0.5])), make=above_one),
    "atanh": unary(rough(np.array([1.0, -1.0, 1e-9])), make=within),
    "tanh": unary(),
    "sigmoid": unary(),
    "erf": unary(),
    "erfc": unary(rough(np.array([0.5, 3.0, 8.0, 26.0, 27.0, -5.0]))),
    "floor": unary(rough(ints(3))),
    "ceil": unary(rough(ints(3))),
    "round": unary(rough(np.array([0.5, 1.5, 2.5, -0.5])), rough(ints(3))),
    "trunc": unary(rough(ints(3))),
    # comparison, logic, bits
    **{name: comparisons() for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "isnan": [rough(NASTY), rough(ints(3)), rough(bools(2))],
    "isinf": [rough(NASTY), rough(ints(3)), rough(bools(2))],
    "logical_not": [rough(bools(2, 3)), rough(ints(4, low=-1, high=2)), rough(NASTY)],
    **{
        name: [rough(bools(2, 3), bools(3)), rough(bools(1), bools(4))]
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    **{
        name: [
            rough(ints(2, 3), ints(3)),
            rough(bools(4), bools(4)),
            rough(ints(4, low=0, dtype="uint8"), ints(4, low=0, dtype="uint8")),
        ]
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    **{
        name: [
            rough(ints(2, 4, low=-100, high=100), ints(4, low=0, high=66)),
            rough(ints(4, low=-100, high=100, dtype="int32"), ints(4, low=0, high=33, dtype="int32")),
            rough(ints(4, low=0, high=256, dtype="uint8"), ints(4, low=0, high=9, dtype="uint8")),
        ]
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    },
    "bitwise_not": [rough(ints(4)), rough(bools(3)), rough(ints(4, low=0, dtype="uint8"))],
    # conversion, copy, choice
    "cast": [
        plain(normal(2, 3), dtype="float32"),
        plain(normal(2, 3), dtype="float64"),
        rough(np.array([-1.7, 0.0, 2.9]), dtype="int32"),
        rough(ints(4), dtype="float32"),
        rough(normal(4), dtype="bfloat16"),
        rough(normal(4), dtype="float16"),
        rough(np.array([0.0, 0.3, -2.0, np.nan]), dtype="bool"),
        rough(ints(3, low=200, high=300), dtype="int8"),
    ],
    "clone": unary(),
    "where": [
        plain(bools(2, 3), normal(2, 3), normal(2, 3)),
        plain(bools(2, 1), normal(3), normal()),
        rough(bools(4), ints(4), ints(4)),
    ],
    # activation
    "relu": unary(rough(ints(4))),
    "gelu": [plain(apart(2, 3), approximate=a) for a in ("none", "tanh")]
    + [rough(np.array([0.0, 30.0, -30.0]), approximate="none")],
    "silu": unary(),
    "leaky_relu": [plain(apart(2, 3), negative_slope=0.1), rough(NASTY, negative_slope=0.01)],
    "elu": [plain(apart(2, 3), alpha=1.3), rough(NASTY, alpha=1.0)],
    "softplus": [
        plain(apart(2, 3), beta=1.5, threshold=20.0),
        rough(np.array([-50.0, 50.0, 0.0]), beta=1.0, threshold=20.0),
    ],
    "clamp": [
        plain(apart(2, 3), min=-0.5, max=1.0),
        plain(apart(4), min=0.25, max=None),
        plain(apart(4), min=None, max=0.25),
        rough(ints(5), min=-2, max=3),
        rough(NASTY, min=-1.0, max=1.0),
    ],
    # views
    "expand": [
        plain(normal(1, 3), shape=(2, 4, 3)),
        plain(normal(), shape=(2,)),
        plain(normal(2, 1), shape=(2, 0)),
        plain(normal(2, 3), shape=(2, 3)),
    ],
    "permute": [
        plain(normal(2, 3, 4), dims=(2, 0, 1)),
        plain(normal(2, 3), dims=(1, 0)),
        plain(normal(), dims=()),
    ],
    "reshape": [
        plain(normal(2, 6), shape=(3, 4)),
        plain(normal(2, 1, 3), shape=(1, 2, 3)),
        plain(normal(1), shape=()),
        plain(normal(), shape=(1, 1)),
        plain(normal(0, 3), shape=(3, 0, 2)),
    ],
    "slice": [
        plain(normal(5, 4), starts=(1, 0), stops=(4, 4), steps=(1, 1)),
        plain(normal(5, 4), starts=(0, 1), stops=(5, 4), steps=(2, 3)),
        plain(normal(3), starts=(2,), stops=(2,), steps=(1,)),
        plain(normal(), starts=(), stops=(), steps=()),
    ],
    "select": [
        plain(normal(3, 4), dim=0, index=2),
        plain(normal(3, 4), dim=1, index=0),
        plain(normal(2), dim=0, index=1),
    ],
    "slice_put": [
        plain(normal(5, 4), normal(3, 4), starts=(1, 0), stops=(4, 4), steps=(1, 1)),
        plain(normal(5, 4), normal(3, 1), starts=(0, 1), stops=(5, 4), steps=(2, 3)),
        plain(normal(), normal(), starts=(), stops=(), steps=()),
    ],
    "diagonal": [plain(normal(3, 4), offset=k, dim1=0, dim2=1) for k in (0, 2, -1)]
    + [plain(normal(2, 3, 2), offset=0, dim1=2, dim2=0), plain(normal(2, 2), offset=5, dim1=0, dim2=1)],
    "diagonal_put": [
        plain(normal(3, 4), normal(3), offset=0, dim1=0, dim2=1),
        plain(normal(3, 4), normal(2), offset=-1, dim1=0, dim2=1),
        plain(normal(2, 3, 2), normal(3, 2), offset=0, dim1=2, dim2=0),
    ],
    # layout
    "cat": [
        plain(normal(2, 3), normal(2, 1), normal(2, 2), dim=1),
        plain(normal(2), dim=0),
        plain(normal(0, 2), normal(3, 2), dim=0),
        rough(ints(2), ints(3), dim=0),
    ],
    "pad": [
        plain(normal(2, 3), before=(1, 0), after=(0, 2), value=0.0),
        plain(normal(2, 3), before=(0, 1), after=(1, 1), value=-1.5),
        plain(normal(), before=(), after=(), value=0.0),
        rough(ints(3), before=(2,), after=(1,), value=7),
    ],
    "flip": [plain(normal(2, 3), axes=(0, 1)), plain(normal(2, 3), axes=(1,)), plain(normal(2), axes=())],
    "roll": [plain(normal(3, 4), shifts=(1, -2), axes=(0, 1)), plain(normal(3), shifts=(5,), axes=(0,))],
    "tril": triangle(),
    "triu": triangle(),
    # reductions
    "sum": reductions(rough(ints(2, 3), axes=(1,))),
    "prod": reductions(rough(ints(2, 3), axes=(1,))),
    "amax": reductions(
        rough(ints(2, 3), axes=(0,)), rough(bools(2, 3), axes=(1,)), rough(NASTY, axes=(0,)), empty=False
    ),
    "amin": reductions(
        rough(ints(2, 3), axes=(0,)), rough(bools(2, 3), axes=(1,)), rough(NASTY, axes=(0,)), empty=False
    ),
    "any": [rough(bools(2, 3), axes=(1,)), rough(bools(2, 3), axes=(0, 1)), rough(bools(2, 0), axes=(1,))],
    "all": [rough(bools(2, 3), axes=(1,)), rough(bools(2, 3), axes=(0, 1)), rough(bools(2, 0), axes=(1,))],
    "argmax": [
        rough(normal(2, 3, 2), dim=1),
        rough(ints(3, 4, high=-2), dim=1),
        rough(bools(2, 4), dim=1),
        rough(NASTY, dim=0),
    ],
    "argmin": [
        rough(normal(2, 3, 2), dim=1),
        rough(ints(3, 4, high=-2), dim=1),
        rough(bools(2, 4), dim=1),
        rough(NASTY, dim=0),
    ],
    "cumsum": [
        plain(normal(2, 3, 2), dim=1),
        plain(normal(4), dim=0),
        rough(ints(2, 3), dim=1),
        plain(normal(2, 0), dim=1),
    ],
    "linear_nll": [
        plain(normal(5, 3), normal(4, 3), ints(5, low=0, high=4), chunk=2),
        plain(normal(3, 2), normal(4, 2), ints(3, low=0, high=4), normal(4), chunk=8),
    ],
    "cumprod": [
        plain(normal(2, 3, 2), dim=1),
        plain(np.array([2.0, 0.0, -3.0, 0.0, 1.5]), dim=0),
        rough(ints(2, 3), dim=1),
        plain(normal(2, 0), dim=1),
    ],
    "recurrence": [
        plain(normal(2, 4), normal(2, 4), dim=1),
        plain(normal(3, 2), normal(3, 2), dim=0),
        plain(normal(0), normal(0), dim=0),
    ],
    "product_of_others": [
        plain(normal(2, 3)),
        rough(np.array([[2.0, 0.0, -3.0], [0.0, 0.0, 1.5]])),
        plain(normal(3, 1)),
    ],
    "logcumsumexp": [
        plain(normal(2, 4), dim=1),
        plain(normal(3, 2), dim=0),
        rough(np.array([-np.inf, -np.inf, 800.0, 1.0]), dim=0),
    ],
    "cummax_indices": [rough(normal(2, 5), dim=1), rough(ints(6, high=-2), dim=0), rough(NASTY, dim=0)],
    "cummin_indices": [rough(normal(2, 5), dim=1), rough(ints(6, high=-2), dim=0), rough(NASTY, dim=0)],
    "vector_norm": [
        plain(apart(2, 3, 4), axes=(1,), p=2.0),
        plain(apart(2, 3), axes=(0, 1), p=3.0),
        plain(positive(2, 3), axes=(1,), p=1.5),
        plain(apart(5), axes=(0,), p=0.5),
        rough(ints(2, 4).astype("float64"), axes=(1,), p=0.0),
    ],
    "median": [
        plain(apart(5), ignore_nan=False),
        plain(apart(6), ignore_nan=False),
        rough(NASTY, ignore_nan=False),
        rough(NASTY, ignore_nan=True),
        rough(ints(8), ignore_nan=False),
    ],
    "sum_to": [
        plain(normal(2, 4, 3), shape=(4, 1)),
        plain(normal(2, 3), shape=()),
        plain(normal(2, 3), shape=(2, 3)),
        plain(normal(0, 3), shape=(1, 3)),
    ],
    "argsort": [rough(normal(2, 5), dim=1, descending=d) for d in (False, True)]
    + [rough(ints(6, high=-2), dim=0, descending=d) for d in (False, True)]
    + [rough(NASTY, dim=0, descending=d) for d in (False, True)]
    + [rough(bools(5), dim=0, descending=False)],
    # products
    "matmul": [
        plain(normal(2, 3), normal(3, 4)),
        plain(normal(2, 1, 2, 3), normal(3, 3, 2)),
        plain(normal(2, 0), normal(0, 3)),
        rough(ints(2, 3), ints(3, 2)),
    ],
    "linear": [
        plain(normal(2, 3), normal(4, 3)),
        plain(normal(2, 2, 3), normal(4, 3), normal(4)),
        plain(normal(3), normal(2, 3), normal(2)),
        plain(normal(0, 3), normal(2, 3), normal(2)),
    ],
    "conv2d": [
        plain(normal(2, 2, 4, 5), normal(3, 2, 2, 2), **STRIDED),
        plain(normal(1, 4, 3, 3), normal(2, 2, 3, 3), **GROUPED),
        plain(normal(1, 1, 3, 3), normal(1, 1, 1, 1), **BARE),
        plain(normal(0, 1, 3, 3), normal(1, 1, 2, 2), **BARE),
    ],
    "conv2d_input": [
        plain(normal(2, 3, 3, 3), normal(3, 2, 2, 2), size=(4, 5), **STRIDED),
        plain(normal(1, 2, 3, 3), normal(2, 2, 3, 3), size=(3, 3), **GROUPED),
        plain(normal(1, 1, 2, 2), normal(1, 1, 2, 2), size=(3, 3), **BARE),
    ],
    "conv2d_weight": [
        plain(normal(2, 3, 3, 3), normal(2, 2, 4, 5), kernel=(2, 2), **STRIDED),
        plain(normal(1, 2, 3, 3), normal(1, 4, 3, 3), kernel=(3, 3), **GROUPED),
        plain(normal(1, 1, 2, 2), normal(1, 1, 3, 3), kernel=(2, 2), **BARE),
    ],
    # pooling
    "max_pool2d": [
        plain(apart(1, 2, 4, 5), **POOL),
        plain(apart(2, 1, 4, 4), **POOL_BARE),
        plain(apart(1, 1, 4, 4), **POOL_WIDE),
    ],
    "max_pool2d_indices": [
        rough(apart(1, 2, 4, 5), **POOL),
        rough(ints(1, 1, 4, 4, high=-3).astype(float), **POOL_BARE),
        rough(apart(1, 1, 4, 4), **POOL_WIDE),
    ],
    "max_pool2d_backward": [
        plain(normal(1, 2, 3, 3), apart(1, 2, 4, 5), **POOL),
        plain(normal(2, 1, 2, 2), apart(2, 1, 4, 4), **POOL_BARE),
        plain(normal(1, 1, 4, 3), apart(1, 1, 4, 4), **POOL_WIDE),
    ],
    "avg_pool2d": [
        plain(normal(1, 2, 4, 4), **MEAN),
        plain(normal(2, 1, 4, 4), **MEAN_BARE),
        plain(normal(1, 1, 4, 4), **MEAN_INNER),
    ],
    "avg_pool2d_backward": [
        plain(normal(1, 2, 3, 4), size=(4, 4), **MEAN),
        plain(normal(2, 1, 2, 2), size=(4, 4), **MEAN_BARE),
        plain(normal(1, 1, 2, 3), size=(4, 4), **MEAN_INNER),
    ],
    # indexing
    "index": [
        plain(normal(4, 3), ints(2, 2, low=-4, high=4), dim=0),
        plain(normal(2, 4, 3), ints(3, low=0, high=4), ints(2, 1, low=0, high=3), dim=1),
        plain(normal(3), ints(0), dim=0),
        plain(normal(3), np.array(1), dim=0),
    ],
    "index_put": [
        plain(normal(4, 3), normal(2, 3), np.array([3, -3]), dim=0, accumulate=False),
        plain(normal(4, 3), normal(3, 3), np.array([1, 1, -1]), dim=0, accumulate=True),
        plain(
            normal(2, 4, 3),
            normal(2, 2, 3),
            np.array([0, 1, 3]),
            np.array([[0], [2]]),
            dim=1,
            accumulate=False,
        ),
        plain(
            normal(2, 4, 3),
            normal(2, 2, 3),
            np.array([0, 1, 0]),
            np.array([[0], [0]]),
            dim=1,
            accumulate=True,
        ),
        rough(ints(4), ints(3), np.array([2, 2, 0]), dim=0, accumulate=False),
        rough(ints(4), ints(3), np.array([2, 2, 0]), dim=0, accumulate=True),
    ],
    "embedding": [
        plain(normal(4, 3), np.array([[0, 3, 3]])),
        plain(normal(2, 2), np.array(1)),
        plain(normal(2, 2), ints(0)),
    ],
    "gather": [
        plain(normal(3, 4), ints(3, 2, low=0, high=4), dim=1),
        plain(normal(3, 4), ints(5, 3, low=0, high=3), dim=0),
        plain(normal(3), ints(0), dim=0),
    ],
    "scatter": [
        plain(normal(3, 4), np.array([[0, 3], [2, 1]]), normal(2, 2), dim=1),
        plain(normal(4), np.array([2, 0]), normal(2), dim=0),
        rough(ints(3), np.array([1, 1]), ints(2), dim=0),
    ],
    "as_strided": [
        plain(normal(3, 4), size=(2, 3), stride=(4, 1), offset=1, own=(4, 1)),
        plain(normal(3, 4), size=(2, 2, 2), stride=(1, 1, 5), offset=2, own=(4, 1)),
        plain(normal(6), size=(), stride=(), offset=3, own=(1,)),
        plain(normal(5), size=(2, 0), stride=(1, 1), offset=0, own=(1,)),
    ],
    "unfold": [
        plain(normal(7), dim=0, size=3, step=2),
        plain(normal(2, 5, 3), dim=1, size=2, step=1),
        plain(normal(4), dim=0, size=2, step=3),
    ],
    "scatter_reduce": [
        plain(positive(3, 4), np.array([[0, 0], [2, 1]]), positive(2, 2), dim=1, reduce=reduce)
        for reduce in ("prod", "amax", "amin")
    ]
    + [
        rough(ints(3), np.array([1, 1]), ints(2), dim=0, reduce=reduce) for reduce in ("prod", "amax", "amin")
    ],
    "searchsorted": [
        rough(np.array([-1.0, 0.0, 0.0, 2.0]), np.array([[-2.0, 0.0], [2.0, 3.0]]), right=right)
        for right in (False, True)
    ]
    + [rough(np.sort(ints(2, 5)), ints(2, 3), right=False), rough(np.zeros(0), normal(2), right=True)],
    "isin": [rough(ints(2, 3), ints(4)), rough(normal(3), np.zeros(0))],
    "scatter_add": [
        plain(normal(3, 4), np.array([[0, 0], [2, 1]]), normal(2, 2), dim=1),
        plain(normal(4), np.array([2, 2]), normal(2), dim=0),
        rough(ints(3), np.array([1, 1]), ints(2), dim=0),
    ],
    # creation and random
    "full": [
        rough(shape=(2, 3), value=1.5, dtype="float64"),
        rough(shape=(), value=3, dtype="int64"),
        rough(shape=(0,), value=True, dtype="bool"),
    ],
    "arange": [
        rough(size=4, start=2, step=3, dtype="int64"),
        rough(size=3, start=0.5, step=0.25, dtype="float64"),
        rough(size=0, start=0, step=1, dtype="float32"),
    ],
    "random_bits": [
        Sample((key,), {"shape": shape}, False, True)
        for key, shape in ((KEY, (2, 5)), (FAR_KEY, (3,)), (KEY, (0,)))
    ],
    "uniform": [
        Sample((KEY,), {"shape": (2, 3), "dtype": d}, False, True)
        for d in ("float32", "float64", "float16", "bfloat16")
    ],
    "normal": [
        Sample((KEY,), {"shape": (2, 3), "dtype": d}, False) for d in ("float32", "float64", "float16")
    ],
    # statistics
    "mean": reductions(empty=False),
    "var": [
        plain(normal(2, 3, 4), axes=(1,), correction=1),
        plain(normal(2, 3), axes=(0, 1), correction=0),
        plain(normal(3, 2), axes=(0,), correction=0.5),
    ],
    "logsumexp": [
        plain(normal(2, 3, 4), axes=(1,)),
        plain(normal(2, 3), axes=(0, 1)),
        rough(np.array([[1e3, 1e3], [-np.inf, -np.inf]]), axes=(1,)),
    ],
    "softmax": [
        plain(normal(2, 3, 2), dim=1),
        plain(normal(3), dim=0),
        rough(np.array([1e3, 999.0]), dim=0),
        plain(normal(0, 3), dim=1),
    ],
    "log_softmax": [
        plain(normal(2, 3, 2), dim=1),
        plain(normal(3), dim=0),
        rough(np.array([1e3, 999.0]), dim=0),
        plain(normal(0, 3), dim=1),
    ],
    "layer_norm": [
        plain(normal(2, 3, 4), ndim=1, eps=1e-5),
        plain(normal(2, 3), normal(3), ndim=1, eps=1e-3),
        plain(normal(2, 2, 3), normal(2, 3), normal(2, 3), ndim=2, eps=1e-5),
    ],
    "batch_norm": [
        plain(normal(2, 3), normal(3), positive(3), eps=1e-5),
        plain(normal(2, 2, 3), normal(2), positive(2), normal(2), eps=1e-3),
        plain(normal(2, 2, 2, 2), normal(2), positive(2), normal(2), normal(2), eps=1e-5),
    ],
    "scaled_dot_product_attention": [
        plain(normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 2), scale=0.5, causal=False),
        plain(normal(3, 2), normal(3, 2), normal(3, 2), scale=1.0, causal=True),
        plain(normal(2, 1, 3, 2), normal(2, 3, 2), normal(2, 3, 2), normal(3, 3), scale=0.7, causal=False),
    ],
    "dropout": [plain(normal(3, 4), KEY, p=0.4), plain(normal(5), FAR_KEY, p=0.9)],
}
