"""Transforms of functions: gradients, Jacobians, and maps over a batch; they may be nested.

Arguments may be tensors in tuples, lists and dicts; results have the same structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from . import functional as F
from .autograd.functional import jacobian_of
from .backward import grad as gradients
from .modes import enable_grad
from .tensor import Leaf, Tensor

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

# ---- trees ---------------------------------------------------------------------------------------------------


def flat(tree: Any) -> list[Any]:
    """The leaves of nested containers, in order."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in flat(value)]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in flat(value)]
    return [tree]


def rebuilt(tree: Any, leaves: Any) -> Any:
    """The containers of `tree` with other leaves, taken from an iterator."""
    if isinstance(tree, dict):
        return type(tree)((key, rebuilt(value, leaves)) for key, value in tree.items())
    if isinstance(tree, list | tuple):
        values = [rebuilt(value, leaves) for value in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    return next(leaves)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    return rebuilt(tree, iter([function(leaf) for leaf in flat(tree)]))


# ---- places on the tape ----------------------------------------------------------------------------------------


def entered(x: Any) -> Any:
    """A tensor at a new place on the tape, one step behind its old one, or a new leaf."""
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
        return x
    return x.detach().requires_grad_() if x.node is None else x.view_as(x)


def left(tree: Any, inner: Sequence[Any]) -> Any:
    """Results without a history that leads to the leaves of this transform alone."""
    own = {x.node for x in inner if isinstance(x, Tensor)}
    return mapped(lambda x: x.detach() if isinstance(x, Tensor) and only_from(x.node, own) else x, tree)


def only_from(node: Any, own: set[Any]) -> bool:
    """Whether no leaf but those of `own`, and none behind a place of `own`, is reached from a node."""
    if node is None:
        return False
    seen, stack = {node}, [node]
    while stack:
        at = stack.pop()
        if type(at) is Leaf:
            if at not in own:
                return False
            continue
        for edge in at.edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return True


def argument(args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[Any, list[int], bool]:
    """The arguments to differentiate by, their numbers, and whether there was one number alone."""
    single = isinstance(argnums, int)
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    numbers = [n % len(args) for n in numbers]
    return tuple(args[n] for n in numbers), numbers, single


def replaced(args: tuple[Any, ...], numbers: list[int], values: Sequence[Any]) -> list[Any]:
    out = list(args)
    for n, value in zip(numbers, values, strict=True):
        out[n] = value
    return out


# ---- gradients -------------------------------------------------------------------------------------------------


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of `func`, whose output is one number, by the arguments `argnums`.

    `has_aux`: func returns (output, more), and the result is (gradient, (value, more)).
    """

    @wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        chosen, numbers, single = argument(args, argnums)
        with enable_grad():
            fresh = mapped(entered, chosen)
            out = func(*replaced(args, numbers, fresh), **kwargs)
            value, more = out if has_aux else (out, None)
            if not isinstance(value, Tensor) or value.numel() != 1 or value.ndim:
                raise RuntimeError(
                    "Expected f(*args) to return a scalar tensor, got "
                    f"{tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__}"
                )
            leaves = flat(fresh)
            found = derivative(value, leaves)
        grads = left(rebuilt(chosen, iter(found)), leaves)
        value, more = left(value, leaves), left(more, leaves) if has_aux else None
        return (grads[0] if single else grads), ((value, more) if has_aux else value)

    return inner


def derivative(y: Tensor, leaves: Sequence[Any], weight: Tensor | None = None) -> list[Any]:
    """The gradient by each leaf, zeros where there is none; what is no tensor stays."""
    places = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
    if not y.requires_grad or not places:
        return [F.zeros_like(x) if isinstance(x, Tensor) else x for x in leaves]
    found = iter(gradients(y, places, weight, create_graph=True, allow_unused=True, materialize_grads=True))
    return [next(found) if isinstance(x, Tensor) and x.requires_grad else zero_of(x) for x in leaves]


def zero_of(x: Any) -> Any:
    return F.zeros_like(x) if isinstance(x, Tensor) else x


def grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose output is one number; with `has_aux` (gradient, more)."""
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return inner


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), pull): pull(v) gives vᵀJ, a tuple with one member for each primal."""
    with enable_grad():
        fresh = mapped(entered, primals)
        out = func(*fresh)
    value, more = out if has_aux else (out, None)
    outputs, leaves = flat(value), flat(fresh)

    def pull(cotangents: Any) -> Any:
        vs = flat(cotangents)
        if len(vs) != len(outputs):
            raise RuntimeError(f"vjp: {len(vs)} cotangents for {len(outputs)} outputs; give one for each")
        with enable_grad():
            parts = [derivative(y, leaves, v) for y, v in zip(outputs, vs, strict=True)]
            found = parts[0]
            for part in parts[1:]:
                found = [a + b if isinstance(a, Tensor) else a for a, b in zip(found, part, strict=True)]
        return left(rebuilt(primals, iter(found)), leaves)

    result = left(value, leaves)
    return (result, pull, left(more, leaves)) if has_aux else (result, pull)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """(func(*primals), J tangents). By differentiating vᵀJ, which is linear in v, by v."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or len(primals) != len(tangents):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to be tuples of the same length"
        )
    with enable_grad():
        fresh = mapped(entered, primals)
        out = func(*fresh)
        value, more = out if has_aux else (out, None)
        leaves, outputs = flat(fresh), flat(value)
        found = [push(y, leaves, flat(tangents)) for y in outputs]
    products = left(rebuilt(value, iter(found)), leaves)
    result = left(value, leaves)
    return (result, products, left(more, leaves)) if has_aux else (result, products)


def push(y: Tensor, leaves: Sequence[Any], tangents: Sequence[Any]) -> Tensor:
    """J t for one output."""
    v = F.zeros_like(y).requires_grad_()
    if not y.requires_grad:
        return F.zeros_like(y)
    pulled = derivative(y, leaves, v)
    pairs = [
        (p, t) for p, t in zip(pulled, tangents, strict=True) if isinstance(p, Tensor) and p.requires_grad
    ]
    if not pairs:
        return F.zeros_like(y)
    outs, weights = zip(*pairs, strict=True)
    (found,) = gradients(outs, v, weights, create_graph=True, allow_unused=True, materialize_grads=True)
    assert found is not None
    return found


def jacrev(
    func: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`: for each output a tensor of shape output.shape + input.shape.

    One backward pass per element of the output; `chunk_size` is accepted.
    """

    @wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        chosen, numbers, single = argument(args, argnums)
        with enable_grad():
            fresh = mapped(entered, chosen)
            out = func(*replaced(args, numbers, fresh), **kwargs)
            value, more = out if has_aux else (out, None)
            leaves = flat(fresh)
            rows = [jacobian_of(y, leaves, True, False, i) for i, y in enumerate(flat(value))]
        blocks = [rebuilt(chosen, iter(row)) for row in rows]
        found = rebuilt_with(value, [block[0] if single else block for block in blocks])
        found = left(found, leaves)
        return (found, left(more, leaves)) if has_aux else found

    return inner


def rebuilt_with(tree: Any, leaves: list[Any]) -> Any:
    return rebuilt(tree, iter(leaves))


def jacfwd(
    func: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """As `jacrev`; there is no forward mode here."""
    return jacrev(func, argnums, has_aux=has_aux, chunk_size=chunk_size)


def hessian(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`."""
    return jacrev(jacrev(func, argnums), argnums)


# ---- maps ------------------------------------------------------------------------------------------------------


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `func` over an axis of its arguments, and stacks the results along a new one.

    `in_dims`: the axis of every argument, or one per argument (None: the same for all members of the batch), also
    nested as the arguments are. `out_dims`: where the new axis goes. `randomness`: "same" starts every member at the
    same random numbers; otherwise each has its own. The function is called once per member, so it is a convenience,
    not a way to speed. `chunk_size` is accepted.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )

    @wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        dims = spread(in_dims, args)
        leaves = flat(args)
        size = batch_size(dims, leaves)
        results = []
        for i in range(size):
            with same_numbers(randomness == "same" and i < size - 1):
                part = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims, strict=True)]
                keywords = member(kwargs, i)
                results.append(func(*rebuilt(args, iter(part)), **keywords))
        columns = zip(*map(flat, results), strict=True)
        stacked = zip(columns, spread(out_dims, results[0], True), strict=True)
        return rebuilt(results[0], iter([stack(column, d) for column, d in stacked]))

    return inner


def member(tree: Any, i: int) -> Any:
    """The i-th member of a batch along the first axis."""
    return mapped(lambda x: x.select(0, i) if isinstance(x, Tensor) else x, tree)


class same_numbers:
    """With `on`, the random numbers drawn in the block are drawn again after it."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __enter__(self) -> None:
        from .random import default_generator

        self.generator, self.state = default_generator, default_generator.state

    def __exit__(self, *exc: object) -> None:
        if self.on:
            self.generator.state = self.state


def stack(values: tuple[Any, ...], dim: int | None) -> Any:
    if dim is None:
        return values[0]
    if not all(isinstance(v, Tensor) for v in values):
        raise ValueError(
            f"vmap: `func` must only return Tensors, got type {type(values[0]).__name__}; out_dims=None hands it on"
        )
    return F.stack(list(values), dim)


def spread(dims: Any, tree: Any, every: bool = False) -> list[int | None]:
    """One axis for every leaf; without `every` only for tensors."""
    if dims is None or isinstance(dims, int):
        return [dims if every or isinstance(leaf, Tensor) else None for leaf in flat(tree)]
    if isinstance(dims, dict):
        return [d for key, value in tree.items() for d in spread(dims[key], value, every)]
    if not isinstance(tree, list | tuple):
        return spread(dims[0], tree, every)
    if len(dims) != len(tree):
        raise ValueError(
            f"vmap: in_dims is not compatible with the structure of inputs: {len(dims)} of them for {len(tree)} values"
        )
    return [d for one, value in zip(dims, tree, strict=True) for d in spread(one, value, every)]


def batch_size(dims: Sequence[int | None], leaves: Sequence[Any]) -> int:
    sizes = {int(x.shape[d]) for d, x in zip(dims, leaves, strict=True) if d is not None}
    if not sizes:
        raise ValueError("vmap: at least one input must be a Tensor that is mapped over; in_dims has none")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)} for "
            "the mapped dimension"
        )
    return sizes.pop()


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """func(*primals), and the function of tangents that is its derivative there: `jvp` of a fixed place."""

    def derivative(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), derivative


# ---- modules as functions of their parameters ------------------------------------------------------------------


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors, by dotted name in one dict or several, in place of its own.

    ValueError for a name in two dicts; see `nn.utils.stateless.functional_call` for the rest.
    """
    from .nn.utils import stateless

    dicts = (
        [parameter_and_buffer_dicts]
        if isinstance(parameter_and_buffer_dicts, dict)
        else parameter_and_buffer_dicts
    )
    tensors: dict[str, Any] = {}
    for given in dicts:
        if repeated := given.keys() & tensors.keys():
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        tensors.update(given)
    return stateless.call(module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one kind, by name, stacked along a new first axis.

    RuntimeError for no modules, and for modules of several classes or modes.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    owned = [(dict(m.named_parameters()), dict(m.named_buffers())) for m in models]
    params, buffers = ({name: stacked([o[i][name] for o in owned]) for name in owned[0][i]} for i in range(2))
    return params, buffers


def stacked(tensors: list[Tensor]) -> Tensor:
    """A new leaf of tensors that are all trained or all not."""
    trained = tensors[0].requires_grad
    if any(t.requires_grad != trained for t in tensors):
        raise RuntimeError(f"Expected {'all' if trained else 'no'} parameters to require grad, got both")
    return F.stack([t.detach() for t in tensors]).requires_grad_(trained)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make the batch norms in a module use the statistics of their batch alone, as `vmap` needs; returns the module."""
    for module in root.modules():
        if getattr(module, "track_running_stats", False):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
