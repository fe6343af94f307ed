"""Sizes that vary, followed through the small integer tensors that programs compute with them.

Enters: operations on tensors of few integers, such as `get_dimension_size`, `concatenate` and `multiply`. Leaves: for
each result its elements as numbers, or as nodes over sizes, so that `dynamic_reshape` and its like take sizes that a
compiler can follow instead of looking at a tensor. Refuses nothing: what it does not follow is read from the tensor.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..syntax import Operation
from ..types import TensorType

if TYPE_CHECKING:
    from .writer import Writer

MOST = 16      # elements of a tensor that is followed
FOLLOWED = ("i32", "i64")
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "stablehlo.add": operator.add, "stablehlo.subtract": operator.sub, "stablehlo.multiply": operator.mul,
}


def follow(w: Writer, o: Operation, results: Sequence[Any]) -> None:
    """Note the elements of a result, if those of all operands are known."""
    if len(results) != 1 or o.name == "stablehlo.constant":
        return
    kind = o.type
    if not isinstance(kind, TensorType) or kind.element not in FOLLOWED or len(kind.shape) > 1 or (
            None in kind.shape or math.prod(n or 0 for n in kind.shape) > MOST):
        return
    given = [w.known.get(w.nodes[v]) for v in o.operands if not isinstance(w.nodes[v], tuple)]
    if o.name == "stablehlo.get_dimension_size":
        source = o.types[0]
        w.known[results[0]] = [w.size(w.nodes[o.operands[0]], source, o.integer("dimension"))]
        return
    if not given or any(g is None for g in given):
        return
    found = _elements(w, o, [g or [] for g in given])
    if found is not None:
        w.known[results[0]] = found


def _elements(w: Writer, o: Operation, given: list[list[Any]]) -> list[Any] | None:
    if o.name in ("stablehlo.reshape", "stablehlo.convert"):
        return given[0]
    if o.name == "stablehlo.broadcast_in_dim" and len(given[0]) == 1:
        return given[0] * math.prod(n or 0 for n in o.type.shape)
    if o.name == "stablehlo.concatenate":
        return [n for part in given for n in part]
    if o.name == "stablehlo.slice" and len(o.types[0].shape) == 1:
        return given[0][o.integers("start_indices")[0]:o.integers("limit_indices")[0]:o.integers("strides")[0]]
    if o.name in ARITHMETIC:
        function = ARITHMETIC[o.name]
        return [_applied(w, function, a, b) for a, b in zip(*given, strict=True)]
    return None


def _applied(w: Writer, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return function(a, b) if isinstance(a, int) and isinstance(b, int) else w.node(function, a, b)
