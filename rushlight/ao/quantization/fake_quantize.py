"""Fake quantizers: modules that round floats as quantization would, so that a model can be trained against it.

Enters: float tensors. Leaves: floats on the grid of the qparams in force, with gradients that pass where elements lie
within it; qparams follow an observer until it is switched off. Refuses: ranges the dtype cannot hold, observers whose
scheme is neither per tensor nor per channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.dtype import iinfo
from ...base.quantizers import (
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ...op import find_op
from ...tensors.interop import tensor
from .bases import FakeQuantizeBase, ObserverBase, _PartialWrapper
from .observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _script_name,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import is_per_channel as _is_per_channel, is_per_tensor as _is_per_tensor

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127", "fused_wt_fake_quant_range_neg_127_to_127",
]

ObserverOrFakeQuantize = ObserverBase | FakeQuantizeBase


def _is_symmetric_quant(qscheme: Any) -> bool:
    """Whether 0 lies in the middle of the integers."""
    return qscheme in (per_tensor_symmetric, per_channel_symmetric)


def _is_float_qparams(qscheme: Any) -> bool:
    """Whether zero points are floats."""
    return qscheme == per_channel_affine_float_qparams


def _check_bounds(quant_min: int, quant_max: int, dtype: _C.dtype) -> None:
    """Refuse a range of integers that `dtype` cannot hold."""
    held = iinfo(dtype)
    if quant_min < held.min:
        raise AssertionError(f"quant_min out of bound: {dtype} holds {held.min} to {held.max}, got {quant_min}")
    if quant_max > held.max:
        raise AssertionError(f"quant_max out of bound: {dtype} holds {held.min} to {held.max}, got {quant_max}")


class FakeQuantize(FakeQuantizeBase):
    """Rounds to the grid that its observer finds: (clamp(round(x / scale) + zero_point) - zero_point) * scale.

    `observer` is a class or a constructor made by `with_args`; it gets the other settings. `observer_enabled` and
    `fake_quant_enabled` are the switches, `scale` and `zero_point` the qparams in force.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None, quant_max: int | None = None,
        is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError(
                    f"quant_min must be less than or equal to quant_max, got {quant_min} and {quant_max}"
                )
            dtype = observer_kwargs.get("dtype", _C.quint8)
            if hasattr(observer, "p"):      # what with_args gave comes first
                dtype = getattr(observer.p, "keywords", {}).get("dtype", dtype)
            _check_bounds(quant_min, quant_max, dtype)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        watcher = self.activation_post_process = observer(**observer_kwargs)
        self.quant_min, self.quant_max, self.is_dynamic = watcher.quant_min, watcher.quant_max, watcher.is_dynamic
        self.dtype, self.qscheme = watcher.dtype, watcher.qscheme
        points = _C.float32 if _is_float_qparams(self.qscheme) else _C.int32
        self.register_buffer("scale", tensor([1.0], dtype=_C.float32))
        self.register_buffer("zero_point", tensor([0], dtype=points))
        self.ch_axis = getattr(watcher, "ch_axis", -1)
        self.is_per_channel = _is_per_channel(self.qscheme)
        if not self.is_per_channel and not _is_per_tensor(self.qscheme):
            raise AssertionError(f"FakeQuantize: only per channel and per tensor schemes, got qscheme: {self.qscheme}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            for buffer, found in zip((self.scale, self.zero_point), self.calculate_qparams(), strict=True):
                if buffer.shape != found.shape:
                    buffer.resize_(found.shape)
                buffer.copy_(found)
        return self._rounded(X) if self.fake_quant_enabled[0] == 1 else X

    def _rounded(self, x: Tensor) -> Tensor:
        """`x` on the grid of the qparams in force."""
        bounds = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return find_op("fake_quantize_per_channel_affine")(x, self.scale, self.zero_point, self.ch_axis, *bounds)
        return find_op("fake_quantize_per_tensor_affine")(x, self.scale, self.zero_point, *bounds)

    def _shown(self, names: str) -> str:
        """Settings by name, as the module's text shows them; those of the range are the observer's."""
        watcher = self.activation_post_process
        observers = ("quant_min", "quant_max", "reduce_range")
        return ", ".join(f"{n}={getattr(watcher if n in observers else self, n)}" for n in names.split())

    def extra_repr(self) -> str:
        return self._shown(
            "fake_quant_enabled observer_enabled quant_min quant_max dtype qscheme ch_axis scale zero_point"
        )

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}scale"], destination[f"{prefix}zero_point"] = self.scale, self.zero_point

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], *rest: Any,
    ) -> None:
        """As many qparams as the state has."""
        for name, buffer in (("scale", self.scale), ("zero_point", self.zero_point)):
            if f"{prefix}{name}" in state_dict:
                buffer.resize_(state_dict[f"{prefix}{name}"].shape)
            elif strict:
                missing_keys.append(f"{prefix}{name}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to a grid known beforehand: that of a `FixedQParamsObserver`."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        watcher = self.activation_post_process
        if type(watcher) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}'s observer must be a {FixedQParamsObserver.__name__}, got {type(watcher)}"
            )
        self._observer_ctr = observer
        self.scale, self.zero_point = watcher.scale, watcher.zero_point
        if not _is_per_tensor(self.qscheme):
            raise AssertionError(f"{type(self).__name__}: only per tensor schemes, got qscheme: {self.qscheme}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return self._shown("fake_quant_enabled observer_enabled scale zero_point dtype quant_min quant_max qscheme")


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """The same with a moving average observer, and observing, qparams and rounding as one op."""

    def __init__(
        self, observer: type | _PartialWrapper = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer=observer, quant_min=quant_min, quant_max=quant_max, **observer_kwargs)
        kinds = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
        if not isinstance(self.activation_post_process, kinds):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver and its per-channel"
                f" form, got {type(self.activation_post_process)}"
            )
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, tensor([1], dtype=_C.int64))
        self.is_symmetric_quant = _is_symmetric_quant(self.activation_post_process.qscheme)

    def extra_repr(self) -> str:
        return self._shown(
            "fake_quant_enabled observer_enabled scale zero_point dtype quant_min quant_max qscheme reduce_range"
        )

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        watcher = self.activation_post_process
        return find_op("fused_moving_avg_obs_fake_quant")(
            X, self.observer_enabled, self.fake_quant_enabled, watcher.min_val, watcher.max_val, self.scale,
            self.zero_point, watcher.averaging_constant, watcher.quant_min, watcher.quant_max, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )


class _DerivedObserverOrFakeQuantize(ObserverBase):
    """Qparams that follow from those of other observers, by the function given (a bias's, from input and weight)."""

    def __init__(
        self, dtype: _C.dtype, obs_or_fqs: list[Any], derive_qparams_fn: Callable[[list[Any]], tuple[Tensor, Tensor]],
        quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None, ch_axis: int | None = None,
    ) -> None:
        super().__init__(dtype)
        self.obs_or_fqs, self.derive_qparams_fn = obs_or_fqs, derive_qparams_fn
        self.quant_min, self.quant_max, self.qscheme, self.ch_axis = quant_min, quant_max, qscheme, ch_axis
        if _is_per_channel(qscheme) and ch_axis is None:
            raise AssertionError(f"ch_axis: expected an axis with qscheme {qscheme}, got None")

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:   # type: ignore[override]
        return self.derive_qparams_fn(self.obs_or_fqs)


# Functions for `Module.apply` -----------------------------------------------------------------------------------------


def _is_fake_quant_script_module(mod: Any) -> bool:
    """Whether a scripted module was one of the first two."""
    home = "torch.ao.quantization.fake_quantize"
    return _script_name(mod) in (f"{home}.FakeQuantize", f"{home}.FusedMovingAvgObsFakeQuantize")


def _has_switches(mod: Any) -> bool:
    return isinstance(mod, FakeQuantizeBase) or _is_fake_quant_script_module(mod)


def disable_fake_quant(mod: Any) -> None:
    """Let tensors pass as they are: `model.apply(torch.ao.quantization.disable_fake_quant)`."""
    if _has_switches(mod):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """Round again."""
    if _has_switches(mod):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """Keep qparams as they are."""
    if _has_switches(mod):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """Let qparams follow what is seen again."""
    if _has_switches(mod):
        mod.enable_observer()


# What qconfigs are made of --------------------------------------------------------------------------------------------

_WHOLE, _CHANNELS = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
_unsigned: Any = {"quant_min": 0, "quant_max": 255}
_signed: Any = {"quant_min": -128, "quant_max": 127}
_without_128: Any = {"quant_min": -127, "quant_max": 127}   # what xnnpack's kernels take


def _for_weights(
    kind: type[FakeQuantize], observer: type, bounds: dict[str, int], **settings: Any
) -> _PartialWrapper:
    """Signed and symmetric, per tensor or per channel as the observer is."""
    scheme = per_tensor_symmetric if observer is _WHOLE else per_channel_symmetric
    return kind.with_args(observer=observer, **bounds, dtype=_C.qint8, qscheme=scheme, **settings)


def _for_activations(observer: type) -> _PartialWrapper:
    return FakeQuantize.with_args(
        observer=observer, **_unsigned, dtype=_C.quint8, qscheme=per_tensor_affine, reduce_range=True
    )


_fused = FusedMovingAvgObsFakeQuantize
default_fake_quant, default_histogram_fake_quant = _for_activations(_WHOLE), _for_activations(HistogramObserver)
default_weight_fake_quant = _for_weights(FakeQuantize, _WHOLE, _signed, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=_WHOLE, **_unsigned, is_dynamic=True, dtype=_C.quint8, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = _for_weights(FakeQuantize, _CHANNELS, _signed, reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=_CHANNELS, qscheme=per_channel_affine_float_qparams, dtype=_C.quint8, **_unsigned, ch_axis=0,
    averaging_constant=1,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=_CHANNELS, qscheme=per_channel_affine_float_qparams, ch_axis=0, dtype=_C.quint4x2, averaging_constant=1
)
default_fused_act_fake_quant = _fused.with_args(observer=_WHOLE, **_unsigned, dtype=_C.quint8)
default_fused_wt_fake_quant = _for_weights(_fused, _WHOLE, _signed)
default_fused_per_channel_wt_fake_quant = _for_weights(_fused, _CHANNELS, _signed)
fused_wt_fake_quant_range_neg_127_to_127 = _for_weights(_fused, _WHOLE, _without_128, eps=2**-12)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = _for_weights(_fused, _CHANNELS, _without_128, eps=2**-12)
