"""LLVM text in, object code or assembly out: a thin driver over llvmlite's binding layer.

The text is parsed, verified, run through LLVM's default pipeline and emitted as position-independent code
with the small code model.  Where the time goes, for the 150 instructions of the thread pool on one core of a
server CPU: target machine 0.1 ms, parse and verify 1 ms, O3 pipeline 25 ms, emission 19 ms.

llvmlite serialises all calls behind one lock, so compiling in parallel takes processes, not threads.
"""

import functools
import platform
import re
from dataclasses import dataclass

import llvmlite.binding as llvm

from .elf_object import SHN_UNDEF, read_object

X86_64_LINUX = "x86_64-unknown-linux-gnu"
AARCH64_LINUX = "aarch64-unknown-linux-gnu"


class CompileError(Exception):
    """LLVM refused a module; the message shows what it said and the lines of text it said it about."""


@dataclass(frozen=True)
class Target:
    """What a module or a function is compiled for: an LLVM triple, a CPU name and a feature string."""

    triple: str
    cpu: str
    features: str = ""

    @property
    def arch(self) -> str:
        """The first part of the triple: ``"x86_64"`` or ``"aarch64"``."""
        return self.triple.partition("-")[0]

    @property
    def attributes(self) -> str:
        """Function attributes that compile one function for this target inside a module built for another."""
        # Both are always given: a function that names only its CPU inherits the feature string of its module.
        return f'"target-cpu"="{self.cpu}" "target-features"="{self.features}"'


# The levels of the x86-64 psABI.  The features repeat what the CPU name implies, so that a function of a low
# level stays low inside a module of a high one.
_V2 = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3 = _V2 + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = _V3 + ",+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"

TARGETS: dict[str, Target] = {
    "x86-64-v2": Target(X86_64_LINUX, "x86-64-v2", _V2),
    "x86-64-v3": Target(X86_64_LINUX, "x86-64-v3", _V3),
    "x86-64-v4": Target(X86_64_LINUX, "x86-64-v4", _V4),
    "aarch64": Target(AARCH64_LINUX, "generic", "+fp-armv8,+neon"),
}


@functools.cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # without it a module with inline assembly aborts the process


@functools.cache
def native_target() -> Target:
    """The machine this runs on, with the features it reports (a hypervisor may mask some of its CPU's)."""
    _initialise()
    arch = platform.machine()
    if arch not in ("x86_64", "aarch64"):
        raise CompileError(f"no native target for machine {arch!r}: known are x86_64 and aarch64")
    return Target(
        f"{arch}-unknown-linux-gnu", llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    )


def target_for(cpu: str | Target, triple: str | None = None) -> Target:
    """The target a name stands for: a key of ``TARGETS``, ``"native"``, or any LLVM CPU name with its triple.

    LLVM takes an unknown CPU name for a generic CPU without an error, so names are free only with a triple.
    """
    if isinstance(cpu, Target):
        return cpu
    if triple is not None:
        return Target(triple, cpu)
    if cpu == "native":
        return native_target()
    if cpu not in TARGETS:
        raise CompileError(
            f"unknown target {cpu!r}: choose one of {', '.join(TARGETS)}, native, or give the triple as well"
        )
    return TARGETS[cpu]


def _machine(target: Target, opt: int) -> llvm.TargetMachine:
    _initialise()
    # llvmlite's own default code model is the large one on 64-bit machines.
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=opt, reloc="pic", codemodel="small"
    )


def _excerpt(text: str, line: int, around: int = 2) -> str:
    lines = text.splitlines()
    shown = range(max(line - around, 1), min(line + around, len(lines)) + 1)
    return "\n".join(f"{'>' if n == line else ' '} {n:5d} | {lines[n - 1]}" for n in shown)


def _line_of(text: str, message: str) -> int:
    """The line a message is about: its ``<string>:LINE:COL``, else the first line it quotes; 0 if none."""
    if position := re.search(r"<string>:(\d+):\d+:", message):
        return int(position[1])
    quoted = {line.strip() for line in message.splitlines()[1:]} - {""}
    return next((n for n, line in enumerate(text.splitlines(), 1) if line.strip() in quoted), 0)


def _explained(text: str, error: RuntimeError) -> CompileError:
    message = str(error).strip()
    line = _line_of(text, message)
    return CompileError(f"{message}\n{_excerpt(text, line)}" if line else message)


def _parsed(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise _explained(text, error) from None
    return module


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, opt: int) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
    tuning.loop_vectorization = tuning.loop_interleaving = tuning.slp_vectorization = opt >= 2
    tuning.loop_unrolling = opt >= 2
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


_INLINE_ASSEMBLY = re.compile(
    r'^[^;\n]*\basm\s+(?:sideeffect|alignstack|inteldialect|unwind|")', re.MULTILINE
)


def _refuse_foreign_assembly(text: str, target: Target) -> None:
    # LLVM aborts the process where it meets assembly it has no parser for, and only the host's is present.
    if target.arch == platform.machine() or not (found := _INLINE_ASSEMBLY.search(text)):
        return
    line = text.count("\n", 0, found.start()) + 1
    raise CompileError(
        f"inline assembly for {target.arch} cannot be compiled on {platform.machine()}: use an intrinsic\n"
        + _excerpt(text, line)
    )


def _compiled(text: str, target: Target, opt: int) -> tuple[llvm.TargetMachine, llvm.ModuleRef]:
    _refuse_foreign_assembly(text, target)
    machine = _machine(target, opt)
    module = _parsed(text, machine)
    _optimise(module, machine, opt)
    return machine, module


def object_code(
    text: str, cpu: str | Target = "x86-64-v2", *, triple: str | None = None, opt: int = 3
) -> bytes:
    """Compile one module of LLVM text to a relocatable object (ELF64 for the targets in ``TARGETS``).

    ``cpu`` and ``triple`` are read by :func:`target_for`; ``opt`` is LLVM's level, 0 to 3.  The same text,
    target and level give the same bytes.  Raises :class:`CompileError` with the offending lines for text that
    does not parse or verify.
    """
    machine, module = _compiled(text, target_for(cpu, triple), opt)
    return bytes(machine.emit_object(module))


def assembly(text: str, cpu: str | Target = "x86-64-v2", *, triple: str | None = None, opt: int = 3) -> str:
    """The assembly that :func:`object_code` would encode, for reading and for tests."""
    machine, module = _compiled(text, target_for(cpu, triple), opt)
    return str(machine.emit_assembly(module))


def optimised_text(
    text: str, cpu: str | Target = "x86-64-v2", *, triple: str | None = None, opt: int = 3
) -> str:
    """The module's LLVM text after the pipeline, before instruction selection."""
    return str(_compiled(text, target_for(cpu, triple), opt)[1])


def undefined_symbols(obj: bytes) -> list[str]:
    """Names, sorted, that an ELF64 object needs from elsewhere.

    LLVM turns some operations, and any unknown ``llvm.*`` name, into calls of library functions without
    saying so; this list is where they show.
    """
    return sorted({s.name for s in read_object(obj).symbols if s.section == SHN_UNDEF and s.name})
