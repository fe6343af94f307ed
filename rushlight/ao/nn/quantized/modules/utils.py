"""Weights turned into integers, and what layers that hold them share.

Enters: float weights with the observer that saw them. Leaves: quantized weights, within the observer's range.
Refuses: schemes that have no kernels; float inputs of layers of integers, with the layer's path.
"""

from __future__ import annotations

import abc
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..... import _C
from ....._C import Tensor
from .....base.dtype import iinfo
from .....base.quantizers import per_channel_affine_float_qparams
from .....nn import Module
from .....nn.modules.module import _addindent
from .....op import find_op
from .....tensors.interop import tensor
from ....quantization.utils import is_per_channel, is_per_tensor

__all__ = ["WeightedQuantizedModule"]

# Where converted layers stand in their models, for messages.
_places: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()


def note_place(module: Module, path: str) -> None:
    """Remember a layer's path in the model it was converted in."""
    _places[module] = path


def expect_quantized(module: Module, x: Any) -> None:
    """Refuses an input that is not quantized, with the layer, its path and a remedy."""
    if getattr(x, "is_quantized", False):
        return
    where = f" at {_places[module]!r}" if module in _places else ""
    given = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
    raise NotImplementedError(
        f"{module._get_name()}{where}: expected a quantized tensor, got {given}. Could not run kernels of integers on"
        " it: quantize the input (a QuantStub before this layer when the model is prepared, or quantize_per_tensor)"
    )


class WeightedQuantizedModule(Module, metaclass=abc.ABCMeta):
    """A layer of integers that has weights: it can be made from a reference module and the qparams of its output."""

    @classmethod
    @abc.abstractmethod
    def from_reference(cls, ref_module: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The layer with the weights of a reference module."""
        raise NotImplementedError


class OutputQParams(Module):
    """A layer whose state holds the scale and zero point of its output as numbers."""

    scale: float
    zero_point: int

    def _set_output(self, scale: Any, zero_point: Any) -> Any:
        self.scale, self.zero_point = float(scale), int(zero_point)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tensor(self.scale)
        destination[prefix + "zero_point"] = tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self._set_output(state_dict.pop(prefix + "scale"), state_dict.pop(prefix + "zero_point"))
        if not 0.0 < self.scale < math.inf:
            reports[-1].append(f"{prefix}scale: expected a number above 0, got {self.scale}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)


def _get_weight_observer(observer: Any) -> Any:
    """The observer inside a fake quantizer, or the observer itself."""
    return getattr(observer, "activation_post_process", observer)


def _needs_weight_clamping(observer: Any, dtype: _C.dtype) -> bool:
    """Whether an observer's range is narrower than the dtype's."""
    if dtype not in (_C.qint8, _C.quint8, _C.qint32):
        return False
    observer, limits = _get_weight_observer(observer), iinfo(dtype)
    return observer.quant_min > limits.min or observer.quant_max < limits.max


def _clamp_weights(qweight: Tensor, observer: Any, scale: Tensor, zp: Tensor) -> Tensor:
    """The weights with integers outside of the observer's range moved to its ends."""
    if not _needs_weight_clamping(observer, qweight.dtype):
        return qweight
    observer = _get_weight_observer(observer)
    integers = qweight.int_repr().clamp(observer.quant_min, observer.quant_max)
    if is_per_tensor(observer.qscheme):
        return find_op("_make_per_tensor_quantized_tensor")(integers, scale.item(), zp.item())
    if is_per_channel(observer.qscheme):
        return find_op("_make_per_channel_quantized_tensor")(integers, scale, zp, axis=observer.ch_axis)
    raise ValueError(f"Unexpected qscheme {observer.qscheme}")


def _quantize_weight(float_wt: Tensor, observer: Any) -> Tensor:
    """Weights as integers with the scales that the observer found: signed bytes, or the observer's dtype where rows
    have float zero points."""
    scale, zero_point = observer.calculate_qparams()
    if is_per_tensor(observer.qscheme):
        qweight = find_op("quantize_per_tensor")(float_wt, float(scale), int(zero_point), _C.qint8)
    elif observer.qscheme == per_channel_affine_float_qparams:
        qweight = find_op("quantize_per_channel")(
            float_wt, scale.to(_C.float32), zero_point.to(_C.float32), observer.ch_axis, observer.dtype
        )
    elif is_per_channel(observer.qscheme):
        qweight = find_op("quantize_per_channel")(
            float_wt, scale.to(_C.float64), zero_point.to(_C.int64), observer.ch_axis, _C.qint8
        )
    else:
        raise ValueError(f"Unexpected qscheme {observer.qscheme}")
    return _clamp_weights(qweight, observer, scale, zero_point)


def observed_weight(weight: Tensor, observer: Any, look: bool = True) -> Tensor:
    """Signed bytes of a weight; the observer looks at it first, unless it has. Refuses observers of other dtypes."""
    if look:
        observer(weight)
    if observer.dtype != _C.qint8:
        raise AssertionError(f"Weight observer must have dtype {_C.qint8}, got {observer.dtype}")
    return _quantize_weight(weight.float(), observer)


def _ntuple_from_first(n: int) -> Callable[[Any], tuple]:
    """A function that makes n equal values of a number, or of the first number of sequences within sequences."""

    def parse(x: Any) -> tuple:
        while isinstance(x, Sequence):
            if len(x) == n:
                return tuple(x)
            x = x[0]
        return (x,) * n

    return parse


_pair_from_first = _ntuple_from_first(2)


def _hide_packed_params_repr(self: Module, params: type | tuple[type, ...]) -> str:
    """The text of a layer without its packed weights."""
    extra = self.extra_repr()
    lines = extra.split("\n") if extra else []
    children = [
        f"({name}): {_addindent(repr(child), 2)}"
        for name, child in self._modules.items() if not isinstance(child, params)
    ]
    if len(lines) == 1 and not children:
        return f"{self._get_name()}({lines[0]})"
    body = "\n  ".join(["", *lines, *children])
    return f"{self._get_name()}({body}\n)" if lines or children else f"{self._get_name()}()"
