"""Recurrent networks by a device that has whole ones: on the card against the CPU, and how ops hand them over, without
one."""

from __future__ import annotations

import math

import pytest

import rushlight as rl
from rushlight.devices import handlers, register
from rushlight.loops.record import Record
from tests.devices.reference_device import ReferenceDevice

nn = rl.nn
ROOM = 3            # elements that nobody owns, between weights and behind them


class Sizes(Record):
    space: int
    places: tuple
    reserve: int


class Whole(ReferenceDevice):
    """Computes networks with the host's layers, from weights in an order of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.done: list = []

    def implementation(self, op):
        return {"_recurrence_sizes": self.sizes, "_recurrence": self.run, "_recurrence_backward": self.back}.get(op)

    def sizes(self, device, code, mode, features, hidden, width, layers, directions, has_biases, runs):
        if code != "f32":
            return None
        rows, shapes = {"lstm": 4, "gru": 3}.get(mode, 1) * hidden, []
        for layer in range(layers):
            for _ in range(directions):
                shapes += [(rows, width * directions if layer else features), (rows, width)]
                shapes += [(rows,), (rows,)] if has_biases else []
                shapes += [(width, hidden)] if width != hidden else []
        places, end = [], 0
        for shape in shapes[::-1]:
            places.append((end, shape))
            end += math.prod(shape) + ROOM
        return Sizes(end, tuple(places[::-1]), 7)

    def layers(self, data, states, space, mode, runs, has_biases, bidirectional):
        """The op's arguments on the host, with gradients, and the results."""
        count = states[0].shape[0] // (1 + bidirectional)
        places = self.sizes(None, "f32", mode, data.shape[1], states[-1].shape[2], states[0].shape[2], count,
                            1 + bidirectional, has_biases, runs).places
        given = [t.detach().cpu().requires_grad_() for t in (data, space, *states)]
        sizes = rl.tensor([size for n, size in zip(runs[::2], runs[1::2], strict=True) for _ in range(n)])
        op = getattr(rl, mode if mode in ("lstm", "gru") else f"rnn_{mode}")
        first = given[2:] if mode == "lstm" else given[2]
        with rl.enable_grad():
            weights = [given[1][start : start + math.prod(shape)].view(shape) for start, shape in places]
            return given, op(given[0], sizes, first, weights, has_biases, count, 0.0, False, bidirectional)

    def run(self, outs, data, states, space, mode, runs, has_biases, bidirectional, keeps):
        assert len(outs[3]) == (7 if keeps else 0)
        self.done.append((mode, keeps))
        for target, source in zip(outs, self.layers(data, states, space, mode, runs, has_biases, bidirectional)[1],
                                  strict=False):
            target.copy_(source.detach())

    def back(self, outs, grad_out, grad_h, grad_c, data, states, space, out, kept, *rest):
        self.done.append("backward")
        assert len(kept) == 7
        given, results = self.layers(data, states, space, *rest[:4])
        slopes = [rl.zeros_like(r) if g is None else g.cpu() for r, g in zip(results, (grad_out, grad_h, grad_c),
                                                                            strict=False)]
        found = rl.autograd.grad(results, [given[0], *given[2:], given[1]], slopes)
        targets = [outs[0], *outs[1 : len(given) - 1], outs[3]]
        for target, source in zip(targets if rest[4] else targets[:-1], found, strict=False):
            target.copy_(source)


@pytest.fixture(scope="module")
def whole():
    if "whole" not in handlers:
        register(Whole("whole"))
    return handlers["whole"]


def program(make, x, lengths=None, states=None, weights=(1.0, 0.5)):
    """Outputs, last states, and gradients of everything."""
    net, x = make(), x.clone().requires_grad_()
    given = x if lengths is None else nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, last = net(given) if states is None else net(given, states)
    out = out.data if lengths is not None else out
    last = last if isinstance(last, tuple) else (last,)
    loss = (out * out).sum() * weights[0] + sum((t * t).sum() for t in last) * weights[1]
    loss.backward()
    return [t.detach().cpu() for t in (out, *last, x.grad, *[p.grad for p in net.parameters()])]


CASES = {
    "lstm": ("LSTM", {}), "gru two layers": ("GRU", {"num_layers": 2}),
    "rnn both ways": ("RNN", {"bidirectional": True}),
    "relu without biases": ("RNN", {"nonlinearity": "relu", "bias": False}),
    "lstm both ways, two layers": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "lstm projected": ("LSTM", {"proj_size": 4, "num_layers": 2}),
    "gru batch first": ("GRU", {"batch_first": True}),
}


def compared(device, kind, options, dtype=rl.float32, size=(6, 3, 5), width=8, **more):
    rl.manual_seed(3)
    net, x = getattr(nn, kind)(size[-1], width, **options), rl.randn(size)
    answers = []
    for place in ("cpu", device):
        def make(place=place):
            rl.manual_seed(4)
            fresh = getattr(nn, kind)(size[-1], width, **options).to(place, dtype)
            fresh.load_state_dict(net.state_dict())
            return fresh

        answers.append(program(make, x.to(place, dtype), **more))
    return answers


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lengths", [None, [2, 6, 3]])
def test_networks_are_handed_over(whole, name, lengths):
    kind, options = CASES[name]
    if lengths and options.get("batch_first"):
        options = {}
    whole.done.clear()
    host, other = compared("whole", kind, options, lengths=lengths)
    for a, b in zip(host, other, strict=True):
        rl.testing.assert_close(b, a)
    assert whole.done == [({"LSTM": "lstm", "GRU": "gru"}.get(kind, options.get("nonlinearity", "tanh")), True),
                          "backward"]


def test_layer_by_layer_with_dropout(whole):
    net = nn.LSTM(5, 8, num_layers=3, dropout=0.5).to("whole")
    x = rl.randn(6, 3, 5).to("whole")
    whole.done.clear()
    out, (h, c) = net(x)
    assert out.shape == (6, 3, 8) and h.shape == c.shape == (3, 3, 8)
    assert whole.done == [("lstm", True)] * 3
    rl.testing.assert_close(h[2].cpu(), out[-1].cpu())
    whole.done.clear()
    with rl.no_grad():
        net.eval()(x)
    assert whole.done == [("lstm", False)]


def test_other_types_go_step_by_step(whole):
    whole.done.clear()
    host, other = compared("whole", "GRU", {}, dtype=rl.float64)
    for a, b in zip(host, other, strict=True):
        rl.testing.assert_close(b, a)
    assert not whole.done


def test_gradients_of_gradients(whole):
    results = []
    for place in ("cpu", "whole"):
        rl.manual_seed(0)
        net, x = nn.GRU(3, 4).to(place), rl.randn(4, 2, 3).to(place).requires_grad_()
        (slope,) = rl.autograd.grad(net(x)[0].pow(3).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
        results.append([x.grad.cpu(), net.weight_hh_l0.grad.cpu()])
    for a, b in zip(*results, strict=True):
        rl.testing.assert_close(b, a)


def test_two_passes_back(whole):
    net, x = nn.LSTM(3, 4).to("whole"), rl.randn(4, 2, 3).to("whole").requires_grad_()
    loss = net(x)[0].pow(2).sum()
    loss.backward(retain_graph=True)
    first = x.grad.cpu().clone()
    loss.backward()
    rl.testing.assert_close(x.grad.cpu(), first * 2)


card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
LIMITS = {rl.float32: 2e-3, rl.float64: 1e-9, rl.float16: 3e-2, rl.bfloat16: 1.5e-1}


@card
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lengths", [None, [2, 6, 3]])
def test_on_the_card(name, dtype, lengths):
    kind, options = CASES[name]
    if lengths and options.get("batch_first"):
        options = {}
    host, other = compared("cuda", kind, options, dtype=dtype, lengths=lengths)
    for a, b in zip(host, other, strict=True):
        scale = max(a.double().abs().max().item(), 1e-3)
        assert (a.double() - b.double()).abs().max().item() <= LIMITS[dtype] * scale


@card
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16])
@pytest.mark.parametrize(("kind", "width", "batch", "options"), [
    ("LSTM", 64, 40, {}), ("GRU", 100, 3, {"num_layers": 2, "bidirectional": True}), ("RNN", 200, 16, {}),
    ("LSTM", 512, 64, {"num_layers": 2}), ("GRU", 256, 130, {"bidirectional": True}), ("RNN", 512, 5, {}),
    ("LSTM", 200, 16, {}), ("RNN", 256, 32, {"num_layers": 2, "bidirectional": True}),
])
def test_ways_to_compute_agree(kind, width, batch, options, dtype):
    """Sizes for which the library has other kernels, among them some whose answers are wrong."""
    host, other = compared("cuda", kind, options, dtype=rl.float64, size=(9, batch, width), width=width), compared(
        "cuda", kind, options, dtype=dtype, size=(9, batch, width), width=width)
    for a, b in zip(host[0], other[1], strict=True):
        assert (a.double() - b.double()).norm() <= (1e-2 if dtype is rl.float16 else 2e-3) * a.double().norm()


@card
def test_the_library_is_called():
    from rushlight.devices.cuda import recurrence

    recurrence.geometry.cache_clear()
    net, x = nn.LSTM(16, 32, 2).cuda(), rl.randn(7, 4, 16, device="cuda")
    net(x)
    assert recurrence.geometry.cache_info().currsize


@card
def test_in_autocast_graphs_and_compiled():
    rl.manual_seed(0)
    net, x = nn.LSTM(16, 32, 2).cuda(), rl.randn(7, 4, 16, device="cuda")
    want = net(x)[0]
    with rl.autocast("cuda"):
        lower = net(x)[0]
    assert lower.dtype is rl.float16
    rl.testing.assert_close(lower.float(), want, atol=1e-2, rtol=1e-2)
    rl.testing.assert_close(rl.compile(net)(x)[0], want, atol=1e-3, rtol=1e-3)
    with rl.no_grad():
        net(x)
        graph = rl.cuda.CUDAGraph()
        with rl.cuda.graph(graph):
            out = net(x)[0]
        x.copy_(x.flip(0))
        graph.replay()
        rl.testing.assert_close(out, net(x)[0], atol=1e-5, rtol=1e-5)


@card
def test_compiled_training():
    grads = []
    for wrap in (lambda net: net, rl.compile):
        rl.manual_seed(1)
        net, x = nn.GRU(16, 32, 2).cuda(), rl.randn(7, 4, 16, device="cuda")
        run = wrap(lambda x, net=net: net(x)[0].pow(2).sum())
        for _ in range(3):
            net.zero_grad()
            run(x).backward()
        grads.append([p.grad.cpu() for p in net.parameters()])
    for a, b in zip(*grads, strict=True):
        rl.testing.assert_close(b, a, atol=2e-3, rtol=2e-3)
