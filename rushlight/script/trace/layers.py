"""Layers of `nn` whose forward is written in Python, as the ATen ops that PyTorch's own call: recurrent ones.

Enters: the layer, its input and states. Leaves: outputs, every op written down, with sizes of batches as ops. They
stand in for the layers' methods while a program is traced.
"""

from __future__ import annotations

from typing import Any

from .aten import call, ignored, named, size

_LAYERS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


def recurrent(plain: Any) -> Any:
    """A recurrent layer's walk; `plain` does it for packed sequences and inputs without a batch."""
    def forward(self: Any, input: Any, given: Any) -> Any:
        if isinstance(input, tuple) or ignored(lambda: input.dim()) != 3 or (
                ignored(lambda: input.shape[-1]) != self.input_size):
            return plain(self, input, given)
        hx = given
        if hx is None:
            max_batch_size = size(input, 0 if self.batch_first else 1)
            hx = _states(self, input, max_batch_size)
        weights = [weight for row in self.all_weights for weight in row]
        options = (self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional,
                   self.batch_first)
        held = list(hx) if self.mode == "LSTM" else hx[0]
        made = call(_LAYERS[self.mode], input, held, weights, *options)
        return made[0], tuple(made[1:])

    return forward


def _states(self: Any, input: Any, max_batch_size: Any) -> tuple[Any, ...]:
    """Zeros to begin with."""
    count = self.num_layers * (2 if self.bidirectional else 1)
    dtype, device = ignored(lambda: (input.dtype, input.device))
    widths = [self.proj_size or self.hidden_size, self.hidden_size] if self.mode == "LSTM" else [self.hidden_size]
    made = [call("zeros", [count, max_batch_size, width], dtype=dtype, device=device) for width in widths]
    return tuple(named(state, "hx") for state in made)


def cell(plain: Any) -> Any:
    """One step of a recurrent cell; `plain` does it for inputs without a batch."""
    def step(self: Any, input: Any, given: Any, count: int) -> Any:
        if ignored(lambda: input.dim()) != 2 or any(ignored(lambda s=state: s.dim()) != 2 for state in given or ()):
            return plain(self, input, given, count)
        if given is None:
            dtype, device = ignored(lambda: (input.dtype, input.device))
            zeros = call("zeros", [size(input, 0), self.hidden_size], dtype=dtype, device=device)
            given = (zeros,) * count
        return _CELLS[self.mode](self, input, *given)

    return step


def _lstm(self: Any, input: Any, hx: Any, cx: Any) -> tuple[Any, Any]:
    gates = call("add_", call("linear", hx, self.weight_hh, self.bias_hh),
                 call("linear", input, self.weight_ih, self.bias_ih))
    i, f, g, o = call("unsafe_chunk", gates, 4, 1)
    i, f, g, o = call("sigmoid_", i), call("sigmoid_", f), call("tanh_", g), call("sigmoid_", o)
    cy = call("add_", call("mul", f, cx), call("mul", i, g))
    return call("mul", o, call("tanh", cy)), cy


def _gru(self: Any, input: Any, hx: Any) -> tuple[Any]:
    from_input = call("unsafe_chunk", call("linear", input, self.weight_ih, self.bias_ih), 3, 1)
    from_state = call("unsafe_chunk", call("linear", hx, self.weight_hh, self.bias_hh), 3, 1)
    reset = call("sigmoid_", call("add_", from_state[0], from_input[0]))
    update = call("sigmoid_", call("add_", from_state[1], from_input[1]))
    new = call("tanh_", call("add", from_input[2], call("mul_", from_state[2], reset)))
    return (call("add_", call("mul_", call("sub", hx, new), update), new),)


def _rnn(name: str) -> Any:
    def step(self: Any, input: Any, hx: Any) -> tuple[Any]:
        return (call(name, call("add_", call("linear", hx, self.weight_hh, self.bias_hh),
                                call("linear", input, self.weight_ih, self.bias_ih))),)

    return step


_CELLS = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _rnn("tanh"), "RNN_RELU": _rnn("relu")}
