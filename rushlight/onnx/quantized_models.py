"""Quantized modules as float ones that round: what eager mode and FX quantization make, in a form that can be exported.

Enters: a module some of whose parts are quantized. Leaves: a copy that computes with floats on the grids that its
scales give, so that each quantized tensor is a QuantizeLinear and a DequantizeLinear, weights by channel too. Results
are those of the integers, but for sums that are rounded otherwise at the last step. Refuses, by name, quantized layers
that have no such form here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .. import _C
from ..aten.namespaces import namespace
from ..fx.graph_module import GraphModule
from ..nn import Module, functional
from ..op import ops
from ..quantized import decomposed as _defined  # noqa: F401 - defines the ops

PLAIN = {"quint8": (0, 255, _C.uint8), "qint8": (-128, 127, _C.int8), "qint32": (-(2**31), 2**31 - 1, _C.int32)}
ROOMS = (".ao.nn.quantized.", ".ao.nn.intrinsic.quantized.")


def in_floats(model: Any) -> Any:
    """The module as it can be exported: itself, if nothing in it is quantized."""
    if not any(_is_quantized(m) for m in model.modules()) and not _calls_quantized(model):
        return model
    found = copy.deepcopy(model)
    if _is_quantized(found):
        return _floating(found, type(found).__name__)
    for path, module in [(p, m) for p, m in found.named_modules() if not _is_quantized(m)]:
        for name, child in list(module._modules.items()):
            if child is not None and _is_quantized(child):
                setattr(module, name, _floating(child, f"{path}.{name}".lstrip(".")))
    for module in found.modules():
        if isinstance(module, GraphModule):
            _rewrite(module)
    return found


def _is_quantized(module: Any) -> bool:
    where = type(module).__module__
    return any(room in f"{where}." for room in ROOMS) and ".reference" not in where


def _calls_quantized(model: Any) -> bool:
    return isinstance(model, GraphModule) and any(
        n.target is ops["quantize_per_tensor"] or str(n.target).startswith("quantized.") for n in model.graph.nodes)


def _own() -> Any:
    """The ops on integers, scales and zero points."""
    return namespace("quantized_decomposed")


def rounded(x: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    """x on the grid of a scale: quantized, and a float again."""
    low, high, kind = PLAIN[str(dtype).rpartition(".")[2]]
    scale, zero = (float(scale), int(zero))
    q = _own().quantize_per_tensor(x, scale, zero, low, high, kind)
    return _own().dequantize_per_tensor(q, scale, zero, low, high, kind)


class _Rounds(Module):
    """What a layer does with floats, and the grid of its results."""

    def __init__(self, compute: Callable[..., Any] | None, scale: Any, zero: Any, dtype: Any) -> None:
        super().__init__()
        self.compute, self.scale, self.zero, self.kind = compute, float(scale), int(zero), dtype

    def forward(self, *args: Any) -> Any:
        x = args[0] if self.compute is None else self.compute(*args)
        return rounded(x, self.scale, self.zero, self.kind)


class _Same(Module):
    def forward(self, x: Any) -> Any:
        return x


class _Weighted(Module):
    """A layer with integer weights: `compute` of the input, the weights as floats, and the bias."""

    def __init__(self, weight: Any, bias: Any, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.compute, self.axis = compute, None
        self.register_buffer("weight", weight.int_repr())
        self.register_buffer("bias", None if bias is None else bias.detach())
        if "per_channel" in str(weight.qscheme()):
            self.axis = weight.q_per_channel_axis()
            self.register_buffer("weight_scale", weight.q_per_channel_scales().to(_C.float32))
            self.register_buffer("weight_zero_point", weight.q_per_channel_zero_points().to(_C.int64))
        else:
            self.scale, self.zero = float(weight.q_scale()), int(weight.q_zero_point())

    def forward(self, x: Any) -> Any:
        low, high = (-128, 127) if self.weight.dtype is _C.int8 else (0, 255)
        if self.axis is None:
            weight = _own().dequantize_per_tensor(self.weight, self.scale, self.zero, low, high, self.weight.dtype)
        else:
            weight = _own().dequantize_per_channel(self.weight, self.weight_scale, self.weight_zero_point, self.axis,
                                                       low, high, self.weight.dtype)
        return self.compute(x, weight, self.bias)


class _Adaptive(Module):
    """A layer whose input is rounded to the grid that its own elements ask for."""

    def __init__(self, inner: Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        scale, zero = _own().choose_qparams.tensor(x, 0, 127, 1.1920929e-07, _C.uint8)
        q = _own().quantize_per_tensor.tensor(x, scale, zero, 0, 127, _C.uint8)
        return self.inner(_own().dequantize_per_tensor.tensor(q, scale, zero, 0, 127, _C.uint8))


def _floating(module: Any, path: str) -> Module:
    """A quantized layer with floats."""
    name, is_dynamic = type(module).__name__, ".dynamic." in f"{type(module).__module__}."
    if name == "Quantize":
        return _Rounds(None, module.scale, module.zero_point, module.dtype)
    if name in ("DeQuantize", "Dropout"):
        return _Same()
    if name in ("QFunctional", "FXFloatFunctional"):
        return _Arithmetic(module)
    if name.startswith(("Linear", "Conv")) and "Transpose" not in name and "Add" not in name:
        inner = _Weighted(module.weight(), module.bias(), _product(module, name))
        return _Adaptive(inner) if is_dynamic else _Rounds(inner, module.scale, module.zero_point, _C.quint8)
    if not is_dynamic and name in _SIMPLE:
        return _Rounds(_SIMPLE[name](module), module.scale, module.zero_point, _C.quint8)
    raise NotImplementedError(f"onnx.export: the quantized layer {name} ({path}) has no form in floats here")


def _product(module: Any, name: str) -> Callable[..., Any]:
    after: Callable[[Any], Any] = lambda y: y  # noqa: E731 - what the layer ends with
    if "ReLU" in name and not name.endswith("LeakyReLU"):
        after = ops["relu"]
    elif name == "LinearLeakyReLU":
        slope = module.negative_slope
        after = lambda y: functional.leaky_relu(y, slope)  # noqa: E731
    elif name == "LinearTanh":
        after = ops["tanh"]
    if name.startswith("Linear"):
        return lambda x, w, b: after(functional.linear(x, w, b))
    dims = int(name[-2])
    convolve = getattr(functional, f"conv{dims}d")
    stride, padding, dilation, groups = module.stride, module.padding, module.dilation, module.groups
    mode, around = module.padding_mode, getattr(module, "_reversed_padding_repeated_twice", None)

    def compute(x: Any, w: Any, b: Any) -> Any:
        if mode != "zeros":
            return after(convolve(functional.pad(x, around, mode), w, b, stride, 0, dilation, groups))
        return after(convolve(x, w, b, stride, padding, dilation, groups))

    return compute


_SIMPLE: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "Hardswish": lambda m: functional.hardswish, "Sigmoid": lambda m: ops["sigmoid"],
    "ELU": lambda m: lambda x: functional.elu(x, m.alpha),
    "LeakyReLU": lambda m: lambda x: functional.leaky_relu(x, m.negative_slope),
    "LayerNorm": lambda m: lambda x: functional.layer_norm(x, m.normalized_shape, m.weight, m.bias, m.eps),
}


class _Arithmetic(Module):
    """`QFunctional`: sums and products of quantized tensors."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.scale, self.zero_point = float(module.scale), int(module.zero_point)

    def _rounded(self, x: Any) -> Any:
        return rounded(x, self.scale, self.zero_point, _C.quint8)

    def add(self, x: Any, y: Any) -> Any:
        return self._rounded(x + y)

    def mul(self, x: Any, y: Any) -> Any:
        return self._rounded(x * y)

    def add_relu(self, x: Any, y: Any) -> Any:
        return self._rounded((x + y).relu())

    def cat(self, x: Any, dim: int = 0) -> Any:
        return self._rounded(ops["cat"](list(x), dim))

    add_scalar = staticmethod(lambda x, y: x + y)
    mul_scalar = staticmethod(lambda x, y: x * y)


# --- graphs -----------------------------------------------------------------------------------------------------------


def _rewrite(module: GraphModule) -> None:
    """Calls on quantized tensors in a graph that FX quantization made."""
    for node in module.graph.nodes:
        if node.op == "call_method" and node.target in ("dequantize", "int_repr"):
            node.replace_all_uses_with(node.args[0])
        elif node.op == "call_function" and node.target is ops["dequantize"]:
            node.replace_all_uses_with(node.args[0])
        elif node.op == "call_function" and node.target is ops["quantize_per_tensor"]:
            scale, zero = (_held(module, a) for a in node.args[1:3])
            node.target, node.args = rounded, (node.args[0], float(scale), int(zero), node.args[3])
        elif node.op == "call_function" and str(node.target).startswith("quantized."):
            _binary(module, node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _held(module: Any, value: Any) -> Any:
    if getattr(value, "op", None) == "get_attr":
        for part in str(value.target).split("."):
            module = getattr(module, part)
        return module
    return value


_BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, s, z: rounded(x + y, s, z, _C.quint8),
    "mul": lambda x, y, s, z: rounded(x * y, s, z, _C.quint8),
    "add_relu": lambda x, y, s, z: rounded((x + y).relu(), s, z, _C.quint8),
    "mul_relu": lambda x, y, s, z: rounded((x * y).relu(), s, z, _C.quint8),
    "cat": lambda x, dim, s, z: rounded(ops["cat"](list(x), dim), s, z, _C.quint8),
}


def _binary(module: Any, node: Any) -> None:
    name = str(node.target).split(".")[1]
    values = [*node.args, *node.kwargs.values()]
    if name not in _BINARY or len(values) != 4:
        raise NotImplementedError(f"onnx.export: {node.target} of quantized tensors has no form in floats here")
    scale, zero = (_held(module, v) for v in values[2:])
    node.target, node.args, node.kwargs = _BINARY[name], (*values[:2], float(scale), int(zero)), {}
