"""An LSTM whose cells are made of layers of integers."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from .....base import late
from .....nn import Module
from ...quantizable.modules import rnn as quantizable

__all__ = ["LSTM"]


class LSTM(quantizable.LSTM):
    """Long short-term memory in integers, from an observed quantizable.LSTM."""

    _FLOAT_MODULE: ClassVar[type[Module]] = quantizable.LSTM

    def _get_name(self) -> str:
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: a float module must be observed first."""
        raise NotImplementedError(
            "quantized.LSTM.from_float: a float module cannot be converted at once. prepare() makes it"
            " quantizable.LSTM; convert that one after calibration"
        )

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """From an observed quantizable.LSTM. Refuses other modules."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        converted = late.provided("quantization.convert")(other)
        converted.__class__ = cls
        return converted
