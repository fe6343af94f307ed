"""Recurrent layers and cells that quantize their inputs and states by the moment's range.

Enters: float sequences [T, N, F] ([N, T, F] with batch_first, or packed) and first states. Leaves: floats, as the float
layers give them. Refuses: sizes that do not fit, weights of other dtypes than signed bytes and float16, float layers
without biases.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, Self

from ...... import _C, ops
from ......_C import Tensor
from ......nn import Module
from ......nn.modules import rnn as floats
from ......nn.modules.container import ModuleList
from ......nn.packing import PackedSequence
from ......op import find_op
from ....sources import expect_class, expect_qconfig
from ...modules.utils import _hide_packed_params_repr, _quantize_weight
from .linear import weight_observers

__all__ = [
    "pack_weight_bias", "PackedParameter", "RNNBase", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell",
    "apply_permutation",
]

_GATES = {"LSTM": 4, "GRU": 3}
_SIDES = ("ih", "hh")     # weights that meet the input, and weights that meet the state


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """`tensor.index_select(dim, permutation)`, which PyTorch says to call instead."""
    warnings.warn(
        "`apply_permutation` is deprecated: call tensor.index_select(dim, permutation)", FutureWarning, stacklevel=2
    )
    return _apply_permutation(tensor, permutation, dim)


def pack_weight_bias(qweight: Tensor, bias: Tensor | None, dtype: _C.dtype) -> Any:
    """A weight (quantized, or to be float16) and its bias, packed for products with floats."""
    prepack = ops.quantized.linear_prepack if dtype == _C.qint8 else ops.quantized.linear_prepack_fp16
    return prepack(qweight, bias)


def _expect_weight_dtype(dtype: _C.dtype) -> _C.dtype:
    if dtype not in (_C.qint8, _C.float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}. Use qint8 or float16")
    return dtype


def _quantized(weight: Tensor, make_observer: Callable, dtype: _C.dtype) -> Tensor:
    """A float weight as it is packed: signed bytes by an observer of its own, or floats."""
    if dtype == _C.float16:
        return weight.float()
    observer = make_observer()
    observer(weight)
    return _quantize_weight(weight.float(), observer)


def _cell_params(packed: list[Any], biases: list[Tensor], dtype: _C.dtype, version: int | None) -> Any:
    """The weights of one layer and direction, as the network's op takes them. Since version 2, inputs are quantized to
    7 bits, whose products cannot overflow."""
    if dtype == _C.float16:
        return ops.quantized.make_quantized_cell_params_fp16(*packed)
    reduced = version is not None and version >= 2
    return ops.quantized.make_quantized_cell_params_dynamic(*packed, *biases, reduced)


class PackedParameter(Module):
    """One layer's weights, in the state as the object they are packed into."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self.param = state_dict.pop(prefix + "param")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)


class RNNBase(Module):
    """What LSTM and GRU share."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.RNNBase
    _version = 2

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, dtype: _C.dtype = _C.qint8,
    ) -> None:
        super().__init__()
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout: expected a probability, a number in [0, 1], got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout stands between layers, so it has no effect on a single one: "
                          f"got dropout={dropout} and num_layers={num_layers}", stacklevel=2)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.dtype = dtype
        self.version: int | None = 2
        self.training = False
        self._all_weight_values = ModuleList([self._drawn_layer(layer) for layer, _ in self._parts()])

    def _parts(self) -> Iterator[tuple[int, str]]:
        """(layer, suffix of its float parameters' names) of every layer and direction, in the order they are kept."""
        for layer in range(self.num_layers):
            for back in ("", "_reverse") if self.bidirectional else ("",):
                yield layer, f"_l{layer}{back}"

    def _drawn_layer(self, layer: int) -> PackedParameter:
        """Weights to begin with."""
        gates, randn = _GATES[self.mode] * self.hidden_size, find_op("randn")
        wide = self.input_size if layer == 0 else self.hidden_size * (2 if self.bidirectional else 1)
        drawn = [randn(*shape) for shape in ((gates, wide), (gates, self.hidden_size), (gates,), (gates,))]
        weights, biases = drawn[:2], drawn[2:]
        if self.dtype == _C.qint8:
            quantize = find_op("quantize_per_tensor")
            weights = [quantize(weight, scale=0.1, zero_point=0, dtype=_C.qint8) for weight in weights]
        return self._packed(weights, biases)

    def _packed(self, weights: list[Tensor], biases: list[Any]) -> PackedParameter:
        dtype = _C.qint8 if weights[0].dtype == _C.qint8 else _C.float16
        packed = [pack_weight_bias(weight, bias, dtype) for weight, bias in zip(weights, biases)]
        return PackedParameter(_cell_params(packed, biases, dtype, self.version))

    def _get_name(self) -> str:
        return "DynamicQuantizedRNN"

    extra_repr = floats.RNNBase.extra_repr
    proj_size = 0     # the text of float layers names it

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, (PackedParameter, ModuleList))

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuses inputs of another rank or width."""
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"the last dim of input must have size input_size={self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The sizes that states must have."""
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Refuses a state of other sizes."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuses sizes that do not fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        states = hidden if isinstance(hidden, tuple | list) else (hidden,)
        for index, state in enumerate(states):
            which = f"hidden[{index}]" if len(states) > 1 else "hidden"
            self.check_hidden_size(state, expected, f"Expected {which} size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states in another order of the batch."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple | list):
            return tuple(_apply_permutation(state, permutation) for state in hx)
        return _apply_permutation(hx, permutation)

    def _zero_states(self, zeros: Tensor) -> Any:
        return zeros

    def _network(self, input: Tensor, hx: Any, params: list[Any], batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def forward_impl(
        self, input: Tensor, hx: Any, batch_sizes: Tensor | None, max_batch_size: int, sorted_indices: Tensor | None
    ) -> tuple[Tensor, Any]:
        """(outputs, last states) from checked arguments."""
        if hx is None:
            count = self.num_layers * (2 if self.bidirectional else 1)
            hx = self._zero_states(input.new_zeros((count, max_batch_size, self.hidden_size)))
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        return self._network(input, hx, [layer.param for layer in self._all_weight_values], batch_sizes)

    def _options(self, batch_sizes: Tensor | None) -> tuple:
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        return (*options, self.batch_first) if batch_sizes is None else options

    def forward_tensor(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """(outputs of the last layer, last states of all layers) of padded sequences."""
        return self.forward_impl(input, hx, None, input.size(0 if self.batch_first else 1), None)

    def forward_packed(self, input: PackedSequence, hx: Any = None) -> tuple[PackedSequence, Any]:
        """The same of packed sequences."""
        data, batch_sizes, order, back = input
        out, last = self.forward_impl(data, hx, batch_sizes, int(batch_sizes[0]), order)
        return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(last, back)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        return self.forward_tensor(input, hx)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def set_weight_bias(self, weight_bias_dict: dict[str, Any]) -> None:
        """Pack weights (quantized, or floats for float16) and biases, by the names of the float layer's parameters."""
        self._all_weight_values = ModuleList([
            self._packed(*(
                [weight_bias_dict[f"{kind}_{side}{suffix}"] for side in _SIDES] for kind in ("weight", "bias")
            ))
            for _, suffix in self._parts()
        ])

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float LSTM or GRU with a qconfig and biases."""
        method = f"nn.quantized.dynamic.{cls.__name__}.from_float"
        expect_class(method, mod, (floats.LSTM, floats.GRU))
        expect_qconfig(method, mod, may_be_none=True)
        make_observer = weight_observers(mod)
        dtype = _expect_weight_dtype(make_observer().dtype)
        if not mod.bias:
            raise AssertionError(f"{method}: mod.bias must be True, got {mod.bias}: its kernels add biases")
        result = {"LSTM": LSTM, "GRU": GRU}[mod.mode](
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional,
            dtype,
        )
        values = {name: getattr(mod, name) for _, suffix in result._parts() for side in _SIDES
                  for name in (f"weight_{side}{suffix}", f"bias_{side}{suffix}")}
        result.set_weight_bias({
            name: _quantized(value, make_observer, dtype) if name.startswith("weight") else value
            for name, value in values.items()
        })
        return result

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for (_, suffix), layer in zip(self._parts(), self._all_weight_values):
            for side, packed in zip(_SIDES, layer.param.__getstate__()[0][4]):
                weight, bias = packed.__getstate__()[0][:2]
                found["weight"][f"weight_{side}{suffix}"] = weight
                found["bias"][f"bias_{side}{suffix}"] = bias
        return found

    def get_weight(self) -> dict[str, Tensor]:
        """The weights, by the names of the float layer's parameters."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Tensor]:
        """The biases, by the names of the float layer's parameters."""
        return self._weight_bias()["bias"]

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Self:
        """From a reference layer."""
        if not hasattr(ref_mod, "weight_ih_l0_dtype"):
            raise AssertionError(f"{cls.__name__}.from_reference: expected qparams of weight_ih_l0, got none")
        result = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias, ref_mod.batch_first,
            ref_mod.dropout, ref_mod.bidirectional, ref_mod.weight_ih_l0_dtype,
        )
        result.set_weight_bias(ref_mod.get_quantized_weight_bias_dict())
        return result


class LSTM(RNNBase):
    """Long short-term memory; states are pairs (h, c)."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.LSTM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

    def _zero_states(self, zeros: Tensor) -> Any:
        return zeros, zeros

    def _network(self, input: Tensor, hx: Any, params: list[Any], batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        packed = () if batch_sizes is None else (batch_sizes,)
        out, *last = find_op("quantized_lstm")(
            input, *packed, hx, params, *self._options(batch_sizes), dtype=self.dtype, use_dynamic=True
        )
        return out, tuple(last)


class GRU(RNNBase):
    """A gated recurrent unit."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.GRU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRU"

    def _network(self, input: Tensor, hx: Any, params: list[Any], batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        packed = () if batch_sizes is None else (batch_sizes,)
        out, last = find_op("quantized_gru")(input, *packed, hx, params, *self._options(batch_sizes))
        return out, last


class RNNCellBase(Module):
    """What the cells share. As in PyTorch, the biases of a converted cell are those packed with its weights."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4, dtype: _C.dtype = _C.qint8
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_dtype = dtype
        gates, randn = num_chunks * hidden_size, find_op("randn")
        for side in _SIDES:
            if bias:
                setattr(self, f"bias_{side}", randn(gates))
            else:
                self.register_parameter(f"bias_{side}", None)
        for side, wide in zip(_SIDES, (input_size, hidden_size)):
            weight = randn(gates, wide)
            if dtype == _C.qint8:
                weight = find_op("quantize_per_tensor")(weight, scale=1, zero_point=0, dtype=_C.qint8)
            setattr(self, f"_packed_weight_{side}", pack_weight_bias(weight, getattr(self, f"bias_{side}"), dtype))

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNBase"

    extra_repr = floats.RNNCellBase.extra_repr

    def check_forward_input(self, input: Tensor) -> None:
        """Refuses inputs of another width."""
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}"
            )

    def check_forward_hidden(self, input: Tensor, hx: Tensor, hidden_label: str = "") -> None:
        """Refuses states of another batch or width."""
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}"
            )
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected {self.hidden_size}"
            )

    def _step(self, kind: str, input: Tensor, hx: Any) -> Any:
        function = getattr(ops.quantized, f"quantized_{kind}_cell_dynamic")
        return function(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)

    def _one_state(self, input: Tensor, hx: Tensor | None) -> Tensor:
        """The state, checked, or zeros."""
        self.check_forward_input(input)
        hx = input.new_zeros((input.size(0), self.hidden_size)) if hx is None else hx
        self.check_forward_hidden(input, hx)
        return hx

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float cell with a qconfig and biases."""
        method = f"nn.quantized.dynamic.{cls.__name__}.from_float"
        expect_class(method, mod, (floats.LSTMCell, floats.GRUCell, floats.RNNCell))
        expect_qconfig(method, mod, may_be_none=True)
        make_observer = weight_observers(mod)
        dtype = _expect_weight_dtype(make_observer().dtype)
        if not mod.bias:
            raise AssertionError(f"{method}: mod.bias must be True, got {mod.bias}: its kernels add biases")
        kind = {floats.LSTMCell: LSTMCell, floats.GRUCell: GRUCell, floats.RNNCell: RNNCell}[type(mod)]
        options = {"nonlinearity": mod.nonlinearity} if kind is RNNCell else {}
        result = kind(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **options)
        weights = {name: _quantized(getattr(mod, name), make_observer, dtype) for name in ("weight_ih", "weight_hh")}
        result.set_weight_bias({"weight": weights, "bias": {"bias_ih": mod.bias_ih, "bias_hh": mod.bias_hh}})
        return result

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Self:
        """From a reference cell."""
        if not hasattr(ref_mod, "weight_ih_dtype"):
            raise AssertionError(f"{cls.__name__}.from_reference: expected qparams of weight_ih, got none")
        options = {"nonlinearity": ref_mod.nonlinearity} if hasattr(ref_mod, "nonlinearity") else {}
        result = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias, dtype=ref_mod.weight_ih_dtype, **options
        )
        result.set_weight_bias({
            "weight": {"weight_ih": ref_mod.get_quantized_weight_ih(), "weight_hh": ref_mod.get_quantized_weight_hh()},
            "bias": {"bias_ih": ref_mod.bias_ih, "bias_hh": ref_mod.bias_hh},
        })
        return result

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for side in _SIDES:
            weight, bias = getattr(self, f"_packed_weight_{side}").__getstate__()[0][:2]
            found["weight"][f"weight_{side}"], found["bias"][f"bias_{side}"] = weight, bias
        return found

    def get_weight(self) -> dict[str, Tensor]:
        """The weights, by the names of the float cell's parameters."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Tensor]:
        """The biases, by the names of the float cell's parameters."""
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict: dict[str, dict[str, Any]]) -> None:
        """Pack weights (quantized, or floats for float16) and biases."""
        for side in _SIDES:
            packed = pack_weight_bias(
                weight_bias_dict["weight"][f"weight_{side}"], weight_bias_dict["bias"][f"bias_{side}"],
                self.weight_dtype,
            )
            setattr(self, f"_packed_weight_{side}", packed)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for side in _SIDES:
            destination[f"{prefix}_packed_weight_{side}"] = getattr(self, f"_packed_weight_{side}")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        for side in _SIDES:
            setattr(self, f"_packed_weight_{side}", state_dict.pop(f"{prefix}_packed_weight_{side}"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def forward(self, input: Tensor, hx: Any = None) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__}: use RNNCell, GRUCell or LSTMCell")


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: _C.dtype = _C.qint8,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:  # type: ignore[override]
        hx = self._one_state(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}", input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, num_chunks=4, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTMCell"

    def forward(  # type: ignore[override]
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        self.check_forward_input(input)
        if hx is None:
            hx = (input.new_zeros((input.size(0), self.hidden_size)),) * 2
        for index, state in enumerate(hx):
            self.check_forward_hidden(input, state, f"[{index}]")
        return self._step("lstm", input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: _C.dtype = _C.qint8) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRUCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self._step("gru", input, self._one_state(input, hx))
