"""How quantized tensors map integers to numbers, by PyTorch's names. The values can be named, compared and pickled.

Enters: nothing. Leaves: `qscheme` and its five values. Quantized tensors themselves are not written yet.
"""

from __future__ import annotations

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
