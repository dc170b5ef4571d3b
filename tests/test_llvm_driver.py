"""LLVM text to object code: targets, determinism, and errors that point at the text."""

import platform
import subprocess
import sys

import pytest

from tapecast.compiler.cpu.llvm_driver import (
    TARGETS,
    CompileError,
    Target,
    assembly,
    native_target,
    object_code,
    optimised_text,
    target_for,
    undefined_symbols,
)

SAXPY = """
define void @saxpy(ptr noalias %x, ptr noalias %y, float %a, i64 %n) ATTRIBUTES {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %more, %loop ]
  %px = getelementptr inbounds float, ptr %x, i64 %i
  %py = getelementptr inbounds float, ptr %y, i64 %i
  %xv = load float, ptr %px
  %yv = load float, ptr %py
  %m = fmul contract float %xv, %a
  %s = fadd contract float %m, %yv
  store float %s, ptr %py
  %more = add nuw nsw i64 %i, 1
  %end = icmp eq i64 %more, %n
  br i1 %end, label %out, label %loop
out:
  ret void
}
"""
WIDE = ' "prefer-vector-width"="512"'
REGISTERS = {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}


def registers(text: str) -> set[str]:
    return {name for name in ("xmm", "ymm", "zmm") if f"%{name}" in text} - {"xmm"} or {"xmm"}


@pytest.mark.parametrize("level", REGISTERS)
def test_levels_use_their_registers(level: str) -> None:
    text = assembly(SAXPY.replace("ATTRIBUTES", WIDE), level)
    assert REGISTERS[level] in registers(text)
    assert ("vfmadd" in text) == (level != "x86-64-v2")


@pytest.mark.parametrize("level", REGISTERS)
@pytest.mark.parametrize("module_level", REGISTERS)
def test_a_function_has_its_own_level_in_any_module(level: str, module_level: str) -> None:
    text = assembly(SAXPY.replace("ATTRIBUTES", TARGETS[level].attributes + WIDE), module_level)
    assert registers(text) == registers(assembly(SAXPY.replace("ATTRIBUTES", WIDE), level))
    assert ("vfmadd" in text) == (level != "x86-64-v2")


def test_aarch64_uses_neon() -> None:
    assert "fmla\tv" in assembly(SAXPY.replace("ATTRIBUTES", ""), "aarch64")


def test_features_are_ones_that_llvm_knows() -> None:
    """LLVM ignores a feature it does not know, with no more than a line on stderr."""
    script = (
        "from tapecast.compiler.cpu.llvm_driver import *\n"
        "for t in TARGETS: object_code('define void @f() {\\n ret void\\n}\\n', t)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_same_text_gives_same_bytes() -> None:
    text = SAXPY.replace("ATTRIBUTES", "")
    assert object_code(text) == object_code(text, "x86-64-v2") == object_code(text, TARGETS["x86-64-v2"])
    assert object_code(text, opt=0) != object_code(text)


def test_targets_by_name() -> None:
    assert target_for("x86-64-v3").arch == "x86_64" and target_for("aarch64").arch == "aarch64"
    assert target_for("native") == native_target() and native_target().arch == platform.machine()
    assert target_for("znver4", "x86_64-unknown-linux-gnu") == Target("x86_64-unknown-linux-gnu", "znver4")
    with pytest.raises(CompileError, match="unknown target 'x86-64-v5': choose one of x86-64-v2, x86-64-v3"):
        object_code("", "x86-64-v5")


def test_syntax_error_shows_the_line() -> None:
    with pytest.raises(CompileError) as error:
        object_code("define i32 @f() {\n  %a = add i32 1, 2\n  ret i64 %a\n}\n")
    assert "'%a' defined with type 'i32' but expected 'i64'" in str(error.value)
    assert ">     3 |   ret i64 %a" in str(error.value) and "2 |   %a = add i32 1, 2" in str(error.value)


def test_error_of_the_verifier_shows_the_line() -> None:
    text = "define i32 @f() {\nentry:\n  %b = add i32 %c, 1\n  %c = add i32 1, 1\n  ret i32 %b\n}\n"
    with pytest.raises(CompileError) as error:
        object_code(text)
    assert "does not dominate all uses" in str(error.value) and ">     3 |   %b = add i32 %c, 1" in str(
        error.value
    )


def test_error_at_the_end_of_the_text() -> None:
    with pytest.raises(CompileError, match=r"end of file(.|\n)*>     1 \| define i32 @f\(\) {"):
        object_code("define i32 @f() {")


def test_inline_assembly_for_another_machine_is_refused() -> None:
    text = 'define void @f() {\n  call void asm sideeffect "nop", ""()\n  ret void\n}\n'
    foreign = "aarch64" if platform.machine() == "x86_64" else "x86-64-v2"
    with pytest.raises(CompileError, match=r"inline assembly for(.|\n)*>     2 \|   call void asm"):
        object_code(text, foreign)
    assert "nop" in assembly(text, "native")


def test_comments_may_say_asm() -> None:
    assert object_code('; asm "x"\ndefine void @f() {\n  ret void\n}\n', "aarch64")


def test_undefined_symbols() -> None:
    text = """
declare float @llvm.exp.f32(float)
declare void @elsewhere(float)
define void @f(float %x) {
  %r = call float @llvm.exp.f32(float %x)
  call void @elsewhere(float %r)
  ret void
}
"""
    assert undefined_symbols(object_code(text)) == ["elsewhere", "expf"]
    assert undefined_symbols(object_code(SAXPY.replace("ATTRIBUTES", ""))) == []


def test_optimised_text_is_vectorised() -> None:
    assert "<8 x float>" in optimised_text(SAXPY.replace("ATTRIBUTES", ""), "x86-64-v3")
    assert "<8 x float>" not in optimised_text(SAXPY.replace("ATTRIBUTES", ""), "x86-64-v3", opt=0)
