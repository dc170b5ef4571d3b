"""LLVM text: literals, control flow, memory, modules. What functions do is tested by running them."""

import re

import numpy as np
import pytest
from scalar_kernels import execute, host_levels

from tapecast.compiler.cpu import llvm_driver
from tapecast.compiler.cpu.builder import Function, Module, Value, literal, literal_value, vector_literal
from tapecast.compiler.cpu.levels import LEVELS, level_of
from tapecast.compiler.cpu.scalars import LlvmScalars

LEVEL = "x86-64-v2"
N = Value("%n", "int64")


def index(n):
    return literal(n, "int64")


def function(*pointers, **named):
    return Function("f", [*((p, "ptr") for p in pointers), ("n", "i64")], linkage="external", **named)


def called(f, *args, level=LEVEL):
    """What a function of pointers and an int64 leaves in its arrays."""
    m = Module()
    m.add(f)
    obj = llvm_driver.object_code(m.text(), level, opt=1)
    return execute(obj, level, [(f.name, args)])[0]


# ---- values ----


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float32", "0x3FF0000000000000"),
        (0.1, "float32", "0x3FB99999A0000000"),
        (0.1, "float64", "0x3FB999999999999A"),
        (1e60, "float32", "0x7FF0000000000000"),
        (float("nan"), "float32", "0x7FF8000000000000"),
        (-0.0, "float64", "0x8000000000000000"),
        (1.0, "float16", "15360"),
        (1.0, "bfloat16", "16256"),
        (True, "bool", "true"),
        (255, "uint8", "255"),
        (255, "int8", "-1"),
        (-1, "uint8", "255"),
        (2**63, "int64", "-9223372036854775808"),
    ],
)
def test_literals(value, dtype, text):
    assert literal(value, dtype).name == text


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_a_literal_knows_its_number(dtype):
    for lanes in (1, 8):
        assert literal_value(literal(1, dtype, lanes)) == 1
        assert literal_value(Function("f", []).broadcast(literal(1, dtype), 8)) == 1
    assert literal_value(Value("%x", dtype)) is None
    assert literal_value(vector_literal([0, 1], "int64")) is None


def test_types_and_operands():
    assert Value("%x", "float32", 8).typed == "<8 x float> %x"
    assert Value("%m", "bool", 4).type == "<4 x i1>"
    assert Value("%h", "bfloat16").type == "i16"
    assert vector_literal([0, 1], "int64").typed == "<2 x i64> <i64 0, i64 1>"


# ---- control flow ----


def counted(lo, stop, step):
    """Stores 1 at every index a loop visits."""
    f = function("out")
    f.loop(lo, stop, step, lambda i: f.store(literal(1, "int64"), f.gep("%out", i, "int64")))
    return f


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16])
@pytest.mark.parametrize("step", [1, 3])
def test_loops_are_ranges(n, step):
    for lo, stop in ((index(0), N), (index(2), N), (index(0), index(n)), (index(2), index(n))):
        out, _ = called(counted(lo, stop, step), np.zeros(20, np.int64), n)
        assert np.flatnonzero(out).tolist() == list(range(literal_value(lo), n, step))


def test_an_empty_loop_of_known_size_leaves_no_code():
    f = counted(index(3), index(3), 1)
    assert f.text() == "define void @f(ptr %out, i64 %n) nounwind {\nentry:\n  ret void\n}"


def test_loops_nest_and_keep_state_in_slots():
    f = function("out")
    total = f.alloca("int64")
    f.store(index(0), total)

    def inner(i, j):
        product = f.assign(f"mul i64 {i.name}, {j.name}")
        f.store(Value(f.assign(f"add i64 {f.load(total, 'int64').name}, {product}"), "int64"), total)

    f.loop(index(0), N, 1, lambda i: f.loop(index(0), i, 1, lambda j: inner(i, j)))
    f.store(f.load(total, "int64"), "%out")
    assert called(f, np.zeros(1, np.int64), 9)[0][0] == sum(i * j for i in range(9) for j in range(i))


def less_than_four(f):
    return Value(f.assign("icmp slt i64 %n, 4"), "bool")


def test_when_and_otherwise():
    f = function("out")
    f.when(less_than_four(f), lambda: f.store(index(1), "%out"), lambda: f.store(index(2), "%out"))
    assert [called(f, np.zeros(1, np.int64), n)[0][0] for n in (3, 4)] == [1, 2]


def test_choose_reads_only_the_chosen_side():
    f = function("out")
    f.store(f.choose(less_than_four(f), lambda: index(5), lambda: f.load("null", "int64")), "%out")
    assert called(f, np.zeros(1, np.int64), 3)[0][0] == 5


def test_a_crash_in_compiled_code_is_a_failure_and_the_next_call_works():
    f = function("out")
    f.emit("call void @llvm.trap()")
    f.declare("declare void @llvm.trap()")
    with pytest.raises(AssertionError, match="ended the process with -"):
        called(f, np.zeros(1, np.int64), 0)
    test_choose_reads_only_the_chosen_side()


def test_iterate():
    """Collatz: state of two values until one of them is 1."""
    f = function("out")

    def step(x, count):
        even = Value(f.assign(f"trunc i64 {x.name} to i1"), "bool")
        half, triple = f.assign(f"lshr i64 {x.name}, 1"), f.assign(f"mul i64 {x.name}, 3")
        grown = f.assign(f"add i64 {triple}, 1")
        following = f.assign(f"select {even.typed}, i64 {grown}, i64 {half}")
        return Value(following, "int64"), Value(f.assign(f"add i64 {count.name}, 1"), "int64")

    def going(x, count):
        return Value(f.assign(f"icmp ne i64 {x.name}, 1"), "bool")

    f.store(f.iterate((N, index(0)), going, step)[1], "%out")
    assert called(f, np.zeros(1, np.int64), 27)[0][0] == 111


def test_a_return_inside_when_closes_its_block():
    f = function("out")
    f.when(less_than_four(f), f.ret)
    f.store(index(1), "%out")
    assert [called(f, np.zeros(1, np.int64), n)[0][0] for n in (3, 4)] == [0, 1]


# ---- memory ----

DTYPES = ("bool", "uint8", "int16", "float16", "float32", "float64", "int64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_loads_and_stores_touch_only_their_lanes(dtype):
    for lanes in (1, 8):
        f = function("x", "mask", "out")
        mask = f.load("%mask", "bool", lanes)
        f.store(f.load("%x", dtype, lanes, mask=mask), "%out")
        f.store(f.load("%x", dtype, lanes), f.gep("%out", index(8), dtype), mask=mask)
        x, mask = np.ones(8, dtype), np.arange(8) % 3 == 0
        out = called(f, x, mask, np.zeros(16, dtype), 0)[2].reshape(2, 8)[:, :lanes]
        assert np.array_equal(out, np.where(mask, x, 0)[None, :lanes].repeat(2, 0).astype(dtype))


def test_a_masked_load_does_not_fault():
    f = function("out")
    none = vector_literal([0] * 8, "bool")
    f.store(f.load("null", "float32", 8, mask=none), "%out")
    f.store(f.load("%out", "float32", 8), "null", mask=none)
    assert called(f, np.ones(8, np.float32), 0)[0].tolist() == [0.0] * 8


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(dtype, level):
    if level not in host_levels():
        pytest.skip(f"this machine has not {level}")
    for lanes in (1, 8):
        f = function("x", "at", "out")
        at = f.load("%at", "int64", lanes)
        f.store(f.gather("%x", at, dtype), "%out")
        f.scatter(f.load("%x", dtype, lanes), f.gep("%out", index(8), dtype), at)
        x, at = (np.arange(8) % 3 == 1).astype(dtype), np.array([3, 1, 0, 7, 5, 6, 2, 4])
        got, put = called(f, x, at, np.zeros(16, dtype), 0, level=level)[2].reshape(2, 8)
        scattered = np.zeros(8, dtype)
        scattered[at[:lanes]] = x[:lanes]
        assert np.array_equal(got[:lanes], x[at[:lanes]])
        assert np.array_equal(put, scattered)


def test_bools_from_memory_have_one_bit():
    f = function("x")
    f.store(f.load("%x", "bool", 8), "%x")
    assert called(f, np.array([0, 1, 2, 3, 254, 255, 0, 1], np.uint8), 0)[0].tolist() == [
        0,
        1,
        0,
        1,
        0,
        1,
        0,
        1,
    ]


def test_lanes_can_be_taken_and_put():
    f = function("x")
    x = f.load("%x", "float32", 4)
    x = f.insert(x, f.extract(x, 0), N)
    f.store(f.shuffle(x, [3, 2, 1, 0]), "%x")
    assert called(f, np.array([1, 2, 3, 4], np.float32), 2)[0].tolist() == [4, 1, 2, 1]
    assert f.extract(index(3), 0) == index(3)
    with pytest.raises(ValueError, match="broadcast: a value of 4 lanes has no form with 8"):
        f.broadcast(x, 8)


@pytest.mark.parametrize(("dtype", "lanes"), [("float64", 8), ("float32", 16), ("int32", 32), ("int64", 16)])
def test_lanes_that_a_mask_excludes_are_not_read(dtype, lanes):
    """Half a vector that LLVM knows to be excluded, whatever the rest of the mask is."""
    level = LEVELS["x86-64-v3"]
    f = Function(
        "f", [("p", "ptr"), ("q", "ptr"), ("n", "i64")], linkage="external", attributes=level.attributes
    )
    some = Value(f.assign("icmp sgt i64 %n, 4"), "bool")
    low = vector_literal([k < lanes // 2 for k in range(lanes)], "bool")
    mask = LlvmScalars(f, level).logical_and(f.broadcast(some, lanes), low)
    f.store(f.load("%p", dtype, lanes, mask=mask), "%q")
    module = Module()
    module.add(f)
    reads = re.findall(r"(\S+)\s+\d*\(%rdi\)", llvm_driver.assembly(module.text(), level.target))
    assert reads
    assert all("maskmov" in name for name in reads), reads


# ---- modules ----


def test_a_module_prints_each_part_once():
    helper = Function("helper", [], attributes="nounwind cold")
    first, second = (Function(name, [], linkage="external") for name in ("first", "second"))
    for f in (first, second):
        f.require(helper)
        f.call("helper", "void")
        f.constant("table", "[1 x i64] [i64 7]")
        f.intrinsic("fabs", ("float32", 4), literal(-1.0, "float32", 4))
    m = Module()
    m.add(first)
    m.add(second)
    text = m.text()
    for line in (
        "@table = ",
        "declare <4 x float> @llvm.fabs.v4f32",
        "define internal void @helper",
        "nounwind cold",
    ):
        assert text.count(line) == 1
    assert llvm_driver.undefined_symbols(llvm_driver.object_code(text, LEVEL)) == []


def test_a_name_stands_for_one_thing():
    m = Module()
    m.add(Function("f", []))
    with pytest.raises(ValueError, match="there already is a function @f"):
        m.add(Function("f", []))
    m.define("t", "internal constant i64 1")
    with pytest.raises(ValueError, match="there already is a different global @t"):
        m.define("t", "internal constant i64 2")


def test_loop_hints_reach_llvm():
    def loop_text(*hints):
        f = function("out")
        f.loop(index(0), index(8), 1, lambda i: f.store(i, f.gep("%out", i, "int64")), hints=hints)
        m = Module()
        m.add(f)
        return m.text()

    kept = loop_text("llvm.loop.unroll.disable", "llvm.loop.vectorize.width, i32 1")
    assert '!2 = !{!"llvm.loop.vectorize.width", i32 1}' in kept
    assert "br i1" in llvm_driver.optimised_text(kept)
    assert "br i1" not in llvm_driver.optimised_text(loop_text())


def test_levels():
    assert [level.lanes("float32") for level in LEVELS.values()] == [4, 8, 16]
    assert [(level.fma, level.f16c) for level in LEVELS.values()] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    arm = level_of("aarch64")
    assert (arm.lanes("float64"), arm.fma, arm.f16c) == (2, True, True)
