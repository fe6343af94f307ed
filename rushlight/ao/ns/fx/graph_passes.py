"""Loggers put into graphs, and graphs in which one model's operators run in the shadow of another's.

Enters: graph modules and matched subgraphs. Leaves: new graph modules; the modules they call are shared with the given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from ...._C import Tensor, dtype as _dtype, float16, quint8
from ....fx import Graph, GraphModule, Node, map_arg
from ....op import published
from ...quantization.fx.utils import free_name
from ...quantization.observer import _is_activation_post_process
from ...quantization.utils import getattr_from_fqn
from .mappings import get_node_type_to_io_type_map
from .ns_types import NSSingleResultValuesType, NSSubgraph
from .utils import (
    IoTypes,
    NodeInputOrOutputType,
    get_arg_indices_of_inputs_to_log,
    get_node_first_input_and_output_type,
    get_node_input_qparams,
    get_normalized_nth_input,
    get_number_of_non_param_args,
    get_target_type_str,
    normalized,
    op_type_supports_shadowing,
    return_first_non_observer_node,
)

_top = published("")
_INPUT, _OUTPUT = NSSingleResultValuesType.NODE_INPUT.value, NSSingleResultValuesType.NODE_OUTPUT.value
_FP32, _INT8, _FP16 = NodeInputOrOutputType.FP32, NodeInputOrOutputType.INT8, NodeInputOrOutputType.FP16


def _maybe_get_fqn(node: Node, gm: GraphModule) -> str | None:
    """The path of the module a node was traced in, where the model knows it."""
    if not hasattr(gm, "_node_name_to_scope"):
        return None
    if node.op == "call_module" and _is_activation_post_process(getattr_from_fqn(gm, node.target)):
        node = get_normalized_nth_input(node, gm, 0)
    return gm._node_name_to_scope[node.name][0]


def _log(
    node: Node, gm: GraphModule, logger_cls: Callable, suffix: str, ref_node_name: str, model_name: str, ref_name: str,
    ref_node_target_type: str, results_type: str, fqn: str | None, index_within_arg: int = 0, index_of_arg: int = 0,
) -> Node:
    """A call of a new logger after a node."""
    name = free_name(gm, node.name + suffix)
    logger = logger_cls(
        ref_node_name, node.name, model_name, ref_name, get_target_type_str(node, gm), ref_node_target_type,
        results_type, index_within_arg, index_of_arg, fqn,
    )
    setattr(gm, name, logger)
    return node.graph.create_node("call_module", name, (node,), {})


def add_loggers_to_model(
    gm: GraphModule, node_to_instrument_inputs_to_ref_node_name: dict[Node, tuple[str, str]],
    node_to_instrument_outputs_to_ref_node_name: dict[Node, tuple[str, str]], logger_cls: Callable, model_name: str,
) -> GraphModule:
    """A model that logs the inputs and outputs of nodes, each given with the name and the kind it is compared under."""
    inputs, outputs = node_to_instrument_inputs_to_ref_node_name, node_to_instrument_outputs_to_ref_node_name
    graph = Graph()
    made: dict[str, Node] = {}

    def new(args: Any) -> Any:
        return map_arg(args, lambda n: made[n.name])

    for node in gm.graph.nodes:
        if node.op == "output":
            graph.output(new(get_normalized_nth_input(node, gm, 0)))
            continue
        if node in inputs:
            name, kind = inputs[node]
            fqn = _maybe_get_fqn(node, gm)
            for at in get_arg_indices_of_inputs_to_log(node):
                arg = get_normalized_nth_input(node, gm, at)
                values = arg if isinstance(arg, list) else [arg]
                for within, value in enumerate(values):
                    if type(value) is Node:
                        source = made[value.name]      # of a list's values, a logger's own is not logged further
                        key = source.name if isinstance(arg, list) else value.name
                        made[key] = _log(source, gm, logger_cls, "_ns_logger_", node.name, model_name, name, kind,
                                         _INPUT, fqn, within, at)
        made[node.name] = graph.node_copy(node, new)
        if node in outputs:
            name, kind = outputs[node]
            made[node.name] = _log(made[node.name], gm, logger_cls, "_ns_logger_", node.name, model_name, name, kind,
                                   _OUTPUT, _maybe_get_fqn(node, gm))
    return GraphModule(gm, graph)


# --- one model in the shadow of another -------------------------------------------------------------------------------


class _Shadows:
    """Graph C: graph B, and beside each matched operator a copy of A's, on the same input in A's type."""

    def __init__(
        self, name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule, logger_cls: Callable,
        should_log_inputs: bool, types: IoTypes,
    ) -> None:
        self.name_a, self.gm_a, self.name_b, self.gm_b = name_a, gm_a, name_b, gm_b
        self.logger_cls, self.logs_inputs, self.types = logger_cls, should_log_inputs, types
        self.graph = Graph()
        self.made: dict[str, Node] = {}

    def new(self, args: Any) -> Any:
        return map_arg(args, lambda n: self.made[n.name])

    def run(self, pairs: dict[str, tuple[NSSubgraph, NSSubgraph]]) -> GraphModule:
        starts = {b.start_node: (a, b, name) for name, (a, b) in pairs.items()}
        ends = {b.end_node: (a, b, name) for name, (a, b) in pairs.items()}
        for node in self.gm_b.graph.nodes:
            if node.op == "output":
                self.graph.output(self.new(node.args[0]))
                continue
            found = starts.get(node) or ends.get(node)
            reason = self._refusal(node, found[0]) if found else ""
            if found is None or reason:
                if found is not None:
                    print(
                        f"no shadow for {get_target_type_str(node, self.gm_b)} beside "
                        f"{get_target_type_str(found[0].start_node, self.gm_a)}: {reason}"
                    )
                self.made[node.name] = self.graph.node_copy(node, self.new)
                continue
            self._add(node, *found, starts=node in starts, ends=node in ends)
        return GraphModule(self.gm_b, self.graph)

    def _io(self, node: Node, gm: GraphModule) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
        return get_node_first_input_and_output_type(node, gm, self.logger_cls, self.types)

    def _refusal(self, node: Node, a: NSSubgraph) -> str:
        """Why a node gets no shadow; "" if it does."""
        if not (op_type_supports_shadowing(a.start_node) and op_type_supports_shadowing(node)):
            return "unsupported"
        types_a, types_b = self._io(a.start_node, self.gm_a), self._io(node, self.gm_b)
        if NodeInputOrOutputType.UNKNOWN in (*types_a, *types_b):
            return "unknown dtype cast"
        if types_a[0] == _INT8 and types_b[0] == _FP32:
            if not get_node_input_qparams(a.start_node, self.gm_a, self.types):
                return "unknown input qparams"
        return "" if all(self._can_copy(n, n is a.start_node) for n in self._chain(a)) else "unhandled logic in copy"

    def _chain(self, a: NSSubgraph) -> list[Node]:
        """The nodes of a subgraph, first to last."""
        nodes = [a.end_node]
        while nodes[0] is not a.start_node:
            nodes.insert(0, get_normalized_nth_input(nodes[0], self.gm_a, 0))
        return nodes

    def _can_copy(self, node: Node, is_first: bool) -> bool:
        skipped = get_number_of_non_param_args(node, self.gm_a) if is_first else 1
        args, kwargs = normalized(node, self.gm_a)
        for arg in [*args, *kwargs.values()][skipped:]:
            if isinstance(arg, Node):
                source = return_first_non_observer_node(arg, self.gm_a)
                is_cast = source.op == "call_method" and source.target in ("dequantize", "to")
                if source.op != "get_attr" and not is_cast:
                    return False
            elif isinstance(arg, (list, tuple)) and not all(isinstance(el, Node) for el in arg):
                return False
        return True

    def _add(self, node: Node, a: NSSubgraph, b: NSSubgraph, name: str, *, starts: bool, ends: bool) -> None:
        kinds = [get_target_type_str(s.base_op_node, gm) for s, gm in ((a, self.gm_a), (b, self.gm_b))]
        paths = [_maybe_get_fqn(s.base_op_node, gm) for s, gm in ((a, self.gm_a), (b, self.gm_b))]
        before = get_normalized_nth_input(node, self.gm_b, 0) if starts else None
        if starts and self.logs_inputs:
            for within, value in enumerate(before if isinstance(before, list) else [before]):
                made = self.made[value.name]
                self.made[made.name] = _log(made, self.gm_b, self.logger_cls, "_ns_logger_b_inp_", node.name,
                                            self.name_b, name, kinds[1], _INPUT, paths[1], within)
        self.made[node.name] = copy_c = self.graph.node_copy(node, self.new)
        if starts:
            self._add_shadow(node, copy_c, a, name, kinds[0], paths[0])
        if ends:
            self.made[node.name] = _log(self.made[node.name], self.gm_b, self.logger_cls, "_ns_logger_b_", node.name,
                                        self.name_b, name, kinds[1], _OUTPUT, paths[1])

    def _add_shadow(self, node: Node, node_c: Node, a: NSSubgraph, name: str, kind: str, fqn: str | None) -> None:
        source = get_normalized_nth_input(node_c, self.gm_b, 0)
        if self.logs_inputs and isinstance(source, list):
            source = [get_normalized_nth_input(s, self.gm_b, 0) for s in source]
        cast = self._cast(a.start_node, node_c, source, f"{node.name}_dtype_cast_")
        loggers = []
        if self.logs_inputs:
            casts = cast if isinstance(cast, list) else [cast]
            loggers = [
                _log(value, self.gm_b, self.logger_cls, "_ns_logger_a_inp_", "", self.name_a, name, kind, _INPUT, fqn,
                     within)
                for within, value in enumerate(casts)
            ]
            cast = loggers if isinstance(cast, list) else loggers[0]
        second = None
        if get_number_of_non_param_args(a.start_node, self.gm_a) == 2:
            second = get_normalized_nth_input(node_c, self.gm_b, 1)
        first = shadow = self._copy_operator(cast, second, a.start_node, f"{node_c.name}_shadow_copy_")
        for other in self._chain(a)[1:]:
            shadow = self._copy_operator(shadow, None, other, f"{node_c.name}_shadow_copy_")
        for logger in loggers:
            getattr(self.gm_b, logger.name).ref_node_name = first.name
        self.made[shadow.name] = _log(shadow, self.gm_b, self.logger_cls, "_ns_logger_a_", shadow.name, self.name_a,
                                      name, kind, _OUTPUT, fqn)

    def _cast(self, node_a: Node, node_c: Node, source: Any, prefix: str) -> Any:
        """A value, or each of a list of them, in the type that A's operator takes."""
        type_a, type_c = self._io(node_a, self.gm_a)[0], self._io(node_c, self.gm_b)[0]
        qparams = None
        if type_a == _INT8 and type_c == _FP32:
            qparams = get_node_input_qparams(node_a, self.gm_a, self.types)

        def one(value: Node) -> Node:
            name = free_name(self.gm_b, prefix)
            if type_a == _FP32 and type_c in (_INT8, _FP16, NodeInputOrOutputType.FP32_OR_INT8):
                return self.graph.create_node("call_function", _top["dequantize"], (value,), {}, name)
            if qparams is not None:
                kept = [self._keep(f"{node_a.name}_input_{what}_", q) for what, q in
                        zip(("scale", "zero_point"), qparams, strict=True)]
                args = (value, *kept, quint8)
                return self.graph.create_node("call_function", _top["quantize_per_tensor"], args, {}, name)
            if type_a == _FP16 and type_c == _FP32:
                return self.graph.create_node("call_method", "to", (value, float16), {}, name)
            if type_a != type_c:
                raise AssertionError(f"{node_a}: there is no cast from {type_c} to {type_a}")
            setattr(self.gm_b, name, nn.Identity())
            return self.graph.create_node("call_module", name, (value,), {}, name)

        return [one(value) for value in source] if isinstance(source, list) else one(source)

    def _keep(self, prefix: str, value: Any) -> Node:
        """A value kept as an attribute, and read."""
        name = free_name(self.gm_b, prefix)
        setattr(self.gm_b, name, value)
        return self.graph.create_node("get_attr", name, (), {}, name)

    def _copy_operator(self, first: Any, second: Any, node_a: Node, prefix: str) -> Node:
        """A's operator on other inputs; its parameters are taken over."""
        args, kwargs = normalized(node_a, self.gm_a)
        inputs = [first, *([second] if second is not None else [])]

        def value(index: int, arg: Any) -> Any:
            return inputs[index] if index < len(inputs) else self._copy_argument(arg)

        new_args = tuple(value(i, arg) for i, arg in enumerate(args))
        new_kwargs = {key: value(len(args) + i, arg) for i, (key, arg) in enumerate(kwargs.items())}
        name = free_name(self.gm_b, prefix)
        target = node_a.target
        if node_a.op == "call_module":
            setattr(self.gm_b, name, getattr_from_fqn(self.gm_a, node_a.target))
            target = name
        return self.graph.create_node(node_a.op, target, new_args, new_kwargs, name)

    def _copy_argument(self, arg: Any) -> Any:
        if not isinstance(arg, Node):
            if arg is None or isinstance(arg, (int, float, str, list, tuple, _dtype)):
                return arg
            raise AssertionError(f"an argument of {type(arg)} cannot be taken over")
        source = return_first_non_observer_node(arg, self.gm_a)
        prefix = f"{source.name}_shadow_copy_"
        if source.op == "get_attr":
            held = getattr_from_fqn(self.gm_a, source.target)
            return self._keep(prefix, held.detach() if isinstance(held, Tensor) else held)
        rest = [get_normalized_nth_input(source, self.gm_a, 1)] if source.target == "to" else []
        args = (self._copy_argument(get_normalized_nth_input(source, self.gm_a, 0)), *rest)
        return self.graph.create_node(source.op, source.target, args, {}, free_name(self.gm_b, prefix))


def create_a_shadows_b(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    matched_subgraph_pairs: dict[str, tuple[NSSubgraph, NSSubgraph]], logger_cls: Callable, should_log_inputs: bool,
    node_type_to_io_type_map: IoTypes | None = None,
) -> GraphModule:
    """Model B with A's operators in its shadow, both logged; what cannot be shadowed is said and left."""
    types = get_node_type_to_io_type_map() if node_type_to_io_type_map is None else node_type_to_io_type_map
    shadows = _Shadows(name_a, gm_a, name_b, gm_b, logger_cls, should_log_inputs, types)
    return shadows.run(matched_subgraph_pairs)
