"""`scan`: a function carried along a dim, with a result of each step; `map`: a function of each member of a dim.

Enters: a function, tensors to go through, and what is carried. Leaves: the last carried values and the steps' results,
stacked. In a graph the function is a graph; gradients are a scan the other way round. Refuses: nothing to go through,
lengths that differ, and carried values that change their sizes or types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from ..op import ops
from ..utils import _pytree as pytree
from . import core
from .cond import Flat, is_recorded


class ScanOp(core.HigherOrderOp):
    """scan(function, carried, tensors, further tensors): function(*carried, *slices, *further) gives the carried values
    of the next step and the results of this one; slices are those of dim 0, in order."""

    name = "scan"
    graph_name = "scan_combine_graph"

    def functions(self, arguments: tuple) -> dict[str, tuple[int, list[Tensor]]]:
        _, carried, xs, further = arguments
        return {self.graph_name: (0, [*carried, *(core.member_like(x) for x in xs), *further])}

    def run(self, function: Callable, carried: Sequence[Tensor], xs: Sequence[Tensor], further: Sequence[Tensor]
            ) -> Sequence[Tensor]:
        count, steps = len(carried), []
        memory = {t.untyped_storage()._cdata for t in (*carried, *xs, *further)}
        for i in range(xs[0].shape[0]):
            result = core.as_results(self, function(*carried, *[x.select(0, i) for x in xs], *further))
            carried = result[:count]
            steps.append(result[count:])
        last = []      # in memory of their own, whatever the function returned
        for t in carried:
            last.append(t.clone() if t.untyped_storage()._cdata in memory else t)
            memory.add(last[-1].untyped_storage()._cdata)
        if not steps:
            return [*last, *self.no_rows(function, carried, xs, further)]
        return [*last, *(ops["stack"](list(ys)) for ys in zip(*steps, strict=True))]

    def no_rows(self, function: Callable, carried: Sequence[Tensor], xs: Sequence[Tensor], further: Sequence[Tensor]
                ) -> list[Tensor]:
        """The results of no steps: none of each, of the sizes that a step on zeros gives."""
        zeros = [ops["zeros"](tuple(x.shape)[1:], dtype=x.dtype, device=x.device) for x in xs]
        rows = core.as_results(self, function(*carried, *zeros, *further))[len(carried):]
        return [ops["zeros"]((0, *y.shape), dtype=y.dtype, device=y.device) for y in rows]

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        _, carried, xs, _ = arguments
        results = result[self.graph_name]
        count, length = len(carried), xs[0].shape[0]
        core.expect_alike(self, results[:count], carried, "the function must return carried values like those given")
        mode = core.fake_mode_for(results)
        return [*results[:count], *(mode.empty((length, *y.shape), None, y.dtype, core.device_of(y))
                                    for y in results[count:])]

    def differentiated(self, arguments: tuple) -> Sequence[Tensor]:
        function, carried, xs, further = arguments
        n, m = len(carried), len(xs)

        def split(tensors: Sequence[Tensor]) -> tuple[list, list, list]:
            return list(tensors[:n]), list(tensors[n:n + m]), list(tensors[n + m:])

        def keeping(*values: Tensor) -> list[Tensor]:
            """A step that returns what was carried into it too."""
            result = core.as_results(self, function(*values))
            return [*result[:n], *values[:n], *result[n:]]

        def forward(*tensors: Tensor) -> tuple:
            result = self(keeping, *split(tensors))
            return [*result[:n], *result[2 * n:]], result[n:2 * n]

        def backward(tensors: Sequence[Tensor], kept: Sequence[Tensor], grads: Sequence[Any]) -> list[Any]:
            return self.gradient(function, split(tensors), kept, grads)

        return core.Step.apply((forward, backward), *carried, *xs, *further)

    def gradient(self, function: Callable, given: tuple[list, list, list], kept: Sequence[Tensor], grads: Sequence[Any]
                 ) -> list[Any]:
        """The steps backwards: gradients of what is carried are carried, those of further tensors added up."""
        carried, xs, further = given
        n, m = len(carried), len(xs)
        wanted = [i for i, t in enumerate((*carried, *xs, *further)) if core.is_differentiable(t)]
        along = [i for i in wanted if i < n]                       # carried along with their gradients
        each = [i for i in wanted if n <= i < n + m]
        summed = [i for i in wanted if i >= n + m]
        first = [grads[i] for i in along]
        steps = [g for g in grads[n:] if g is not None]
        zeros = [ops["zeros_like"](further[i - n - m]) for i in summed]
        behind = len(along) + len(summed)

        def step(*values: Tensor) -> list[Tensor]:
            carry, sums = values[:len(along)], values[len(along):behind]
            states, slices = values[behind:behind + n], values[behind + n:behind + n + m]
            outer = values[behind + n + m:behind + n + m + len(steps)]
            rest = values[behind + n + m + len(steps):]
            found = dict(zip(wanted, core.vjp(function, (*states, *slices, *rest), (*carry, *outer), wanted),
                             strict=True))
            return [*(found[i] for i in along), *(s + found[i] for i, s in zip(summed, sums, strict=True)),
                    *(found[i] for i in each)]

        flipped = [t.flip(0) for t in (*kept, *xs, *steps)]
        answer = self(step, (*first, *zeros), flipped, further)
        result: list[Any] = [None] * (n + m + len(further))
        for i, g in zip((*along, *summed), answer[:behind], strict=True):
            result[i] = g
        for i, g in zip(each, answer[behind:], strict=True):
            result[i] = g.flip(0)
        return result


scan_op = core.register(ScanOp())


def scan(combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
         ) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim` (the last one first with `reverse`).
    Returns the last carry and the ys, stacked along `dim`."""
    carried, carried_spec = pytree.tree_flatten(init)
    members, members_spec = _members(xs, "scan", dim)
    if not callable(combine_fn):
        raise ValueError(f"scan: combine_fn must be callable, got {type(combine_fn).__name__}")
    if not carried or not all(isinstance(t, Tensor) for t in carried):
        raise ValueError("scan: expected at least one tensor, and only tensors, in init")
    structures: list[Any] = []

    def step(*values: Tensor) -> list[Tensor]:
        carry = pytree.tree_unflatten(list(values[:len(carried)]), carried_spec)
        x = pytree.tree_unflatten(list(values[len(carried):]), members_spec)
        result = combine_fn(carry, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError("scan: combine_fn must return the next carry and a result")
        after, spec = pytree.tree_flatten(result[0])
        if spec != carried_spec:
            raise ValueError(f"scan: combine_fn must return a carry of the same structure, got {spec}")
        ys, results_spec = pytree.tree_flatten(result[1])
        structures[:] = [results_spec]
        core.expect_alike(scan_op, after, carried, "combine_fn must return a carry like the one it gets")
        return [*after, *ys]

    result = _scanned(step, carried, members, dim, reverse)
    ys = result[len(carried):]
    if reverse:
        ys = [y.flip(0) for y in ys]
    ys = [y.movedim(0, dim) for y in ys]
    return (pytree.tree_unflatten(list(result[:len(carried)]), carried_spec),
            pytree.tree_unflatten(ys, structures[0]))


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001 - PyTorch's name
    """`f(x, *args)` for each slice x of `xs` along its first dim, stacked."""
    members, _ = _members(xs, "map", 0)
    leaves = pytree.tree_leaves(args)
    if not all(isinstance(t, (Tensor, int, float, bool, type(None))) for t in leaves):
        raise RuntimeError(f"map: expected tensors and numbers as further arguments, got {args}")
    flat = Flat(lambda x, rest: f(x, *rest), [*members, *leaves], pytree.tree_structure((xs, args)))
    tensors = [t for t in leaves if isinstance(t, Tensor)]
    if not is_recorded([*members, *tensors]):
        return flat.restored(scan_op.run(flat, (), members, tensors))
    like = [*(x.select(0, 0) for x in members), *tensors]
    (function,), lifted = core.closed([(flat, like)])
    return flat.restored(scan_op(function, (), tuple(members), (*tensors, *lifted)))


def _members(xs: Any, what: str, dim: int) -> tuple[list[Tensor], Any]:
    """The tensors of `xs`; refuses others, and lengths that differ."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError(f"{what}: expected at least one tensor, and only tensors, in xs")
    if any(not -x.ndim <= dim < x.ndim for x in leaves):
        raise ValueError(f"{what}: dim {dim} is out of range for tensors of {[x.ndim for x in leaves]} dims")
    lengths = [x.shape[dim] for x in leaves]
    is_empty = isinstance(lengths[0], int) and not lengths[0]      # what only elements tell is known when it runs
    if any(n is not lengths[0] and n != lengths[0] for n in lengths) or is_empty:
        raise ValueError(f"{what}: expected tensors of one length, at least 1, along dim {dim}, got {lengths}")
    return leaves, spec


def _scanned(step: Callable, carried: Sequence[Tensor], members: Sequence[Tensor], dim: int, reverse: bool
             ) -> Sequence[Tensor]:
    xs = [x.movedim(dim, 0) for x in members]
    xs = [x.flip(0) for x in xs] if reverse else xs
    if not is_recorded([*carried, *xs]):
        return scan_op.run(step, carried, xs, ())
    (function,), lifted = core.closed([(step, [*carried, *(core.member_like(x) for x in xs)])])
    return scan_op(function, tuple(carried), tuple(xs), tuple(lifted))
