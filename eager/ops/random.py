"""Random numbers as pure functions of a key: Philox 4x32-10 (Salmon et al., SC 2011, "Parallel random numbers:
as easy as 1, 2, 3").

The key is an int64 tensor (seed, offset). Block b of the stream is philox(counter = offset + b, key = seed), four
words of 32 bits; words live in int64 scalars, so that every backend computes the same bits with the integer
operations it has. `random_bits` gives one word per element, `uniform` and `normal` use two.
"""

from __future__ import annotations

from math import pi, prod
from typing import Any

from .table import define
from .types import DTYPES, Aval, Shape
from .view import flat_index

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF


def _check_key(name: str, key: Aval) -> None:
    if key.shape != (2,) or key.dtype != DTYPES["int64"]:
        raise RuntimeError(f"{name}: the key is an int64 tensor (seed, offset), got {key}")


# ---- on arrays ---------------------------------------------------------------------------------------------


def philox(xp: Any, seed: int, offset: int, blocks: int) -> Any:
    """Words [blocks, 4], uint32 values in uint64, of counters offset, offset + 1, …"""
    counter = xp.arange(blocks, dtype="uint64") + xp.uint64(offset)
    mask, shift = xp.uint64(MASK), xp.uint64(32)
    c = [counter & mask, counter >> shift, xp.zeros_like(counter), xp.zeros_like(counter)]
    k0, k1 = seed & MASK, seed >> 32 & MASK
    for _ in range(ROUNDS):
        p0, p1 = c[0] * xp.uint64(MULTIPLIERS[0]), c[2] * xp.uint64(MULTIPLIERS[1])
        c = [(p1 >> shift) ^ c[1] ^ xp.uint64(k0), p1 & mask, (p0 >> shift) ^ c[3] ^ xp.uint64(k1), p0 & mask]
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return xp.stack(c, axis=1)


def _key(key: Any) -> tuple[int, int]:
    seed, offset = key.tolist()
    return seed & (1 << 64) - 1, offset & (1 << 64) - 1


def _bits_run(xp: Any, key: Any, *, shape: Shape) -> Any:
    count = prod(shape)
    words = philox(xp, *_key(key), -(-count // 4))
    return words.reshape(-1)[:count].astype("int64").reshape(shape)


def _pairs(xp: Any, key: Any, shape: Shape) -> Any:
    """Two words for each element: [2, *shape], uint64."""
    count = prod(shape)
    words = philox(xp, *_key(key), -(-count // 2)).reshape(-1, 2)[:count]
    return words.T.reshape(2, *shape)


def _unit(xp: Any, high: Any, low: Any, dtype: str) -> Any:
    """[0, 1) from the top 24 bits of a word; for float64 from 53 bits of two."""
    if dtype == "float64":
        fine = (high >> xp.uint64(5)).astype("float64") * 2.0**26 + (low >> xp.uint64(6)).astype("float64")
        return fine * 2.0**-53
    top = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    return (high >> xp.uint64(32 - top)).astype("float32") * xp.float32(2.0**-top)


def uniform_run(xp: Any, key: Any, *, shape: Shape, dtype: str) -> Any:
    high, low = _pairs(xp, key, shape)
    return _unit(xp, high, low, dtype).astype(DTYPES[dtype], copy=False)


def _normal_run(xp: Any, key: Any, *, shape: Shape, dtype: str) -> Any:
    """Box-Muller: √(-2 ln u)·cos(2πv) with u in (0, 1], v in [0, 1)."""
    wide = "float64" if dtype == "float64" else "float32"
    high, low = _pairs(xp, key, shape)
    u = (high + xp.uint64(1)).astype(wide) * xp.dtype(wide).type(2.0**-32)
    v = low.astype(wide) * xp.dtype(wide).type(2 * pi * 2.0**-32)
    return (xp.sqrt(xp.log(u) * -2) * xp.cos(v)).astype(DTYPES[dtype], copy=False)


# ---- one element at a time ---------------------------------------------------------------------------------


def philox_scalars(s: Any, key: Any, block: Any) -> tuple[Any, Any, Any, Any]:
    """The four words of block `block` of the stream of `key`, as int64 scalars."""

    def c(value: int) -> Any:
        return s.const(value, "int64")

    seed, counter = key(s.index(0)), s.add(key(s.index(1)), block)
    x = [s.bit_and(counter, c(MASK)), s.shr(counter, c(32)), c(0), c(0)]
    k0, k1 = s.bit_and(seed, c(MASK)), s.shr(seed, c(32))
    for _ in range(ROUNDS):
        p0, p1 = s.mul(x[0], c(MULTIPLIERS[0])), s.mul(x[2], c(MULTIPLIERS[1]))
        x = [
            s.bit_xor(s.bit_xor(s.shr(p1, c(32)), x[1]), k0),
            s.bit_and(p1, c(MASK)),
            s.bit_xor(s.bit_xor(s.shr(p0, c(32)), x[3]), k1),
            s.bit_and(p0, c(MASK)),
        ]
        k0, k1 = s.bit_and(s.add(k0, c(WEYL[0])), c(MASK)), s.bit_and(s.add(k1, c(WEYL[1])), c(MASK))
    return x[0], x[1], x[2], x[3]


def _bits_element(s: Any, index: tuple[Any, ...], key: Any, *, shape: Shape) -> Any:
    at = flat_index(s, index, shape)
    a, b, c, d = philox_scalars(s, key, s.floordiv(at, s.index(4)))
    word = s.mod(at, s.index(4))
    low = s.select(s.eq(word, s.index(0)), a, b)
    high = s.select(s.eq(word, s.index(2)), c, d)
    return s.select(s.lt(word, s.index(2)), low, high)


def _pair_scalars(s: Any, index: tuple[Any, ...], key: Any, shape: Shape) -> tuple[Any, Any]:
    at = flat_index(s, index, shape)
    a, b, c, d = philox_scalars(s, key, s.floordiv(at, s.index(2)))
    even = s.eq(s.mod(at, s.index(2)), s.index(0))
    return s.select(even, a, c), s.select(even, b, d)


def _uniform_element(s: Any, index: tuple[Any, ...], key: Any, *, shape: Shape, dtype: str) -> Any:
    high, low = _pair_scalars(s, index, key, shape)
    if dtype == "float64":
        coarse = s.cast(s.shr(high, s.const(5, "int64")), dtype)
        fine = s.add(s.mul(coarse, s.const(2.0**26, dtype)), s.cast(s.shr(low, s.const(6, "int64")), dtype))
        return s.mul(fine, s.const(2.0**-53, dtype))
    top = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    unit = s.mul(s.cast(s.shr(high, s.const(32 - top, "int64")), "float32"), s.const(2.0**-top, "float32"))
    return unit if dtype == "float32" else s.cast(unit, dtype)


def _normal_element(s: Any, index: tuple[Any, ...], key: Any, *, shape: Shape, dtype: str) -> Any:
    wide = "float64" if dtype == "float64" else "float32"
    high, low = _pair_scalars(s, index, key, shape)
    u = s.mul(s.cast(s.add(high, s.const(1, "int64")), wide), s.const(2.0**-32, wide))
    v = s.mul(s.cast(low, wide), s.const(2 * pi * 2.0**-32, wide))
    value = s.mul(s.sqrt(s.mul(s.log(u), s.const(-2.0, wide))), s.cos(v))
    return value if wide == dtype else s.cast(value, dtype)


def _random(name: str, run: Any, element: Any) -> None:
    """A float op `f(key; shape, dtype)`."""

    def infer(key: Aval, *, shape: Shape, dtype: str) -> Aval:
        _check_key(name, key)
        return Aval(shape, DTYPES[dtype])

    define(name, infer, run, element=element, kind="create", random=True)


def _bits_infer(key: Aval, *, shape: Shape) -> Aval:
    _check_key("random_bits", key)
    return Aval(shape, DTYPES["int64"])


define("random_bits", _bits_infer, _bits_run, element=_bits_element, kind="create", random=True)
_random("uniform", uniform_run, _uniform_element)
_random("normal", _normal_run, _normal_element)
