"""Whether a trace can be relied on: made again it is the same graph, and it computes what the program does.

Enters: a trace, the program, a way to trace it again, inputs. Leaves: nothing, or warnings about results that differ.
Refuses: graphs that differ, with the first nodes that do.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..autograd import no_grad
from ..random import fork_rng
from ..script.trace.state import TracerWarning
from ..utils._pytree import tree_leaves, tree_map

_RANDOM = ("aten::dropout", "aten::rand", "aten::bernoulli", "aten::normal", "aten::feature_dropout",
           "aten::alpha_dropout", "aten::multinomial", "aten::uniform_", "aten::exponential_", "aten::rrelu",
           "aten::poisson")


class TracingCheckError(Exception):
    """A trace is not the same when it is made again."""

    def __init__(self, graph_diff_error: str | None, tensor_compare_error: str | None,
                 extra_msg: str | None = None) -> None:
        told = (
            ("", extra_msg),
            ("Graphs differed between two traces of the same program:\n", graph_diff_error),
            ("Constants differed between two traces of the same program, so what makes them is not in the trace:\n",
             tensor_compare_error),
        )
        parts = [head + (_indented(text) if head else f"{text}\n") for head, text in told if text is not None]
        self.message = "".join(["the trace cannot be relied on\n", *parts])
        super().__init__(self.message)


def _indented(text: str) -> str:
    return "".join(f"\t{line}\n" for line in text.splitlines())


def _copied(held: Any) -> Any:
    return held.detach().clone().requires_grad_(held.requires_grad) if isinstance(held, Tensor) else held


def check(traced: Any, program: Callable, again: Callable[[tuple], Any], inputs: tuple[Any, ...],
          tolerance: float) -> None:
    """Compare a trace with one made again, and with the program, on copies of the inputs."""
    with fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        made = again(tree_map(_copied, inputs))
    second, run_again = made if isinstance(made, tuple) else (made, made)
    first, other = _inlined(traced.graph), _inlined(second.graph)
    differences = _graph_difference(first, other), _constant_difference(first, other)
    with no_grad():
        ours = _results(traced, inputs, "trace", differences)
        theirs = _results(program, inputs, "Python function", differences)
        if _agree(ours, theirs, "Python function", traced, tolerance):
            _agree(ours, _results(run_again, inputs, "repeated trace", differences), "repeated trace", traced,
                   tolerance)
    if any(difference is not None for difference in differences):
        raise TracingCheckError(*differences)


def _results(function: Callable, inputs: tuple[Any, ...], what: str, differences: tuple[str | None, ...]) -> list[Any]:
    try:
        return [leaf for leaf in tree_leaves(function(*tree_map(_copied, inputs))) if isinstance(leaf, Tensor)]
    except Exception as error:
        raise TracingCheckError(*differences, extra_msg=f"the {what} failed on the inputs of the check:\n"
                                + _indented(str(error))) from error


def _agree(ours: list[Any], theirs: list[Any], what: str, traced: Any, tolerance: float) -> bool:
    from ..script.trace.mode import warn
    from ..testing import assert_close

    is_same = True
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False), 1):
        a, b = (x.to_dense() if x.is_sparse else x for x in (mine, other))
        try:
            assert_close(*(x.cdouble() if x.is_complex() else x.double() for x in (a, b)), rtol=tolerance,
                         atol=_closeness(a, b), equal_nan=True)
        except AssertionError as error:
            _warn_of_chance(traced)
            warn(f"result {number} of the trace is not that of the {what}:\n{error}")
            is_same = False
    return is_same


def _closeness(*tensors: Any) -> float:
    kinds = {"float16": 1e-5, "bfloat16": 1e-5, "float32": 1e-5, "float64": 1e-7, "complex64": 1e-5,
             "complex128": 1e-7}
    return max(kinds.get(str(x.dtype).partition(".")[2], 0.0) for x in tensors)


def _warn_of_chance(traced: Any) -> None:
    from ..script.trace.mode import warn

    text = str(traced.graph).splitlines()
    found = [line.strip() for line in text if any(f"{kind}(" in line or f"{kind}_like(" in line for kind in _RANDOM)]
    if found:
        nodes = "\n".join(f"\t{line}" for line in found)
        warn(f"the trace has nondeterministic nodes:\n{nodes}\nA model in training draws at random: .eval() ends that."
             " check_trace=False leaves out this comparison.")


def _canonical(graph: Any) -> str:
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    text = re.sub(r"___torch_mangle_\d+\.", "", text)
    text = re.sub(r"\b[A-Z]\w*\([^()]*device=\w+\)", "Tensor", text)         # shapes may differ with the inputs
    return re.sub(r"( # .*)|(\[value=[^\]]*\]+)", "", text)


def _inlined(graph: Any) -> Any:
    from ..script.passes.inline import inlined

    return inlined(graph)


def _graph_difference(first: Any, second: Any) -> str | None:
    mine, theirs = _canonical(first), _canonical(second)
    if mine == theirs:
        return None
    lines = difflib.ndiff(mine.splitlines(True), theirs.splitlines(True))
    at, other = next(pair for pair in zip([*mine.splitlines(), ""], [*theirs.splitlines(), ""], strict=False)
                     if pair[0] != pair[1])
    return (f"line by line:\n{_indented(''.join(lines))}the first nodes that differ:\n"
            f"{_indented(f'- {at}{chr(10)}+ {other}')}")


def _constant_difference(first: Any, second: Any) -> str | None:
    """The first tensor of the graph that is another when traced again."""
    def constants(graph: Any) -> list[Any]:
        return [node for node in graph.all_nodes()
                if node.kind_ == "prim::Constant" and node.attribute_kinds.get("value") == "t"]

    for mine, theirs in zip(constants(first), constants(second), strict=False):
        a, b = mine.attributes["value"], theirs.attributes["value"]
        if a.shape != b.shape or not a.eq(b).logical_or(a.ne(a)).all().item():
            return f"{_indented(str(mine))}of {mine.range}\nwas\n{a}\nand then\n{b}"
    return None
