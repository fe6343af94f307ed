"""Functions that do nothing but call their graph: which of its results they return, and where its inputs are.

Enters: an emitter that wrote a whole function, and the guards of its entry. Leaves: what `CompiledCallable.add_entry`
needs to call the graph by itself, since guards have looked up the inputs already; None where the function does more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .values.sources import Local

if TYPE_CHECKING:
    from .bytecode.emitter import Emitter
    from .values.guards import GuardTree

_LOADS = frozenset((
    "LOAD_FAST", "STORE_FAST", "LOAD_CONST", "LOAD_DEREF", "LOAD_ATTR", "BINARY_SUBSCR", "BINARY_OP", "BUILD_LIST",
    "PRECALL", "CALL",
))
_RESULTS = object()


def direct_call(emitter: Emitter, tree: GuardTree) -> tuple[Any, tuple[int, ...], int] | None:
    """(graph, inputs, number of the result); inputs are nodes of the guards, or ~k for the parameter k."""
    if emitter.graph_call is None:
        return None
    graph, inputs = emitter.graph_call
    names = [one.name for one in emitter.instructions]
    if names.count("CALL") != 1 or any(one.handler is not None for one in emitter.instructions):
        return None
    call = names.index("CALL")
    if not _LOADS.issuperset(names[:call]):
        return None
    result = _returned(emitter.instructions[call + 1 :])
    places = [_place(source, tree) for source in inputs]
    return None if result is None or None in places else (graph, tuple(places), result)


def _place(source: Any, tree: GuardTree) -> int | None:
    if type(source) is Local and source.name in tree.parameters:
        return ~tree.parameters.index(source.name)
    return tree.places.get(source)


def _returned(instructions: Sequence[Any]) -> int | None:
    """Which result instructions return that begin with all of them on the stack; None where they do something else."""
    stack: list[Any] = [_RESULTS]
    names: dict[str, Any] = {}
    for one in instructions:
        if one.name == "STORE_FAST" and stack:
            names[one.argval] = stack.pop()
        elif one.name == "LOAD_FAST" and one.argval in names:
            stack.append(names[one.argval])
        elif one.name == "LOAD_CONST" and type(one.argval) is int:
            stack.append(one.argval)
        elif one.name in ("BINARY_SUBSCR", "BINARY_OP") and len(stack) > 1 and stack[-2] is _RESULTS:
            stack[-2:] = [(stack[-1],)]
        elif one.name == "RETURN_VALUE" and stack and type(stack[-1]) is tuple:
            return stack[-1][0]
        else:
            return None
    return None
