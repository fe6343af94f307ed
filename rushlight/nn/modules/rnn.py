"""Recurrent layers: RNN, LSTM, GRU and their cells, over padded or packed sequences.

Enters: sequences [T, N, F] ([N, T, F] with batch_first, [T, F] alone, or packed) and first states. Leaves: the last
layer's outputs and the last states. Refuses: sizes that do not fit, with the sizes.
The networks themselves are ops (definitions/sequence/recurrence.py).
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import init
from ..packing import PackedSequence
from ..parameter import Parameter
from .descriptions import describe_layers
from .module import Module

_empty = find_op("empty")
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_NETWORKS = {mode: find_op(mode.lower()) for mode in _GATES}
_CELLS = {mode: find_op(mode.lower() + "_cell") for mode in _GATES}
States = tuple[Tensor, ...]


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters named by layer and direction, and the walk through them.

    Arguments:
        mode: which cell: `LSTM`, `GRU`, `RNN_TANH` or `RNN_RELU`
        bidirectional: whether a second pass goes backwards
        proj_size: features that the state is projected to; 0 for no projection

    Shape:
        input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output in that order, with
        hidden_size features for each direction, and the state (layers times directions, N, hidden_size)

    Example:
        >>> layer = rl.nn.RNNBase('GRU', 3, 5)
        >>> tuple(layer(rl.ones(4, 2, 3))[0].shape)
        (4, 2, 5)
    """

    __constants__ = (
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    )

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_settings(dropout)
        self._flat_weights_names: list[str] = []
        gates = _GATES[mode] * hidden_size
        state = proj_size or hidden_size
        for layer in range(num_layers):
            wide = input_size if layer == 0 else state * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (gates, wide), "weight_hh": (gates, state)}
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(_empty(shape, device=device, dtype=dtype)))
                    self._flat_weights_names.append(name + suffix)
        self.reset_parameters()

    def _check_settings(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout: expected a probability, a number in [0, 1]")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn("dropout stands between layers, so it has no effect on a single one: "
                          f"got dropout={dropout} and num_layers={self.num_layers}", stacklevel=4)
        if not isinstance(self.hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}")
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size: expected a whole number above 0, or 0 for no projection")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size must lie below hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def reset_parameters(self) -> None:
        """Uniform over ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: the weights need not lie side by side."""

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def __getstate__(self) -> dict[str, Any]:
        """What PyTorch's layers keep besides comes along: it loads modules pickled here."""
        names = [[name for name in self._flat_weights_names if name.partition("_l")[2] == suffix[2:]]
                 for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return {**super().__getstate__(), "_flat_weights": self._flat_weights, "_all_weights": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(
            {
                name: value
                for name, value in state.items()
                if name not in ("_flat_weights", "_all_weights", "_flat_weight_refs")
            }
        )
        self.__dict__.setdefault("proj_size", 0)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights per layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [
            [getattr(self, name) for name in self._flat_weights_names if name.partition("_l")[2] == suffix[2:]]
            for suffix in suffixes
        ]

    def extra_repr(self) -> str:
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        text = f"{self.input_size}, {self.hidden_size}"
        return text + "".join(
            f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value
        )

    def _state_widths(self) -> list[int]:
        return [self.proj_size or self.hidden_size]

    def _first_states(self, given: Any, data: Tensor, batch: int, order: Tensor | None) -> States:
        """The states to begin with, checked, or zeros; in the order of a packed batch."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        widths = self._state_widths()
        if given is None:
            return tuple(data.new_zeros((count, batch, width)) for width in widths)
        for state, width, which in zip(given, widths, ("hidden[0]", "hidden[1]")):
            if tuple(state.shape) != (count, batch, width):
                which = which if len(widths) == 2 else "hidden"
                raise RuntimeError(f"Expected {which} size {(count, batch, width)}, got {list(state.shape)}")
        return tuple(given) if order is None else tuple(state.index_select(1, order) for state in given)

    def _weights(self) -> list[Tensor]:
        """What the network's op takes; layers that round their weights have others."""
        return self._flat_weights

    def _run(self, input: Tensor, states: States, *packed: Tensor) -> tuple[Tensor, States]:
        """The network's op: over padded sequences, or over rows with their number at every step in `packed`."""
        hx = list(states) if self.mode == "LSTM" else states[0]
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if not packed:
            options = (*options, self.batch_first)
        out, *last = _NETWORKS[self.mode](input, *packed, hx, self._weights(), *options)
        return out, tuple(last)

    def _forward(self, input: Any, given: States | None) -> tuple[Any, States]:
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            self._check_width(data)
            out, last = self._run(data, self._first_states(given, data, int(batch_sizes[0]), order), batch_sizes)
            if back is not None:
                last = tuple(state.index_select(1, back) for state in last)
            return PackedSequence(out, batch_sizes, order, back), last
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        alone = input.dim() == 2
        for state in given or ():
            if state.dim() != input.dim():
                kind = "unbatched 2-D" if alone else "batched 3-D"
                raise RuntimeError(
                    f"For {kind} input, hx should also be {input.dim()}-D but got {state.dim()}-D tensor"
                )
        self._check_width(input)
        if alone:
            states = self._first_states(
                None if given is None else tuple(state.unsqueeze(1) for state in given), input, 1, None
            )
            at = 0 if self.batch_first else 1
            out, last = self._run(input.unsqueeze(at), states)
            return out.squeeze(at), tuple(state.squeeze(1) for state in last)
        return self._run(input, self._first_states(given, input, input.shape[0 if self.batch_first else 1], None))

    def _check_width(self, data: Tensor) -> None:
        if data.size(-1) != self.input_size:
            raise RuntimeError(
                f"the last dim of input must have size input_size={self.input_size}, got {data.size(-1)}"
            )

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """(outputs of the last layer, last states of all layers)."""
        out, last = self._forward(input, None if hx is None else (hx,))
        return out, last[0]


class RNN(RNNBase):
    """h = tanh(W x + b + U h + c), or relu.

    Arguments:
        *args: as for `RNNBase`, without `mode`, and `nonlinearity`

    Example:
        >>> layer = rl.nn.RNN(3, 5, batch_first=True)
        >>> tuple(layer(rl.ones(2, 4, 3))[0].shape)
        (2, 4, 5)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size: only an LSTM has projections")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """A gated recurrent unit.

    Arguments:
        *args: as for `RNNBase`, without `mode`

    Example:
        >>> layer = rl.nn.GRU(3, 5, batch_first=True)
        >>> tuple(layer(rl.ones(2, 4, 3))[0].shape)
        (2, 4, 5)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size: only an LSTM has projections")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: states are pairs (h, c); proj_size makes h narrower.

    Arguments:
        *args: as for `RNNBase`, without `mode`

    Shape:
        input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output in that order, with
        hidden_size features for each direction, and the state (layers times directions, N, hidden_size), and its cell

    Example:
        >>> layer = rl.nn.LSTM(3, 5, batch_first=True)
        >>> tuple(layer(rl.ones(2, 4, 3))[0].shape)
        (2, 4, 5)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _state_widths(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size]

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """(outputs of the last layer, (last h, last c) of all layers)."""
        return self._forward(input, hx)


class RNNCellBase(Module):
    """What the cells share.

    Arguments:
        num_chunks: gates, each with weights of its own
    """

    mode = "RNN_TANH"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(_empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(_empty((gates,), device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"

    def _next(self, input: Tensor, given: Any, count: int) -> States:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(given or ()):
            if state.dim() not in (1, 2):
                which = f"hx[{i}]" if count > 1 else "hidden"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        alone = input.dim() == 1
        rows = input.unsqueeze(0) if alone else input
        if given is None:
            states = (rows.new_zeros((rows.size(0), self.hidden_size)),) * count
        else:
            states = tuple(state.unsqueeze(0) if alone else state for state in given)
        result = _CELLS[self.mode](rows, states[0] if count == 1 else list(states), *self._weights())
        result = result if isinstance(result, tuple) else (result,)
        return tuple(state.squeeze(0) for state in result) if alone else result

    def _weights(self) -> tuple:
        """What the op takes after the states; layers that round their weights have others."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        return self._next(input, None if hx is None else (hx,), 1)[0]


class RNNCell(RNNCellBase):
    """One step of an RNN.

    Arguments:
        nonlinearity: `tanh` or `relu`

    Shape:
        input (N, input_size) or (input_size,) and a state with hidden_size features; output the new state

    Example:
        >>> layer = rl.nn.RNNCell(3, 5)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 5)
    """

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
        """The next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return super().forward(input, hx)

    @property
    def mode(self) -> str:
        """How `step` calls this kind."""
        return "RNN_" + self.nonlinearity.upper()


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Shape:
        input (N, input_size) or (input_size,) and a state with hidden_size features; output the new state

    Example:
        >>> layer = rl.nn.GRUCell(3, 5)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 5)
    """

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Shape:
        input (N, input_size) or (input_size,) and a pair of states with hidden_size features; output the new pair

    Example:
        >>> layer = rl.nn.LSTMCell(3, 5)
        >>> tuple(layer(rl.ones(2, 3))[0].shape)
        (2, 5)
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next (h, c)."""
        return self._next(input, hx, 2)


describe_layers(globals())
