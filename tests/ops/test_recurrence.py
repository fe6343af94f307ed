"""lstm, gru, rnn_tanh, rnn_relu and their cells as ops: PyTorch's numbers and gradients,
in every form sequences come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

KINDS = {"lstm": (4, 2), "gru": (3, 1), "rnn_tanh": (1, 1), "rnn_relu": (1, 1)}   # gates, states
LENGTHS = [5, 5, 3, 1]


def weights(
    t: Any,
    kind: str,
    inputs: int,
    width: int,
    layers: int,
    directions: int,
    bias: bool,
    dtype: Any,
    projection: int = 0,
) -> list[Any]:
    t.manual_seed(3)
    gates, result = KINDS[kind][0] * width, []
    state = projection or width
    for layer in range(layers):
        for _ in range(directions):
            wide = inputs if layer == 0 else state * directions
            shapes = [
                (gates, wide),
                (gates, state),
                *([(gates,), (gates,)] if bias else []),
                *([(projection, width)] if projection else []),
            ]
            result += [t.randn(shape, dtype=dtype).mul_(0.4).requires_grad_() for shape in shapes]
    return result


def run(
    t: Any,
    kind: str,
    packed: bool,
    layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
    batch_first: bool = False,
    projection: int = 0,
    dtype: str = "float64",
) -> list[Any]:
    """Results and every gradient, as arrays."""
    dtype = getattr(t, dtype)
    inputs, width, batch = 3, 4, len(LENGTHS)
    directions = 2 if bidirectional else 1
    params = weights(t, kind, inputs, width, layers, directions, bias, dtype, projection)
    widths = [projection or width, width][: KINDS[kind][1]]
    states = [t.randn(layers * directions, batch, w, dtype=dtype).requires_grad_() for w in widths]
    hx = states if kind == "lstm" else states[0]
    op, options = getattr(t, kind), (bias, layers, 0.0, True, bidirectional)
    if packed:
        sizes = t.tensor([sum(n > step for n in LENGTHS) for step in range(max(LENGTHS))])
        x = t.randn(sum(LENGTHS), inputs, dtype=dtype).requires_grad_()
        results = op(x, sizes, hx, params, *options)
    else:
        x = t.randn(*((batch, 5) if batch_first else (5, batch)), inputs, dtype=dtype).requires_grad_()
        results = op(x, hx, params, *options, batch_first)
    sum((r * t.linspace(-1, 1, r.numel(), dtype=dtype).reshape(r.shape)).sum() for r in results).backward()
    return [v.detach().numpy() for v in (*results, x.grad, *(s.grad for s in states), *(p.grad for p in params))]


def same(ours: list[Any], theirs: list[Any], rtol: float = 1e-7) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize(
    "options", [{}, {"layers": 2, "bidirectional": True}, {"bias": False, "bidirectional": True}], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_networks(kind: str, options: dict[str, Any], packed: bool) -> None:
    same(run(rl, kind, packed, **options), run(torch, kind, packed, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_batch_first_in_single_precision(kind: str) -> None:
    same(
        run(rl, kind, False, batch_first=True, dtype="float32"),
        run(torch, kind, False, batch_first=True, dtype="float32"),
        2e-5,
    )


def test_projections() -> None:
    options = {"projection": 2, "layers": 2, "bidirectional": True}
    for packed in (False, True):
        same(run(rl, "lstm", packed, **options), run(torch, "lstm", packed, **options))


@pytest.mark.parametrize("width", [1, 7, 16, 33, 100])
@pytest.mark.parametrize("batch", [1, 5])
def test_sizes_that_do_not_fill_vectors(width: int, batch: int) -> None:
    for kind in ("LSTM", "GRU", "RNN"):
        result = []
        for t in (rl, torch):
            t.manual_seed(0)
            net = getattr(t.nn, kind)(width, width)
            x = t.randn(3, batch, width, requires_grad=True)
            out, _ = net(x)
            (out * out).sum().backward()
            result.append([v.detach().numpy() for v in (out, x.grad, *(p.grad for p in net.parameters()))])
        same(*result, 1e-4)


@pytest.mark.parametrize("lengths", [[4] * 3, [4] * 4, [4] * 7, [4] * 20, [4] * 20 + [2] * 3], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_every_way_weights_meet_rows(kind: str, lengths: list[int]) -> None:
    """Few rows where weights lie, four in tiles of their own, many in those of all products, and numbers that vary."""
    results = []
    for t in (rl, torch):
        t.manual_seed(0)
        layer = getattr(t.nn, kind)(40, 200, bias=True).double()
        x = t.randn(max(lengths), len(lengths), 40, dtype=t.float64).requires_grad_()
        rows = t.nn.utils.rnn.pack_padded_sequence(x, t.tensor(lengths))
        out, last = layer(rows)
        (out.data * out.data).sum().backward()
        last = last if isinstance(last, tuple) else (last,)
        tensors = [out.data, *last, x.grad, *(p.grad for p in layer.parameters())]
        results.append([value.detach().numpy() for value in tensors])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_wide_cell_with_one_row(kind: str) -> None:
    results = []
    for t in (rl, torch):
        t.manual_seed(0)
        cell = getattr(t.nn, kind)(120, 120)
        x, h = t.randn(1, 120, requires_grad=True), t.randn(1, 120, requires_grad=True)
        result = cell(x, (h, h)) if kind == "LSTMCell" else (cell(x, h),)
        sum((r * r).sum() for r in result).backward()
        results.append([v.detach().numpy() for v in (*result, x.grad, h.grad, *(p.grad for p in cell.parameters()))])
    same(*results, 1e-4)


def test_a_sequence_longer_than_plans_are_kept_for() -> None:
    net = rl.nn.GRU(2, 3)
    x = rl.randn(600, 1, 2, requires_grad=True)
    out, last = net(x)
    out.sum().backward()
    halves = net(x[:300])
    assert rl.allclose(net(x[300:], halves[1])[1], last, atol=1e-6) and bool(x.grad.isfinite().all())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"])
def test_cells(kind: str, bias: bool) -> None:
    answers = []
    for t in (rl, torch):
        t.manual_seed(1)
        gates = KINDS[kind[:-5]][0] * 4
        x, h, c = (t.randn(5, n, dtype=t.float64, requires_grad=True) for n in (3, 4, 4))
        params = [
            t.randn(shape, dtype=t.float64, requires_grad=True)
            for shape in ((gates, 3), (gates, 4), (gates,), (gates,))
        ][: 4 if bias else 2]
        result = getattr(t, kind)(x, [h, c] if kind == "lstm_cell" else h, *params)
        results = result if isinstance(result, tuple) else (result,)
        sum((r * r).sum() for r in results).backward()
        answers.append([v.detach().numpy() for v in (*results, x.grad, h.grad, *(p.grad for p in params))])
    same(*answers)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_second_derivatives(kind: str) -> None:
    result = []
    for t in (rl, torch):
        t.manual_seed(0)
        net = getattr(t.nn, kind)(2, 3, dtype=t.float64)
        x = t.randn(4, 2, 2, dtype=t.float64, requires_grad=True)
        out, _ = net(x)
        (slope,) = t.autograd.grad((out**3).sum(), x, create_graph=True)
        (slope * slope).sum().backward()
        result.append([v.numpy() for v in (slope.detach(), x.grad, *(p.grad for p in net.parameters()))])
    same(*result, 1e-6)


def test_gradients_through_the_last_state_only() -> None:
    result = []
    for t in (rl, torch):
        t.manual_seed(0)
        net = t.nn.LSTM(2, 3, 2, dtype=t.float64)
        x = t.randn(4, 2, 2, dtype=t.float64, requires_grad=True)
        _, (_, c) = net(x)
        c[0].sum().backward()
        result.append(
            [
                x.grad.numpy(),
                *(p.grad.numpy() for p in net.parameters() if p.grad is not None and p.grad.abs().sum() > 0),
            ]
        )
    same(*result)


def test_function_transforms_pass_through() -> None:
    net = rl.nn.GRU(2, 3, dtype=rl.float64)
    x = rl.randn(3, 4, 2, 2, dtype=rl.float64)

    def loss(one: Any) -> Any:
        return (net(one)[0] ** 2).sum()

    each = rl.stack([rl.autograd.grad(loss(one := x[k].clone().requires_grad_()), one)[0] for k in range(3)])
    assert rl.allclose(rl.func.vmap(rl.func.grad(loss))(x), each)
    _, tangent = rl.func.jvp(loss, (x[0],), (rl.ones_like(x[0]),))
    assert rl.allclose(tangent, each[0].sum())


def test_a_graph_can_be_walked_twice_and_results_are_not_overwritten() -> None:
    net = rl.nn.LSTM(2, 3)
    x = rl.randn(4, 2, 2, requires_grad=True)
    out, (h, _) = net(x)
    assert rl.equal(h[0], out[-1])
    loss = (out * out).sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    assert rl.allclose(x.grad, 2 * first)
    again = net(x)[0]
    assert rl.equal(again, out)


def test_empty_batches_and_sequences() -> None:
    for t in (rl, torch):
        net = t.nn.LSTM(2, 3)
        out, (h, c) = net(t.randn(4, 0, 2))
        assert tuple(out.shape) == (4, 0, 3) and tuple(h.shape) == tuple(c.shape) == (1, 0, 3)
        with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
            net(t.randn(0, 2, 2))


def test_refusals() -> None:
    x, h, w = rl.randn(2, 3), rl.randn(2, 4), (rl.randn(16, 3), rl.randn(16, 4))
    with pytest.raises(RuntimeError, match="two hidden states"):
        rl.lstm_cell(x, [h], *w)
    with pytest.raises(RuntimeError, match="input_size"):
        rl.lstm_cell(rl.randn(2, 5), [h, h], *w)
    with pytest.raises(RuntimeError, match="batch size"):
        rl.lstm_cell(x, [rl.randn(3, 4)] * 2, *w)
    with pytest.raises(RuntimeError, match="expected 4 weights"):
        rl.lstm(rl.randn(5, 2, 3), [rl.zeros(1, 2, 4)] * 2, list(w), True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="expected states of shape"):
        rl.lstm(rl.randn(5, 2, 3), [rl.zeros(1, 7, 4)] * 2, list(w), False, 1, 0.0, False, False, False)
