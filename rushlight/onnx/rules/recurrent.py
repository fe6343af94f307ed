"""Recurrent networks: ONNX has them whole, with gates in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..building import Builder
from ..model import Value
from .table import rule

INT64 = _C.int64
# Rows of our weights, by gates, in ONNX's order. LSTM: ours i f g o, theirs i o f c; GRU: ours r z n, theirs z r h.
ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


class _Network:
    """One network of several layers."""

    def __init__(self, g: Builder, op: str, has_biases: bool, both: bool, projects: bool, settings: dict[str, Any]
                 ) -> None:
        self.g, self.op, self.has_biases, self.projects, self.settings = g, op, has_biases, projects, settings
        self.directions = 2 if both else 1
        self.each = (4 if has_biases else 2) + projects

    def gates(self, weight: Value) -> Value:
        """Rows in ONNX's order."""
        order = ORDER[self.op]
        if len(order) == 1:
            return weight
        parts = self.g.nodes("Split", weight, dtypes=[weight.dtype] * len(order), axis=0, num_outputs=len(order))
        return self.g.node("Concat", *[parts[i] for i in order], axis=0)

    def stacked(self, weights: Sequence[Value]) -> Value:
        """Weights of the directions as one tensor."""
        g = self.g
        rows = [g.node("Unsqueeze", w, g.ints([0])) for w in weights]
        return rows[0] if len(rows) == 1 else g.node("Concat", *rows, axis=0)

    def layer(self, x: Value, params: Sequence[Value], states: Sequence[Value]) -> tuple[Value, list[Value]]:
        """One layer: its output over time, and its last states."""
        g, each = self.g, self.each
        sets = [params[i * each : (i + 1) * each] for i in range(self.directions)]
        inner, outer = [self.gates(s[0]) for s in sets], [self.gates(s[1]) for s in sets]
        if self.projects:
            x, inner = self.with_first(x, states[0], inner, outer)
            outer = [g.node("MatMul", w, s[-1]) for w, s in zip(outer, sets, strict=True)]
        bias = None
        if self.has_biases:
            bias = self.stacked([g.node("Concat", self.gates(s[2]), self.gates(s[3]), axis=0) for s in sets])
        hidden = params[each - 1 if self.projects else 1].shape[-1]
        direction = "bidirectional" if self.directions == 2 else "forward"
        settings = dict(self.settings)
        if "activations" in settings:
            settings["activations"] = settings["activations"] * self.directions
        count = 1 + len(states)
        given = [None, *states[1:]] if self.projects else states
        results = g.nodes(self.op, x, self.stacked(inner), self.stacked(outer), bias, None, *given,
                          dtypes=[x.dtype] * count, hidden_size=hidden, direction=direction, **settings)
        if self.projects:
            down = self.stacked([g.node("Transpose", s[-1], perm=[1, 0]) for s in sets])
            results = [g.node("MatMul", r, down) for r in results[:2]] + list(results[2:])
        # Theirs has a dim of directions in the middle; ours has them side by side.
        output = g.node("Transpose", results[0], perm=[0, 2, 1, 3])
        return g.node("Reshape", output, g.ints([0, 0, -1])), results[1:]


    def with_first(self, x: Value, first: Value, inner: list[Value], outer: Sequence[Value]
                   ) -> tuple[Value, list[Value]]:
        """ONNX has no projections. What they make of a state is part of the weights then, but for the first state,
        which was projected before: it comes in with the first input (the last, where time runs back)."""
        g = self.g
        steps = g.node("Slice", g.node("Shape", x, dtype=INT64), g.ints([0]), g.ints([1]), g.ints([0]))
        rest, zeros = g.node("Sub", steps, g.ints([1])), [g.ints([0] * n) for n in (3, 2, 5)]
        parts, found = [x], []
        for k, weight in enumerate(inner):
            own = g.node("Slice", first, g.ints([k]), g.ints([k + 1]), g.ints([0]))
            pads = g.node("Concat", *((rest, zeros[2]) if k else (zeros[0], rest, zeros[1])), axis=0)
            parts.append(g.node("Pad", own, pads))
            blank = [g.node("Mul", w, g.constant(0.0, w.dtype)) if i != k else w for i, w in enumerate(outer)]
            found.append(g.node("Concat", weight, *blank, axis=1))
        return g.node("Concat", *parts, axis=2), found


def _network(op: str, **settings: Any) -> Callable[..., Any]:
    def convert(g: Builder, hx: Any, params: Sequence[Value], has_biases: bool, num_layers: int, dropout: float,
                train: bool, bidirectional: bool, input: Value | None = None, batch_first: bool = False,
                data: Value | None = None, batch_sizes: Value | None = None) -> Any:
        if input is None:
            raise NotImplementedError("a packed sequence; give the padded tensor")
        if dropout and train and num_layers > 1:
            raise NotImplementedError(f"dropout={dropout} between layers is for training; call eval()")
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        plain = (4 if has_biases else 2) * (2 if bidirectional else 1) * num_layers
        net = _Network(g, op, has_biases, bidirectional, len(params) != plain, settings)
        each = net.each * net.directions
        x = g.node("Transpose", input, perm=[1, 0, 2]) if batch_first else input
        last: list[list[Value]] = [[] for _ in states]
        for k in range(num_layers):
            first = k * net.directions
            own = [g.node("Slice", s, g.ints([first]), g.ints([first + net.directions]), g.ints([0])) for s in states]
            x, ends = net.layer(x, params[k * each : (k + 1) * each], own)
            for kept, end in zip(last, ends, strict=True):
                kept.append(end)
        x = g.node("Transpose", x, perm=[1, 0, 2]) if batch_first else x
        return x, *[parts[0] if len(parts) == 1 else g.node("Concat", *parts, axis=0) for parts in last]

    return convert


rule("lstm")(_network("LSTM"))
rule("gru")(_network("GRU", linear_before_reset=1))
rule("rnn_tanh")(_network("RNN", activations=["Tanh"]))
rule("rnn_relu")(_network("RNN", activations=["Relu"]))
