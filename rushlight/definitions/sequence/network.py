"""Recurrent networks on devices that compute all steps and layers of one themselves.

Enters: rows of input grouped by step, first states, and all weights in one row of memory. Leaves: outputs, last states
and bytes that the device keeps for the gradients; these are one op too. A device says what it has by

    _recurrence_sizes(device, code, mode, features, hidden, width, layers, directions, has_biases, runs)
        a record of `space` (elements of all weights), `places` (first element and sizes of each) and `reserve` (bytes
        that are kept), or None for what it does not do
    _recurrence((out, h, c, kept), data, states, space, mode, runs, has_biases, bidirectional, keeps)
    _recurrence_backward((grad_data, grad_h, grad_c, grad_space), grad_out, grad_h, grad_c, data, states, space, out,
                         kept, mode, runs, has_biases, bidirectional, weighs)

which fill their first argument. Gradients of gradients go through the steps, as ordinary ops.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...autograd import is_grad_enabled
from ...op import Extern, Spec, find_op
from ...op.extern import own_function
from ...planners.recurrence import spread_runs
from ..norm.rows import through_body
from .recurrence import run_layer


class _OnDevice(Extern):
    function = method = out = False
    own = ""

    def implementation(self, device: Any) -> Any:
        return own_function(self.own, device)


def sizes_of(data: Any, states: Any, mode: str, runs: Any, has_biases: bool, bidirectional: bool) -> Any:
    """What the device says of such a network."""
    directions = 1 + bidirectional
    return own_function("_recurrence_sizes", data.device)(
        data.device, data.dtype.code, mode, data.shape[1], states[-1].shape[2], states[0].shape[2],
        states[0].shape[0] // directions, directions, has_biases, runs,
    )


class RecurrentNetwork(_OnDevice):
    """(out, last h, last c or nothing, what the device keeps)."""

    schema = (
        "_recurrent_network(Tensor data, Tensor[] states, Tensor space, str mode, int[] runs, bool has_biases, bool"
        " bidirectional, bool keeps) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    saved_results = (0, 3)
    own = "_recurrence"

    def meta(self, data, states, space, mode, runs, has_biases, bidirectional, keeps):
        reserve = sizes_of(data, states, mode, runs, has_biases, bidirectional).reserve if keeps else 0
        rows, width = data.shape[0], states[0].shape[2] * (1 + bidirectional)
        cells = tuple(states[1].shape) if mode == "lstm" else (0,)
        return (
            Spec((rows, width), data.dtype), Spec(tuple(states[0].shape), data.dtype), Spec(cells, data.dtype),
            Spec((reserve,), _C.uint8),
        )

    def flops(self, data, states, space, *rest):
        """Those of the products: every row meets every weight."""
        return 2 * data.shape[0] * space.numel()

    def vjp(self, g, data, states, space, mode, runs, has_biases, bidirectional, keeps, result):
        given = (mode, runs, has_biases, bidirectional)
        if is_grad_enabled():
            names = ("h", "c")[: len(states)]

            def body(data: Any, space: Any, *states: Any) -> tuple:
                return by_steps(data, states, space, *given)

            inputs = {"data": data, "space": space, **dict(zip(names, states, strict=True))}
            grads = through_body(body, tuple(g[: 1 + len(states)]), inputs)
            return {"data": grads.get("data"), "space": grads.get("space"), "states": [grads.get(n) for n in names]}
        out, kept = result[0], result[3]
        if not keeps:
            out, _, _, kept = find_op("_recurrent_network")(data, states, space, *given, True)
        grad_out = out.new_zeros(out.shape) if g[0] is None else g[0]
        d_data, d_h, d_c, d_space = find_op("_recurrent_network_backward")(
            grad_out, g[1], g[2] if mode == "lstm" else None, data, states, space, out, kept, *given,
            space.requires_grad,
        )
        return {"data": d_data, "states": [d_h, d_c][: len(states)], "space": d_space if space.requires_grad else None}


class RecurrentNetworkBackward(_OnDevice):
    """Gradients of the rows, of the first h and c, and of the weights."""

    schema = (
        "_recurrent_network_backward(Tensor grad_out, Tensor? grad_h, Tensor? grad_c, Tensor data, Tensor[] states,"
        " Tensor space, Tensor out, Tensor kept, str mode, int[] runs, bool has_biases, bool bidirectional, bool"
        " weighs) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    differentiable = False
    own = "_recurrence_backward"

    def meta(self, grad_out, grad_h, grad_c, data, states, space, out, kept, mode, runs, has_biases, both, weighs):
        cells = tuple(states[1].shape) if mode == "lstm" else (0,)
        shapes = tuple(data.shape), tuple(states[0].shape), cells, tuple(space.shape) if weighs else (0,)
        return tuple([Spec(shape, data.dtype) for shape in shapes])

    def flops(self, grad_out, grad_h, grad_c, data, states, space, *rest):
        return 2 * data.shape[0] * space.numel() * (1 + bool(rest[-1]))


def by_steps(
    data: Any, states: Any, space: Any, mode: str, runs: Any, has_biases: bool, bidirectional: bool
) -> tuple:
    """The same by ordinary ops, which have gradients of gradients: (out, last states)."""
    places = sizes_of(data, states, mode, runs, has_biases, bidirectional).places
    weights = [space.narrow(0, start, math.prod(shape)).reshape(shape) for start, shape in places]
    count, steps, directions = states[0].shape[0], spread_runs(runs), 1 + bidirectional
    each = len(weights) // count
    projected = each - 2 - 2 * has_biases
    lasts: list[Any] = []
    while len(lasts) < count:
        outputs = []
        for backwards in (False, True)[:directions]:
            k = len(lasts)
            own = weights[k * each : (k + 1) * each]
            biases = own[2:4] if has_biases else [None, None]
            group = [*own[:2], *biases, own[-1] if projected else None]
            out, last = run_layer(mode, data, steps, tuple(s[k] for s in states), group, backwards)
            outputs.append(out)
            lasts.append(last)
        data = outputs[0] if directions == 1 else find_op("cat")(outputs, -1)
    return data, *[find_op("stack")(parts) for parts in zip(*lasts, strict=True)]
