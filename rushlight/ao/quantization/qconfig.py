"""QConfigs: which observers (or fake quantizers) look at a module's activations and at its weights.

Enters: classes, or constructors made by `with_args`. Leaves: `QConfig` pairs, and those that engines are known to suit.
Refuses: observers that were made already (each module needs its own), engines and versions without a default.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

from ... import _C
from ...base import late
from ...cpu import _is_vnni_supported
from ...nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Identity, Module
from .bases import FakeQuantizeBase, ObserverBase, _PartialWrapper
from .fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qat_qconfig", "default_dynamic_qconfig", "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit", "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig", "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict", "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


def _refuse_instances(name: str, *observers: Any) -> None:
    for observer in observers:
        if isinstance(observer, Module):
            raise ValueError(
                f"{name} received observer instance ({type(observer).__name__}): every module needs an observer of its"
                " own, so pass the class, or MyObserver.with_args(x=1) to give it settings"
            )


class QConfig(namedtuple("QConfig", ["activation", "weight"])):     # noqa: PYI024 - subclassed to check, as PyTorch's
    """Constructors of the observers of a module's activations and weights."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        _refuse_instances("QConfig", activation, weight)
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):   # noqa: PYI024 - as PyTorch's
    """What QConfig once was for dynamic quantization. Making one warns."""

    __slots__ = ()

    def __new__(cls, activation: Any = Identity, weight: Any = Identity) -> QConfigDynamic:
        warnings.warn("QConfigDynamic is an older name: use QConfig instead", FutureWarning, stacklevel=2)
        _refuse_instances("QConfigDynamic", weight)
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None
_ObserverOrFakeQuantizeConstructor = _PartialWrapper | type[ObserverBase] | type[FakeQuantizeBase]

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
_half = PlaceholderObserver.with_args(dtype=_C.float16)
float16_dynamic_qconfig = QConfig(PlaceholderObserver.with_args(dtype=_C.float16, is_dynamic=True), _half)
float16_static_qconfig = QConfig(_half, _half)
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)

default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
_unobserved = NoopObserver.with_args(dtype=_C.float32)
default_embedding_qat_qconfig = QConfig(_unobserved, default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(_unobserved, default_embedding_fake_quant_4bit)

# qnnpack's symmetric kernels: signed activations, and scales that its requantization can divide by
_signed = HistogramObserver.with_args(dtype=_C.qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(_signed, weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_signed, per_channel_weight_observer_range_neg_127_to_127)
_signed_qat = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=_C.qint8, reduce_range=False, eps=2**-12
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_signed_qat, fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _signed_qat, fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

_default_fp32_placeholder_qconfig = QConfig(*[PlaceholderObserver.with_args(dtype=_C.float32) for _ in range(2)])
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=_C.quint8), None)

_ENGINES = ("fbgemm", "x86", "qnnpack", "onednn")
# kernels of these add pairs of products in 16 bits on machines without VNNI: activations of 7 bits cannot overflow
_REDUCED = {"fbgemm": True, "x86": True, "qnnpack": False, "onednn": False}


def _check_engine(backend: str, version: int, versions: tuple[int, ...], name: str) -> None:
    if backend not in _ENGINES:
        raise AssertionError(f"{name}: backend: {backend} not supported. backend must be one of {list(_ENGINES)}")
    if version not in versions:
        known = " or ".join(map(str, versions))
        raise AssertionError(f"{name}: Version number: {version} is not supported. Version number must be {known}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """For calibration, what suits an engine: "x86", "fbgemm", "onednn" (weights per channel) or "qnnpack"."""
    _check_engine(backend, version, (0,), "get_default_qconfig")
    if backend == "onednn" and not _is_vnni_supported():
        warnings.warn(
            "Default qconfig of oneDNN uses 8 bits (reduce_range of false): without VNNI instructions, which this"
            " machine lacks, PyTorch's sums may overflow. Here they do not.",
            stacklevel=2,
        )
    weight = default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=_REDUCED[backend]), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """For training against rounding, what suits an engine; version 1 observes and rounds in one op, 0 in several."""
    _check_engine(backend, version, (0, 1), "get_default_qat_qconfig")
    if version == 0:
        kind: Any = FakeQuantize
        whole, channels = default_weight_fake_quant, default_per_channel_weight_fake_quant
    else:
        kind = FusedMovingAvgObsFakeQuantize
        whole, channels = default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant
    settings: dict[str, Any] = {"observer": MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255}
    if backend != "onednn":     # whose constructor PyTorch writes without it, which comparing qconfigs sees
        settings["reduce_range"] = _REDUCED[backend]
    return QConfig(kind.with_args(**settings), whole if backend == "qnnpack" else channels)


def _as_dict(name: str, *args: Any) -> dict[str, Any]:
    warnings.warn(f"{name}_dict is an older name: use {name}_mapping", FutureWarning, stacklevel=3)
    return getattr(late.provided("qconfig mappings"), f"{name}_mapping")(*args).to_dict()


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """`get_default_qconfig_mapping` as the dictionary that older programs use. Warns."""
    return _as_dict("get_default_qconfig", backend, version)


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """`get_default_qat_qconfig_mapping` as the dictionary that older programs use. Warns."""
    return _as_dict("get_default_qat_qconfig", backend, version)


def _assert_valid_qconfig(qconfig: QConfigAny, mod: Module) -> None:
    """Refuse qconfigs that a module has no kernels for: weights of transposed convolutions per channel."""
    if qconfig is None or qconfig.weight is None:
        return
    if isinstance(mod, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)):
        if isinstance(qconfig.weight(), PerChannelMinMaxObserver):
            raise AssertionError(
                f"Per channel weight observer is not supported yet for {type(mod).__name__}: use one per tensor"
            )


def _add_module_to_qconfig_obs_ctr(qconfig: Any, module: Module | None) -> Any:
    """The qconfig with constructors that put observers' buffers where the module's tensors are."""
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig

    def placement() -> dict[str, Any] | None:
        assert isinstance(module, Module), "the module whose device is asked for"
        for tensors in (module.parameters(), module.buffers()):
            for tensor in tensors:
                return {"device": tensor.device}
        return None

    def placed(constructor: Any) -> Any:
        try:    # those that take no factory_kwargs stay as they are
            constructor.with_args(factory_kwargs=None)()
        except (AttributeError, TypeError):
            return constructor
        return constructor.with_callable_args(factory_kwargs=placement)

    return QConfig(placed(qconfig.activation), placed(qconfig.weight))


def _obs_or_fq_ctr_equals(obs_or_fq1: Any, obs_or_fq2: Any) -> bool:
    """Whether two constructors make the same."""
    if isinstance(obs_or_fq1, _PartialWrapper) and isinstance(obs_or_fq2, _PartialWrapper):
        return _partial_wrapper_equals(obs_or_fq1, obs_or_fq2)
    return obs_or_fq1 == obs_or_fq2


def _partial_wrapper_equals(obs_or_fq1: _PartialWrapper, obs_or_fq2: _PartialWrapper) -> bool:
    """Whether two constructors with settings are of one class and have the same, observers compared likewise."""
    first, second = obs_or_fq1.p, obs_or_fq2.p
    settings, others = dict(first.keywords), dict(second.keywords)      # type: ignore[attr-defined]
    if "observer" in settings and "observer" in others:
        if not _obs_or_fq_ctr_equals(settings.pop("observer"), others.pop("observer")):
            return False
    same = first.func == second.func and first.args == second.args      # type: ignore[attr-defined]
    return same and settings == others


def qconfig_equals(q1: QConfigAny, q2: QConfigAny) -> bool:
    """Whether two qconfigs ask for the same."""
    if q1 is None or q2 is None:
        return q1 == q2
    try:
        return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(q1.weight, q2.weight)
    except AttributeError:
        return q1 == q2


def _activation_is_memoryless(qconfig: QConfig) -> bool:
    """Whether activations are observed anew at each call: a moving average of which the newest is all."""
    made = qconfig.activation()
    if isinstance(made, FakeQuantizeBase) and hasattr(made, "activation_post_process"):
        made = made.activation_post_process
    return getattr(made, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig: QConfigAny) -> bool:
    """Whether a result has the qparams of the input."""
    if qconfig is None:
        return False
    return isinstance(qconfig.activation(), ReuseInputObserver) and isinstance(qconfig.weight(), NoopObserver)
