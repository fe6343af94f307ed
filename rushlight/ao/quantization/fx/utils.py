"""What several passes ask of a graph: which argument is a weight, what makes a value, names that are free.

Enters: nodes, modules, graphs. Leaves: answers, nodes, and small graph modules; nothing else is changed.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

from ...._C import Tensor, float16, qint8
from ....fx import Graph, GraphModule, Node, map_arg
from ....nn import Module, functional as F  # noqa: N812
from ....ops import quantized
from ....tensors.interop import tensor
from ..observer import _is_activation_post_process
from ..quant_type import QuantType
from ..utils import _assert_and_get_unique_device as assert_and_get_unique_device
from .custom_config import PrepareCustomConfig
from .graph_module import ObservedGraphModuleAttrs

__all__ = [
    "ObservedGraphModuleAttrs", "all_node_args_have_no_tensors", "assert_and_get_unique_device",
    "collect_producer_nodes", "create_getattr_from_value", "create_node_from_old_node_preserve_meta",
    "get_custom_module_class_keys", "get_linear_prepack_op_for_dtype", "get_new_attr_name_with_prefix",
    "get_qconv_prepack_op", "get_skipped_module_name_and_classes", "graph_module_from_producer_nodes",
    "maybe_get_next_module", "node_arg_is_bias", "node_arg_is_weight",
]

TARGET = "quantization_target"       # the key of a node's `Target` in its meta


def from_deprecated_dict(kind: Any, given: Any, where: str, stacklevel: int = 3) -> Any:
    """A config object as it is, or one made of the dictionary that older programs pass, with a warning."""
    if not isinstance(given, dict):
        return given
    warnings.warn(
        f"{where}: dictionaries are deprecated here; pass a {kind.__name__} instead", FutureWarning,
        stacklevel=stacklevel + 1,
    )
    return kind.from_dict(given)


def _is_argument(node: Node, arg: Any, what: str) -> bool:
    index = getattr(node.meta.get(TARGET), f"{what}_index", None)
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get(what) is arg


def node_arg_is_weight(node: Node, arg: Any) -> bool:
    """Whether an argument of a node is its weight."""
    return _is_argument(node, arg, "weight")


def node_arg_is_bias(node: Node, arg: Any) -> bool:
    """Whether an argument of a node is its bias."""
    return _is_argument(node, arg, "bias")


def get_custom_module_class_keys(custom_module_mapping: dict[QuantType, dict[type, type]]) -> list[Any]:
    """The classes that a mapping of custom modules replaces."""
    return list({cls for classes in custom_module_mapping.values() for cls in classes})


def get_skipped_module_name_and_classes(
    prepare_custom_config: PrepareCustomConfig, is_standalone_module: bool
) -> tuple[list[str], list[type]]:
    """Names and classes of modules that tracing does not enter."""
    names = list(prepare_custom_config.non_traceable_module_names)
    classes = list(prepare_custom_config.non_traceable_module_classes)
    if not is_standalone_module:      # what it holds of these is for its parent
        names += prepare_custom_config.standalone_module_names
        classes += prepare_custom_config.standalone_module_classes
        classes += get_custom_module_class_keys(prepare_custom_config.float_to_observed_mapping)
    return names, classes


def get_linear_prepack_op_for_dtype(dtype: Any) -> Any:
    """The op that packs a linear weight of a type."""
    if dtype == float16:
        return quantized.linear_prepack_fp16
    if dtype == qint8:
        return quantized.linear_prepack
    raise Exception(f"no op packs a linear weight of type {dtype}")  # noqa: TRY002 - the class callers know


_CONV_KINDS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def get_qconv_prepack_op(conv_op: Callable) -> Any:
    """The op that packs the weight of a convolution function."""
    for kind in _CONV_KINDS:
        if conv_op is getattr(F, kind):
            return getattr(quantized, f"{kind}_prepack")
    raise AssertionError(f"no op packs the weight of {conv_op}")


def free_name(module: Any, prefix: str) -> str:
    """The first of prefix0, prefix1, ... that a module has no attribute of."""
    prefix, number = prefix.replace(".", "_"), 0
    while hasattr(module, f"{prefix}{number}"):
        number += 1
    return f"{prefix}{number}"


def get_new_attr_name_with_prefix(prefix: str) -> Callable[[Module], str]:
    """`free_name` as a function of the module."""
    return lambda module: free_name(module, prefix)


def create_getattr_from_value(module: Module, graph: Graph, prefix: str, value: Any, device: Any = None) -> Node:
    """Keep a value as a buffer of a module, and read it in the graph."""
    name = free_name(module, prefix)
    if isinstance(value, Tensor):
        value = value.detach().clone()
    else:
        value = tensor(value, device=assert_and_get_unique_device(module) if device is None else device)
    module.register_buffer(name, value)
    return graph.create_node("get_attr", name)


def create_node_from_old_node_preserve_meta(graph: Graph, create_node_args: tuple, old_node: Node) -> Node:
    """A new node that was written where an old one was."""
    node = graph.create_node(*create_node_args)
    node.stack_trace = old_node.stack_trace
    return node


def collect_producer_nodes(node: Node) -> list[Node] | None:
    """The nodes that a value is computed from, itself first; None if an input of the graph is among them."""
    nodes, frontier = [node], [node]
    while frontier:
        current = frontier.pop()
        for arg in (*current.args, *current.kwargs.values()):
            if not isinstance(arg, Node):
                continue
            if arg.op == "placeholder":
                return None
            nodes.append(arg)
            if not (arg.op == "call_function" and arg.target is getattr):
                frontier.append(arg)
    return nodes


def graph_module_from_producer_nodes(root: GraphModule, producer_nodes: list[Node]) -> GraphModule:
    """A module that computes the value of the first of `collect_producer_nodes`."""
    if not producer_nodes:
        raise AssertionError("graph_module_from_producer_nodes: there are no nodes")
    producer_nodes.reverse()
    graph, made = Graph(), {}
    for node in producer_nodes:
        made[node] = graph.node_copy(node, lambda args: map_arg(args, lambda n: made[n]))
    graph.output(made[producer_nodes[-1]])
    return GraphModule(root, graph)


def all_node_args_have_no_tensors(node: Any, modules: dict[str, Module], cache: dict[Node, bool]) -> bool:
    """Whether a value is known to be computed from numbers alone, such as sizes; False when in doubt."""
    if not isinstance(node, Node):
        return True
    if node not in cache:
        cache[node] = False      # what depends on itself cannot be
        cache[node] = _is_number(node, modules, cache)
    return cache[node]


def _is_number(node: Node, modules: dict[str, Module], cache: dict[Node, bool]) -> bool:
    if node.op in ("placeholder", "get_attr"):
        return False
    if node.op == "call_module":
        observed = _is_activation_post_process(modules[node.target])
        return observed and all_node_args_have_no_tensors(node.args[0], modules, cache)
    if node.op == "call_function" and node.target is operator.getitem:
        return all_node_args_have_no_tensors(node.args[0], modules, cache)
    if (node.target is getattr and node.args[1] in ("ndim", "shape")) or (
        node.op == "call_method" and node.target == "size"
    ):
        return True
    for arg in node.args:
        if isinstance(arg, list):
            if not all(all_node_args_have_no_tensors(a, modules, cache) for a in arg):
                return False
        elif isinstance(arg, Node):
            if not all_node_args_have_no_tensors(arg, modules, cache):
                return False
        elif not isinstance(arg, int):
            return False
    return bool(node.args)


def maybe_get_next_module(
    node: Node, modules: dict[str, Module], target_module_type: type | None = None, target_functional_type: Any = None
) -> Node | None:
    """The first user of a node that calls a module of a class, or a function."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None:
            if isinstance(modules[str(user.target)], target_module_type):
                return user
        elif user.op == "call_function" and target_functional_type is not None:
            if user.target == target_functional_type:
                return user
    return None


def _get_module(node: Node, named_modules: dict[str, Module]) -> Module | None:
    """The module that a node calls, if it calls one."""
    return named_modules.get(str(node.target)) if node.op == "call_module" else None


def is_activation_post_process_node(node: Any, modules: dict[str, Module]) -> bool:
    """Whether a node calls an observer."""
    return isinstance(node, Node) and node.op == "call_module" and _is_activation_post_process(modules[node.target])


