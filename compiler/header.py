"""The C header of an artifact: typed entry points, and DLPack ones with every check, over `tapecast.h`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import resources

from .. import __version__
from ..serialized_models.format import ABI_VERSION
from ..serialized_models.sizes import Reading, compile_size, readings
from .library import Entry, Library, Spec

C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
}
"""Element types in C; integers are `int32_t` and so on. Half floats are their bits, complex numbers pairs."""

DLPACK_TYPES = {
    "bool": ("kDLBool", 8),
    "bfloat16": ("kDLBfloat", 16),
}

# C11, then what C++20 adds, then the names that the functions use themselves.
KEYWORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while alignas alignof and asm bool catch class compl concept consteval
    constexpr constinit decltype delete explicit export false friend mutable namespace new noexcept
    not nullptr operator or private protected public requires static_assert template this
    thread_local throw true try typeid typename using virtual xor linux unix args sizes workspace
    threads
    """.split()
)


def fixed_header() -> str:
    """The text of `tapecast.h`."""
    return resources.files(__package__).joinpath("tapecast.h").read_text(encoding="utf-8")


def c_header(library: Library) -> str:
    """The text of `<model>.h`."""
    guard = f"TAPECAST_MODEL_{library.name.upper()}_H_"
    name = library.name
    parts = [
        f"/* {name}.h: the model {name}, compiled by tapecast {__version__} for "
        f"{', '.join(library.levels)}. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        '#include "tapecast.h"',
        "",
        f"#if TAPECAST_ABI_VERSION < {ABI_VERSION}",
        '#error "tapecast.h is older than the model: take the one that was written with it"',
        "#endif",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"int32_t {name}_level(void);          /* level in use: 2, 3, 4 for x86-64-v2 to v4, 1 other, 0 "
        f"none fits */",
        f"int32_t {name}_select(int32_t level); /* use a lower level, 0 the best; the level in use, or 0 */",
        f"void {name}_threads(int32_t n);      /* threads of the pool, at first 1 */",
        f"void *{name}_pool(void);             /* the pool, to hand to another model: one serves a "
        f"process */",
        f"void {name}_share(void *pool);",
        *(line for entry in library.entries for line in _entry(library, entry)),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
    ]
    return "\n".join(parts) + "\n"


def _entry(library: Library, entry: Entry) -> Iterator[str]:
    symbol = f"{library.name}_{entry.name}"
    yield ""
    yield from _comment(library, entry)
    yield f"int32_t {symbol}(const int64_t *args);"
    yield f"int64_t {symbol}_workspace(const int64_t *sizes);"
    yield ""
    yield from _typed_workspace(symbol, entry)
    yield from _typed_call(symbol, entry)
    yield from _tables(library, symbol, entry)
    yield from _tensor_call(symbol, entry)


def _comment(library: Library, entry: Entry) -> Iterator[str]:
    inputs = ", ".join(f"{s.name}: {_shown(s)}" for s in entry.inputs)
    outputs = ", ".join(f"{s.name}: {_shown(s)}" for s in entry.outputs)
    yield f"/* {entry.name}({inputs}) -> ({outputs})"
    for name in entry.sizes:
        low, high = library.dims[name]
        yield f" *   {name}: {f'at least {low}' if high is None else f'{low} to {high}'}"
    for i, o in entry.state:
        yield f" *   state: {entry.inputs[i].name} becomes {entry.outputs[o].name} for the next call"
    yield " * Tensors are row-major. The workspace is aligned to 64 bytes; calls at once need one each. */"


def _shown(spec: Spec) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def names_of(entry: Entry, prefix: str = "tapecast") -> tuple[list[str], list[str], list[str]]:
    """Parameter names for inputs, outputs and sizes: C identifiers, each once, no keywords, and nothing that
    hides what a function uses: types, macros, and functions of tapecast.h or of the model, which begin with
    `prefix`.
    """
    taken: set[str] = set(KEYWORDS)
    sizes = [_fresh(name, taken, prefix) for name in entry.sizes]
    inputs = [_fresh(s.name, taken, prefix) for s in entry.inputs]
    return inputs, [_fresh(s.name, taken, prefix) for s in entry.outputs], sizes


def _fresh(name: str, taken: set[str], prefix: str) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "x"
    plain = plain if not plain[0].isdigit() else f"x{plain}"
    if (
        plain == prefix
        or plain.startswith(("tapecast_", f"{prefix}_"))
        or plain.endswith("_t")
        or plain.isupper()
        or plain[0] == "_"
    ):
        plain = f"p_{plain}"
    while plain in taken:
        plain += "_"
    taken.add(plain)
    return plain


def _hides(name: str, prefix: str) -> bool:
    """Whether a name looks like a type, a macro, one of the language's own, or a function of the headers."""
    looks_like_macro = len(name) > 1 and name.isupper()
    return (
        looks_like_macro
        or name.endswith("_t")
        or name == prefix
        or name.startswith(("_", "tapecast_", f"{prefix}_"))
    )


def _typed_workspace(symbol: str, entry: Entry) -> Iterator[str]:
    names = names_of(entry, symbol)[2]
    parameters = ", ".join(f"int64_t {n}" for n in names) or "void"
    yield f"/* Bytes of workspace for a call of {symbol}_call. */"
    yield f"static inline int64_t {symbol}_workspace_bytes({parameters}) {{"
    yield f"  const int64_t sizes[] = {{{', '.join(names) or '0'}}};"
    yield f"  return {symbol}_workspace(sizes);"
    yield "}"


def _typed_call(symbol: str, entry: Entry) -> Iterator[str]:
    inputs, outputs, sizes = names_of(entry, symbol)
    parameters = [
        *(f"const {c_type(s.dtype)} *{n}" for s, n in zip(entry.inputs, inputs, strict=True)),
        *(f"{c_type(s.dtype)} *{n}" for s, n in zip(entry.outputs, outputs, strict=True)),
        *(f"int64_t {n}" for n in sizes),
        "void *workspace",
        "int32_t threads",
    ]
    pointers = [*inputs, *outputs]
    words = [
        *(f"tapecast_word({p})" for p in pointers),
        *sizes,
        "tapecast_word(workspace)",
        "threads > 0 ? threads : 1",
    ]
    yield f"static inline int32_t {symbol}_call({', '.join(parameters)}) {{"
    yield f"  const int64_t args[] = {{{', '.join(words)}}};"
    for k, pointer in enumerate(pointers):
        yield f"  if (!{pointer}) return tapecast_fault(TAPECAST_NULL, {k});"
    yield "  if ((uintptr_t)workspace % 64) return TAPECAST_ALIGNMENT;"
    yield f"  if (!workspace && {symbol}_workspace_bytes({', '.join(sizes)}) > 0) return TAPECAST_WORKSPACE;"
    yield f"  return {symbol}(args);"
    yield "}"


def c_type(dtype: str) -> str:
    """The C type of an element: `float` for float32."""
    return C_TYPES.get(dtype, f"{dtype}_t")


def dlpack_type(dtype: str) -> tuple[str, int]:
    """Code and bits of an element in DLPack."""
    if dtype in DLPACK_TYPES:
        return DLPACK_TYPES[dtype]
    kind = dtype.rstrip("0123456789")
    code = {"int": "kDLInt", "uint": "kDLUInt", "float": "kDLFloat", "complex": "kDLComplex"}[kind]
    return code, int(dtype[len(kind) :])


def _tables(library: Library, symbol: str, entry: Entry) -> Iterator[str]:
    tensors = (*entry.inputs, *entry.outputs)
    yield f"static inline void {symbol}_shapes(const int64_t *sizes, int64_t *lengths) {{"
    yield "  (void)sizes, (void)lengths;"
    axes = [axis for s in tensors for axis in s.shape]
    for k, axis in enumerate(axes):
        yield f"  lengths[{k}] = {c_size(axis, entry.sizes)};"
    yield "}"
    rows = [f'{{"{s.name}", {", ".join(map(str, dlpack_type(s.dtype)))}, {len(s.shape)}}}' for s in tensors]
    yield f"static const tapecast_tensor {symbol}_specs[] = {{{', '.join(rows) or '{0, 0, 0, 0}'}}};"
    found = readings([s.shape for s in entry.inputs], entry.sizes)
    for r in found:
        yield from _solver(symbol, entry, r)
    sizes = [_size_row(library, symbol, entry, r) for r in found]
    yield f"static const tapecast_size {symbol}_sizes[] = {{{', '.join(sizes) or '{0, 0, 0, 0, 0, 0, NULL}'}}};"
    yield (
        f"static const tapecast_entry {symbol}_entry = {{"
        f'"{symbol}", {len(entry.inputs)}, {len(entry.outputs)}, {len(entry.sizes)}, {symbol}_specs, '
        f"{symbol}_sizes, "
        f"{symbol}_shapes, {symbol}_workspace, {symbol}}};"
    )


def _solver(symbol: str, entry: Entry, reading: Reading) -> Iterator[str]:
    """The function that finds a size from an axis that is an expression of it."""
    if reading.text != reading.size:
        ends = ", ".join(c_size(end, entry.sizes) for end in reading.ends())
        name = f"{symbol}_solve_{entry.sizes.index(reading.size)}"
        yield f"static inline int64_t {name}(int64_t length, const int64_t *sizes) {{"
        yield "  (void)sizes;"
        yield f"  return tapecast_solve(length, {ends});"
        yield "}"


def _size_row(library: Library, symbol: str, entry: Entry, reading: Reading) -> str:
    low, high = library.dims[reading.size]
    place = entry.sizes.index(reading.size)
    solver = "NULL" if reading.text == reading.size else f"{symbol}_solve_{place}"
    bounds = f"{low}, {-1 if high is None else high}"
    return f'{{"{reading.size}", {place}, {reading.input}, {reading.axis}, {bounds}, {solver}}}'


def _tensor_call(symbol: str, entry: Entry) -> Iterator[str]:
    tensors = (*entry.inputs, *entry.outputs)
    words = len(tensors) + len(entry.sizes) + 2
    yield (
        f"static inline int32_t {symbol}_tensors(DLTensor *const *inputs, int32_t n_inputs, DLTensor "
        f"*const *outputs, "
        "int32_t n_outputs, void *workspace, int32_t threads) {"
    )
    yield f"  int64_t args[{words}], lengths[{max(1, sum(len(s.shape) for s in tensors))}];"
    yield (
        f"  return tapecast_call(&{symbol}_entry, inputs, n_inputs, outputs, n_outputs, workspace, "
        f"threads, args, lengths);"
    )
    yield "}"


def c_size(axis: int | str, sizes: tuple[str, ...]) -> str:
    """A size expression in C, over the array `sizes`: `(batch+1)//2` is `tapecast_div(sizes[0] + 1, 2)`."""
    compile_size(axis, sizes)
    return _c(ast.parse(str(axis), mode="eval").body, sizes)


_C_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "({} + {})",
    ast.Sub: "({} - {})",
    ast.Mult: "({} * {})",
    ast.FloorDiv: "tapecast_div({}, {})",
    ast.Mod: "tapecast_mod({}, {})",
}


def _c(node: ast.expr, sizes: tuple[str, ...]) -> str:
    match node:
        case ast.Constant(value=int(number)):
            return str(number)
        case ast.Name(id=name):
            return f"sizes[{sizes.index(name)}]"
        case ast.BinOp(left=a, op=op, right=b):
            return _C_BINARY[type(op)].format(_c(a, sizes), _c(b, sizes))
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return f"(-{_c(a, sizes)})"
        case ast.Call(func=ast.Name(id=("max" | "min") as name), args=[a, b]):
            return f"tapecast_{name}({_c(a, sizes)}, {_c(b, sizes)})"
    raise ValueError(f"the size {ast.unparse(node)!r} has no form in C")
