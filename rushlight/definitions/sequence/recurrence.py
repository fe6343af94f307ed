"""Recurrent networks: lstm, gru, rnn_tanh, rnn_relu over padded or packed sequences, and single steps of them.

Enters: sequences [T, N, F] ([N, T, F] with batch_first), or rows grouped by step with the number of rows of each; first
states; weights layer by layer, direction by direction. Leaves: the last layer's outputs and the last states of all.
Refuses: sizes that do not fit, with the sizes.

One product projects all steps' inputs of a layer. The steps of dense single- or double-precision tensors on the host
are then one op and one plan, and so are their gradients (planners/recurrence.py), in eager mode and in graphs that the
inductor compiles; a device may have whole networks of its own (sequence/network.py); everything else, transforms and
gradients of gradients included, is ordinary ops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...autograd import is_grad_enabled
from ...dispatch import modes
from ...dispatch.keys import AUTOCAST
from ...op import Composite, OwnPlans, Spec, find_op
from ...op.extern import own_function
from ...planners.recurrence import backward_plan, forward_plan, join_runs, spread_runs
from ...rules import levels
from ..norm.rows import through_body

States = tuple[Any, ...]
ORDINARY = (_C.float32, _C.float64)


def is_planned(*tensors: Any) -> bool:
    """Whether a layer of these tensors runs as one plan: ordinary dense numbers, no transform watching; or stand-ins of
    known sizes for such, in a graph that keeps layers."""
    return tensors[0].dtype in ORDINARY and tensors[0].device.type == "cpu" and are_plain(*tensors)


def are_plain(*tensors: Any) -> bool:
    """Whether these tensors, of one type on one device, can be told to somebody who computes many steps at once."""
    first = tensors[0]
    if levels.state.stack:
        return False
    keys, excluded = _C.get_thread_keys()
    if keys & ~excluded & AUTOCAST:   # products come out in another type than the states have
        return False
    present = [t for t in tensors if t is not None]
    if not all(t.dtype is first.dtype and t.device == first.device for t in present):
        return False
    if not any(t._keys for t in present):
        return bool(first.numel())
    watching = modes.state.dispatch_modes
    if not watching or not all(mode.keeps_layers for mode in watching):
        return False
    return all(type(n) is int and n for t in present for n in t.shape)


def dense(*tensors: Any) -> list[Any]:
    """The tensors with their elements in order; usually the same objects."""
    return [t if t._is_contiguous() else t.contiguous() for t in tensors]


# --- one step, of ordinary ops ----------------------------------------------------------------------------------------


def step(mode: str, given: Any, states: States, weight: Any, bias: Any, projection: Any = None) -> States:
    """The states after one step; `given` is the input's projection with its bias, `bias` the hidden one's."""
    h, linear = states[0], find_op("linear")
    if mode == "gru":
        (ir, iz, inner), (hr, hz, hidden) = given.chunk(3, -1), linear(h, weight, bias).chunk(3, -1)
        reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
        new = (inner + reset * hidden).tanh()
        return (new + update * (h - new),)
    gates = given + linear(h, weight, bias)
    if mode == "lstm":
        write, keep, new, read = gates.chunk(4, -1)
        c = keep.sigmoid() * states[1] + write.sigmoid() * new.tanh()
        h = read.sigmoid() * c.tanh()
        return (h if projection is None else linear(h, projection)), c
    return (gates.tanh() if mode == "tanh" else gates.relu(),)


def run_steps(
    mode: str,
    given: Any,
    sizes: Sequence[int],
    first: States,
    weight: Any,
    bias: Any,
    backwards: bool,
    projection: Any = None,
) -> tuple[Any, States]:
    """A layer in one direction, step by step: (rows of output, last states)."""
    steps, outputs, cat = given.split(list(sizes)), [], find_op("cat")
    if backwards:   # sequences join as their last step comes up
        states = tuple(s[: sizes[-1]] for s in first)
        for t in range(len(sizes) - 1, -1, -1):
            here = states[0].shape[0]
            if sizes[t] > here:
                states = tuple(cat([s, f[here : sizes[t]]]) for s, f in zip(states, first, strict=True))
            states = step(mode, steps[t], states, weight, bias, projection)
            outputs.append(states[0])
        return cat(outputs[::-1]), states
    states, ended = first, []
    for t, size in enumerate(sizes):
        if size < states[0].shape[0]:   # sequences end
            ended.append(tuple(s[size:] for s in states))
            states = tuple(s[:size] for s in states)
        states = step(mode, steps[t], states, weight, bias, projection)
        outputs.append(states[0])
    if ended:
        states = tuple(cat(parts[::-1]) for parts in zip(*ended, states, strict=True))
    return cat(outputs), states


# --- layers as one plan -----------------------------------------------------------------------------------------------


def states_before(states: Any, first: Any, sizes: Sequence[int], backwards: bool) -> Any:
    """What every step began with, rows grouped by step as in `states`."""
    if len(sizes) == 1:
        return first
    parts, at = [], 0
    starts = [at := at + n for n in (0, *sizes)]
    if sizes[0] == sizes[-1]:
        parts = [states[starts[1] :], first] if backwards else [first, states[: starts[-2]]]
    elif backwards:
        for t, size in enumerate(sizes):
            known = sizes[t + 1] if t + 1 < len(sizes) else 0
            parts += [states[starts[t + 1] : starts[t + 1] + known], first[known:size]]
    else:
        parts = [first[: sizes[0]], *[states[starts[t - 1] : starts[t - 1] + sizes[t]] for t in range(1, len(sizes))]]
    return find_op("cat")(parts)


class _Steps(OwnPlans):
    """The steps of a layer, or of its gradients, in one direction. `runs` is the sizes of steps as counts and sizes:
    see join_runs."""

    function = method = out = False

    def steps(self, args: tuple, is_new: bool = False) -> Any:
        """The plan for such arguments; `is_new`: one that nobody else has."""
        raise NotImplementedError

    def exact_plan(self, args: tuple) -> Any:
        given = tensors_of(args)
        return self.steps(args, True) if all(t._is_contiguous() for t in given) else None

    def flops(self, *args: Any) -> int:
        """Those of the products: every row of a step meets the weight."""
        return 2 * args[0].shape[0] * args[self.spec.index("weight")].numel()

    def run(self, *args: Any) -> Any:
        given = tensors_of(args)
        return super().run(*args) if given[0].device.type == "meta" else self.steps(args)(*dense(*given))


def tensors_of(args: tuple) -> list[Any]:
    return [a for a in args if isinstance(a, _C.Tensor)]


class _Layer(_Steps):
    """A layer in one direction."""

    def gradients(
        self,
        mode: str,
        g: tuple,
        given: Any,
        first: States,
        weight: Any,
        bias: Any,
        runs: Sequence[int],
        backwards: bool,
        kept: tuple,
        result: tuple,
    ) -> dict[str, Any]:
        names = ("h", "c")[: len(first)]
        sizes = spread_runs(runs)
        if is_grad_enabled():
            def body(given: Any, weight: Any, bias: Any, *states: Any) -> tuple:
                out, last = run_steps(mode, given, sizes, states, weight, bias, backwards)
                return out, *last

            inputs = {"given": given, "weight": weight, "bias": bias, **dict(zip(names, first, strict=True))}
            return through_body(body, tuple(g[: 1 + len(first)]), inputs)
        shapes = (result[0].shape, *(s.shape for s in first))
        slopes = [given.new_zeros(shape) if d is None else d for d, shape in zip(g, shapes, strict=False)]
        before = states_before(result[0], first[0], sizes, backwards)
        kind = (mode,) if mode in ("tanh", "relu") else ()
        backward = find_op(f"{self.spec.name}_backward")
        answer = backward(*slopes, weight, *kept, *([before] if mode == "gru" else []), *kind, runs, backwards)
        hidden = answer[-1]
        grads = dict(zip((*names, "given"), answer, strict=False))
        grads["weight"] = hidden.t() @ before if weight.requires_grad else None
        if bias is not None:
            grads["bias"] = hidden.sum(0)
        return grads


def specs(given: Any, *shapes: tuple[int, ...]) -> tuple[Spec, ...]:
    return tuple([Spec(tuple(shape), given.dtype) for shape in shapes])


class LstmLayer(_Layer):
    """(out, last h, last c, cells after every step, activated gates)."""

    schema = (
        "_lstm_layer(Tensor given, Tensor h, Tensor c, Tensor weight, int[] runs, bool backwards) -> (Tensor, Tensor,"
        " Tensor, Tensor, Tensor)"
    )
    saved_results = (0, 3, 4)

    def meta(self, given, h, c, weight, runs, backwards):
        rows = (given.shape[0], h.shape[1])
        return specs(given, rows, h.shape, c.shape, rows, given.shape)

    def steps(self, args, is_new=False):
        given, h, _, _, runs, backwards = args
        return forward_plan(
            "lstm", given.dtype.code, tuple(runs), h.shape[1], backwards, False, is_new=is_new
        )

    def vjp(self, g, given, h, c, weight, runs, backwards, result):
        before = None if is_grad_enabled() else states_before(result[3], c, spread_runs(runs), backwards)
        return self.gradients(
            "lstm", g, given, (h, c), weight, None, runs, backwards, (result[4], result[3], before), result
        )


class LstmLayerBackward(_Steps):
    """Gradients of the first h and c, and of what was given."""

    schema = (
        "_lstm_layer_backward(Tensor grad_out, Tensor grad_h, Tensor grad_c, Tensor weight, Tensor gates, Tensor cells,"
        " Tensor cells_before, int[] runs, bool backwards) -> (Tensor, Tensor, Tensor)"
    )

    def meta(self, grad_out, grad_h, grad_c, weight, gates, cells, before, runs, backwards):
        return specs(gates, grad_h.shape, grad_c.shape, gates.shape)

    def steps(self, args, is_new=False):
        return backward_plan("lstm", args[0].dtype.code, tuple(args[-2]), args[1].shape[1], args[-1], is_new=is_new)


class GruLayer(_Layer):
    """(out, last h, gates and what the reset gate scaled)."""

    schema = (
        "_gru_layer(Tensor given, Tensor h, Tensor weight, Tensor? bias, int[] runs, bool backwards) -> (Tensor,"
        " Tensor, Tensor)"
    )
    saved_results = (0, 2)

    def meta(self, given, h, weight, bias, runs, backwards):
        rows, width = given.shape[0], h.shape[1]
        return specs(given, (rows, width), h.shape, (rows, 4 * width))

    def steps(self, args, is_new=False):
        given, h, _, bias, runs, backwards = args
        code = given.dtype.code
        return forward_plan("gru", code, tuple(runs), h.shape[1], backwards, bias is not None, is_new=is_new)

    def vjp(self, g, given, h, weight, bias, runs, backwards, result):
        return self.gradients("gru", g, given, (h,), weight, bias, runs, backwards, (result[2],), result)


class GruLayerBackward(_Steps):
    """Gradients of the first h, of what was given, and of the projected states."""

    schema = (
        "_gru_layer_backward(Tensor grad_out, Tensor grad_h, Tensor weight, Tensor kept, Tensor h_before, int[] runs,"
        " bool backwards) -> (Tensor, Tensor, Tensor)"
    )

    def meta(self, grad_out, grad_h, weight, kept, before, runs, backwards):
        rows = (grad_out.shape[0], weight.shape[0])
        return specs(grad_out, grad_h.shape, rows, rows)

    def steps(self, args, is_new=False):
        return backward_plan("gru", args[0].dtype.code, tuple(args[-2]), args[1].shape[1], args[-1], is_new=is_new)


class RnnLayer(_Layer):
    """(out, last h); `kind` is tanh or relu."""

    schema = (
        "_rnn_layer(Tensor given, Tensor h, Tensor weight, str kind, int[] runs, bool backwards) -> (Tensor, Tensor)"
    )
    saved_results = (0,)

    def meta(self, given, h, weight, kind, runs, backwards):
        return specs(given, given.shape, h.shape)

    def steps(self, args, is_new=False):
        given, h, _, kind, runs, backwards = args
        return forward_plan(kind, given.dtype.code, tuple(runs), h.shape[1], backwards, False, is_new=is_new)

    def vjp(self, g, given, h, weight, kind, runs, backwards, result):
        return self.gradients(kind, g, given, (h,), weight, None, runs, backwards, (result[0],), result)


class RnnLayerBackward(_Steps):
    """Gradients of the first h, and of what was given."""

    schema = (
        "_rnn_layer_backward(Tensor grad_out, Tensor grad_h, Tensor weight, Tensor result, str kind, int[] runs, bool"
        " backwards) -> (Tensor, Tensor)"
    )

    def meta(self, grad_out, grad_h, weight, result, kind, runs, backwards):
        return specs(grad_out, grad_h.shape, grad_out.shape)

    def steps(self, args, is_new=False):
        kind, runs, backwards = args[-3:]
        return backward_plan(kind, args[0].dtype.code, tuple(runs), args[1].shape[1], backwards, is_new=is_new)


def run_layer(
    mode: str, data: Any, sizes: Sequence[int], first: States, weights: Sequence[Any], backwards: bool
) -> tuple[Any, States]:
    """A layer in one direction over rows of input grouped by step: (rows of output, last states)."""
    w_ih, w_hh, b_ih, b_hh, projection = weights
    linear = find_op("linear")
    if projection is not None or not is_planned(data, *first, w_ih, w_hh, b_ih, b_hh):
        return run_steps(mode, linear(data, w_ih, b_ih), sizes, first, w_hh, b_hh, backwards, projection)
    runs = join_runs(sizes)
    if mode == "gru":
        out, *last = find_op("_gru_layer")(linear(data, w_ih, b_ih), *first, w_hh, b_hh, runs, backwards)
        return out, tuple(last[:1])
    given = linear(data, w_ih, b_ih if b_hh is None else b_hh if b_ih is None else b_ih + b_hh)
    if mode == "lstm":
        out, *last = find_op("_lstm_layer")(given, *first, w_hh, runs, backwards)
        return out, tuple(last[:2])
    out, last = find_op("_rnn_layer")(given, *first, w_hh, mode, runs, backwards)
    return out, (last,)


# --- networks ---------------------------------------------------------------------------------------------------------


def grouped(name: str, params: Sequence[Any], has_biases: bool, count: int, projected: bool) -> list[list[Any]]:
    """Weights per layer and direction: [w_ih, w_hh, b_ih, b_hh, w_hr], None where there is none."""
    size = 2 + 2 * has_biases + projected
    if len(params) != size * count:
        raise RuntimeError(
            f"{name}: expected {size} weights for each of {count} layers and directions, got {len(params)}"
        )
    result = []
    for i in range(0, len(params), size):
        own = list(params[i : i + size])
        biases = own[2:4] if has_biases else [None, None]
        result.append([*own[:2], *biases, own[-1] if projected else None])
    return result


def check_states(name: str, states: States, count: int, batch: int, weights: list[list[Any]]) -> None:
    for state in states:
        if state.ndim != 3 or state.shape[0] != count or state.shape[1] != batch:
            raise RuntimeError(
                f"{name}: expected states of shape ({count}, {batch}, hidden size), got {list(state.shape)}"
            )
    if states[0].shape[2] != weights[0][1].shape[1]:
        raise RuntimeError(
            f"{name}: the hidden weight {list(weights[0][1].shape)} expects states of width {weights[0][1].shape[1]},"
            f" got {list(states[0].shape)}"
        )


def by_device(
    mode: str,
    data: Any,
    sizes: Sequence[int],
    first: States,
    weights: list[list[Any]],
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, States] | None:
    """The same by a device that has whole networks; None where it has none for these. Dropout comes between calls of a
    layer each."""
    ask, flat = own_function("_recurrence_sizes", data.device), [w for own in weights for w in own if w is not None]
    if ask is None or not are_plain(data, *first, *flat):
        return None
    directions, runs, network = 1 + bidirectional, join_runs(sizes), find_op("_recurrent_network")
    count = directions if dropout else len(weights)        # layers and directions of a call
    biased = weights[0][2] is not None
    found = known_calls(
        ask, data.device, data.dtype.code, mode, data.shape[1], first[-1].shape[2], first[0].shape[2], len(weights),
        count, directions, biased, tuple(runs),
    )
    if found is None or [tuple(w.shape) for w in flat] != [shape for one in found for _, shape in one.places]:
        return None
    keeps = is_grad_enabled() and any(t.requires_grad for t in (data, *first, *flat))
    lasts: list[Any] = []
    each = len(flat) // len(found)
    for k, one in enumerate(found):
        if k:
            data = find_op("dropout")(data, dropout, True)
        states = first if len(found) == 1 else tuple(s[k * count : (k + 1) * count] for s in first)
        row = in_a_row(one, flat[k * each : (k + 1) * each])
        data, *last, _ = network(data, states, row, mode, runs, biased, bidirectional, keeps)
        lasts.append(last[: len(first)])
    if len(lasts) == 1:
        return data, tuple(lasts[0])
    return data, tuple(find_op("cat")(parts) for parts in zip(*lasts, strict=True))


@functools.lru_cache(maxsize=512)
def known_calls(
    ask: Any, device: Any, code: str, mode: str, features: int, hidden: int, width: int, total: int, count: int,
    directions: int, biased: bool, runs: tuple[int, ...],
) -> tuple[Any, ...] | None:
    """What the device says of each call for `count` of all layers and directions; None where it does not do one."""
    widths = [features if k == 0 else width * directions for k in range(0, total, count)]
    found = [ask(device, code, mode, n, hidden, width, count // directions, directions, biased, runs) for n in widths]
    return None if None in found else tuple(found)


def in_a_row(found: Any, weights: Sequence[Any]) -> Any:
    """Weights one after the other, where the device wants them."""
    parts, end = [], 0
    for start, size, number in in_order(found.places):
        weight = weights[number]
        if start > end:
            parts.append(weight.new_zeros((start - end,)))
        parts.append(weight if weight.ndim == 1 else weight.view(-1) if weight._is_contiguous() else weight.reshape(-1))
        end = start + size
    if end < found.space:
        parts.append(weights[0].new_zeros((found.space - end,)))
    return find_op("cat")(parts)


@functools.lru_cache(maxsize=512)
def in_order(places: tuple) -> list[tuple[int, int, int]]:
    """(first element, elements, number) of weights as they lie."""
    return sorted((start, math.prod(shape), number) for number, (start, shape) in enumerate(places))


def run_network(
    mode: str,
    name: str,
    data: Any,
    sizes: Sequence[int],
    first: States,
    params: Sequence[Any],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Any, States]:
    """All layers over rows grouped by step: (rows of output, last states of every layer and direction)."""
    directions = 2 if bidirectional else 1
    weights = grouped(
        name, params, has_biases, layers * directions, mode == "lstm" and first[0].shape[2] != first[1].shape[2]
    )
    check_states(name, first, layers * directions, sizes[0] if sizes else 0, weights)
    if data.device.type not in ("cpu", "meta"):
        served = by_device(mode, data, sizes, first, weights, dropout if train else 0.0, bidirectional)
        if served is not None:
            return served
    lasts: list[States] = []
    for layer in range(layers):
        outputs = []
        for backwards in (False, True)[:directions]:
            out, last = run_layer(
                mode, data, sizes, tuple(s[len(lasts)] for s in first), weights[len(lasts)], backwards
            )
            outputs.append(out)
            lasts.append(last)
        data = outputs[0] if directions == 1 else find_op("cat")(outputs, -1)
        if dropout and train and layer < layers - 1:
            data = find_op("dropout")(data, dropout, True)
    return data, tuple(find_op("stack")(parts) for parts in zip(*lasts, strict=True))


class _Network(Composite):
    """What the networks share: the two ways sequences are given."""

    method = out = False
    mode = ""

    def padded(
        self,
        input: Any,
        states: States,
        params: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple:
        if input.ndim != 3:
            raise RuntimeError(f"{self.spec.name}: Expected a 3-D input, got {input.ndim}-D")
        steps = input.transpose(0, 1) if batch_first else input
        length, batch = steps.shape[:2]
        if not length:
            raise RuntimeError(
                f"{self.spec.name}: Expected sequence length to be larger than 0, got input of shape"
                f" {list(input.shape)}"
            )
        rows = steps.reshape(length * batch, steps.shape[2])
        out, last = run_network(
            self.mode,
            self.spec.name,
            rows,
            [batch] * length,
            states,
            params,
            has_biases,
            layers,
            dropout,
            train,
            bidirectional,
        )
        out = out.reshape(length, batch, out.shape[1])
        return (out.transpose(0, 1) if batch_first else out), *last

    def packed(
        self,
        data: Any,
        batch_sizes: Any,
        states: States,
        params: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> tuple:
        out, last = run_network(
            self.mode,
            self.spec.name,
            data,
            batch_sizes.tolist(),
            states,
            params,
            has_biases,
            layers,
            dropout,
            train,
            bidirectional,
        )
        return out, *last


class LstmPadded(_Network):
    """Long short-term memory over padded sequences: (outputs, last h, last c)."""

    schema = (
        "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool"
        " train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"
    )
    mode = "lstm"

    def compute(self, input, hx, *rest):
        return self.padded(input, two_states(hx), *rest)


class LstmPacked(_Network):
    """Long short-term memory over packed sequences."""

    schema = (
        "lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,"
        " float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"
    )
    mode = "lstm"

    def compute(self, data, batch_sizes, hx, *rest):
        return self.packed(data, batch_sizes, two_states(hx), *rest)


def two_states(hx: Sequence[Any]) -> States:
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    return tuple(hx)


class _OneState(_Network):
    def compute(self, input, *rest):
        if self.spec.overload == "input":
            return self.padded(input, rest[:1], *rest[1:])
        return self.packed(input, rest[0], rest[1:2], *rest[2:])


PADDED = (
    "{}.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,"
    " bool bidirectional, bool batch_first) -> (Tensor, Tensor)"
)
PACKED = (
    "{}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float"
    " dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"
)


class Gru(_OneState):
    """Gated recurrent units over sequences: (outputs, last h)."""

    schema = (PADDED.format("gru"), PACKED.format("gru"))
    mode = "gru"


class RnnTanh(_OneState):
    """h = tanh(W x + b + U h + c) over sequences: (outputs, last h)."""

    schema = (PADDED.format("rnn_tanh"), PACKED.format("rnn_tanh"))
    mode = "tanh"


class RnnRelu(_OneState):
    """h = relu(W x + b + U h + c) over sequences: (outputs, last h)."""

    schema = (PADDED.format("rnn_relu"), PACKED.format("rnn_relu"))
    mode = "relu"


# --- cells ------------------------------------------------------------------------------------------------------------


class _Cell(Composite):
    """One step of a network."""

    method = out = False
    mode = ""

    def next(self, input: Any, states: States, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> States:
        self.check_cell(input, states, w_ih, w_hh)
        return run_layer(self.mode, input, [input.shape[0]], states, (w_ih, w_hh, b_ih, b_hh, None), False)[1]

    def check_cell(self, input: Any, states: States, w_ih: Any, w_hh: Any) -> None:
        name = self.spec.name
        if input.ndim != 2:
            raise RuntimeError(f"{name}: expected a 2-D input, got {input.ndim}-D")
        (batch, features), expected, width = input.shape, w_ih.size(1), w_hh.size(1)
        if features != expected:
            raise RuntimeError(f"{name}: input has inconsistent input_size: got {features} expected {expected}")
        for i, state in enumerate(states):
            if tuple(state.shape) == (batch, width):
                continue
            if batch != state.size(0):
                raise RuntimeError(
                    f"{name}: Input batch size {batch} doesn't match hidden{i} batch size {state.size(0)}"
                )
            raise RuntimeError(
                f"{name}: hidden{i} has inconsistent hidden_size: got {list(state.shape)}, expected {width}"
            )

    def compute(self, input, hx, w_ih, w_hh, b_ih, b_hh):
        return self.next(input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


CELL = "{}(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"


class LstmCell(_Cell):
    """One step of an LSTM: the next (h, c)."""

    schema = (
        "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) ->"
        " (Tensor, Tensor)"
    )
    mode = "lstm"

    def compute(self, input, hx, w_ih, w_hh, b_ih, b_hh):
        return self.next(input, two_states(hx), w_ih, w_hh, b_ih, b_hh)


class GruCell(_Cell):
    """One step of a GRU."""

    schema = CELL.format("gru_cell")
    mode = "gru"


class RnnTanhCell(_Cell):
    """One step of an RNN with tanh."""

    schema = CELL.format("rnn_tanh_cell")
    mode = "tanh"


class RnnReluCell(_Cell):
    """One step of an RNN with relu."""

    schema = CELL.format("rnn_relu_cell")
    mode = "relu"
