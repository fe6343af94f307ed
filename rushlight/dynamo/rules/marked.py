"""Calls of functions that the program marked: `allow_in_graph`, `nonstrict_trace`, `assume_constant_result` and others,
and of those that assert something of elements.

Enters: a call, and the mark of its function. Leaves: one node, a constant, or a break, as the mark says.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...base import assertions
from ...dispatch.modes import below, state as mode_state
from ...utils import _pytree as pytree
from ..record import marks
from ..record.breaks import GraphBreak, shown
from ..record.machine import Machine
from ..record.recorder import as_target
from ..values.sources import Constant
from .natives import special


def call_marked(m: Machine, function: Any, what: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The call of a marked function."""
    return _RULES[what](m, function, args, kwargs)


def _break(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    said = next((str(a) for a in (*args, *kwargs.values()) if isinstance(a, str) and a), "")
    raise GraphBreak("asked for", f"{shown(function)} asks for it" + (f": {said}" if said else ""))


def _skip(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    found = GraphBreak("asked for", f"{shown(function)}: the frame is to run as it is")
    found.skips_frame = len(m.frames) == 1
    raise found


def _forbidden(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    found = GraphBreak("asked for", f"{shown(function)} must not be called in compiled code")
    found.is_error = True
    raise found


def _constant(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the function returns now, for the objects that stand behind the arguments."""
    def real(value: Any) -> Any:
        if isinstance(value, Tensor):
            raise GraphBreak("elements", f"{shown(function)}, whose result is taken for a constant, is given a tensor")
        known = m.twin_of(value)
        return value if known is None else known.real

    result = m.native(function, tuple(map(real, args)), {k: real(v) for k, v in kwargs.items()}, is_watched=False)
    return m.outside.admit(result, Constant(result, f"{shown(function)}()"))


def _in_graph(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """One node that calls the function with its tensors; whatever else it is given is part of the node."""
    recorder = m.recorder
    given, spec = pytree.tree_flatten((args, kwargs))
    for value in given:
        known = None if isinstance(value, Tensor) else m.twin_of(value)
        if known is not None and known.kind == "object":
            raise GraphBreak("not modelled", f"{shown(function)} is one node of the graph, and is given {known.source}")
    at = [i for i, leaf in enumerate(given) if isinstance(leaf, Tensor)]
    constants = [None if isinstance(leaf, Tensor) else leaf for leaf in given]

    def whole(*tensors: Any) -> Any:
        filled = list(constants)
        for i, t in zip(at, tensors, strict=True):
            filled[i] = t
        inner, named = pytree.tree_unflatten(filled, spec)
        return function(*inner, **named)

    def flat(*tensors: Any) -> tuple:
        return tuple(t for t in pytree.tree_leaves(whole(*tensors)) if isinstance(t, Tensor))

    tensors = [recorder.faked(given[i]) for i in at]
    versions = [t._version for t in tensors]

    def run() -> Any:
        with below(mode_state.function_modes):
            return whole(*tensors)

    result = m.native(run, (), is_watched=False)
    node = recorder.graph.call_function(
        as_target(getattr(function, "__name__", type(function).__name__), flat),
        tuple(recorder.argument(t) for t in tensors), {},
    )
    recorder.calls += 1
    results, structure = pytree.tree_flatten(result)
    place = 0
    for i, leaf in enumerate(results):
        if isinstance(leaf, Tensor):
            item = recorder.graph.call_function(operator.getitem, (node, place), {})
            results[i] = recorder.bound(leaf, item)
            place += 1
        elif not isinstance(leaf, (int, float, bool, str, type(None))):
            raise GraphBreak("not modelled", f"{shown(function)} is one node, and returns {shown(leaf)}")
    if not place and all(t._version == v for t, v in zip(tensors, versions, strict=True)):
        raise GraphBreak("not modelled", f"{shown(function)} is one node of the graph, and returns no tensor")
    return pytree.tree_unflatten(results, structure)


_RULES: dict[str, Callable] = {
    marks.GRAPH_BREAK: _break, marks.SKIP_FRAME: _skip, marks.FORBIDDEN: _forbidden, marks.CONSTANT: _constant,
    marks.IN_GRAPH: _in_graph, marks.NONSTRICT: _in_graph,
}


@special(assertions._assert_async)
def _assert_behind(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """What is asserted of elements is looked at behind the graph, as it is now."""
    given = inspect.signature(f).bind(*args, **kwargs).arguments
    if not isinstance(given["input"], Tensor):
        raise GraphBreak("native", f"{shown(f)} is given {shown(given['input'])}, no tensor")
    given["input"] = m.record(Tensor.clone, (given["input"],), {})
    m.kept.append(given)
    m.asserted.append((f, (), given))


@special(marks.ErrorOnBreak.__enter__)
def _enter(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    m.errors_on_break.append(m.load_attr(args[0], "error"))
    m.load_attr(args[0], "before").append(None)      # for the real one, should the graph end before __exit__
    return args[0]


@special(marks.ErrorOnBreak.__exit__)
def _exit(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    m.errors_on_break.pop()
    m.load_attr(args[0], "before").pop()
