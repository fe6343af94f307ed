"""`while_loop`: a function applied to its own results while another one says so.

Enters: two functions and the values carried from step to step. Leaves: the last values. In a graph both functions are
graphs, and the values keep their sizes and types. Gradients in a graph go through the steps backwards, from values
that the forward kept: those of each step up to KEPT steps, and of every second, fourth, ... of more, between which they
are computed again, so that what is kept has one size. Refuses: bodies that change the number of values; in graphs,
values that are no tensors, and gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..op import ops
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
            ) -> Sequence[Tensor]:
        first = carried
        while decided(core.as_results(self, cond_fn(*carried, *further))[0], self.name):
            carried = core.as_results(self, body_fn(*carried, *further))
        return [t.clone() for t in carried] if carried is first else carried

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        body = result["while_loop_body_graph"]
        core.expect_alike(self, body, arguments[2], "the body must return values like those carried")
        return body


    def differentiated(self, arguments: tuple) -> Sequence[Tensor]:
        cond_fn, body_fn, carried, further = arguments
        count = len(carried)
        wanted = [i for i, t in enumerate((*carried, *further)) if core.is_differentiable(t)]

        def gradient(*values: Tensor) -> list[Tensor]:
            given = count + len(further)
            return core.vjp(body_fn, values[:given], values[given:], wanted)

        def forward(*tensors: Tensor) -> tuple:
            result = keeping_op(cond_fn, body_fn, tensors[:count], tensors[count:])
            return result[:count], result[count:]

        def backward(tensors: Sequence[Tensor], kept: Sequence[Tensor], grads: Sequence[Any]) -> list[Any]:
            steps, *snapshots = kept
            given = tuple(g for g in grads if g is not None)
            found = gradient_op(body_fn, gradient, steps, tuple(snapshots), tuple(tensors[count:]), given)
            result: list[Any] = [None] * len(tensors)
            for i, g in zip(wanted, found, strict=True):
                result[i] = g
            return result

        return core.Step.apply((forward, backward), *carried, *further)


KEPT = 16      # so many steps' values are kept for the gradient


class KeepingLoopOp(WhileLoopOp):
    """while_loop(condition, body, carried, further tensors), which also returns the number of steps and, for each of
    the carried values, what it was before some of them: [KEPT, ...], step 0 first, `_stride(steps)` apart."""

    name = "while_loop_keeping"

    def run(self, cond_fn: Callable, body_fn: Callable, carried: Sequence[Tensor], further: Sequence[Tensor]
            ) -> Sequence[Tensor]:
        kept: list[Any] = []
        first, steps, stride = carried, 0, 1
        while decided(core.as_results(self, cond_fn(*carried, *further))[0], self.name):
            if steps == KEPT * stride:
                kept, stride = kept[::2], stride * 2
            if steps % stride == 0:
                kept.append(carried)
            carried = core.as_results(self, body_fn(*carried, *further))
            steps += 1
        snapshots = [ops["zeros"]((KEPT, *t.shape), dtype=t.dtype, device=t.device) for t in first]
        for row, values in enumerate(kept):
            for snapshot, t in zip(snapshots, values, strict=True):
                snapshot.select(0, row).copy_(t)
        last = [t.clone() for t in carried] if carried is first else carried
        return [*last, ops["full"]((), steps, dtype=_C.int64), *snapshots]

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        body = super().imitated(arguments, result)
        mode = core.fake_mode_for(body)
        return [*body, mode.empty((), None, _C.int64, _C.device("cpu")),
                *(mode.empty((KEPT, *t.shape), None, t.dtype, core.device_of(t)) for t in arguments[2])]

    def differentiated(self, arguments: tuple) -> Sequence[Tensor]:
        raise core.NotRecordable("while_loop: gradients of its gradient cannot be part of a graph")


def _stride(steps: int) -> int:
    """How many steps lie between two that values were kept of."""
    stride = 1
    while steps > KEPT * stride:
        stride *= 2
    return stride


class LoopGradientOp(core.HigherOrderOp):
    """while_loop_gradient(body, gradient, steps, snapshots, further tensors, gradients of what is carried at last):
    gradients of what was carried at first, and of further tensors, where there are any. `gradient` gives those of one
    step."""

    name = "while_loop_gradient"

    def functions(self, arguments: tuple) -> dict[str, tuple[int, list[Tensor]]]:
        _, _, _, snapshots, further, grads = arguments
        given = [*(t.detach().select(0, 0) for t in snapshots), *further]
        return {"while_loop_body_graph": (0, given), "while_loop_gradient_graph": (1, [*given, *grads])}

    def run(self, body_fn: Callable, gradient: Callable, steps: Tensor, snapshots: Sequence[Tensor],
            further: Sequence[Tensor], grads: Sequence[Tensor]) -> Sequence[Tensor]:
        total, along = int(steps.item()), list(grads)
        stride, sums = _stride(total), None
        for row in reversed(range(-(-total // stride))):
            states = [[t.select(0, row) for t in snapshots]]
            for _ in range(min(stride, total - row * stride) - 1):
                states.append(core.as_results(self, body_fn(*states[-1], *further)))
            for state in reversed(states):
                found = core.as_results(self, gradient(*state, *further, *along))
                along, added = found[:len(along)], found[len(along):]
                sums = added if sums is None else [a + b for a, b in zip(sums, added, strict=True)]
        if sums is None:
            along = [g.clone() for g in along]
            sums = [ops["zeros_like"](t) for t in further if core.is_differentiable(t)]
        return [*along, *sums]

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        further, grads = arguments[4:]
        expected = [*grads, *(t for t in further if core.is_differentiable(t))]
        core.expect_alike(self, result["while_loop_gradient_graph"], expected, "gradients must be like their tensors")
        return result["while_loop_gradient_graph"]


while_loop_op = core.register(WhileLoopOp())
keeping_op = core.register(KeepingLoopOp())
gradient_op = core.register(LoopGradientOp())


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple | list) -> Any:
    """Replace the carried values by `body_fn(*carried)` while `cond_fn(*carried)`; returns the last ones.

    Arguments:
        cond_fn: whether to go on, from the carried values
        body_fn: the next carried values
        carried_inputs: the first carried values

    Example:
        >>> rl.while_loop(lambda i: i < 5, lambda i: (i + 2,), (rl.tensor(0),))
        (tensor(6),)
    """
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
