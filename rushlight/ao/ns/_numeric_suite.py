"""The numeric suite for eager models: weights, outputs and errors of a quantized model beside its float form's.

Enters: a float model and its quantized form. Leaves: dictionaries by the names of layers, each with "float" and
"quantized". Layers are matched by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._C import Tensor, quint8
from ...nn import LSTM, Module
from ..nn import quantized as nnq
from ..nn.quantized import dynamic as nnqd
from ..quantization.qconfig import QConfig
from ..quantization.quantization_mappings import get_default_compare_output_module_list
from ..quantization.quantize import prepare

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, LSTM}


def _find_match(str_list: Iterable[str], key_str: str, postfix: str) -> str | None:
    """The name among others that is of the same layer as one that ends in `postfix`; packed weights lie one deeper."""
    path = key_str.split(".")
    if path[-1] != postfix:
        return None
    wanted = ["".join(path[:-1])]
    if postfix == "_packed_params" and len(path) > 2:
        wanted.append("".join(path[:-2]))
    for text in wanted:
        for other in str_list:
            parts = other.split(".")
            if text in ("".join(parts[:-1]), "".join(parts[:-2])):
                return other
    return None


def compare_weights(float_dict: dict[str, Any], quantized_dict: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The weights of two state dicts, by the names of the quantized one."""
    result: dict[str, dict[str, Any]] = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is not None:
            result[key] = {"float": float_dict[match], "quantized": value}
            continue
        match = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            result[key] = {"float": float_dict[match], "quantized": value[0]}
        path = key.split(".")
        if path[-1] == "param" and path[-3] == "_all_weight_values":       # a layer of a dynamic LSTM
            layer, owner = path[-2], ".".join(path[:-3])
            hidden = f"{owner}.weight_hh_l{layer}"
            if f"{owner}.weight_ih_l{layer}" in float_dict and hidden in float_dict:
                packed = value.__getstate__()[0][4][1]
                result[key] = {"float": float_dict[hidden], "quantized": packed.__getstate__()[0][0]}
    return result


class Logger(Module):
    """Keeps what passes through it in `stats`."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = quint8       # as observers have

    def forward(self, x: Any) -> Any:
        """Nothing is kept here; subclasses say what."""


class ShadowLogger(Logger):
    """Keeps a layer's outputs and those of the float layer beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["float"] = []
        self.stats["quantized"] = []

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        x, y = (value[0] if len(value) > 1 else value for value in (x, y))
        self.stats["quantized"].append(x.detach())
        self.stats["float"].append(y.detach())


class OutputLogger(Logger):
    """Keeps a layer's outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        self.stats["tensor_val"].append(x)
        return x


def get_logger_dict(mod: Module, prefix: str = "") -> dict[str, dict]:
    """What the loggers in a module have kept, by the names of the modules they are in."""
    result: dict[str, dict] = {}
    logger = next((child for child in mod.children() if isinstance(child, Logger)), None)
    if logger is not None:
        result[f"{prefix}.stats" if prefix else "stats"] = logger.stats
    for name, child in mod.named_children():
        result.update(get_logger_dict(child, f"{prefix}.{name}" if prefix else name))
    return result


def _as_lists(value: Any) -> Any:
    return [_as_lists(v) for v in value] if type(value) is tuple else value


def _dequantized(value: Any) -> Any:
    if type(value) is list:
        return [_dequantized(v) for v in value]
    return value.dequantize() if isinstance(value, Tensor) and value.is_quantized else value


class Shadow(Module):
    """A quantized module that runs its float form beside it, and logs both outputs."""

    def __init__(self, q_module: Any, float_module: Any, logger_cls: Callable) -> None:
        super().__init__()
        self.orig_module = q_module
        self.shadow_module = float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def _both(self, method: str, *args: Any) -> Any:
        """A method of the quantized module and of the float one."""
        output = getattr(self.orig_module, method)(*args)
        self.logger(output, getattr(self.shadow_module, method)(*(_dequantized(arg) for arg in args)))
        return output

    def forward(self, *x: Any) -> Any:
        return self._both("__call__", *_as_lists(x))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self._both("add", x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return self._both("add_scalar", x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._both("mul", x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return self._both("mul_scalar", x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return self._both("cat", x, dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self._both("add_relu", x, y)


def prepare_model_with_stubs(
    float_module: Module, q_module: Module, module_swap_list: set[type], logger_cls: Callable
) -> None:
    """Put the float form of each layer of these classes beside the quantized one, in place."""
    floats = dict(float_module.named_children())
    shadows = {}
    for name, module in q_module.named_children():
        if name not in floats:
            continue
        if type(floats[name]) not in module_swap_list:
            prepare_model_with_stubs(floats[name], module, module_swap_list, logger_cls)
        elif not _is_identical_module_type(module, floats[name]):
            shadows[name] = Shadow(module, floats[name], logger_cls)
    q_module._modules.update(shadows)


def _is_identical_module_type(mod1: Module, mod2: Module) -> bool:
    return [type(m) for m in mod1.modules()] == [type(m) for m in mod2.modules()]


def compare_model_stub(
    float_model: Module, q_model: Module, module_swap_list: set[type], *data: Any, logger_cls: Callable = ShadowLogger
) -> dict[str, dict]:
    """Run a quantized model with float layers beside its own; what both gave, by layer. It is changed for that."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module: Module, q_module: Module) -> dict[str, dict[str, Any]]:
    """The outputs that loggers in two models have kept, by the quantized model's layers."""
    floats, quantized = get_logger_dict(float_module), get_logger_dict(q_module)
    result: dict[str, dict[str, Any]] = {}
    for key, stats in quantized.items():
        match = _find_match(sorted(floats, reverse=True), key, "stats") if stats["tensor_val"] else None
        if match is not None:
            result[key] = {"float": floats[match]["tensor_val"], "quantized": stats["tensor_val"]}
    return result


def prepare_model_outputs(
    float_module: Any, q_module: Any, logger_cls: Callable = OutputLogger, allow_list: set[type] | None = None
) -> None:
    """Log the outputs of layers of both models, of these classes or the default ones."""
    allowed = get_default_compare_output_module_list() if allow_list is None else allow_list
    float_module.qconfig = q_module.qconfig = QConfig(activation=logger_cls, weight=None)
    prepare(float_module, inplace=True, allow_list=allowed, prepare_custom_config_dict={})
    prepare(
        q_module, inplace=True, allow_list=allowed,
        observer_non_leaf_module_list=NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST, prepare_custom_config_dict={},
    )


def compare_model_outputs(
    float_model: Module, q_model: Module, *data: Any, logger_cls: Callable = OutputLogger,
    allow_list: set[type] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run both models and compare the outputs of their layers."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
