"""Recurrent networks whose products are quantized: LSTM and GRU over sequences, and single steps.

Enters: floats, states, and weights: packed ones (objects with `linear_ih` and `linear_hh`), or those of `fbgemm_*`.
Leaves: floats. Refuses: weights in plain lists of tensors, as PyTorch does now, and states that do not fit.
A layer multiplies a whole sequence with its input weights at once, so that one range of numbers decides how it is
quantized; steps compute on floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...op import Composite, find_op

States = tuple[Any, ...]


def lstm_step(inside: Any, around: Any, states: States) -> States:
    """(h, c) after a step: gates are what the input and the state give."""
    into, keep, new, out = (inside + around).chunk(4, 1)
    c = keep.sigmoid() * states[1] + into.sigmoid() * new.tanh()
    return out.sigmoid() * c.tanh(), c


def gru_step(inside: Any, around: Any, states: States) -> States:
    """(h,) after a step."""
    (reset, update, new), (h_reset, h_update, h_new) = inside.chunk(3, 1), around.chunk(3, 1)
    new = (new + (reset + h_reset).sigmoid() * h_new).tanh()
    return ((states[0] - new) * (update + h_update).sigmoid() + new,)


def tanh_step(inside: Any, around: Any, states: States) -> States:
    """(h,) after a step."""
    return ((inside + around).tanh(),)


def relu_step(inside: Any, around: Any, states: States) -> States:
    """(h,) after a step."""
    return ((inside + around).relu(),)


# --- networks ---------------------------------------------------------------------------------------------------------


def run_network(
    step: Callable, data: Any, sizes: list[int], states: States, params: Sequence[Any], layers: int, dropout: float,
    train: bool, bidirectional: bool,
) -> tuple[Any, States]:
    """Outputs and last states of a network; `data` holds the rows of all steps, `sizes` of them each."""
    directions = 2 if bidirectional else 1
    if len(params) != layers * directions:
        raise RuntimeError(
            f"expected {layers * directions} parameters, one for each layer and direction, got {len(params)}"
        )
    last: list[States] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            which = layer * directions + direction
            first = tuple(s[which] for s in states)
            rows, final = run_layer(step, data, sizes, first, params[which], direction == 1)
            outputs.append(rows)
            last.append(final)
        data = find_op("cat")(outputs, 1) if bidirectional else outputs[0]
        if dropout and train and layer < layers - 1:
            data = find_op("dropout")(data, dropout, True)
    return data, tuple(find_op("stack")([final[k] for final in last]) for k in range(len(states)))


def run_layer(
    step: Callable, data: Any, sizes: list[int], states: States, params: Any, backwards: bool
) -> tuple[Any, States]:
    """Outputs of one layer in one direction, in the order of its input, and its last states."""
    inside = params.linear_ih(data).split(sizes)
    order = range(len(sizes))[::-1] if backwards else range(len(sizes))
    outputs: dict[int, Any] = {}
    ended: list[States] = []                              # states of sequences that are over, the shortest's first
    now = tuple(s[: sizes[order[0]]] for s in states) if sizes else states
    for t in order:
        rows = now[0].shape[0]
        if sizes[t] < rows:
            ended.append(tuple(s[sizes[t] :] for s in now))
            now = tuple(s[: sizes[t]] for s in now)
        elif sizes[t] > rows:
            now = tuple(find_op("cat")([s, s0[rows : sizes[t]]]) for s, s0 in zip(now, states, strict=True))
        now = step(inside[t], params.linear_hh(now[0]), now)
        outputs[t] = now[0]
    final = tuple(find_op("cat")([s, *(e[k] for e in ended[::-1])]) for k, s in enumerate(now)) if ended else now
    return find_op("cat")([outputs[t] for t in range(len(sizes))]), final


class _Network(Composite):
    """A network over padded or packed sequences."""

    method = out = differentiable = False
    step = staticmethod(lstm_step)

    def padded(self, input: Any, states: States, params: Any, biases: bool, layers: int, dropout: float, train: bool,
               bidirectional: bool, batch_first: bool) -> tuple:
        self.check(params)
        x = input.transpose(0, 1) if batch_first else input
        steps, batch = x.shape[:2]
        rows, last = run_network(
            self.step, x.reshape(steps * batch, -1), [batch] * steps, states, params, layers, dropout, train,
            bidirectional,
        )
        result = rows.reshape(steps, batch, -1)
        return result.transpose(0, 1) if batch_first else result, *last

    def packed(self, data: Any, batch_sizes: Any, states: States, params: Any, biases: bool, layers: int,
               dropout: float, train: bool, bidirectional: bool) -> tuple:
        self.check(params)
        sizes = batch_sizes.tolist()
        rows, last = run_network(self.step, data, sizes, states, params, layers, dropout, train, bidirectional)
        return rows, *last

    def check(self, params: Any) -> None:
        """Refuse weights that are not packed."""
        if any(not hasattr(p, "linear_ih") for p in params):
            raise RuntimeError(
                f"{self.spec.name}: parameters in a list of tensors are no longer supported. Please re-export your"
                " model with packed ones, as make_quantized_cell_params_dynamic gives."
            )


def two_states(name: str, hx: Sequence[Any]) -> States:
    if len(hx) != 2:
        raise RuntimeError(f"{name}: lstm expects two hidden states, got {len(hx)}")
    return tuple(hx)


class QuantizedLstmPadded(_Network):
    """Long short-term memory over padded sequences, with quantized weights: (outputs, last h, last c)."""

    schema = (
        "quantized_lstm.input(Tensor input, Tensor[] hx, any params, bool has_biases, int num_layers, float dropout,"
        " bool train, bool bidirectional, bool batch_first, *, dtype? dtype=None, bool use_dynamic=False) -> (Tensor,"
        " Tensor, Tensor)"
    )

    def compute(self, input, hx, *rest):
        return self.padded(input, two_states(self.spec.name, hx), *rest[:-2])


class QuantizedLstmPacked(_Network):
    """Long short-term memory over packed sequences, with quantized weights."""

    schema = (
        "quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, any params, bool has_biases, int"
        " num_layers, float dropout, bool train, bool bidirectional, *, dtype? dtype=None, bool use_dynamic=False) ->"
        " (Tensor, Tensor, Tensor)"
    )

    def compute(self, data, batch_sizes, hx, *rest):
        return self.packed(data, batch_sizes, two_states(self.spec.name, hx), *rest[:-2])


class QuantizedGru(_Network):
    """Gated recurrent units over sequences, with quantized weights: (outputs, last h)."""

    schema = (
        "quantized_gru.input(Tensor input, Tensor hx, any params, bool has_biases, int num_layers, float dropout, bool"
        " train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        "quantized_gru.data(Tensor data, Tensor batch_sizes, Tensor hx, any params, bool has_biases, int num_layers,"
        " float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)",
    )
    step = staticmethod(gru_step)

    def compute(self, input, *rest):
        if self.spec.overload == "input":
            return self.padded(input, rest[:1], *rest[1:])
        return self.packed(input, rest[0], rest[1:2], *rest[2:])


# --- single steps over weights of fbgemm_* ----------------------------------------------------------------------------

_CELL = (
    "{}(Tensor input, {} hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor packed_ih, Tensor packed_hh,"
    " Tensor col_offsets_ih, Tensor col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar"
    " zero_point_hh) -> {}"
)


class _Cell(Composite):
    """One step."""

    method = out = differentiable = False
    step = staticmethod(lstm_step)

    def compute(self, input, hx, w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh,
                scale_ih, scale_hh, zero_point_ih, zero_point_hh):
        linear = find_op("fbgemm_linear_int8_weight")
        states = tuple(hx) if isinstance(hx, (list, tuple)) else (hx,)
        inside = linear(input, w_ih, packed_ih, col_offsets_ih, scale_ih, zero_point_ih, b_ih)
        around = linear(states[0], w_hh, packed_hh, col_offsets_hh, scale_hh, zero_point_hh, b_hh)
        result = self.step(inside, around, states)
        return result if len(result) > 1 else result[0]


class QuantizedLstmCell(_Cell):
    """A step of long short-term memory: (h, c)."""

    schema = _CELL.format("quantized_lstm_cell", "Tensor[]", "(Tensor, Tensor)")


class QuantizedGruCell(_Cell):
    """A step of gated recurrent units."""

    schema = _CELL.format("quantized_gru_cell", "Tensor", "Tensor")
    step = staticmethod(gru_step)


class QuantizedRnnTanhCell(_Cell):
    """A step of tanh(W x + b + U h + c)."""

    schema = _CELL.format("quantized_rnn_tanh_cell", "Tensor", "Tensor")
    step = staticmethod(tanh_step)


class QuantizedRnnReluCell(_Cell):
    """A step of relu(W x + b + U h + c)."""

    schema = _CELL.format("quantized_rnn_relu_cell", "Tensor", "Tensor")
    step = staticmethod(relu_step)
