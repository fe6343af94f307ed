"""Observers: modules that look at the tensors passing through them and say how to map those to integers.

Enters: tensors (`forward` gives them on unchanged) or, for observers that record nothing, only settings. Leaves:
`calculate_qparams()`, the scale and zero point of the mapping, one of each or one per channel. Refuses: schemes and
dtypes an observer has no rule for, ranges of integers that do not hold 0, a search before anything was seen (it warns).
"""

from __future__ import annotations

import ctypes
import functools
import platform
import warnings
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.dtype import finfo, iinfo
from ...base.quantizers import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme as QScheme,
)
from ...nn import Module
from ...nn.factory import factory_kwargs as making
from ...op import find_op
from ...tensors.interop import tensor as _tensor
from .bases import (  # noqa: F401 - published here
    ABC,
    AffineQuantizedObserverBase,
    FakeQuantizeBase,
    Granularity,
    MappingType,
    ObserverBase,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    _PartialWrapper,
    _with_args,
    _with_callable_args,
    get_block_size,
)
from .utils import calculate_qmin_qmax, check_min_max_valid, is_per_channel, is_per_tensor, validate_qmin_qmax

__all__ = [
    "AffineQuantizedObserverBase", "FixedQParamsObserver", "Granularity", "HistogramObserver", "MappingType",
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver",
    "ObserverBase", "PerAxis", "PerBlock", "PerChannelMinMaxObserver", "PerGroup", "PerRow", "PerTensor", "PerToken",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "TorchAODType",
    "UniformQuantizationObserverBase", "ZeroPointDomain", "default_affine_fixed_qparams_observer",
    "default_debug_observer", "default_dynamic_quant_observer", "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer",
    "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer",
    "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_block_size",
    "get_observer_state_dict", "load_observer_state_dict", "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]

EPS = finfo(_C.float32).eps
INF = float("inf")
_DTYPES = (
    _C.qint8, _C.quint8, _C.quint4x2, _C.qint32, _C.int8, _C.uint8, _C.int16, _C.int32, _C.float8_e5m2,
    _C.float8_e4m3fn, _C.uint16,
)
_SCHEMES = (
    per_tensor_affine, per_tensor_symmetric, per_channel_affine, per_channel_symmetric,
    per_channel_affine_float_qparams,
)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers whose integers lie evenly: from a minimum and a maximum to a scale and a zero point.

    `quant_min` and `quant_max` are the integers to map to (those of `dtype` where they are not given), `eps` is the
    smallest scale. Refuses other schemes and dtypes than it has a rule for.
    """

    _version = 3    # 1 had no eps; 2 called the per-channel buffers min_vals and max_vals
    eps: Tensor

    def __init__(
        self, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        made = making(factory_kwargs)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to give an observer its integers: reduce_range is on its way out.",
                stacklevel=2,
            )
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", _tensor([eps], **made))
        if qscheme not in _SCHEMES:
            raise AssertionError(f"{type(self).__name__}: qscheme must be one of {_SCHEMES}, got {qscheme}")
        if dtype not in _DTYPES:
            raise AssertionError(f"{type(self).__name__}: dtype must be one of {_DTYPES}, got {dtype}")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if quant_min is not None and quant_max is not None:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _refuse_reduced_symmetric(self, symmetric: QScheme) -> None:
        if self.qscheme == symmetric and self.reduce_range and self.dtype == _C.quint8:
            raise NotImplementedError(
                f"{type(self).__name__}: Cannot reduce range for symmetric quantization of quint8."
                " Use qint8, or an affine scheme."
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version") in (None, 1):
            state_dict[f"{prefix}eps"] = _tensor([EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _validate_qmin_qmax(self, quant_min: int, quant_max: int) -> None:
        validate_qmin_qmax(quant_min, quant_max)

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point that map [min_val, max_val], widened to hold 0, onto the integers; elementwise."""
        where = min_val.device
        if not check_min_max_valid(min_val, max_val):
            return _tensor([1.0], device=where.type), _tensor([0], device=where.type)
        steps = float(self.quant_max - self.quant_min)
        if self.qscheme == per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = scale.where(scale > self.eps, find_op("ones_like")(scale))
            zero_point = -1 * min_val / scale
        else:
            zero = find_op("zeros_like")(min_val)
            low, high = min_val.minimum(zero), max_val.maximum(zero)
            if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
                scale = ((-low).maximum(high) / (steps / 2)).maximum(self.eps)
                zero_point = low.new_full(low.size(), self._middle(), dtype=_C.int64)
            else:
                scale = ((high - low) / steps).maximum(self.eps)
                zero_point = self.quant_min - (low / scale).round().to(_C.int32)
                zero_point = zero_point.clamp(self.quant_min, self.quant_max)
        # PyTorch's qparams always have a dim; one of a single float channel loses its fraction there
        if scale.dim() == 0:
            scale = _tensor([float(scale)], dtype=scale.dtype, device=where)
        if zero_point.dim() == 0:
            zero_point = _tensor([int(zero_point)], dtype=zero_point.dtype, device=where)
        return scale, zero_point

    def _middle(self) -> int:
        """The integer that a symmetric mapping gives to 0."""
        if self.dtype in (_C.quint8, _C.uint8):
            return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
        return 2**15 if self.dtype == _C.uint16 else 0

    def reset_min_max_vals(self) -> None:
        """Forget what was seen. Refused by observers that cannot."""
        raise NotImplementedError(f"{type(self).__name__}: it keeps no min/max values that could be reset")


_ObserverBase = UniformQuantizationObserverBase


class _Extremes(UniformQuantizationObserverBase):
    """Observers that keep a minimum and a maximum, of the whole tensor or of each channel."""

    min_val: Tensor
    max_val: Tensor

    def _register_extremes(self, low: Any, high: Any, factory_kwargs: dict[str, Any] | None) -> None:
        made = making(factory_kwargs)
        self.register_buffer("min_val", _tensor(low, **made))
        self.register_buffer("max_val", _tensor(high, **made))

    def _keep(self, low: Tensor, high: Tensor) -> None:
        """Write extremes into the buffers, which stay the tensors they were."""
        for buffer, value in ((self.min_val, low), (self.max_val, high)):
            if buffer.shape != value.shape:
                buffer.resize_(value.shape)
            buffer.copy_(value)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _check_scheme(observer: str, asked: bool, schemes: str, qscheme: Any) -> None:
    if not asked:
        raise NotImplementedError(f"{observer}'s qscheme only support {schemes}, got {qscheme}")


def _refuse_dynamic(observer: str, is_dynamic: bool) -> None:
    if is_dynamic:
        raise NotImplementedError(f"{observer} doesn't support dynamic quantization: pass is_dynamic=False")


_TENSOR_SCHEMES = "per_tensor_affine and per_tensor_symmetric"
_CHANNEL_SCHEMES = "per_channel_affine, per_channel_symmetric and per_channel_affine_float_qparams"


class MinMaxObserver(_Extremes):
    """The smallest and the largest element ever seen."""

    def __init__(
        self, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        _check_scheme("MinMaxObserver", is_per_tensor(qscheme), _TENSOR_SCHEMES, qscheme)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self._register_extremes(INF, -INF, factory_kwargs)
        self._refuse_reduced_symmetric(per_tensor_symmetric)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() != 0:
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            self._keep(*self._merged(low, high))
        return x_orig

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The extremes to keep, from those of the newest tensor."""
        return low.minimum(self.min_val), high.maximum(self.max_val)

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(INF)
        self.max_val.fill_(-INF)


def _moved(kept: Tensor, new: Tensor, share: float) -> Tensor:
    """The moving average after one more value."""
    return kept + share * (new - kept)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Moving averages of each tensor's smallest and largest element; `averaging_constant` is the newest one's share."""

    def __init__(
        self, averaging_constant: float = 0.01, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None, eps: float = EPS,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        _check_scheme("MovingAverageMinMaxObserver", is_per_tensor(qscheme), _TENSOR_SCHEMES, qscheme)
        self.averaging_constant = averaging_constant
        if averaging_constant != 1:
            _refuse_dynamic(f"MovingAverageMinMaxObserver with averaging_constant {averaging_constant}", is_dynamic)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        if self.min_val == INF and self.max_val == -INF:
            return low, high
        share = self.averaging_constant
        return _moved(self.min_val, low, share), _moved(self.max_val, high, share)


class PerChannelMinMaxObserver(_Extremes):
    """The smallest and the largest element ever seen of each index of `ch_axis`."""

    def __init__(
        self, ch_axis: int = 0, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_channel_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        _check_scheme(type(self).__name__, is_per_channel(qscheme), _CHANNEL_SCHEMES, qscheme)
        _refuse_dynamic(type(self).__name__, is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self._register_extremes([], [], factory_kwargs)
        self._refuse_reduced_symmetric(per_channel_symmetric)

    def forward(self, x_orig: Tensor) -> Tensor:
        return self._forward(x_orig)

    def _forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() != 0:
            rows = x_orig.detach().transpose(0, self.ch_axis).to(self.min_val.dtype).flatten(1)
            low, high = rows.aminmax(dim=1)
            if self.min_val.numel() and self.max_val.numel():
                low, high = self._merged(low, high)
            self._keep(low, high)
        return x_orig

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return low.minimum(self.min_val), high.maximum(self.max_val)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """As many channels as the state has; before version 3 the buffers were called min_vals and max_vals."""
        version = local_metadata.get("version")
        ending = "s" if version is not None and version < 3 else ""
        for name, buffer in (("min_val", self.min_val), ("max_val", self.max_val)):
            key = f"{prefix}{name}{ending}"
            if key in state_dict:
                buffer.resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _load_from_state_dict_script(self, *args: Any) -> None:
        self._load_from_state_dict(*args)

    def reset_min_max_vals(self) -> None:
        self.min_val, self.max_val = _tensor([]), _tensor([])


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Moving averages of the smallest and the largest element of each index of `ch_axis`."""

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: _C.dtype = _C.quint8,
        qscheme: QScheme = per_channel_affine, reduce_range: bool = False, quant_min: int | None = None,
        quant_max: int | None = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def _merged(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        share = self.averaging_constant
        return _moved(self.min_val, low, share), _moved(self.max_val, high, share)


class HistogramObserver(_Extremes):
    """A histogram of everything seen; its qparams are those of the narrower range that loses least by rounding.

    `bins` intervals lie between the smallest and the largest element; the range grows with what comes, and what was
    counted before is then spread over the new intervals. Elements that are infinite are left out, with a warning.
    """

    histogram: Tensor

    def __init__(
        self, bins: int = 2048, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        _check_scheme("HistogramObserver", is_per_tensor(qscheme), _TENSOR_SCHEMES, qscheme)
        _refuse_dynamic("HistogramObserver", is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        self.register_buffer("histogram", find_op("zeros")(bins, **making(factory_kwargs)))
        self._register_extremes(INF, -INF, factory_kwargs)
        self.dst_nbins = 2 ** iinfo(dtype).bits
        self.upsample_rate = 16     # parts of an interval that move as one when the range grows

    def _get_norm(self, delta_begin: Tensor, delta_end: Tensor, density: Tensor) -> Tensor:
        """The integral of density * x**2 from one bound to the other: what rounding to 0 loses there."""
        return density * ((delta_end * delta_end * delta_end - delta_begin * delta_begin * delta_begin) / 3)

    def _compute_quantization_error(self, next_start_bin: int, next_end_bin: int) -> float:
        """The squared error of rounding everything counted to the middles of `dst_nbins` steps that lie between two
        of the histogram's intervals. An interval may begin in one step, end in another and cover steps in between."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (next_end_bin - next_start_bin + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        half, last = step / 2, self.dst_nbins - 1
        begin = (find_op("arange")(self.bins, device=self.histogram.device) - next_start_bin) * width
        end = begin + width
        first_step = begin.div(step, rounding_mode="floor").clamp(0, last)
        last_step = end.div(step, rounding_mode="floor").clamp(0, last)
        density = self.histogram / width
        to_end = find_op("full_like")(begin, half)
        norm = find_op("zeros_like")(begin)
        norm += self._get_norm(begin - (first_step + 0.5) * step, to_end, density)
        norm += (last_step - first_step - 1) * self._get_norm(_tensor(-half), _tensor(half), density)
        norm += self._get_norm(_tensor(-half), end - (last_step * step + half), density)
        return _total(norm)

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """The range of least error: from the whole one, the end that costs fewer elements moves inwards, by 1e-5 of
        all elements at a time, until the error grows."""
        if self.histogram.size()[0] != self.bins:
            raise AssertionError(f"bins mismatch: the histogram has {self.histogram.size()[0]}, expected {self.bins}")
        width = (self.max_val - self.min_val) / self.bins
        total = _total(self.histogram)
        running = self.histogram.cumsum(0).tolist()     # never falls, so that places can be found by halving
        rounded = _rounder(self.histogram.dtype)
        start, end, least = 0, self.bins - 1, INF
        alpha, beta, stepsize = 0.0, 1.0, 1e-5
        while alpha < beta:
            next_alpha, next_beta = alpha + stepsize, beta - stepsize
            left = bisect_left(running, rounded(next_alpha * total), start, end)
            right = bisect_right(running, rounded(next_beta * total), start + 1, end + 1) - 1 if end > start else end
            next_start, next_end = start, end
            if left - start > end - right:
                next_start, alpha = left, next_alpha
            else:
                next_end, beta = right, next_beta
            if (next_start, next_end) == (start, end):
                continue
            error = self._compute_quantization_error(next_start, next_end)
            if error > least:
                break
            start, end, least = next_start, next_end, error
        return self.min_val + width * start, self.min_val + width * (end + 1)

    def _upscale_histogram(
        self, histogram: Tensor, orig_min: Tensor, orig_max: Tensor, update_min: Tensor, update_max: Tensor
    ) -> Tensor:
        """The counts over another range: each interval in parts, each part where its middle now lies."""
        linspace, count = find_op("linspace"), self.bins * self.upsample_rate
        parts = histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        part_width = (orig_max - orig_min) / count
        middles = linspace(orig_min, orig_max, count + 1, device=orig_min.device)[:-1].to(parts.device)
        middles = middles + 0.5 * part_width
        bounds = linspace(update_min, update_max, self.bins + 1, device=update_min.device).to(parts.device)
        places = (find_op("bucketize")(middles, bounds, right=True) - 1).clamp(0, self.bins - 1)
        return find_op("bincount")(places, weights=parts, minlength=self.bins)

    def _combine_histograms(
        self, orig_hist: Tensor, orig_min: Tensor, orig_max: Tensor, update_hist: Tensor, update_min: Tensor,
        update_max: Tensor,
    ) -> Tensor:
        """Counts over one range joined with counts over a range that holds it."""
        if update_min == orig_min and update_max == orig_max:
            return orig_hist + update_hist
        if orig_min == orig_max:    # everything counted was one number
            place = find_op("histc")(orig_min, bins=self.bins, min=update_min, max=update_max)
            return place * orig_hist.sum() + update_hist
        if update_min > orig_min or update_max < orig_max:
            raise AssertionError(
                f"the new range [{update_min}, {update_max}] must hold the old one, [{orig_min}, {orig_max}]"
            )
        return update_hist + self._upscale_histogram(orig_hist, orig_min, orig_max, update_min, update_max)

    def reset_histogram(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> None:
        """Count `x` alone, between the given bounds."""
        self._keep(min_val, max_val)
        if min_val.numel() != 1 or max_val.numel() != 1:
            raise AssertionError("histogram min/max values must be scalar.")
        self._count(find_op("histc")(x, self.bins, min=min_val, max=max_val))

    def _count(self, histogram: Tensor) -> None:
        self.histogram.detach_().resize_(histogram.shape)
        self.histogram.copy_(histogram)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = x.aminmax()
        if low == -INF or high == INF:
            warnings.warn("torch.inf detected in input tensor: elements that are infinite are ignored", stacklevel=2)
            x = x[x.abs() != INF]
            if x.numel() == 0:
                return x_orig
            low, high = x.aminmax()
        if self.min_val == INF or self.max_val == -INF:
            self.reset_histogram(x, low, high)
            return x_orig
        low, high = self.min_val.minimum(low), self.max_val.maximum(high)
        update = find_op("histc")(x, self.bins, min=low, max=high).to(self.histogram.device)
        self._count(self._combine_histograms(self.histogram, self.min_val, self.max_val, update, low, high))
        self._keep(low, high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        if self.min_val == INF and self.max_val == -INF:
            return self._calculate_qparams(self.min_val, self.max_val)      # warns: nothing was seen
        if self.bins != len(self.histogram):
            raise AssertionError(
                f"HistogramObserver was made for {self.bins} bins, and its histogram has {len(self.histogram)}"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}min_val"], destination[f"{prefix}max_val"] = self.min_val, self.max_val

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """Extremes become those of the state; before version 3, one of no elements meant that nothing was seen."""
        version = local_metadata.get("version")
        for name, unseen in (("min_val", INF), ("max_val", -INF)):
            key = f"{prefix}{name}"
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            if (version is None or version < 3) and tuple(state_dict[key].shape) == (0,):
                state_dict[key] = _tensor(unseen)
            setattr(self, name, state_dict[key])
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


LANES = 4 if platform.machine() in ("aarch64", "arm64") else 8    # of the registers that PyTorch's sum works with


def _total(values: Tensor) -> float:
    """The sum of a vector, added up in PyTorch's order: the search stops where one sum passes another, so that it ends
    elsewhere when their last bits differ.

    Four registers take turns; after every 16 turns they are moved up a level, and levels likewise.
    """
    if values.dtype != _C.float32:
        return values.sum().item()
    lanes = LANES if values.numel() >= LANES else 1
    registers = values.numel() // lanes
    whole = registers // 4 * 4
    table = values[: registers * lanes].reshape(registers, lanes)
    sums = _cascade(table[:whole].reshape(-1, 4 * lanes)).reshape(4, lanes)
    first = _in_order([sums[0], *table[whole:]])
    rounded, total = _rounder(values.dtype), 0.0
    for value in (*values[registers * lanes :].tolist(), *_in_order([first, *sums[1:]]).tolist()):
        total = rounded(total + value)
    return total


def _in_order(rows: Any) -> Tensor:
    """The sum of some tensors, from the first to the last."""
    return functools.reduce(find_op("add"), rows)


def _cascade(rows: Tensor) -> Tensor:
    """The sum of a table's rows by levels: what is left of sixteens at each is added to the sums of those above."""
    total = rows.new_zeros(rows.shape[1])
    while True:
        whole = len(rows) // 16 * 16
        total = total + _in_order([find_op("zeros_like")(total), *rows[whole:]])
        if not whole:
            return total
        rows = _in_order(rows[:whole].reshape(-1, 16, rows.shape[1]).unbind(1))


def _rounder(dtype: _C.dtype) -> Any:
    """From a Python number to the nearest one of `dtype`: comparisons with a tensor's elements are made in its type."""
    if dtype == _C.float32:
        return lambda value: ctypes.c_float(value).value
    return float if dtype == _C.float64 else lambda value: _tensor(value, dtype=dtype).item()


class FixedQParamsObserver(ObserverBase):
    """Qparams known beforehand, as of sigmoid's results."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: _C.dtype = _C.quint8, qscheme: QScheme = per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        _refuse_dynamic("FixedQParamsObserver", is_dynamic)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", _tensor([scale], dtype=_C.float32))
        self.register_buffer("zero_point", _tensor([zero_point], dtype=_C.int32))

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class _Silent(ObserverBase):
    """Observers that see tensors pass and have no qparams."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> Any:
        name = type(self).__name__
        raise Exception(    # noqa: TRY002 - PyTorch's class
            f"calculate_qparams should not be called for {name}: it keeps nothing to compute them from"
        )


class PlaceholderObserver(_Silent):
    """Says what conversion is to make of a tensor, and looks at none: float16, or integers found at each call."""

    def __init__(
        self, dtype: _C.dtype = _C.float32, custom_op_name: str = "", compute_dtype: _C.dtype | None = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: QScheme | None = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn(
                "Please use `is_dynamic` in place of `compute_dtype`, which has no effect and is on its way out.",
                stacklevel=2,
            )

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Silent):
    """Keeps a copy of every tensor that passes, for a person to look at."""

    def __init__(self, dtype: _C.dtype = _C.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Tensor | None] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor | None]:
        """The copies, oldest first."""
        return self.tensor_val


class NoopObserver(_Silent):
    """Stands where a qconfig needs an observer and nothing is to be observed."""

    def __init__(self, dtype: _C.dtype = _C.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Silent):
    """For the result of an op such as `reshape`: its qparams are those of the op's input."""

    def __init__(self) -> None:
        super().__init__(_C.quint8, is_dynamic=False)


# Models with observers in them ----------------------------------------------------------------------------------------


def _script_name(mod: Any) -> str | None:
    """The qualified name of a scripted module's class, without what makes it unique; None for other modules."""
    if not any(kind.__name__ == "RecursiveScriptModule" for kind in type(mod).__mro__):
        return None
    parts = mod._c.qualified_name.split(".")[1:]
    return ".".join(part for part in parts if not part.startswith("___torch_mangle_"))


def _is_observer_script_module(mod: Any, obs_type_name: str) -> bool:
    """Whether a scripted module was an observer of that name."""
    return obs_type_name in (_script_name(mod) or "")


def _is_activation_post_process(module: Any) -> bool:
    """Whether a module observes or fakes quantization: what prepare() puts behind the modules of a model."""
    kinds = (ObserverBase, FakeQuantizeBase, AffineQuantizedObserverBase)
    return isinstance(module, kinds) or _is_observer_script_module(module, "quantization.observer")


def _is_per_channel_script_obs_instance(module: Any) -> bool:
    """Whether a scripted module was an observer of channels."""
    return any(
        _is_observer_script_module(module, f"quantization.observer.{kind.__name__}")
        for kind in (PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
    )


def get_observer_state_dict(mod: Module) -> OrderedDict[str, Any]:
    """Those entries of a model's state that belong to observers."""
    state = mod.state_dict()
    mark = "activation_post_process" if _script_name(mod) is None else "observer"
    found: Any = OrderedDict((key, value) for key, value in state.items() if mark in key)
    found._metadata = state._metadata       # type: ignore[attr-defined]
    return found


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Put what `get_observer_state_dict` gave into the observers of a model of the same structure.
    Refuses entries that are missing or left over."""
    missing: list[str] = []
    unexpected: list[str] = []
    for name, module in mod.named_modules():
        if _is_per_channel_script_obs_instance(module):
            module._load_from_state_dict_script(obs_dict, f"{name}.", {}, True, missing, unexpected, [])
        elif _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, f"{name}.", {}, False, missing, unexpected, [])
    for keys, what in ((missing, "Missing"), (unexpected, "Unexpected")):
        for key in keys:
            if "observer" in key or "activation_post_process" in key:
                raise Exception(f"{what} keys for observer {key} in state_dict")    # noqa: TRY002 - PyTorch's class


# What qconfigs are made of --------------------------------------------------------------------------------------------

_per_tensor: Any = {"dtype": _C.qint8, "qscheme": per_tensor_symmetric}
_per_channel: Any = {"dtype": _C.qint8, "qscheme": per_channel_symmetric}
_without_128: Any = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}    # what xnnpack's kernels take
_float_qparams: Any = {"qscheme": per_channel_affine_float_qparams, "ch_axis": 0}
_bytes: Any = {"dtype": _C.quint8, "quant_min": 0, "quant_max": 255}

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(**_per_tensor)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_per_tensor, **_without_128)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_per_channel)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(**_per_channel, **_without_128)
default_dynamic_quant_observer = PlaceholderObserver.with_args(**_bytes, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=_C.quint8, **_float_qparams)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(dtype=_C.quint4x2, **_float_qparams)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2 / 256, zero_point=128, **_bytes)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1 / 256, zero_point=0, **_bytes)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
