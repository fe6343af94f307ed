"""`while_loop`: a function applied to its own results while another one says so.

Enters: two functions and the values carried from step to step. Leaves: the last values. In a graph both functions are
graphs, and the values keep their sizes and types. Refuses: bodies that change the number of values; in graphs,
gradients and values that are no tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from ..utils import _pytree as pytree
from . import core
from .cond import Flat, check_functions, decided, is_recorded


class WhileLoopOp(core.HigherOrderOp):
    """while_loop(condition, body, carried, further tensors)"""

    name = "while_loop"

    def functions(self, arguments: tuple) -> dict[str, tuple[int, list[Tensor]]]:
        given = [*arguments[2], *arguments[3]]
        return {"while_loop_cond_graph": (0, given), "while_loop_body_graph": (1, given)}

    def run(self, cond_fn: Callable, body_fn: Callable, carried: Sequence[Tensor], further: Sequence[Tensor]
            ) -> Sequence[Tensor]:  # fmt: skip
        first = carried
        while decided(core.as_results(self, cond_fn(*carried, *further))[0], self.name):
            carried = core.as_results(self, body_fn(*carried, *further))
        return [t.clone() for t in carried] if carried is first else carried

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        body = result["while_loop_body_graph"]
        core.expect_alike(self, body, arguments[2], "the body must return values like those carried")
        return body


while_loop_op = core.register(WhileLoopOp())


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple | list) -> Any:
    """Replace the carried values by `body_fn(*carried)` while `cond_fn(*carried)`; returns the last ones."""
    check_functions({"cond_fn": cond_fn, "body_fn": body_fn}, carried_inputs, "while_loop")
    carried = tuple(carried_inputs)
    leaves, spec = pytree.tree_flatten(carried)
    if not is_recorded(leaves):
        while decided(cond_fn(*carried), "while_loop"):
            carried = _values(body_fn(*carried), len(carried))
        return carried
    if not all(isinstance(x, Tensor) for x in leaves):
        raise core.NotRecordable("while_loop: a graph carries tensors only. Make tensors of the other values.")
    flat = [Flat(cond_fn, leaves, spec), Flat(lambda *v: _values(body_fn(*v), len(carried)), leaves, spec)]
    functions, lifted = core.closed([(f, leaves) for f in flat])
    result = while_loop_op(*functions, tuple(leaves), tuple(lifted))
    return flat[1].restored(result)


def _values(result: Any, count: int) -> tuple:
    result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(result) != count:
        raise RuntimeError(f"while_loop: body_fn must return {count} values, as many as are carried, got {len(result)}")
    return result
