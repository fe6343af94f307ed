"""What observers, module swaps and graph passes ask of each other: ranges of dtypes, qparams, kinds of qconfigs.

Enters: observers, qconfigs, dtypes, modules. Leaves: ranges, scales and zero points, answers about a qconfig.
Refuses: dtypes nobody quantizes to, ranges that do not hold zero, combinations no kernel has.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.quantizers import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ...nn import Module, functional as F
from ...nn.modules import activation, linear, pooling
from ...nn.utils.parametrize import is_parametrized
from ...op import find_op
from ...tensors.interop import tensor
from .quant_type import QuantType

__all__ = [
    "DEPRECATION_WARNING", "MatchAllNode", "NodePattern", "Pattern", "QuantizerCls", "activation_dtype",
    "activation_is_dynamically_quantized", "activation_is_int32_quantized", "activation_is_int8_quantized",
    "activation_is_statically_quantized", "calculate_qmin_qmax", "check_min_max_valid", "check_node",
    "determine_qparams", "get_combined_dict", "get_fqn_to_example_inputs", "get_qconfig_dtypes", "get_qparam_dict",
    "get_quant_type", "get_swapped_custom_module_class", "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations", "is_per_channel", "is_per_tensor", "op_is_int8_dynamically_quantized",
    "to_underlying_dtype", "validate_qmin_qmax", "weight_dtype", "weight_is_quantized",
    "weight_is_statically_quantized",
]

NodePattern = Any
Pattern = Any
QuantizerCls = Any
DEPRECATION_WARNING = (
    "torch.ao.quantization is deprecated in PyTorch, which moved to torchao: quantize_ for eager models, prepare_pt2e"
    " and convert_pt2e for graphs. Both run here too, and this interface keeps working."
)

_BYTES = (_C.quint8, _C.qint8, _C.uint8, _C.int8)
_PLAIN = (_C.int16, _C.int32, _C.float8_e5m2, _C.float8_e4m3fn)
_STATIC = (*_BYTES, _C.quint4x2, _C.qint32, *_PLAIN)
_BENEATH = {
    _C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32, _C.quint4x2: _C.uint8, _C.quint2x4: _C.uint8,
    **{dtype: dtype for dtype in (_C.uint8, _C.int8, _C.uint16, *_PLAIN)},
}


class MatchAllNode:
    """In a pattern of graph nodes, stands for any node at all."""


# Modules and functions whose result has the qparams of their input, asked by `check_node`.
module_type_list = {
    activation.ReLU, activation.ReLU6, pooling.AdaptiveAvgPool1d, pooling.AdaptiveAvgPool2d, pooling.AdaptiveAvgPool3d,
    pooling.AvgPool1d, pooling.AvgPool2d, pooling.AvgPool3d, pooling.MaxPool1d, pooling.MaxPool2d, pooling.MaxPool3d,
    linear.Identity, activation.Hardsigmoid, activation.Sigmoid, activation.Tanh,
}
func_list = {
    *(getattr(F, name) for name in (
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "elu", "hardswish", "instance_norm",
        "layer_norm", "leaky_relu", "silu", "mish", "dropout", "max_pool1d", "max_pool2d", "max_pool3d", "relu",
        "hardtanh", "hardtanh_", "hardsigmoid", "sigmoid",
    )),
    *(find_op(name) for name in (
        "transpose", "repeat_interleave", "sigmoid", "squeeze", "stack", "sum", "tanh", "unsqueeze", "cat",
    )),
}
method_list = {
    find_op("mean"), *(
        "relu relu_ contiguous detach detach_ hardsigmoid hardsigmoid_ permute repeat repeat_interleave reshape resize_"
        " shape sigmoid sigmoid_ size squeeze squeeze_ tanh tanh_ transpose unsqueeze unsqueeze_ view"
    ).split(),
}


def deprecated(function: Callable) -> Callable:
    """The function, warning at each call that PyTorch means to retire it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(DEPRECATION_WARNING, DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    call.__deprecated__ = DEPRECATION_WARNING  # type: ignore[attr-defined]
    return call


def check_node(node: Any, modules: dict[str, Module]) -> tuple[bool, bool, bool]:
    """Whether a graph's node calls a function, a method or a module of the three lists above."""
    return (
        node.op == "call_function" and node.target in func_list,
        node.op == "call_method" and node.target in method_list,
        node.op == "call_module" and type(modules[str(node.target)]) in module_type_list,
    )


def get_combined_dict(default_dict: dict, additional_dict: dict) -> dict:
    """The entries of both, the second's where both have one."""
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme: Any) -> bool:
    """Whether one scale serves the whole tensor."""
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme: Any) -> bool:
    """Whether each index of an axis has its own scale."""
    return qscheme in (per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric)


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """The attribute at a dotted path."""
    return functools.reduce(getattr, fqn.split("."), obj)


def to_underlying_dtype(qdtype: _C.dtype) -> _C.dtype:
    """The plain dtype in which values of a quantized one are stored. Refuses other dtypes."""
    if qdtype not in _BENEATH:
        raise AssertionError(f"Unsupported dtype: {qdtype}. Quantized values are stored as one of {list(_BENEATH)}")
    return _BENEATH[qdtype]


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """What a reference module needs of an observer: qscheme, dtype and, where values are mapped to integers, scale,
    zero point, axis and range. Symmetric schemes become the affine ones they are a case of."""
    qscheme, dtype = getattr(observer_or_fake_quant, "qscheme", None), observer_or_fake_quant.dtype
    is_placeholder = any(kind.__name__ == "PlaceholderObserver" for kind in type(observer_or_fake_quant).__mro__)
    if not qscheme or is_placeholder:
        return {"qscheme": None, "dtype": dtype}
    qparams: dict[str, Any] = {"qscheme": qscheme, "dtype": dtype}
    if is_per_tensor(qscheme):
        qparams["qscheme"] = per_tensor_affine
    elif is_per_channel(qscheme):
        qparams["qscheme"] = per_channel_affine if qscheme == per_channel_symmetric else qscheme
        qparams["axis"] = observer_or_fake_quant.ch_axis
    else:
        raise RuntimeError(f"Unrecognized qscheme: {qscheme}")
    qparams["scale"], qparams["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, name):
            qparams[name] = getattr(observer_or_fake_quant, name)
    return qparams


def get_swapped_custom_module_class(custom_module: Module, custom_module_class_mapping: dict, qconfig: Any) -> Any:
    """The class that stands for a custom module under this kind of quantization. Refuses modules without one."""
    classes = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in classes:
        raise AssertionError(
            f"{type(custom_module)}: no observed class stands for it among {classes}"
        )
    return classes[type(custom_module)]


def _given(qconfig: Any, what: str) -> Any:
    if qconfig is None:
        raise AssertionError(f"{what}: expected a qconfig, got None")
    return qconfig


def activation_dtype(qconfig: Any) -> _C.dtype:
    """The dtype that activations are observed for."""
    return _given(qconfig, "activation_dtype").activation().dtype


def weight_dtype(qconfig: Any) -> _C.dtype:
    """The dtype that weights are observed for."""
    return _given(qconfig, "weight_dtype").weight().dtype


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Whether activations are quantized with parameters found by calibration."""
    dtypes = (*_BYTES, _C.qint32, _C.float16, *_PLAIN)
    return activation_dtype(qconfig) in dtypes and not activation_is_dynamically_quantized(qconfig)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Whether activations are quantized with parameters of the moment."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Whether activations become bytes."""
    return activation_dtype(qconfig) in _BYTES


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Whether activations become 32-bit integers."""
    return activation_dtype(qconfig) in (_C.qint32, _C.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights become smaller at all, float16 included."""
    return weight_dtype(qconfig) in (*_BYTES, _C.float16, _C.quint4x2, *_PLAIN)


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Whether weights become bytes."""
    return weight_dtype(qconfig) in _BYTES


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Whether an op runs on unsigned bytes of the moment and signed bytes of weights."""
    of_activation, of_weight, is_dynamic = get_qconfig_dtypes(qconfig)
    return of_activation in (_C.quint8, _C.uint8) and of_weight in (_C.qint8, _C.int8) and is_dynamic


def get_qconfig_dtypes(qconfig: Any) -> tuple[_C.dtype, _C.dtype, bool]:
    """(dtype of activations, dtype of weights, whether activations are dynamic)."""
    qconfig = _given(qconfig, "get_qconfig_dtypes")
    observer = qconfig.activation()
    return observer.dtype, qconfig.weight().dtype, getattr(observer, "is_dynamic", False)


def get_quant_type(qconfig: Any) -> QuantType:
    """Which kind of quantization a qconfig asks for. Refuses combinations of dtypes that are none."""
    of_activation, of_weight, is_dynamic = get_qconfig_dtypes(_given(qconfig, "get_quant_type"))
    if of_weight in (*_STATIC, _C.float16) and is_dynamic:
        return QuantType.DYNAMIC
    if of_weight in _STATIC:
        return QuantType.STATIC if of_activation in _STATIC else QuantType.WEIGHT_ONLY
    if of_weight == of_activation == _C.float16:
        return QuantType.STATIC
    raise Exception(     # noqa: TRY002 - PyTorch's class
        f"get_quant_type: no kernels take activations of {of_activation} and weights of {of_weight} together"
    )


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Whether the range was observed: False with a warning where nothing was seen yet. Refuses a minimum above the
    maximum."""
    unseen = min_val.numel() == 0 or max_val.numel() == 0
    if not unseen and (min_val.dim() == 0 or max_val.dim() == 0):
        unseen = float(min_val) == float("inf") and float(max_val) == float("-inf")
    if unseen:
        warnings.warn(
            "must run observer before calling calculate_qparams: nothing was observed, so the scale is 1 and the zero"
            " point 0. Run calibration data through the prepared model before convert().",
            stacklevel=2,
        )
        return False
    if bool((min_val > max_val).any()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


_RANGES = {
    _C.qint8: (-128, 127), _C.int8: (-128, 127), _C.quint8: (0, 255), _C.uint8: (0, 255),
    _C.qint32: (-(2**31), 2**31 - 1), _C.int32: (-(2**31), 2**31 - 1), _C.uint16: (0, 2**16 - 1),
    _C.int16: (-(2**15), 2**15 - 1),
}


def calculate_qmin_qmax(
    quant_min: int | None, quant_max: int | None, has_customized_qrange: bool, dtype: _C.dtype, reduce_range: bool
) -> tuple[int, int]:
    """The integers an observer maps to: the given ones, or the dtype's; `reduce_range` takes one bit away (bytes).
    Refuses given ranges that are empty or wider than the dtype."""
    if has_customized_qrange:
        wide = 2**32 if dtype in (_C.qint32, _C.int32) else 256
        low, high = (0, wide - 1) if quant_min is None or quant_max is None else (quant_min, quant_max)
        if dtype in (_C.qint8, _C.int8, _C.qint32, _C.int32) and not 0 < high - low + 1 <= wide:
            raise AssertionError(
                f"quant_min and quant_max: expected a range of 1 to {wide} integers, got"
                f" [{quant_min}, {quant_max}]"
            )
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)  # type: ignore
    low, high = _RANGES.get(dtype, (0, 15))
    if reduce_range and dtype in _BYTES:
        return -(-low // 2), high // 2
    return low, high


def _parent_name(target: str) -> tuple[str, str]:
    """(path of the parent, last name) of a dotted path."""
    parent, _, name = target.rpartition(".")
    return parent, name


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Whether a module is a leaf, parametrizations of its own tensors aside."""
    if is_parametrized(module):
        return set(module._modules) == {"parametrizations"}
    return not module._modules


def _get_path_of_module(root: Module, submodule: Module) -> str | None:
    """The dotted path of a submodule below `root`, or None."""
    return next((path for path, found in root.named_modules() if found is submodule), None)


def _get_signature_locals(f: Callable, loc: dict[str, Any]) -> dict[str, Any]:
    """Those of some values that are parameters of f."""
    parameters = inspect.signature(f).parameters
    return {name: value for name, value in loc.items() if name in parameters}


def _get_default_kwargs(f: Callable) -> OrderedDict[str, Any]:
    """f's parameters that may be left out, with what they then are."""
    empty: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
    found: OrderedDict[str, Any] = OrderedDict()
    for name, parameter in inspect.signature(f).parameters.items():
        if parameter.default is not parameter.empty:
            found[name] = parameter.default
        elif parameter.kind in empty:
            found[name] = empty[parameter.kind]
    return found


def _normalize_kwargs(func: Callable, loc: dict[str, Any]) -> OrderedDict[str, Any]:
    """f's parameters that may be left out, with the given values where there are some."""
    found = _get_default_kwargs(func)
    found.update({name: value for name, value in _get_signature_locals(func, loc).items() if name in found})
    return found


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Refuses a range of integers that is empty or does not hold 0."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"Used-specified quantization range must include 0, got [{quant_min}, {quant_max}]")
    if quant_min >= quant_max:
        raise AssertionError(
            f"qmin must be strictly less than qmax for user-specified quantization range, got {quant_min}, {quant_max}"
        )


def determine_qparams(
    min_val: Tensor, max_val: Tensor, quant_min: int, quant_max: int, dtype: _C.dtype, eps: Tensor,
    has_customized_qrange: bool, qscheme: Any = per_tensor_affine,
) -> tuple[Tensor, Tensor]:
    """(scale float64, zero point int64) that map [min_val, max_val], widened to hold 0, onto the integers; elementwise
    for per-channel ranges. An unseen range gives scale 1, zero point 0, with a warning."""
    where = min_val.device
    if not check_min_max_valid(min_val, max_val):
        return tensor([1.0], device=where), tensor([0], device=where)
    low, high = min_val.clamp(max=0), max_val.clamp(min=0)
    eps, steps = eps.to(where), float(quant_max - quant_min)
    zero_point = find_op("zeros")(low.size(), dtype=_C.int64, device=where)
    if qscheme in (per_tensor_symmetric, per_channel_symmetric):
        scale = find_op("maximum")(find_op("maximum")(-low, high) / (steps / 2), eps)
        if dtype in (_C.uint8, _C.quint8):
            zero_point = zero_point.fill_((quant_min + quant_max) // 2 if has_customized_qrange else 128)
    elif qscheme == per_channel_affine_float_qparams:
        scale = (max_val - min_val) / steps
        scale = find_op("where")(scale > eps, scale, find_op("ones_like")(scale))
        zero_point = -1 * min_val / scale
    else:
        scale = find_op("maximum")((high - low) / steps, eps)
        zero_point = (quant_min - (low / scale).round().to(_C.int32)).clamp(quant_min, quant_max)
    if scale.dim() == 0:
        scale = scale.reshape(1)
    if zero_point.dim() == 0:
        zero_point = zero_point.to(_C.int64).to(zero_point.dtype).reshape(1)
    return scale.to(_C.float64), zero_point.to(_C.int64)


def _get_num_pos_args(f: Callable) -> int:
    return len(inspect.getfullargspec(f).args)


def get_fqn_to_example_inputs(model: Module, example_inputs: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    """What each submodule was called with when the model ran on the example inputs, by path; arguments left out stand
    with their defaults."""
    found: dict[str, tuple[Any, ...]] = {}

    def note(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        rest = list(_normalize_kwargs(module.forward, kwargs).values())
        missing = _get_num_pos_args(module.forward) - 1 - len(args)
        path = _get_path_of_module(model, module)
        if path is not None:
            found[path] = (*args, *rest[max(missing, 0):])

    handles = [module.register_forward_pre_hook(note, with_kwargs=True, prepend=True) for module in model.modules()]
    try:
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _assert_and_get_unique_device(module: Module) -> Any:
    """The one device of a module, None without tensors. Refuses several, meta beside the CPU aside."""
    devices = {tensor.device for tensors in (module.parameters(), module.buffers()) for tensor in tensors}
    if {device.type for device in devices} == {"cpu", "meta"}:
        warnings.warn("tensors on 'meta' and on 'cpu' in one module: 'cpu' is taken as its device", stacklevel=2)
        devices = {device for device in devices if device.type == "cpu"}
    if len(devices) > 1:
        raise AssertionError(f"prepare: expected a module on one device, got parts on {devices}")
    return next(iter(devices), None)
