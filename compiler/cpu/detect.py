"""Which x86-64 level this processor has, as LLVM text: cpuid, and xgetbv for what the system saves on a switch."""

from __future__ import annotations

#: Levels by number, with the cpuid bits each adds: (leaf, register) -> mask.
#: Source: the x86-64 psABI, "micro-architecture levels".
_BITS = {
    2: {
        (1, "c"): 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23
    },  # sse3 ssse3 cx16 sse4.1 sse4.2 popcnt
    3: {
        (1, "c"): 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29,  # fma movbe osxsave avx f16c
        (7, "b"): 1 << 3 | 1 << 5 | 1 << 8,  # bmi1 avx2 bmi2
        (0x80000001, "c"): 1 << 5,  # lzcnt
    },
    4: {(7, "b"): 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31},  # avx512 f dq cd bw vl
}
#: State the system must save: xmm and ymm for level 3; opmask and both halves of zmm too for level 4.
_STATE = {3: 0x06, 4: 0xE6}

NUMBERS = {"x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}

_PREFIX = {1: "one", 7: "seven", 0x80000001: "ext"}
_RESULT = {"a": 0, "b": 1, "c": 2, "d": 3}


def detect_text(name: str) -> str:
    """`define internal i32 @<name>()`: the highest of 2, 3, 4 this processor has; 1 below that."""
    lines = [f"define internal i32 @{name}() nounwind {{", "entry:"]
    lines += [*_cpuid("one", 1), *_cpuid("seven", 7), *_cpuid("ext", 0x80000001)]
    lines.append("  br label %level2")
    for level in (2, 3, 4):
        lines += _test_level(level)
    lines += [
        "level5:",
        "  ret i32 4",
        "none2:",
        "  ret i32 1",
        "none3:",
        "  ret i32 2",
        "none4:",
        "  ret i32 3",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _cpuid(stem: str, leaf: int) -> list[str]:
    regs = "{ i32, i32, i32, i32 }"
    signed = leaf - (1 << 32) if leaf >> 31 else leaf
    return [
        f'  %{stem} = call {regs} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},0,2"(i32 {signed}, i32 0)',
        *(f"  %{stem}.{r} = extractvalue {regs} %{stem}, {k}" for r, k in _RESULT.items() if r in "bc"),
    ]


def _test_level(level: int) -> list[str]:
    """Blocks that go on to the next level when all bits are there, to `none<level>` otherwise."""
    lines = [f"level{level}:"]
    good = "true"
    for k, ((leaf, reg), mask) in enumerate(_BITS[level].items()):
        signed = mask - (1 << 32) if mask >> 31 else mask
        stem = f"%l{level}.{k}"
        lines += [
            f"  {stem}.bits = and i32 %{_PREFIX[leaf]}.{reg}, {signed}",
            f"  {stem}.has = icmp eq i32 {stem}.bits, {signed}",
            f"  {stem}.all = and i1 {good}, {stem}.has",
        ]
        good = f"{stem}.all"
    if level not in _STATE:
        return [*lines, f"  br i1 {good}, label %level{level + 1}, label %none{level}"]
    return [
        *lines,
        f"  br i1 {good}, label %state{level}, label %none{level}",
        f"state{level}:",
        f'  %x{level} = call {{ i32, i32 }} asm sideeffect "xgetbv", "={{ax}},={{dx}},{{cx}}"(i32 0)',
        f"  %x{level}.low = extractvalue {{ i32, i32 }} %x{level}, 0",
        f"  %x{level}.bits = and i32 %x{level}.low, {_STATE[level]}",
        f"  %x{level}.has = icmp eq i32 %x{level}.bits, {_STATE[level]}",
        f"  br i1 %x{level}.has, label %level{level + 1}, label %none{level}",
    ]
