"""Recurrent layers and cells whose weights are rounded to integers and back on every call.

Enters: as the float layers. Leaves: the same. Refuses: schemes other than one scale for a tensor, or for each row.
"""

from __future__ import annotations

from typing import Any, Self

from ......_C import Tensor, float32, int32
from ......base.quantizers import per_channel_affine, per_tensor_affine
from ......nn import Module
from ......nn.modules import rnn as floats
from .utils import DEFAULT_QPARAMS, _quantize_and_dequantize_weight, _quantize_weight, as_buffer

__all__ = ["RNNCellBase", "RNNCell", "LSTMCell", "GRUCell", "RNNBase", "LSTM", "GRU", "get_quantized_weight"]


def _get_weight_and_quantization_params(module: Any, wn: str) -> list[Any]:
    """A weight and what is known of how it is quantized, None for what is not."""
    ends = ("_qscheme", "_dtype", "_scale", "_zero_point", "_axis_int")
    return [getattr(module, wn), *(getattr(module, wn + end, None) for end in ends)]


def get_quantized_weight(module: Any, wn: str) -> Tensor | None:
    """A weight of this name as a quantized tensor; None if there is none."""
    return _quantize_weight(*_get_weight_and_quantization_params(module, wn)) if hasattr(module, wn) else None


def _get_quantize_and_dequantized_weight(module: Any, wn: str) -> Tensor | None:
    """A weight of this name, rounded; None if there is none."""
    if not hasattr(module, wn):
        return None
    return _quantize_and_dequantize_weight(*_get_weight_and_quantization_params(module, wn))


class _ManyWeights(Module):
    """A layer with several weights, each with qparams of its own, kept as buffers."""

    _qparam = staticmethod(as_buffer)     # layers keep them in the dtypes of the op, cells as they come

    def _init_weight_qparams_dict(self, weight_qparams_dict: dict[str, Any], device: Any) -> None:
        if weight_qparams_dict is None:
            raise AssertionError(f"{self._get_name()}: weight_qparams_dict must not be None")
        self.is_decomposed = weight_qparams_dict["is_decomposed"]
        for name, given in weight_qparams_dict.items():
            if name == "is_decomposed":
                continue
            qscheme = given["qscheme"]
            setattr(self, name + "_qscheme", qscheme)
            setattr(self, name + "_dtype", given["dtype"])
            if qscheme not in (None, per_tensor_affine, per_channel_affine):
                raise AssertionError(f"qscheme: {qscheme} is not supported in {self._get_name()}")
            if qscheme is None:
                continue
            axis = given["axis"] if qscheme == per_channel_affine else 0
            for end, value, dtype in (
                ("_scale", given["scale"], float32), ("_zero_point", given["zero_point"], int32), ("_axis", axis, int32)
            ):
                self.register_buffer(name + end, self._qparam(value, dtype, device))
            setattr(self, name + "_axis_int", int(getattr(self, name + "_axis").item()))


class RNNCellBase(_ManyWeights, floats.RNNCellBase):
    """What the cells share."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None,
        weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:
        floats.RNNCellBase.__init__(self, input_size, hidden_size, bias, num_chunks, device=device, dtype=dtype)
        if weight_qparams_dict is None:
            weight_qparams_dict = {
                "weight_ih": DEFAULT_QPARAMS, "weight_hh": DEFAULT_QPARAMS, "is_decomposed": False
            }
        if len(weight_qparams_dict) != 3:
            raise AssertionError(
                f"{self._get_name()}: weight_qparams_dict must hold weight_ih, weight_hh and is_decomposed, got"
                f" {list(weight_qparams_dict)}"
            )
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    def get_quantized_weight_ih(self) -> Tensor | None:
        """The input's weight as a quantized tensor."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self) -> Tensor | None:
        """The state's weight as a quantized tensor."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self) -> Tensor | None:
        """The input's weight, rounded."""
        return _get_quantize_and_dequantized_weight(self, "weight_ih")

    def get_weight_hh(self) -> Tensor | None:
        """The state's weight, rounded."""
        return _get_quantize_and_dequantized_weight(self, "weight_hh")

    def _weights(self) -> tuple:
        return self.get_weight_ih(), self.get_weight_hh(), self.bias_ih, self.bias_hh

    @classmethod
    def from_float(
        cls, mod: Any, weight_qparams_dict: dict[str, Any], use_precomputed_fake_quant: bool = False
    ) -> Self:
        """From a float cell and the qparams of its weights."""
        kind = (mod.nonlinearity,) if hasattr(mod, "nonlinearity") else ()
        given = mod.weight_ih
        result = cls(
            mod.input_size, mod.hidden_size, mod.bias, *kind, given.device, given.dtype, weight_qparams_dict
        )
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(result, name, getattr(mod, name))
        return result


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    mode = floats.RNNCell.mode

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None, weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype, weight_qparams_dict)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return super().forward(input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None,
        weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype, weight_qparams_dict)

    def forward(  # type: ignore[override]
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The next (h, c)."""
        return self._next(input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None,
        weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype, weight_qparams_dict)


class RNNBase(_ManyWeights, floats.RNNBase):
    """What LSTM and GRU share."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None, weight_qparams_dict: dict[str, Any] | None = None,
    ) -> None:
        floats.RNNBase.__init__(
            self, mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
            device, dtype,
        )
        if weight_qparams_dict is None:
            weights = (name for name in self._flat_weights_names if name.startswith("weight"))
            weight_qparams_dict = {"is_decomposed": False, **dict.fromkeys(weights, DEFAULT_QPARAMS)}
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    def get_quantized_weight_bias_dict(self) -> dict[str, Any]:
        """The weights as quantized tensors and the biases, by name."""
        return {
            name: get_quantized_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        }

    def get_flat_weights(self) -> list[Any]:
        """The weights, rounded, and the biases, in the order the network takes them."""
        return [
            _get_quantize_and_dequantized_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        ]

    def _weights(self) -> list[Any]:
        return self.get_flat_weights()

    @staticmethod
    def _qparam(value: Any, dtype: Any, device: Any) -> Tensor:
        return as_buffer(value, dtype, device).to(dtype)

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Self:
        """From a float layer and the qparams of its weights."""
        result = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional,
            weight_qparams_dict=weight_qparams_dict,
        )
        for name in mod._flat_weights_names:
            setattr(result, name, getattr(mod, name))
        return result


class LSTM(RNNBase):
    """Long short-term memory."""

    _state_widths = floats.LSTM._state_widths

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(  # type: ignore[override]
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """(outputs of the last layer, (last h, last c) of all layers)."""
        return self._forward(input, hx)


class GRU(RNNBase):
    """A gated recurrent unit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size: only an LSTM has projections")
        super().__init__("GRU", *args, **kwargs)
