"""LSTMs made of linear layers, activations and sums that can each be observed.

Enters: sequences, floats or (once converted) quantized. Leaves: what an LSTM gives. Refuses: other modules than float
LSTMs to be made from, modules without a qconfig.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any, ClassVar, NoReturn, Self

from ..... import _C
from ....._C import Tensor
from .....base import late
from .....nn import Module, Parameter
from .....nn.modules import rnn as floats
from .....nn.modules.activation import Sigmoid, Tanh
from .....nn.modules.container import ModuleDict, ModuleList
from .....nn.modules.linear import Linear
from .....op import find_op
from ...quantized.modules.functional_modules import FloatFunctional
from ...sources import expect_class

__all__ = ["LSTMCell", "LSTM"]

_GATES = ("input", "forget", "cell", "output")
_tanh = find_op("tanh")


class LSTMCell(Module):
    """One step of an LSTM. With `split_gates`, each gate has linear layers (and later scales) of its own."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.LSTMCell
    __constants__ = ["split_gates"]

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.input_size = input_dim
        self.hidden_size = hidden_dim
        self.bias = bias
        self.split_gates = split_gates
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.igates: Any
        self.hgates: Any
        self.gates: Any
        if split_gates:
            self.igates, self.hgates, self.gates = ModuleDict(), ModuleDict(), ModuleDict()
            for name in _GATES:
                self.igates[name] = Linear(input_dim, hidden_dim, **options)
                self.hgates[name] = Linear(hidden_dim, hidden_dim, **options)
                self.gates[name] = FloatFunctional()
        else:
            self.igates = Linear(input_dim, 4 * hidden_dim, **options)
            self.hgates = Linear(hidden_dim, 4 * hidden_dim, **options)
            self.gates = FloatFunctional()
        self.input_gate = Sigmoid()
        self.forget_gate = Sigmoid()
        self.cell_gate = Tanh()
        self.output_gate = Sigmoid()
        self.fgate_cx = FloatFunctional()
        self.igate_cgate = FloatFunctional()
        self.fgate_cx_igate_cgate = FloatFunctional()
        self.ogate_cy = FloatFunctional()
        # How zeros are quantized that stand for the first state.
        self.initial_hidden_state_qparams: tuple[float, int] = (1.0, 0)
        self.initial_cell_state_qparams: tuple[float, int] = (1.0, 0)
        self.hidden_state_dtype: _C.dtype = _C.quint8
        self.cell_state_dtype: _C.dtype = _C.quint8

    def _gate_values(self, x: Tensor, hx: Tensor) -> Any:
        """The four gates before their activations."""
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(hx)).chunk(4, 1)
        return [self.gates[name].add(self.igates[name](x), self.hgates[name](hx)) for name in _GATES]

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, Tensor]:
        """(h, c) after x."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        of_input, of_forget, of_cell, of_output = self._gate_values(x, hx)
        taken = self.input_gate(of_input)
        kept = self.forget_gate(of_forget)
        news = self.cell_gate(of_cell)
        shown = self.output_gate(of_output)
        remembered, learned = self.fgate_cx.mul(kept, cx), self.igate_cgate.mul(taken, news)
        cy = self.fgate_cx_igate_cgate.add(remembered, learned)
        return self.ogate_cy.mul(shown, _tanh(cy)), cy

    def initialize_hidden(self, batch_size: int, is_quantized: bool = False) -> tuple[Tensor, Tensor]:
        """Zeros, quantized where the input is."""
        h, c = (find_op("zeros")((batch_size, self.hidden_size)) for _ in range(2))
        if is_quantized:
            quantize = find_op("quantize_per_tensor")
            h = quantize(h, *self.initial_hidden_state_qparams, self.hidden_state_dtype)
            c = quantize(c, *self.initial_cell_state_qparams, self.cell_state_dtype)
        return h, c

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Tensor | None = None, bh: Tensor | None = None, split_gates: bool = False
    ) -> Self:
        """A cell over these weights and biases. Refuses one bias without the other."""
        if (bi is None) != (bh is None):
            raise AssertionError("LSTMCell.from_params: expected both biases or none, got one of them")
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        for layers, weight, bias in ((cell.igates, wi, bi), (cell.hgates, wh, bh)):
            linears = list(layers.values()) if split_gates else [layers]
            for name, value in (("weight", weight), ("bias", bias)):
                parts = () if value is None else value.chunk(4, dim=0) if split_gates else (value,)
                for linear, part in zip(linears, parts):
                    setattr(linear, name, Parameter(part))
        return cell

    @classmethod
    def from_float(cls, other: Any, use_precomputed_fake_quant: bool = False, split_gates: bool = False) -> Self:
        """From a float cell with a qconfig, which its parts get too."""
        expect_class("quantizable.LSTMCell.from_float", other, cls._FLOAT_MODULE)
        if not hasattr(other, "qconfig"):
            raise AssertionError("quantizable.LSTMCell.from_float: The float module must have 'qconfig'")
        observed = cls.from_params(
            other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates=split_gates
        )
        parts = [observed, observed.igates, observed.hgates]
        if split_gates:
            parts += [*observed.igates.values(), *observed.hgates.values()]
        for part in parts:
            part.qconfig = other.qconfig
        return observed


class _LSTMSingleLayer(Module):
    """A cell walked along a sequence [T, N, F]."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.cell = LSTMCell(
            input_dim, hidden_dim, bias=bias, split_gates=split_gates, device=device, dtype=dtype
        )

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, Any]:
        outputs = []
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
            outputs.append(hidden[0])
        return find_op("stack")(outputs, 0), hidden

    @classmethod
    def from_params(cls, *args: Any, **kwargs: Any) -> Self:
        """A layer over these weights and biases."""
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


class _LSTMLayer(Module):
    """One layer of an LSTM, in one direction or both."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, device: Any = None, dtype: Any = None, *, split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        for name in ("layer_fw", "layer_bw") if bidirectional else ("layer_fw",):
            setattr(self, name, _LSTMSingleLayer(
                input_dim, hidden_dim, bias=bias, split_gates=split_gates, device=device, dtype=dtype
            ))

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if self.batch_first:
            x = x.transpose(0, 1)
        stack = find_op("stack")
        hx, cx = (None, None) if hidden is None else hidden
        if self.bidirectional:
            starts = [
                None if hx is None or cx is None else (hx[direction], cx[direction]) for direction in range(2)
            ]
            result, there = self.layer_fw(x, starts[0])
            backwards, back = self.layer_bw(x.flip(0), starts[1])
            result = find_op("cat")([result, backwards.flip(0)], result.dim() - 1)
            h, c = stack([there[0], back[0]], 0), stack([there[1], back[1]], 0)
        else:
            result, (h, c) = self.layer_fw(x, None if hx is None and cx is None else (hx, cx))
        if self.batch_first:
            result = result.transpose(0, 1)
        return result, (h, c)

    @classmethod
    def from_float(cls, other: Any, layer_idx: int = 0, qconfig: Any = None, **kwargs: Any) -> Self:
        """The layer of this number of a float LSTM; `kwargs` replace its settings."""
        if not hasattr(other, "qconfig") and qconfig is None:
            raise AssertionError("quantizable.LSTM.from_float: expected a qconfig, on the module or as an argument")
        settings = [
            kwargs.get(name, getattr(other, name))
            for name in ("input_size", "hidden_size", "bias", "batch_first", "bidirectional")
        ]
        split_gates = kwargs.get("split_gates", False)
        layer = cls(*settings, split_gates=split_gates)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        ways = {"layer_fw": "", "layer_bw": "_reverse"} if other.bidirectional else {"layer_fw": ""}
        for name, suffix in ways.items():
            weights = [
                getattr(other, f"{kind}_l{layer_idx}{suffix}", None)
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            setattr(layer, name, _LSTMSingleLayer.from_params(*weights, split_gates=split_gates))
        return layer


class LSTM(Module):
    """Long short-term memory whose parts can be observed; `layers` holds them. It starts in evaluation mode."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.LSTM

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.training = False
        self._check_dropout(dropout)
        self.layers = ModuleList([
            _LSTMLayer(
                input_size if layer == 0 else hidden_size, hidden_size, bias, batch_first=False,
                bidirectional=bidirectional, split_gates=split_gates, device=device, dtype=dtype,
            )
            for layer in range(num_layers)
        ])

    def _check_dropout(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout: expected a probability, a number in [0, 1], got {dropout!r}")
        if dropout > 0:
            warnings.warn(
                f"dropout option for quantizable LSTM is ignored, got {dropout}: train nn.LSTM, then prepare() it",
                stacklevel=3,
            )
            if self.num_layers == 1:
                warnings.warn("dropout stands between layers, so it has no effect on a single one: "
                              f"got dropout={dropout} and num_layers={self.num_layers}", stacklevel=3)

    def _first_states(self, x: Tensor, hidden: Any) -> Any:
        """(h, c) of every layer to begin with."""
        directions, batch = 2 if self.bidirectional else 1, x.size(1)
        if hidden is None:
            zeros = find_op("zeros")(directions, batch, self.hidden_size, dtype=_C.float32, device=x.device).squeeze(0)
            if x.is_quantized:
                zeros = find_op("quantize_per_tensor")(zeros, scale=1.0, zero_point=0, dtype=x.dtype)
            return [(zeros, zeros)] * self.num_layers
        if not isinstance(hidden[0], Tensor):
            return hidden
        hx, cx = (
            state.reshape(self.num_layers, directions, batch, self.hidden_size) for state in (hidden[0], hidden[1])
        )
        return [(hx[layer].squeeze(0), cx[layer].squeeze(0)) for layer in range(self.num_layers)]

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(outputs of the last layer, (last h, last c) of all layers)."""
        if self.batch_first:
            x = x.transpose(0, 1)
        states = []
        for layer, start in zip(self.layers, self._first_states(x, hidden)):
            x, state = layer(x, start)
            states.append(state)
        last = []
        for values in zip(*states):
            stacked = find_op("stack")(list(values))
            last.append(stacked.reshape(-1, stacked.shape[-2], stacked.shape[-1]))
        if self.batch_first:
            x = x.transpose(0, 1)
        return x, (last[0], last[1])

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Any, qconfig: Any = None, split_gates: bool = False) -> Any:
        """From a float LSTM with a qconfig: the module, with observers at its parts (or rounding, in training)."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("quantizable.LSTM.from_float: expected a qconfig, on the module or as an argument")
        observed = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout,
            other.bidirectional, split_gates=split_gates,
        )
        observed.qconfig = getattr(other, "qconfig", qconfig)
        for layer in range(other.num_layers):
            observed.layers[layer] = _LSTMLayer.from_float(
                other, layer, qconfig, batch_first=False, split_gates=split_gates
            )
        observed.train(other.training)
        prepare = late.provided("quantization.prepare_qat" if other.training else "quantization.prepare")
        return prepare(observed, inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> NoReturn:
        """Refuses: quantized.LSTM is what an observed module becomes."""
        raise NotImplementedError(
            f"quantizable.LSTM.from_observed: {type(other).__name__} becomes quantized.LSTM. Convert with the default"
            " convert_custom_config_dict, or map quantizable.LSTM to quantized.LSTM in yours"
        )
