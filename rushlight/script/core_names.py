"""What `torch._C` has of scripts: graphs and their text, types, signatures, and the passes that programs call.

`rushlight._C` looks here for `NAMES` (through `torch_names.core_names`). Passes come under PyTorch's names
(`_jit_pass_cse`) and change the graph they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import late
from . import types as t
from .classes import ClassType, InterfaceType
from .constants import constant_of, insert_constant, type_of
from .ir import Block, Graph, Node, Use, Value, insert_graph
from .passes.alias_text import AliasDb
from .passes.cse import drop_duplicates
from .passes.dead_code import drop_dead
from .passes.effects import is_random
from .passes.frozen import fold_conv_bn, fold_conv_product, fold_conv_sum, fold_linear_bn, run_frozen_passes
from .passes.inline import inline
from .passes.list_peephole import fold_containers
from .passes.mutation import remove_inplace_ops, remove_mutation
from .passes.peephole import peephole
from .passes.pooling import pool_constants
from .passes.propagation import propagate_constants
from .passes.rewrite import rewrite
from .passes.shapes import complete_shapes, propagate_shapes
from .passes.tidy import canonicalize, erase_shapes, lint
from .passes.tuples import lower_all_tuples
from .passes.unroll import unroll_constant_loops, unroll_loops
from .schemas import Argument, Schema, overload_of, read_schema, schemas_of
from .text.graph_reader import read_graph

# What the faces of graphs ask for.
__all__ = ["NAMES", "AliasDb", "constant_of", "insert_constant", "insert_graph", "is_random", "lint", "overload_of",
           "read_schema"]


def parse_ir(input: str, parse_tensor_constants: bool = False) -> Graph:
    """The graph that a text describes. Refuses constants of tensors unless they are asked for."""
    return read_graph(input, parse_tensor_constants)


def _jit_pass_peephole(graph: Graph, disable_shape_peepholes: bool = False) -> bool:
    return peephole(graph, with_shapes=not disable_shape_peepholes)


def _jit_pass_dce(graph: Graph) -> None:
    drop_dead(graph, with_aliases=False)


def _jit_pass_dce_graph(graph: Graph) -> None:
    drop_dead(graph)


def _jit_pass_dce_allow_deleting_nodes_with_side_effects(graph: Graph) -> None:
    drop_dead(graph, keep_effects=False, with_aliases=False)


def _jit_pass_constant_propagation_immutable_types(graph: Graph) -> bool:
    return propagate_constants(graph, with_aliases=False)


def _jit_pass_complete_shape_analysis(graph: Graph, inputs: tuple, with_grad: bool) -> None:
    complete_shapes(graph, inputs, with_grad)


def _jit_pass_custom_pattern_based_rewrite_graph(
    pattern: str, fused_node_name: str, g: Graph, value_name_pairs: Sequence[tuple[str, str]] = ()
) -> None:
    """Replace what `pattern` describes by what the second text does."""
    rewrite(pattern, fused_node_name, g)


def _jit_erase_non_input_shape_information(graph: Graph) -> None:
    kept = [value.type_ for value in graph.inputs()]
    erase_shapes(graph)
    for value, type in zip(graph.inputs(), kept, strict=True):
        value.type_ = type


def _jit_interpret_graph(graph: Graph, inputs: tuple) -> Any:
    """Run a graph as it is."""
    from .execute import Program

    return Program(graph).run(*inputs)


def _create_function_from_graph(name: str, graph: Graph) -> Any:
    """A function that runs a copy of a graph."""
    from .graph_functions import GraphFunction
    from .unit import PYTHON

    return late.provided("script function")(GraphFunction(PYTHON, name, graph.copy()))


def _jit_get_schemas_for_operator(name: str) -> list[Schema]:
    """All signatures of a builtin; none for names that are none."""
    return list(schemas_of(name))


def _jit_get_all_schemas() -> list[Schema]:
    from .schemas import all_names

    return [schema for name in all_names() for schema in schemas_of(name)]


def parse_schema(schema: str) -> Schema:
    """The signature that a text spells."""
    return read_schema(schema)


def unify_type_list(types: Sequence[t.Type]) -> t.Type:
    """The least type above some. Refuses types without one."""
    found = t.unify_all(list(types))
    if found is None:
        raise RuntimeError(f"unify_type_list: no type is common to {', '.join(map(str, types))}")
    return found


class InferredType:
    """The type of a Python value, or why it has none."""

    def __init__(self, value: Any) -> None:
        self._type, self._value = type_of(value), value

    def success(self) -> bool:
        return self._type is not None

    def type(self) -> t.Type:
        if self._type is None:
            raise RuntimeError(self.reason())
        return self._type

    def reason(self) -> str:
        return f"values of type {self._value.__class__.__name__} have no type in TorchScript"


_TYPES = ("AnyType", "AwaitType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "EnumType", "FloatType",
          "FutureType", "IntType", "ListType", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType",
          "StreamObjType", "StringType", "SymIntType", "TensorType", "TupleType", "Type", "UnionType")
NAMES: dict[str, Any] = {
    **{name: getattr(t, name) for name in _TYPES}, "_GeneratorType": t.GeneratorType,
    "ClassType": ClassType, "InterfaceType": InterfaceType,
    "Graph": Graph, "Node": Node, "Value": Value, "Block": Block, "Use": Use, "AliasDb": AliasDb,
    "FunctionSchema": Schema, "Argument": Argument, "InferredType": InferredType, "_jit_try_infer_type": InferredType,
    "parse_ir": parse_ir, "parse_schema": parse_schema, "unify_type_list": unify_type_list,
    "_create_function_from_graph": _create_function_from_graph, "_jit_interpret_graph": _jit_interpret_graph,
    "_jit_get_schemas_for_operator": _jit_get_schemas_for_operator,
    "_jit_get_all_schemas": _jit_get_all_schemas,
    "_jit_pass_cse": drop_duplicates, "_jit_pass_dce": _jit_pass_dce, "_jit_pass_dce_graph": _jit_pass_dce_graph,
    "_jit_pass_dce_allow_deleting_nodes_with_side_effects": _jit_pass_dce_allow_deleting_nodes_with_side_effects,
    "_jit_pass_constant_propagation": propagate_constants, "_jit_pass_constant_pooling": pool_constants,
    "_jit_pass_constant_propagation_immutable_types": _jit_pass_constant_propagation_immutable_types,
    "_jit_pass_inline": inline, "_jit_pass_lint": lint, "_jit_pass_peephole": _jit_pass_peephole,
    "_jit_pass_peephole_list_idioms": lambda graph, refine_list_len=False: fold_containers(graph),
    "_jit_pass_canonicalize": canonicalize, "_jit_pass_lower_all_tuples": lower_all_tuples,
    "_jit_pass_erase_shape_information": erase_shapes, "_jit_pass_loop_unrolling": unroll_loops,
    "_jit_pass_constant_loop_unrolling": unroll_constant_loops, "_jit_pass_remove_mutation": remove_mutation,
    "_jit_pass_remove_inplace_ops": remove_inplace_ops, "_jit_pass_propagate_shapes_on_graph": propagate_shapes,
    "_jit_pass_fold_frozen_conv_bn": fold_conv_bn, "_jit_pass_fold_frozen_conv_add_or_sub": fold_conv_sum,
    "_jit_pass_fold_frozen_conv_mul_or_div": fold_conv_product, "_jit_pass_fold_frozen_linear_bn": fold_linear_bn,
    "_jit_pass_optimize_frozen_graph": run_frozen_passes,
    "_jit_pass_complete_shape_analysis": _jit_pass_complete_shape_analysis,
    "_jit_pass_custom_pattern_based_rewrite_graph": _jit_pass_custom_pattern_based_rewrite_graph,
    "_jit_erase_non_input_shape_information": _jit_erase_non_input_shape_information,
}
