"""What the integers of quantized tensors mean: `number = (integer - zero_point) * scale`.

Enters: scales and zero points. Leaves: `qscheme` and its five values, by PyTorch's names (they can be named, compared
and pickled), and the quantizers that tensors carry (`Tensor._quantizer`). Nothing is checked here: what makes
quantizers from a user's numbers does that (definitions/quantized/create.py).
"""

from __future__ import annotations

from typing import Any, ClassVar

from .. import _C

_PLACES = (
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
)


class qscheme:  # noqa: N801 - PyTorch's name
    """A way of quantizing; the values of this module are all there are."""

    __slots__ = ("_name",)
    _name: str

    def __new__(cls) -> qscheme:
        raise TypeError("qscheme: no other values can be made; use per_tensor_affine or another of the five")

    def __repr__(self) -> str:
        return f"{_C.get_display_module()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


def _value(name: str) -> qscheme:
    result = object.__new__(qscheme)
    result._name = name
    return result


per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric, per_channel_affine_float_qparams = (
    map(_value, _PLACES)
)
NAMES = ("qscheme", *_PLACES)


class PerTensor:
    """One scale and one zero point for all elements."""

    __slots__ = ("scale", "zero_point")
    scheme: ClassVar[qscheme] = per_tensor_affine

    def __init__(self, scale: float, zero_point: int) -> None:
        self.scale, self.zero_point = scale, zero_point


class PerChannel:
    """A scale (float64) and a zero point (int64) for each index along `axis`."""

    __slots__ = ("axis", "scales", "zero_points")
    scheme: ClassVar[qscheme] = per_channel_affine

    def __init__(self, scales: Any, zero_points: Any, axis: int) -> None:
        self.scales, self.zero_points, self.axis = scales, zero_points, axis


class PerChannelFloat:
    """Scales and zero points along `axis`, both float32: zero lies between two integers, as in tables of embeddings."""

    __slots__ = ("axis", "scales", "zero_points")
    scheme: ClassVar[qscheme] = per_channel_affine_float_qparams

    def __init__(self, scales: Any, zero_points: Any, axis: int) -> None:
        self.scales, self.zero_points, self.axis = scales, zero_points, axis


Quantizer = PerTensor | PerChannel | PerChannelFloat
PLAIN = {       # the integers in the memory of each quantized dtype; of the last two, several elements share one
    _C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32, _C.quint4x2: _C.uint8, _C.quint2x4: _C.uint8,
}
