"""Questions about nodes of compared graphs, tidying of results, and measures of difference.

Enters: nodes and graph modules; results; pairs of tensors (lists and tuples of them too). Leaves: types and qparams of
inputs, texts, measures. Refuses: indexes of inputs that are not there.
"""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

from ...._C import Tensor, float16, float32
from ....fx import GraphModule, Node
from ....nn import LSTM, functional as F  # noqa: N812
from ....op import published
from ....ops import quantized as toq
from ....tensors.plain_functions import typename
from ...quantization.fake_quantize import FakeQuantizeBase
from ...quantization.observer import ObserverBase, _is_activation_post_process
from ...quantization.utils import getattr_from_fqn
from .ns_types import NSNodeTargetType, NSResultsType

_top = published("")


class NodeInputOrOutputType(enum.Enum):
    """What a node takes or gives."""

    FP32 = enum.auto()
    INT8 = enum.auto()
    FP16 = enum.auto()
    UNKNOWN = enum.auto()
    FP32_OR_INT8 = enum.auto()


_FP32, _INT8, _FP16, _UNKNOWN = (getattr(NodeInputOrOutputType, name) for name in ("FP32", "INT8", "FP16", "UNKNOWN"))
IoTypes = dict[str, set[NSNodeTargetType]]


def get_node_first_input_and_output_type(
    node: Node, gm: GraphModule, logger_cls: Any, node_type_to_io_type_map: IoTypes
) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
    """The types of a node's first input and of its output."""
    kinds = node_type_to_io_type_map

    def before() -> NodeInputOrOutputType:
        first = get_normalized_nth_input(node, gm, 0)
        if not isinstance(first, Node):
            raise AssertionError(f"{node}: the first input is no value of the graph but {first!r}")
        return get_node_first_input_and_output_type(first, gm, logger_cls, kinds)[1]

    if node.op == "call_function":
        for kind, found in (("fp32", _FP32), ("fp16", _FP16), ("int8", _INT8)):
            if node.target in kinds[f"funs_io_type_{kind}"]:
                return found, found
        if node.target in kinds["funs_io_type_fp32_or_int8"]:
            return (before(),) * 2
    elif node.op == "call_module":
        module = getattr_from_fqn(gm, node.target)
        passing = tuple(kinds["mods_io_type_fp32_or_int8"])
        if isinstance(module, (logger_cls, ObserverBase, FakeQuantizeBase, *passing)):
            return (before(),) * 2
        for kind, found in (("fp32", _FP32), ("int8", _INT8)):
            if isinstance(module, tuple(kinds[f"mods_io_type_{kind}"])):
                return found, found
    elif node.op == "call_method":
        if node.target == "dequantize":
            return before(), _FP32
        if node.target == "to":
            if get_normalized_nth_input(node, gm, 1) is not float16:
                raise AssertionError(f"{node}: casts to other types than float16 are not compared")
            return before(), _FP16
        if node.target in kinds["meths_io_type_fp32_or_int8"]:
            return (before(),) * 2
    return _UNKNOWN, _UNKNOWN


def get_node_input_qparams(
    node: Node, gm: GraphModule, node_type_to_io_type_map: IoTypes
) -> tuple[Any, Any] | None:
    """Scale and zero point of a node's first input, where what made it has them."""
    source = get_normalized_nth_input(node, gm, 0)
    if not isinstance(source, Node):
        return None
    if source.op == "call_function":
        at = None
        if source.target is _top["quantize_per_tensor"]:
            at = 1
        elif source.target in (toq.add, toq.add_relu, toq.mul, toq.mul_relu):
            at = 2
        if at is None:
            return None
        scale, zero_point = (get_normalized_nth_input(source, gm, at + i) for i in (0, 1))
        return getattr_from_fqn(gm, scale.target), getattr_from_fqn(gm, zero_point.target)
    if source.op == "call_module":
        module = getattr_from_fqn(gm, source.target)
        if isinstance(module, tuple(node_type_to_io_type_map["mods_io_type_fp32_or_int8"])):
            return get_node_input_qparams(source, gm, node_type_to_io_type_map)
        if hasattr(module, "scale") and hasattr(module, "zero_point"):
            return module.scale, module.zero_point
    return None


def return_first_non_observer_node(node: Node, gm: GraphModule) -> Node:
    """What an observer (or two of them) observes; other nodes are themselves."""
    for _ in range(2):
        if node.op == "call_module" and _is_activation_post_process(getattr_from_fqn(gm, node.target)):
            node = node.args[0]
    return node


def get_number_of_non_param_args(node: Node, gm: GraphModule) -> int:
    """How many arguments are values rather than parameters: two of an LSTM, else one."""
    return 2 if node.op == "call_module" and isinstance(getattr_from_fqn(gm, node.target), LSTM) else 1


def get_arg_indices_of_inputs_to_log(node: Node) -> list[int]:
    """Which arguments are logged: those of arithmetic that are values, else the first."""
    arithmetic = (_top["add"], toq.add, operator.add, _top["mul"], toq.mul, operator.mul)
    if node.op == "call_function" and node.target in arithmetic:
        return [i for i in range(2) if type(node.args[i]) is Node]
    return [0] if node.args else []


def get_target_type_str(node: Node, gm: GraphModule) -> str:
    """The operator of a node, in words."""
    if node.op in ("call_function", "call_method"):
        return typename(node.target)
    return typename(getattr_from_fqn(gm, node.target)) if node.op == "call_module" else ""


def rekey_logger_info_on_node_name_of_model(results: NSResultsType, model_name: str) -> NSResultsType:
    """Results under the node names of one model."""
    renamed = {}
    for layer, kinds in results.items():
        names = [models[model_name][0]["ref_node_name"] for models in kinds.values() if model_name in models]
        renamed[names[-1] if names else layer] = kinds
    return renamed


def maybe_add_missing_fqns(results: NSResultsType) -> None:
    """Where one model's results know the paths of their layers, give them to the other's."""
    first = next((models for kinds in results.values() for models in kinds.values()), {})
    knows = next((name for name, found in first.items() if found and found[0]["fqn"] is not None), None)
    if knows is None:
        return
    for kinds in results.values():
        for models in kinds.values():
            for name, found in models.items():
                if name != knows:
                    for entry, known in zip(found, models[knows], strict=False):
                        entry["fqn"] = known["fqn"]


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(f: Callable) -> Callable:
    """A measure of two tensors, made one of quantized tensors, and of tuples and lists pair by pair. What is not of
    floats has none."""

    @functools.wraps(f)
    def inner(a: Any, b: Any, *others: Any, **kwargs: Any) -> Any:
        if isinstance(a, (tuple, list)) and type(a) is type(b):
            return [inner(x, y, *others, **kwargs) for x, y in zip(a, b, strict=False)]
        a, b = (t.dequantize() if isinstance(t, Tensor) and t.is_quantized else t for t in (a, b))
        return f(a, b, *others, **kwargs) if a.dtype == b.dtype == float32 else None

    return inner


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x: Tensor, y: Tensor) -> Tensor:
    """Signal to quantization noise, in decibels."""
    return 20 * (x.norm() / (x - y).norm()).log10()


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x: Tensor, y: Tensor) -> Tensor:
    """The norm of the difference, over that of `x`."""
    return (((x - y) ** 2).sum() / (x**2).sum()).sqrt()


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x: Tensor, y: Tensor) -> Tensor:
    """The cosine of the angle between two tensors."""
    return F.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))


def op_type_supports_shadowing(node: Node) -> bool:
    """Whether a copy of a node can run beside another: not those of several inputs."""
    several = (_top["add"], _top["mul"], operator.add, operator.mul, _top["cat"], _top["stack"])
    return not (node.op == "call_function" and node.target in several)


def normalized(node: Node, gm: GraphModule) -> tuple[tuple, dict[str, Any]]:
    """A node's arguments by name where its signature is known, else as they are."""
    try:
        found = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    except RuntimeError:
        found = None
    return (node.args, node.kwargs) if found is None else (found[0], found[1])


def get_normalized_nth_input(node: Node, gm: GraphModule, idx: int) -> Any:
    """An argument by position, however it was passed."""
    args, kwargs = normalized(node, gm)
    values = [*args, *kwargs.values()]
    if idx >= len(values):
        raise AssertionError(f"{node}: there is no input {idx}, only {len(values)}")
    return values[idx]
