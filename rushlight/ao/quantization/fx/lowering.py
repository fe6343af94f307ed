"""Lowering: dequantize, a reference operator, quantize become one quantized operator.

Enters: a reference model. Leaves: a model of quantized modules and ops, weights packed once and kept as attributes;
what has no quantized form stays between its dequantize and quantize. The passes run in the order of `lower`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from ...._C import float16, qint8, quint8
from ....fx import Graph, GraphModule, Node, map_arg
from ....nn import functional as F  # noqa: N812
from ....op import published
from ..quantization_mappings import get_quantized_operator
from ..utils import _parent_name
from . import lowering_table as table
from .graph_module import keep_packed_weights
from .utils import (
    collect_producer_nodes,
    create_node_from_old_node_preserve_meta,
    free_name,
    get_linear_prepack_op_for_dtype,
    get_qconv_prepack_op,
    graph_module_from_producer_nodes,
)

_functions = published("")
_RELUS = (F.relu, _functions["relu"])


def lower(
    model: GraphModule, qconfigs: dict[str, Any], scopes: dict[str, tuple[str, type]], keep_original_weights: bool
) -> GraphModule:
    """The model of quantized operators."""
    lowering = _Lowering(model, qconfigs)
    for step in (
        lowering.static_modules, lowering.static_sums, lowering.dynamic_modules, lowering.weight_only_modules,
        lowering.static_functions, lowering.dynamic_functions, lowering.binary_operators, lowering.questions,
        lowering.other_operators,
    ):
        step()
    model.graph.eliminate_dead_code()
    model = fold_weight(model, scopes, keep_original_weights)
    model.graph.eliminate_dead_code()
    model.recompile()
    model.graph.lint()
    return model


def is_dequantize(node: Any) -> bool:
    """Whether a value is a dequantized one."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def _calls(node: Any, function: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target is function


class _Lowering:
    """The passes over one model."""

    def __init__(self, model: GraphModule, qconfigs: dict[str, Any]) -> None:
        self.model, self.graph, self.qconfigs = model, model.graph, qconfigs
        self.modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))

    # --- what they ask ------------------------------------------------------------------------------------------------

    def _module(self, node: Any) -> Any:
        return self.modules.get(node.target) if isinstance(node, Node) and node.op == "call_module" else None

    def _is_relu(self, node: Any, functions: tuple = _RELUS) -> bool:
        if not isinstance(node, Node):
            return False
        is_function = node.op == "call_function" and any(node.target is relu for relu in functions)
        return is_function or type(self._module(node)) is nn.ReLU

    def _stays_float(self, node: Node) -> bool:
        return self.qconfigs.get(node.name, ...) is None

    def _quantized(self, node: Node) -> tuple[Node | None, Node]:
        """The relu, if there is one, and the operator whose result a quantize node quantizes."""
        source = node.args[0]
        return (source, source.args[0]) if self._is_relu(source) else (None, source)

    def _static(self, kinds: Any, inputs: int, of_module: bool) -> list[tuple[Node, Node | None, Node]]:
        """(quantize, relu or None, operator) wherever operators of these kinds have dequantized inputs."""
        found = []
        for node in self.graph.nodes:
            if not _calls(node, _functions["quantize_per_tensor"]):
                continue
            relu, source = self._quantized(node)
            if not isinstance(source, Node) or self._stays_float(source):
                continue
            fits = source.op == "call_function" and source.target in kinds
            if of_module:
                fits = source.op == "call_module" and type(self._module(source)) in kinds
            values = [arg for arg in source.args[:inputs] if isinstance(arg, Node)]
            if fits and values and all(map(is_dequantize, values)):
                found.append((node, relu, source))
        return found

    def _output_qparams(self, quantize: Node) -> tuple[Any, Any]:
        return tuple(getattr(self.model, arg.target) for arg in quantize.args[1:3])     # type: ignore[return-value]

    def _put(self, node: Node, module: Any) -> None:
        owner, name = _parent_name(node.target)
        setattr(self.modules[owner], name, module)

    def _undequantize(self, node: Node, args: Any) -> None:
        """Let a node read values as they are before their dequantize."""
        for arg in args:
            if is_dequantize(arg):
                node.replace_input_with(arg, arg.args[0])

    # --- modules ------------------------------------------------------------------------------------------------------

    def _lower_static(self, quantize: Node, source: Node, quantized_class: Any) -> None:
        """A quantized module for an operator and the quantize after it."""
        self._put(source, quantized_class.from_reference(self._module(source), *self._output_qparams(quantize)))
        self._undequantize(source, source.args)
        quantize.replace_all_uses_with(source)
        for node in (quantize, quantize.args[1], quantize.args[2]):
            self.graph.erase_node(node)

    def static_modules(self) -> None:
        """Linear and convolution modules, alone or with an activation in them."""
        kinds = {**table.STATIC, **table.STATIC_FUSED}
        for quantize, _, source in self._static(kinds, 1, of_module=True):
            module = self._module(source)
            quantized_class = table.STATIC.get(type(module))
            if quantized_class is None:
                part, quantized_class = table.STATIC_FUSED[type(module)]
                if type(module[0]) is not part:
                    continue
            self._lower_static(quantize, source, quantized_class)

    def static_sums(self) -> None:
        """Convolutions that add another value."""
        for quantize, relu, source in self._static(table.STATIC_SUMS, 2, of_module=True):
            module = self._module(source)
            part, quantized_class = table.STATIC_SUMS[type(module)]
            both = len(source.args) == 2 and all(map(is_dequantize, source.args))
            if relu is None and both and type(module[0]) is part:
                self._lower_static(quantize, source, quantized_class)

    def dynamic_modules(self) -> None:
        """Modules whose input is quantized while they run."""
        for node in self.graph.nodes:
            module = self._module(node)
            quantized_class: Any = table.DYNAMIC.get(type(module))
            part, fused_class = table.DYNAMIC_FUSED.get(type(module), (None, None))
            if part is not None and type(module[0]) is part:
                quantized_class = fused_class
            if quantized_class is None or not is_dequantize(node.args[0]):
                continue
            quantize = node.args[0].args[0]
            is_dynamic = _calls(quantize, _functions["quantize_per_tensor_dynamic"])
            if is_dynamic and quantize.args[1] in (quint8, qint8, float16):
                self._put(node, quantized_class.from_reference(module))
                node.replace_input_with(node.args[0], quantize.args[0])

    def weight_only_modules(self) -> None:
        """Modules of which the weight alone is quantized."""
        for node in self.graph.nodes:
            quantized_class: Any = table.WEIGHT_ONLY.get(type(self._module(node)))
            if quantized_class is not None:
                self._put(node, quantized_class.from_reference(self._module(node)))

    # --- functions with weights ---------------------------------------------------------------------------------------

    def _prepack(self, function: Any, weight: Node, rest: list[Any], kwargs: dict[str, Any]) -> Node:
        """A call that packs a weight, at the graph's insertion point."""
        args: list[Any] = [weight, *rest]
        if function is F.linear:
            op = get_linear_prepack_op_for_dtype(weight.args[-1])
            if "bias" in kwargs:
                kwargs = {**{k: v for k, v in kwargs.items() if k != "bias"}, "B": kwargs["bias"]}
        else:
            op = get_qconv_prepack_op(function)
            if function in (F.conv1d, F.conv_transpose1d):       # sizes of one dimension may be numbers
                sizes = (2, 3, 4) if function is F.conv1d else (2, 3, 4, 6)
                args = [(a,) if i in sizes and isinstance(a, int) else a for i, a in enumerate(args)]
            if function in table.TRANSPOSED and len(args) > 6:       # the function has groups before dilation
                args[5], args[6] = args[6], args[5]
        return self.graph.create_node("call_function", op, tuple(args), kwargs)

    def static_functions(self) -> None:
        """Linear and convolution functions."""
        for quantize, relu, node in self._static(table.WEIGHTED, 2, of_module=False):
            _, scale, zero_point, _ = quantize.args
            value, weight, *rest = node.args
            weight = weight.args[0]
            if not any(_calls(weight, _functions[f"quantize_per_{how}"]) for how in ("tensor", "channel")):
                continue
            with self.graph.inserting_before(scale):
                packed = self._prepack(node.target, weight, rest, dict(node.kwargs))
            op, op_with_relu = table.WEIGHTED[node.target]
            node.target = op_with_relu if relu is not None and op_with_relu is not None else op
            node.args, node.kwargs = (value.args[0], packed, scale, zero_point), {}
            quantize.replace_all_uses_with(node)
            zero_point.append(node)
            self.graph.erase_node(quantize)
            if relu is not None and op_with_relu is not None:
                self.graph.erase_node(relu)

    def dynamic_functions(self) -> None:
        """Linear functions whose input is quantized while they run; with a relu after them first."""
        for last in reversed(self.graph.nodes):
            relu, node = (last, last.args[0]) if self._is_relu(last, (F.relu,)) else (None, last)
            if not isinstance(node, Node) or self._stays_float(node) or node.op != "call_function":
                continue
            if node.target not in table.DYNAMICALLY_WEIGHTED or not all(map(is_dequantize, node.args[:2])):
                continue
            value, weight, *rest = node.args
            quantize, weight = value.args[0], weight.args[0]
            if not _calls(quantize, _functions["quantize_per_tensor_dynamic"]):
                continue
            source, dtype, reduce_range = quantize.args
            op, op_with_relu = table.DYNAMICALLY_WEIGHTED[node.target].get((dtype, weight.args[-1]), (None, None))
            if op is None or op_with_relu is None:      # convolutions, which have no relu form, stay a reference
                continue
            with self.graph.inserting_before(node):
                packed = self._prepack(node.target, weight, rest, dict(node.kwargs))
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != "bias"}
            node.target = op if relu is None else op_with_relu
            node.args = (source, packed) if dtype == float16 else (source, packed, reduce_range)
            if relu is not None:
                relu.replace_all_uses_with(node)
                self.graph.erase_node(relu)

    # --- the others ---------------------------------------------------------------------------------------------------

    def binary_operators(self) -> None:
        """Sums and products of two quantized tensors (with a scale), or of one and a number (which needs none)."""
        for quantize, relu, node in self._static(table.BINARY, 2, of_module=False):
            _, scale, zero_point, _ = quantize.args
            count = sum(map(is_dequantize, node.args))
            self._undequantize(node, node.args)
            op, op_with_relu = table.BINARY[node.target]
            if relu is not None:
                op = op_with_relu
            args = (*node.args, scale, zero_point) if count == 2 else node.args
            with self.graph.inserting_after(quantize):
                new = create_node_from_old_node_preserve_meta(self.graph, ("call_function", op, args, {}), node)
            quantize.replace_all_uses_with(new)
            for old in (quantize, relu, node):
                if old is not None:
                    self.graph.erase_node(old)

    def questions(self) -> None:
        """Sizes are asked of quantized tensors as well."""
        for node in self.graph.nodes:
            asks = _calls(node, getattr) and node.args[1] == "shape"
            asks = asks or (node.op == "call_method" and node.target in ("shape", "size"))
            if asks and is_dequantize(node.args[0]):
                node.args = (node.args[0].args[0], *node.args[1:])

    def _is_kind(self, node: Node, kinds: table.Kinds) -> bool:
        functions, methods, modules = kinds
        return (
            (node.op == "call_function" and any(node.target is f for f in functions))
            or (node.op == "call_method" and node.target in methods)
            or (node.op == "call_module" and type(self._module(node)) in modules)
        )

    def other_operators(self) -> None:
        """Operators that take quantized tensors: with the scale of their output, or as they are."""
        for quantize in self.graph.nodes:
            is_quantize = quantize.target is _functions["quantize_per_tensor"]
            is_half = (
                quantize.op == "call_method" and quantize.target == "to" and quantize.args[1:] == (float16,)
            )
            if not (is_quantize or is_half):
                continue
            node = quantize.args[0]
            scaled = self._is_kind(node, table.DEFAULT)
            if is_half and (scaled or self._is_kind(node, table.FIXED)):
                continue
            if not (scaled or any(self._is_kind(node, k) for k in (table.FIXED, table.COPYING, table.SHAPING))):
                continue
            values = node.args[0] if node.args else next(iter(node.kwargs.values()))
            values = list(values) if isinstance(values, (tuple, list)) else [values]
            if all(map(is_dequantize, values)):
                self._lower_other(quantize, node, values, is_quantize, scaled)

    def _lower_other(self, quantize: Node, node: Node, values: list[Node], is_quantize: bool, scaled: bool) -> None:
        module = self._module(node)
        quantized_class: Any = table.SCALED.get(type(module)) if is_quantize else None
        if quantized_class is not None:
            self._put(node, quantized_class.from_reference(module, *self._output_qparams(quantize)))
        self._undequantize(node, values)
        qparams = [arg for arg in quantize.args[1:] if isinstance(arg, Node)]
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)
        if not (scaled and node.op == "call_function"):
            for arg in qparams:
                self.graph.erase_node(arg)
            return
        scale, zero_point = qparams
        kwargs = {k: v for k, v in node.kwargs.items() if k not in table.DROPPED.get(node.target, ())}
        kwargs |= {"output_scale": scale, "output_zero_point": zero_point}
        op = get_quantized_operator(node.target)
        with self.graph.inserting_after(zero_point):
            new = create_node_from_old_node_preserve_meta(
                self.graph, ("call_function", op, tuple(node.args), kwargs), node
            )
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)


def fold_weight(
    quantized_model: GraphModule, node_name_to_scope: dict[str, tuple[str, type]], keep_original_weights: bool = False
) -> GraphModule:
    """Run the packing of weights, and keep what it makes as attributes, named by the module whose function has them."""
    packed: dict[Node, Any] = {}
    folded: set[Node] = set()
    originals: dict[Node, list[Any]] = {}
    for node in quantized_model.graph.nodes:
        producers = collect_producer_nodes(node) if _packs(node) else None
        if producers is not None:
            folded.update(producers)
            packing = graph_module_from_producer_nodes(quantized_model, producers)
            packed[node] = packing()
            kept = sorted(packing.state_dict().values(), key=lambda t: t.numel(), reverse=True)
            originals[node] = kept if len(kept) != 1 else [*kept, None]
    graph = Graph()
    made: dict[Node, Node] = {}
    lookup: dict[str, list[Any]] = {}
    new: Callable = lambda args: map_arg(args, lambda n: made[n])  # noqa: E731
    for node in quantized_model.graph.nodes:
        if node in packed:
            scope = node_name_to_scope[next(iter(node.users)).name][0]
            name = free_name(quantized_model, f"{scope}_packed_weight_")
            setattr(quantized_model, name, packed[node])
            made[node] = graph.create_node("get_attr", name, (), {})
            lookup[name.lower()] = originals[node]
        elif node not in folded:
            made[node] = graph.node_copy(node, new)
    result = GraphModule(quantized_model, graph)
    keep_packed_weights(result)
    if keep_original_weights:
        result.original_weights_lookup = lookup
    return result


def _packs(node: Node) -> bool:
    return node.op == "call_function" and any(node.target is op for op in table.PREPACKING)
