"""Recurrent layers: RNN, LSTM (Hochreiter and Schmidhuber 1997, projected: Sak 2014) and GRU (Cho 2014)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

State = tuple[Tensor, ...]  # what a step hands to the next: (h,), or (h, c) of an LSTM; each (batch, size)
Step = Callable[[Tensor, State, Sequence[Tensor | None]], State]


def draw(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size else 0.0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


# ---- one step -------------------------------------------------------------------------------------------------


def lstm_step(projected: Tensor, state: State, weights: Sequence[Any]) -> State:
    """One LSTM step: `projected` is W_ih x + b_ih (batch, 4 * hidden); weights are W_hh, b_hh, W_hr."""
    w_hh, b_hh, w_hr = weights
    h, c = state
    i, f, g, o = (projected + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
    h = F.sigmoid(o) * F.tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


def gru_step(projected: Tensor, state: State, weights: Sequence[Any]) -> State:
    """One GRU step: `projected` is W_ih x + b_ih (batch, 3 * hidden); weights are W_hh, b_hh."""
    (h,) = state
    r_x, z_x, n_x = projected.chunk(3, -1)
    r_h, z_h, n_h = F.linear(h, weights[0], weights[1]).chunk(3, -1)
    z = F.sigmoid(z_x + z_h)
    n = F.tanh(n_x + F.sigmoid(r_x + r_h) * n_h)
    return (n + z * (h - n),)


def tanh_step(projected: Tensor, state: State, weights: Sequence[Any]) -> State:
    """tanh(W_ih x + b_ih + W_hh h + b_hh)."""
    return (F.tanh(projected + F.linear(state[0], weights[0], weights[1])),)


def relu_step(projected: Tensor, state: State, weights: Sequence[Any]) -> State:
    """relu(W_ih x + b_ih + W_hh h + b_hh)."""
    return (F.relu(projected + F.linear(state[0], weights[0], weights[1])),)


# ---- many steps -----------------------------------------------------------------------------------------------


def run(
    step: Step, inputs: Sequence[Tensor], state: State, weights: Sequence[Any]
) -> tuple[list[Tensor], State]:
    """Run over steps (rows_t, size) whose rows never grow; rows that end keep their last state."""
    outputs, ended = [], []
    for x in inputs:
        rows = x.shape[0]
        if rows < state[0].shape[0]:
            ended.append(tuple(s[rows:] for s in state))
            state = tuple(s[:rows] for s in state)
        state = step(x, state, weights)
        outputs.append(state[0])
    if ended:
        state = tuple(F.cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return outputs, state


def run_back(
    step: Step, inputs: Sequence[Tensor], first: State, weights: Sequence[Any]
) -> tuple[list[Tensor], State]:
    """Run from the last step to the first; rows that begin on the way start from `first`."""
    outputs = []
    state = tuple(s[: inputs[-1].shape[0]] for s in first)
    for x in reversed(inputs):
        have, want = state[0].shape[0], x.shape[0]
        if have < want:
            state = tuple(F.cat([s, f[have:want]]) for s, f in zip(state, first, strict=True))
        state = step(x, state, weights)
        outputs.append(state[0])
    return outputs[::-1], state


class RNNBase(Module):
    """What the recurrent layers share: parameters, layers and directions, batches, packed sequences."""

    gates, states = 1, 1
    mode = ""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(hidden_size, num_layers, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self.gates = {"LSTM": 4, "GRU": 3}.get(mode, 1)
        for layer in range(num_layers):
            for suffix in self.suffixes():
                self.add_layer(f"l{layer}{suffix}", layer, device=device, dtype=dtype)
        self.reset_parameters()

    def suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def add_layer(self, name: str, layer: int, **like: Any) -> None:
        out = self.proj_size or self.hidden_size
        size = self.input_size if layer == 0 else out * len(self.suffixes())
        rows = self.gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, size), "weight_hh": (rows, out)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for kind, shape in shapes.items():
            setattr(self, f"{kind}_{name}", Parameter(F.empty(shape, **like)))

    def reset_parameters(self) -> None:
        """Draw all parameters uniform within 1/sqrt(hidden_size)."""
        draw(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing to do: the parameters need no common storage here."""

    @property
    def all_weights(self) -> list[list[Parameter | None]]:
        """The parameters of each layer and direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return [
            [self._parameters[f"{kind}_{name}"] for kind in kinds if f"{kind}_{name}" in self._parameters]
            for name in self.layer_names()
        ]

    def layer_names(self) -> Iterator[str]:
        return (f"l{layer}{suffix}" for layer in range(self.num_layers) for suffix in self.suffixes())

    def step(self) -> Step:
        steps = {"LSTM": lstm_step, "GRU": gru_step, "RNN_TANH": tanh_step, "RNN_RELU": relu_step}
        return steps[self.mode]

    # ---- forward ----------------------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Outputs of every step, and the last state of every layer and direction.

        input: (L, N, input_size), with `batch_first` (N, L, input_size), without a batch (L, input_size), or a
        PackedSequence. hx, zeros without: (layers * directions, N, size), of an LSTM a pair of such.
        """
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead"
            )
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        x = x.transpose(0, 1) if batched and self.batch_first else x
        self.check_width(x)
        state = self.initial(hx, x, x.shape[1], batched)
        out, last = self.layers(x, None, state)
        out = out.transpose(0, 1) if batched and self.batch_first else out
        if not batched:
            out, last = out.squeeze(1), tuple(s.squeeze(1) for s in last)
        return out, self.public(last)

    def forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        counts = [int(n) for n in input.batch_sizes.tolist()]
        self.check_width(input.data)
        state = self.initial(hx, input.data, counts[0], True)
        if hx is not None and input.sorted_indices is not None:
            state = tuple(s.index_select(1, input.sorted_indices) for s in state)
        out, last = self.layers(input.data, counts, state)
        if input.unsorted_indices is not None:
            last = tuple(s.index_select(1, input.unsorted_indices) for s in last)
        return PackedSequence(out, *input[1:]), self.public(last)

    def public(self, state: State) -> Any:
        return state if self.mode == "LSTM" else state[0]

    def check_width(self, x: Tensor) -> None:
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )

    def initial(self, hx: Any, x: Tensor, batch: int, batched: bool) -> State:
        """`hx` checked and with a batch axis; zeros where it is None."""
        count = self.num_layers * len(self.suffixes())
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: 2 if self.mode == "LSTM" else 1]
        if hx is None:
            return tuple(x.new_zeros((count, batch, size)) for size in sizes)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        for s in given:
            if s.ndim != (3 if batched else 2):
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be "
                    f"{3 if batched else 2}-D but got {s.ndim}-D tensor"
                )
        given = given if batched else tuple(s.unsqueeze(1) for s in given)
        for i, (s, size) in enumerate(zip(given, sizes, strict=True)):
            if tuple(s.shape) != (count, batch, size):
                name = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                wanted, got = (count, int(batch), size), [int(n) for n in s.shape]
                raise RuntimeError(f"Expected {name} size {wanted}, got {got}")
        return given

    def layers(self, x: Tensor, counts: list[int] | None, state: State) -> tuple[Tensor, State]:
        """All layers and directions over (L, N, size), or with `counts` over packed rows (rows, size)."""
        names, ways, ends = list(self.layer_names()), len(self.suffixes()), []
        for layer in range(self.num_layers):
            outputs = []
            for way in range(ways):
                k = layer * ways + way
                out, last = self.one(x, counts, tuple(s[k] for s in state), names[k], way == 1)
                outputs.append(out)
                ends.append(last)
            x = outputs[0] if ways == 1 else F.cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, tuple(F.stack(parts) for parts in zip(*ends, strict=True))

    def one(
        self, x: Tensor, counts: list[int] | None, state: State, name: str, back: bool
    ) -> tuple[Tensor, State]:
        weights = [getattr(self, f"{kind}_{name}", None) for kind in ("weight_hh", "bias_hh", "weight_hr")]
        # All steps' inputs in one product: what is left in the loop is the recurrence alone.
        projected = F.linear(x, getattr(self, f"weight_ih_{name}"), getattr(self, f"bias_ih_{name}", None))
        steps = projected.unbind(0) if counts is None else projected.split(counts)
        outputs, last = (run_back if back else run)(self.step(), steps, state, weights)
        return (F.stack(outputs) if counts is None else F.cat(outputs)), last

    def extra_repr(self) -> str:
        defaults: dict[str, Any] = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        defaults |= {"dropout": 0.0, "bidirectional": False}
        changed = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *changed])


def check_sizes(hidden_size: int, num_layers: int, dropout: float, proj_size: int) -> None:
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """Elman's layers: h' = tanh or relu of W_ih x + b_ih + W_hh h + b_hh."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers with an input, a forget and an output gate; gates in the weights in the order i, f, g, o."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Layers with a reset and an update gate; gates in the weights in the order r, z, n."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


# ---- cells ----------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step as a layer: (batch, input_size), or without a batch (input_size), and the state likewise."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows, like = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(F.empty((rows, input_size), **like))
        self.weight_hh = Parameter(F.empty((rows, hidden_size), **like))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(F.empty(rows, **like)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniform within 1/sqrt(hidden_size)."""
        draw(self, self.hidden_size)

    def advance(self, step: Step, input: Tensor, hx: State | None, states: int) -> State:
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead"
            )
        state = hx or (input.new_zeros((*input.shape[:-1], self.hidden_size)),) * states
        projected = F.linear(input, self.weight_ih, self.bias_ih)
        return step(projected, state, (self.weight_hh, self.bias_hh, None))

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        kind = getattr(self, "nonlinearity", "tanh")
        return shown if kind == "tanh" else f"{shown}, nonlinearity={kind}"


class RNNCell(RNNCellBase):
    """One step of `RNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = tanh_step if self.nonlinearity == "tanh" else relu_step
        return self.advance(step, input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of `LSTM`; state and result are (h, c)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> State:
        return self.advance(lstm_step, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self.advance(gru_step, input, None if hx is None else (hx,), 1)[0]
