"""Decompositions of recurrent layers: every step of every layer as products and gates.

Enters: arguments in the order of ATen's signatures; sequences of known length. Leaves: `RULES`, from names of ops (or
`op.overload`) to functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...op import find_op


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return find_op("linear")(x, weight, bias)


def _lstm_gates(given: Any, recurrent: Any, state: Sequence[Any]) -> tuple[Any, ...]:
    into, forget, new, out = (given + recurrent).chunk(4, -1)
    cell = forget.sigmoid() * state[1] + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru_gates(given: Any, recurrent: Any, state: Sequence[Any]) -> tuple[Any, ...]:
    (r, z, n), (hr, hz, hn) = given.chunk(3, -1), recurrent.chunk(3, -1)
    reset, update = (r + hr).sigmoid(), (z + hz).sigmoid()
    new = (n + reset * hn).tanh()
    return ((state[0] - new) * update + new,)


def _plain(name: str) -> Callable:
    return lambda given, recurrent, state: (find_op(name)(given + recurrent),)


GATES: dict[str, Callable] = {"lstm": _lstm_gates, "gru": _gru_gates, "rnn_tanh": _plain("tanh"),
                              "rnn_relu": _plain("relu")}


def _cell(kind: str) -> Callable:
    def rule(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        state = list(hx) if kind == "lstm" else [hx]
        result = GATES[kind](_linear(input, w_ih, b_ih), _linear(state[0], w_hh, b_hh), state)
        return tuple(result) if kind == "lstm" else result[0]

    return rule


def _direction(kind: str, x: Any, state: list[Any], weights: Sequence[Any], backwards: bool) -> tuple[Any, list[Any]]:
    """One layer in one direction: its outputs [T, N, H] and its last state."""
    w_ih, w_hh, b_ih, b_hh = (*weights, None, None)[:4]
    given = find_op("linear")(x, w_ih, b_ih).unbind(0)
    outputs = []
    for step in reversed(given) if backwards else given:
        state = list(GATES[kind](step, _linear(state[0], w_hh, b_hh), state))
        outputs.append(state[0])
    return find_op("stack")(outputs[::-1] if backwards else outputs), state


def _layers(kind: str) -> Callable:
    def rule(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
             bidirectional: bool, batch_first: bool = False) -> Any:
        if not isinstance(input.shape[1 if batch_first else 0], int) or input.ndim != 3:
            return NotImplemented
        x = input.transpose(0, 1) if batch_first else input
        first = list(hx) if kind == "lstm" else [hx]
        directions, each = 1 + bidirectional, 4 if has_biases else 2
        if len(params) != num_layers * directions * each:
            return NotImplemented           # projections
        last: list[list[Any]] = []
        for layer in range(num_layers):
            outputs = []
            for backwards in range(directions):
                at = layer * directions + backwards
                y, state = _direction(kind, x, [s.select(0, at) for s in first],
                                      params[at * each : (at + 1) * each], bool(backwards))
                outputs.append(y)
                last.append(state)
            x = outputs[0] if directions == 1 else find_op("cat")(outputs, -1)
            if dropout and train and layer < num_layers - 1:
                x = find_op("native_dropout")(x, dropout, True)[0]
        finals = [find_op("stack")(list(parts)) for parts in zip(*last, strict=True)]
        return (x.transpose(0, 1) if batch_first else x, *finals)

    return rule


RULES: dict[str, Callable] = {
    **{f"{kind}.input": _layers(kind) for kind in GATES},
    **{f"{kind}_cell": _cell(kind) for kind in GATES},
}
