"""Models prepared, calibrated and converted, module by module.

Enters: a float model whose modules carry qconfigs (`model.qconfig = ...` serves all below it). Leaves: the model with
observers in it (`prepare`), with layers that train with rounding (`prepare_qat`), with layers of integers (`convert`);
the one-call forms `quantize`, `quantize_qat`, `quantize_dynamic`. Refuses: modules that cannot be converted, by their
path in the model; preparing for training a model that is not in training mode.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ... import _C
from ...nn import Module
from ...nn.modules import linear, multihead, rnn, sparse
from ...nn.modules.container import Sequential
from ...nn.modules.dropout import Dropout
from ...nn.utils.parametrize import type_before_parametrizations
from ..nn.intrinsic.modules.fused import _FusedModule
from ..nn.quantizable.modules import activation as quantizable_activation, rnn as quantizable_rnn
from ..nn.quantized.modules import activation as q_activation, rnn as q_rnn
from ..nn.quantized.modules.functional_modules import FloatFunctional, QFunctional
from ..nn.quantized.modules.utils import note_place
from .observer import _is_activation_post_process
from .qconfig import (
    _activation_is_memoryless,
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import deprecated, get_qparam_dict, has_no_children_ignoring_parametrizations

__all__ = [
    "get_default_custom_config_dict", "propagate_qconfig_", "add_quant_dequant", "prepare", "quantize",
    "quantize_dynamic", "prepare_qat", "quantize_qat", "convert", "swap_module",
]

is_activation_post_process = _is_activation_post_process     # an older name
_DEFAULT_CUSTOM_CONFIG_DICT: dict[str, dict[type, type]] = {
    "float_to_observed_custom_module_class": {
        rnn.LSTM: quantizable_rnn.LSTM,
        multihead.MultiheadAttention: quantizable_activation.MultiheadAttention,
    },
    "observed_to_quantized_custom_module_class": {
        quantizable_rnn.LSTM: q_rnn.LSTM,
        quantizable_activation.MultiheadAttention: q_activation.MultiheadAttention,
    },
}
_WITH_WEIGHTS = (linear.Linear, rnn.LSTM, rnn.GRU, rnn.LSTMCell, rnn.RNNCell, rnn.GRUCell)
# dtype -> what quantize_dynamic gives to which modules by default
_DYNAMIC: dict[_C.dtype, tuple[Any, tuple[type, ...]]] = {
    _C.qint8: (default_dynamic_qconfig, _WITH_WEIGHTS),
    _C.float16: (float16_dynamic_qconfig, _WITH_WEIGHTS),
    _C.quint8: (float_qparams_weight_only_qconfig, (sparse.EmbeddingBag, sparse.Embedding)),
    _C.quint4x2: (float_qparams_weight_only_qconfig_4bit, (sparse.EmbeddingBag,)),
}


def get_default_custom_config_dict() -> dict[str, dict[type, type]]:
    """Which float classes become which observed ones, and which quantized ones those become."""
    return _DEFAULT_CUSTOM_CONFIG_DICT


def default_eval_fn(model: Callable, calib_data: Any) -> None:
    """Run a model over (input, target) pairs, for calibration."""
    for data, _ in calib_data:
        model(data)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _propagate_qconfig_helper(
    module: Module, qconfig_dict: dict[Any, Any], qconfig_parent: Any = None, prefix: str = "",
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> None:
    """Give a module its own qconfig, else that of its path, else that of its class, else its parent's; then go on
    below it."""
    qconfig = qconfig_dict.get(type_before_parametrizations(module), qconfig_parent)
    qconfig = getattr(module, "qconfig", qconfig_dict.get(prefix, qconfig))
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = _add_module_to_qconfig_obs_ctr(qconfig, module)
    custom = prepare_custom_config_dict or {}
    left_out = custom.get("non_traceable_module_name", ()), custom.get("non_traceable_module_class", ())
    for name, child in module.named_children():
        if name not in left_out[0] and type(child) not in left_out[1]:
            _propagate_qconfig_helper(child, qconfig_dict, module.qconfig, _below(prefix, name))


def propagate_qconfig_(
    module: Module, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> None:
    """Set `qconfig` on every module below, in place: by path or class from the dict, else the parent's."""
    _propagate_qconfig_helper(module, qconfig_dict or {}, prepare_custom_config_dict=prepare_custom_config_dict)


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    """Observe what a module gives."""
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Any, input: Any) -> Any:
    """Observe what a module is given."""
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module: Module, pre_hook: bool = False) -> None:
    """Let a module's observer see its results (or its inputs), before other hooks do."""
    if not hasattr(module, "activation_post_process"):
        raise AssertionError(
            f"Expect activation_post_process attribute already attached to the module, got none at {type(module)}"
        )
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _is_observed(module: Module) -> bool:
    return getattr(module, "qconfig", None) is not None


def _make_observer(qconfig: Any, device: Any, special: Callable | None = None) -> Module:
    observer = qconfig.activation() if special is None else special()
    if device is not None:
        observer.to(device)
    return observer


def _attach_observer(module: Module, device: Any, special: Callable | None = None) -> None:
    """An observer on a module that has a qconfig; marks where floats begin again need none."""
    if _is_observed(module) and not isinstance(module, DeQuantStub):
        module.add_module("activation_post_process", _make_observer(module.qconfig, device, special))
        _register_activation_post_process_hook(module, pre_hook=_activation_is_memoryless(module.qconfig))


def _add_observer_(
    module: Module, qconfig_propagation_list: Any = None, non_leaf_module_list: Any = None, device: Any = None,
    custom_module_class_mapping: dict[type, Any] | None = None,
) -> None:
    """Attach observers below a module, in place: to leaves of the listed classes, to fused and trained layers, to
    functional modules; custom classes are swapped for their observed ones."""
    listed = get_default_qconfig_propagation_list() if qconfig_propagation_list is None else qconfig_propagation_list
    custom = custom_module_class_mapping or {}
    if device is None:
        devices = _get_unique_devices_(module)
        if len(devices) > 1:
            raise AssertionError(
                f"_add_observer_: expected a module on one device, got parts on {devices}"
            )
        device = next(iter(devices), None)
    for name, child in module.named_children():
        _observe_child(module, name, child, (listed, non_leaf_module_list, device, custom))
    in_list = not isinstance(module, Sequential) and type_before_parametrizations(module) in listed
    if in_list and has_no_children_ignoring_parametrizations(module):
        _attach_observer(module, device)
    # Checked after the first: a leaf has a second child once its observer is there.
    if in_list and hasattr(module, "weight_fake_quant"):
        _attach_observer(module, device)


def _observe_child(parent: Module, name: str, child: Any, given: tuple[Any, Any, Any, dict[type, Any]]) -> None:
    listed, non_leaves, device, custom = given
    kind = type_before_parametrizations(child)
    if kind is Dropout:
        return
    if issubclass(kind, FloatFunctional | QFunctional):
        if _is_observed(child):
            if not hasattr(child, "activation_post_process"):
                raise AssertionError(f"functional class {kind} has no pre-defined `activation_post_process`")
            child.activation_post_process = _make_observer(child.qconfig, device)
    elif isinstance(child, _FusedModule) or (non_leaves is not None and kind in non_leaves):
        _attach_observer(child, device)
    elif _has_special_act_post_process(child):
        _attach_observer(child, device, _get_special_act_post_process(child))
    elif _is_observed(child) and kind in custom:
        observed = custom[kind].from_float(child)
        setattr(parent, name, observed)
        if not issubclass(custom[kind], tuple(no_observer_set())):
            _attach_observer(observed, device)
    else:
        _add_observer_(child, listed, non_leaves, device, custom)


def _get_unique_devices_(module: Module) -> set[Any]:
    """The devices of a module's tensors, meta aside."""
    tensors = (tensor for found in (module.parameters(), module.buffers()) for tensor in found)
    return {tensor.device for tensor in tensors if tensor.device.type != "meta"}


def add_quant_dequant(module: Module) -> Module:
    """The module with every leaf that has a qconfig wrapped in a QuantWrapper, in place; a new one if it is a leaf."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def _prepare(model: Module, allow_list: Any, non_leaves: Any, custom_config: dict[str, Any] | None) -> Module:
    config = get_default_custom_config_dict() if custom_config is None else custom_config
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied: nothing will be observed. Assign a QConfig to model.qconfig (it"
            " serves all modules below) or to the .qconfig of submodules before prepare()",
            stacklevel=4,
        )
    _add_observer_(
        model, allow_list, non_leaves,
        custom_module_class_mapping=config.get("float_to_observed_custom_module_class", {}),
    )
    return model


@deprecated
def prepare(
    model: Module, inplace: bool = False, allow_list: Any = None, observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    """The model (a copy, unless in place) with observers, ready for calibration.

    allow_list: classes that are observed, instead of the default ones.
    observer_non_leaf_module_list: classes with children that are observed too.
    prepare_custom_config_dict: `{"float_to_observed_custom_module_class": {FloatClass: ObservedClass}}`, where
    ObservedClass.from_float makes the observed module.
    """
    model = model if inplace else copy.deepcopy(model)
    return _prepare(model, allow_list, observer_non_leaf_module_list, prepare_custom_config_dict)


def _remove_activation_post_process(module: Module) -> None:
    """Take a module's observer away, and the hooks that fed it."""
    if _is_activation_post_process(getattr(module, "activation_post_process", None)):
        del module.activation_post_process
    for hooks, ours in (
        (module._forward_pre_hooks, _observer_forward_pre_hook), (module._forward_hooks, _observer_forward_hook)
    ):
        for key in [key for key, hook in hooks.items() if hook is ours]:
            hooks.pop(key)


def _remove_qconfig(module: Module) -> None:
    """Take qconfigs and observers out of a module and all below."""
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


@deprecated
def quantize(
    model: Module, run_fn: Callable, run_args: Any, mapping: dict[Any, Any] | None = None, inplace: bool = False
) -> Module:
    """The model prepared, calibrated by `run_fn(model, *run_args)` and converted."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    _prepare(model, None, None, None)
    run_fn(model, *run_args)
    return _convert_whole(model, mapping)


@deprecated
def quantize_dynamic(
    model: Module, qconfig_spec: Any = None, dtype: _C.dtype = _C.qint8, mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
) -> Module:
    """The model with layers that have large weights (linear and recurrent ones; for quint8 and quint4x2, tables)
    replaced by layers with quantized weights, whose inputs are quantized by the moment's range.

    qconfig_spec: which modules, by class or path: a set (they get the dtype's qconfig) or a dict of qconfigs.
    """
    if qconfig_spec is None:
        if dtype not in _DYNAMIC:
            raise ValueError(
                f"quantize_dynamic: no default for {dtype}. Give a qconfig for each layer, or use one"
                f" of {list(_DYNAMIC)}"
            )
        qconfig, classes = _DYNAMIC[dtype]
        qconfig_spec = dict.fromkeys(classes, qconfig)
    elif isinstance(qconfig_spec, set):
        if dtype not in _DYNAMIC:
            raise RuntimeError(f"Unknown dtype specified for quantize_dynamic: {dtype}. Use one of {list(_DYNAMIC)}")
        qconfig_spec = dict.fromkeys(qconfig_spec, _DYNAMIC[dtype][0])
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return _convert_whole(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping)


def _prepare_qat(model: Module, mapping: dict[Any, Any] | None) -> Module:
    if not model.training:
        raise AssertionError("prepare_qat: expected a model in training mode, got one evaluating: call train()")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    propagate_qconfig_(model, qconfig_dict=None)
    _convert(model, mapping, inplace=True)
    return _prepare(model, None, set(mapping.values()), None)


@deprecated
def prepare_qat(model: Module, mapping: dict[Any, Any] | None = None, inplace: bool = False) -> Module:
    """The model (a copy, unless in place) with layers that train with rounded weights, and rounding of activations.
    Refuses a model in evaluation mode."""
    return _prepare_qat(model if inplace else copy.deepcopy(model), mapping)


@deprecated
def quantize_qat(model: Module, run_fn: Callable, run_args: Any, inplace: bool = False) -> Module:
    """The model prepared for training with rounding, trained by `run_fn(model, *run_args)` and converted."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    _prepare_qat(model, None)
    run_fn(model, *run_args)
    return _convert_whole(model, None)


def _convert_whole(model: Module, mapping: dict[Any, Any] | None) -> Module:
    _convert(model, mapping, inplace=True)
    _remove_qconfig(model)
    return model


@deprecated
def convert(
    module: Module, mapping: dict[Any, Any] | None = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: dict[str, Any] | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """The model (a copy, unless in place) with each module that has a qconfig and a counterpart in `mapping` swapped
    for `counterpart.from_float(module)`; qconfigs and observers are taken out at the end.

    convert_custom_config_dict: `{"observed_to_quantized_custom_module_class": {ObservedClass: QuantizedClass}}`, where
    QuantizedClass.from_observed makes the quantized module.
    """
    module = module if inplace else copy.deepcopy(module)
    _convert(
        module, mapping, inplace=True, is_reference=is_reference,
        convert_custom_config_dict=convert_custom_config_dict, use_precomputed_fake_quant=use_precomputed_fake_quant,
    )
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(
    module: Module, mapping: dict[Any, Any] | None = None, inplace: bool = False, is_reference: bool = False,
    convert_custom_config_dict: dict[str, Any] | None = None, use_precomputed_fake_quant: bool = False,
) -> Module:
    """`convert` that leaves qconfigs and observers where they are."""
    if mapping is None:
        mapping = (
            get_default_static_quant_reference_module_mappings()
            if is_reference
            else get_default_static_quant_module_mappings()
        )
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    custom = config.get("observed_to_quantized_custom_module_class", {})
    module = module if inplace else copy.deepcopy(module)
    _convert_children(module, "", mapping, custom, use_precomputed_fake_quant)
    return module


def _convert_children(
    module: Module, path: str, mapping: dict[Any, Any], custom: dict[Any, Any], use_precomputed_fake_quant: bool
) -> None:
    """Swap what stands below a module, leaves first. Fused and observed custom modules are swapped whole."""
    swapped = {}
    for name, child in module.named_children():
        where = _below(path, name)
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) not in custom:
            _convert_children(child, where, mapping, custom, use_precomputed_fake_quant)
        try:
            swapped[name] = swap_module(child, mapping, custom, use_precomputed_fake_quant)
        except (AssertionError, AttributeError, NotImplementedError, RuntimeError, ValueError) as error:
            if error.args and isinstance(error.args[0], str) and not error.args[0].startswith("convert: "):
                error.args = (f"convert: module {where!r} ({type(child).__name__}): {error.args[0]}", *error.args[1:])
            raise
        if swapped[name] is not child:
            note_place(swapped[name], where)
    module._modules.update(swapped)


def swap_module(
    mod: Module, mapping: dict[Any, Any], custom_module_class_mapping: dict[Any, Any],
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """The counterpart of a module that has a qconfig, with its hooks (but the observer's) and on its device; the module
    itself if it has none."""
    if not _is_observed(mod):
        return mod
    kind = type_before_parametrizations(mod)
    if kind in custom_module_class_mapping:
        result = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        result = _made(mapping[kind], mod, use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        result.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            result.register_forward_hook(hook)
    devices = _get_unique_devices_(mod)
    if len(devices) > 1:
        raise AssertionError(
            f"swap_module: expected a module on one device, got one on {devices}"
        )
    for device in devices:
        result.to(device)
    return result


def _made(target: Any, mod: Any, use_precomputed_fake_quant: bool) -> Any:
    """What a class of the mapping makes of a module."""
    if getattr(target, "_IS_REFERENCE", False):
        observer = mod.qconfig.weight()
        observer(mod.weight)
        return target.from_float(mod, get_qparam_dict(observer))
    if "use_precomputed_fake_quant" in inspect.signature(target.from_float).parameters:
        return target.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    return target.from_float(mod)


def _get_observer_dict(mod: Module, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Put all observers below a module into a dict, by path."""
    if hasattr(mod, "activation_post_process"):
        target_dict[_below(prefix, "activation_post_process")] = mod.activation_post_process
    for name, child in mod.named_children():
        _get_observer_dict(child, target_dict, _below(prefix, name))
