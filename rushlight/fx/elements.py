"""Elements that a program reads as numbers and hands to ops that take tensors too: the tensors themselves.

Enters: a graph without writes. Leaves: the same graph where `x * y.item()` is `x * y`, cast so that the result has the
type that a number would have given it: nobody waits for the element, and ops around it may share a kernel. Integers
stay numbers, since sizes and indices are made of them; so do elements that Python computes with, and those that are
returned.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor
from ..base.promotion import default_dtype
from ..op import find_op
from ..op.definition import KIND_POINTWISE
from ..symbols import SymFloat
from .graph import Graph
from .node import Node

_HALF = (_C.float16, _C.bfloat16)
_MIXED = frozenset(("add", "sub", "mul", "div"))     # take operands of several types, and compute in more bits


def name_of(definition: Any) -> str:
    """What an op is called; for one that computes a gradient, whose."""
    return definition.name.removesuffix("_vjp")


def use_tensors(graph: Graph) -> None:
    """Replace real elements by the tensors that they were read from, where ops take these."""
    read = find_op("_local_scalar_dense").overload_list[0]
    for node in graph.find_nodes(op="call_function", target=read):
        if isinstance(node.meta.get("val"), SymFloat) and isinstance(node.args[0].meta.get("val"), Tensor):
            for user in list(node.users):
                result = user.meta.get("val")
                is_near = isinstance(result, Tensor) and result.device == node.args[0].meta["val"].device
                if is_near and takes_tensor(user, node):
                    user.replace_input_with(node, as_operand(graph, node.args[0], user))


def takes_tensor(user: Node, number: Node) -> bool:
    """Whether an op takes a tensor wherever it has the number."""
    definition = getattr(user.target, "definition", None)
    if user.op != "call_function" or definition is None or definition.kind != KIND_POINTWISE or definition.is_inplace:
        return False
    named = dict(zip([p.name for p in definition.spec.params], user.args, strict=False)) | user.kwargs
    types = {p.name: p.type for p in definition.spec.params}
    if name_of(definition) not in _MIXED and any(
        isinstance(t := n.meta.get("val"), Tensor) and t.dtype in _HALF for n in user.all_input_nodes
    ):
        return False      # a number is wider than these, and not all ops take wider tensors
    return all(types[name].startswith("Tensor|Scalar") for name, a in named.items() if a is number) and not any(
        number in a for a in named.values() if isinstance(a, (list, tuple))
    )


def as_operand(graph: Graph, source: Node, user: Node) -> Node:
    """A tensor without dims that decides as little of the result's type as a number does."""
    value = source.meta["val"]
    others = [n.meta["val"] for n in user.all_input_nodes if isinstance(n.meta.get("val"), Tensor)]
    inexact = [t for t in others if t.dtype.is_floating_point or t.dtype.is_complex]
    wide = next((t.dtype for t in inexact if t.ndim), None)
    dtype = value.dtype if wide in _HALF else wide or (inexact[0].dtype if inexact else default_dtype())
    with graph.inserting_before(user):
        if value.ndim:
            source = _call(graph, "view", source, [], value=value.view([]))
        if dtype is not value.dtype and not dtype.is_complex:
            source = _call(graph, "to", source, dtype, value=value.view([]).to(dtype))
    return source


def _call(graph: Graph, name: str, *args: Any, value: Tensor) -> Node:
    result = graph.call_function(find_op(name).overload_list[0], args)
    result.meta["val"] = value
    return result
