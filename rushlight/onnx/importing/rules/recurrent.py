"""Recurrent networks: by the library's own op where it means the same, step by step otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ..table import rule

aten = ops.aten
BOTH = "bidirectional"


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Any], Any]:
    a, b = alpha, beta
    found: dict[str, Callable[[Any], Any]] = {
        "tanh": aten.tanh, "sigmoid": aten.sigmoid, "relu": aten.relu, "softplus": aten.softplus,
        "softsign": lambda x: aten.div(x, aten.add(aten.abs(x), 1)),
        "affine": lambda x: aten.add(aten.mul(x, 1.0 if a is None else a), 0.0 if b is None else b),
        "leakyrelu": lambda x: aten.leaky_relu(x, 0.01 if a is None else a),
        "thresholdedrelu": lambda x: aten.where(aten.gt(x, 1.0 if a is None else a), x, aten.zeros_like(x)),
        "scaledtanh": lambda x: aten.mul(aten.tanh(aten.mul(x, 1.0 if b is None else b)), 1.0 if a is None else a),
        "hardsigmoid": lambda x: aten.clamp(
            aten.add(aten.mul(x, 0.2 if a is None else a), 0.5 if b is None else b), 0, 1),
        "elu": lambda x: aten.elu(x, 1.0 if a is None else a),
    }
    if name.lower() not in found:
        raise ValueError(f"RNN: the activation {name!r} is not known; there are {', '.join(found)}")
    return found[name.lower()]


def _activations(names: Sequence[str] | None, default: Sequence[str], directions: int, alpha: Sequence[float] | None,
                 beta: Sequence[float] | None) -> list[list[Callable[[Any], Any]]]:
    """Functions for each direction. Alphas and betas are given to those that take them, in order."""
    names = list(names or list(default) * directions)
    alphas, betas = list(alpha or []), list(beta or [])
    takes_alpha = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
    takes_beta = {"affine", "scaledtanh", "hardsigmoid"}
    found = [_activation(n, alphas.pop(0) if alphas and n.lower() in takes_alpha else None,
                         betas.pop(0) if betas and n.lower() in takes_beta else None) for n in names]
    each = len(default)
    if len(found) != each * directions:
        raise ValueError(f"RNN: expected {each * directions} activations, got {len(found)}")
    return [found[k * each : (k + 1) * each] for k in range(directions)]


def _is_default(names: Sequence[str] | None, default: Sequence[str], directions: int) -> bool:
    return names is None or [n.lower() for n in names] == [n.lower() for n in default] * directions


def _capped(x: Any, clip: float | None) -> Any:
    return x if clip is None else aten.clamp(x, -clip, clip)


def _steps(x: Any, lengths: Any, backwards: bool, states: list[Any], step: Callable[[Any, list[Any]], list[Any]]
           ) -> tuple[Any, list[Any]]:
    """Run a cell over [time, batch, ...]. Past a sequence's length its state stays, and its output is 0."""
    total = x.shape[0]
    outputs: list[Any] = []
    for k in range(total):
        t = total - 1 - k if backwards else k
        new = step(x[t], states)
        if lengths is not None:
            is_on = aten.unsqueeze(aten.lt(aten.full_like(lengths, t), lengths), 1)
            outputs.append(aten.where(is_on, new[0], aten.zeros_like(new[0])))
            new = [aten.where(is_on, n, s) for n, s in zip(new, states, strict=True)]
        else:
            outputs.append(new[0])
        states = new
    return aten.stack(outputs[::-1] if backwards else outputs), states


def _run(x: Any, w: Any, r: Any, b: Any, lengths: Any, initial: list[Any], direction: str, layout: int, gates: int,
         cell: Callable[..., Any], product: Callable[[Any, int], Any] | None = None) -> tuple:
    """All directions: outputs, and the last states, in the layout that is asked for. `product`: of what comes in with
    the weights of a direction, where it is no matmul."""
    if layout:
        x, initial = aten.transpose(x, 0, 1), [None if s is None else aten.transpose(s, 0, 1) for s in initial]
    directions = w.shape[0]
    hidden = r.shape[2]
    outputs, finals = [], []
    for d in range(directions):
        zero = aten.zeros((x.shape[1], hidden), dtype=x.dtype, device=x.device)
        states = [zero if s is None else s[d] for s in initial]
        bias = aten.zeros((2 * gates * hidden,), dtype=x.dtype, device=x.device) if b is None else b[d]
        inner = aten.matmul(x, aten.transpose(w[d], 0, 1)) if product is None else product(x, d)
        step = cell(d, r[d], bias[: gates * hidden], bias[gates * hidden :])
        y, last = _steps(inner, lengths, direction == "reverse" or d == 1, states, step)
        outputs.append(y)
        finals.append(last)
    y = aten.stack(outputs, 1)                                     # [time, directions, batch, hidden]
    lasts = [aten.stack([f[k] for f in finals]) for k in range(len(initial))]
    if layout:
        return aten.permute(y, (2, 0, 1, 3)), *[aten.transpose(s, 0, 1) for s in lasts]
    return y, *lasts


def _regated(w: Any, order: Sequence[int]) -> Any:
    """Weights of gates in another order."""
    parts = aten.chunk(w, len(order), 0)
    return aten.cat([parts[k] for k in order], 0)


def _by_library(op: Any, x: Any, w: Any, r: Any, b: Any, initial: list[Any], order: Sequence[int]) -> tuple:
    """The library's op over directions that run forwards, and backwards."""
    directions, hidden, gates = w.shape[0], r.shape[2], len(order)
    weights = []
    for d in range(directions):
        weights += [_regated(w[d], order), _regated(r[d], order)]
        if b is not None:
            half = gates * hidden
            weights += [_regated(b[d][:half], order), _regated(b[d][half:], order)]
    zero = None
    states = []
    for s in initial:
        if s is None:
            zero = aten.zeros((directions, x.shape[1], hidden), dtype=x.dtype, device=x.device)
            s = zero
        states.append(s)
    given = states if len(states) > 1 else states[0]
    y, *lasts = op(x, given, weights, b is not None, 1, 0.0, False, directions == 2, False)
    y = aten.reshape(y, (x.shape[0], x.shape[1], directions, hidden))
    return aten.permute(y, (0, 2, 1, 3)), *lasts


def _is_plain(direction: str, lengths: Any, clip: float | None, layout: int) -> bool:
    return direction in ("forward", BOTH) and lengths is None and clip is None and not layout


@rule("LSTM", since=7, closed=(4,))
def lstm(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None, p: Any = None, *,
         activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
         activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
         hidden_size: int | None = None, input_forget: int = 0, layout: int = 0, count: int) -> tuple:
    if _is_plain(direction, lengths, clip, layout) and p is None and not input_forget and _is_default(
            activations, ("Sigmoid", "Tanh", "Tanh"), w.shape[0]):
        return _by_library(aten.lstm, x, w, r, b, [h0, c0], (0, 2, 3, 1))
    return lstm_layer(x, w, r, b, lengths, h0, c0, p, activation_alpha=activation_alpha,
                      activation_beta=activation_beta,
                      activations=activations, clip=clip, direction=direction, input_forget=input_forget, layout=layout)


def lstm_layer(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None,
               p: Any = None,
               *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
               activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
               hidden_size: int | None = None, input_forget: int = 0, layout: int = 0, count: int = 3,
               products: tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]] | None = None) -> tuple:
    """An LSTM step by step; `products` with the weights of a direction, of what comes in and of the last output, where
    they are no matmuls."""
    default = ("Sigmoid", "Tanh", "Tanh")
    functions = _activations(activations, default, w.shape[0], activation_alpha, activation_beta)
    hidden = r.shape[2]

    def cell(d: int, recurrent: Any, wb: Any, rb: Any) -> Callable[..., Any]:
        f, g, h = functions[d]
        bias = aten.add(wb, rb)
        peep = None if p is None else aten.chunk(p[d], 3, 0)

        def step(inner: Any, states: list[Any]) -> list[Any]:
            last, memory = states
            told = aten.matmul(last, aten.transpose(recurrent, 0, 1)) if products is None else products[1](last, d)
            gates = aten.add(aten.add(inner, told), bias)
            i, o, forget, c = [gates[:, k * hidden : (k + 1) * hidden] for k in range(4)]
            if peep is not None:
                i, forget = aten.add(i, aten.mul(peep[0], memory)), aten.add(forget, aten.mul(peep[2], memory))
            i = f(_capped(i, clip))
            keep = aten.sub(1, i) if input_forget else f(_capped(forget, clip))
            new = aten.add(aten.mul(keep, memory), aten.mul(i, g(_capped(c, clip))))
            if peep is not None:
                o = aten.add(o, aten.mul(peep[1], new))
            return [aten.mul(f(_capped(o, clip)), h(new)), new]

        return step

    return _run(x, w, r, b, lengths, [h0, c0], direction, layout, 4, cell, None if products is None else products[0])


@rule("GRU", since=3, closed=(4,))
def gru(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
        activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
        hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0, count: int,
        output_sequence: int = 0) -> tuple:
    default = ("Sigmoid", "Tanh")
    if _is_plain(direction, lengths, clip, layout) and linear_before_reset and _is_default(
            activations, default, w.shape[0]):
        return _by_library(aten.gru, x, w, r, b, [h0], (1, 0, 2))
    functions = _activations(activations, default, w.shape[0], activation_alpha, activation_beta)
    hidden = r.shape[2]

    def cell(d: int, recurrent: Any, wb: Any, rb: Any) -> Callable[..., Any]:
        f, g = functions[d]

        def step(inner: Any, states: list[Any]) -> list[Any]:
            last = states[0]
            turned = aten.transpose(recurrent, 0, 1)
            two = 2 * hidden
            zr = aten.add(aten.add(inner[:, :two], aten.matmul(last, turned[:, :two])), aten.add(wb[:two], rb[:two]))
            z, reset = f(_capped(zr[:, :hidden], clip)), f(_capped(zr[:, hidden:], clip))
            if linear_before_reset:
                inside = aten.mul(reset, aten.add(aten.matmul(last, turned[:, two:]), rb[two:]))
            else:
                inside = aten.add(aten.matmul(aten.mul(reset, last), turned[:, two:]), rb[two:])
            new = g(_capped(aten.add(aten.add(inner[:, two:], inside), wb[two:]), clip))
            return [aten.add(aten.mul(aten.sub(1, z), new), aten.mul(z, last))]

        return step

    return _run(x, w, r, b, lengths, [h0], direction, layout, 3, cell)


@rule("RNN", since=7, closed=(4,))
def rnn(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
        activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
        hidden_size: int | None = None, layout: int = 0, count: int) -> tuple:
    for name, op in (("Tanh", aten.rnn_tanh), ("Relu", aten.rnn_relu)):
        if _is_plain(direction, lengths, clip, layout) and _is_default(activations or ["Tanh"] * w.shape[0], (name,),
                                                                       w.shape[0]):
            return _by_library(op, x, w, r, b, [h0], (0,))
    functions = _activations(activations, ("Tanh",), w.shape[0], activation_alpha, activation_beta)

    def cell(d: int, recurrent: Any, wb: Any, rb: Any) -> Callable[..., Any]:
        def step(inner: Any, states: list[Any]) -> list[Any]:
            total = aten.add(aten.add(inner, aten.matmul(states[0], aten.transpose(recurrent, 0, 1))), aten.add(wb, rb))
            return [functions[d][0](_capped(total, clip))]

        return step

    return _run(x, w, r, b, lengths, [h0], direction, layout, 1, cell)


