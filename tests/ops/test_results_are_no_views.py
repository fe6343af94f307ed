"""Results that PyTorch returns as plain tensors are no views here, whatever the body of the op ends in."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F

CALLS = {
    "embedding": lambda t: t.nn.functional.embedding(t.tensor([[0, 1], [2, 0]]), t.ones(3, 4)),
    "cdist": lambda t: t.cdist(t.ones(2, 3, 4), t.zeros(2, 5, 4), p=0.0),
    "kthvalue": lambda t: t.ones(3, 4).kthvalue(2),
    "mode": lambda t: t.ones(3, 4).mode(),
    "median": lambda t: t.ones(3, 4).median(),
    "quantile": lambda t: t.ones(3, 4).quantile(0.5),
    "masked_scatter": lambda t: t.ones(2, 2).masked_scatter(t.ones(2, 2) > 0, t.zeros(4)),
    "sum_to_size": lambda t: t.ones(3, 4).sum_to_size(1, 1),
    "stft": lambda t: t.stft(t.ones(40), 8, window=t.ones(8), return_complex=True),
    "max_unpool2d": lambda t: t.nn.functional.max_unpool2d(t.ones(1, 1, 2, 2), t.tensor([[[[0, 2], [8, 10]]]]), 2),
    "nll_loss": lambda t: t.nn.functional.nll_loss(t.ones(2, 3), t.tensor([0, 1]), reduction="none"),
    "channel_shuffle": lambda t: t.nn.functional.channel_shuffle(t.ones(1, 4, 2, 2), 2),
    "rot90": lambda t: t.ones(3, 4).rot90(),
    "roll": lambda t: t.ones(()).roll(1),
    "kron": lambda t: t.kron(t.ones(2, 2), t.ones(2, 3)),
    "tile": lambda t: t.ones(()).tile(()),
    "einsum": lambda t: t.einsum("i->", t.ones(3)),
    "solve": lambda t: t.linalg.solve(t.eye(3), t.ones(3)),
    "lstsq": lambda t: t.linalg.lstsq(t.eye(3), t.ones(3, 2)),
    "multinomial": lambda t: t.multinomial(t.ones(4), 2),
    "histogram": lambda t: t.histogram(t.ones(4), 2, range=(0.0, 2.0)),
    "pixel_shuffle": lambda t: t.nn.functional.pixel_shuffle(t.ones(1, 9, 2, 2), 1),
    "pdist": lambda t: t.pdist(t.ones(1, 1)),
}


def parts(result):
    return [result] if isinstance(result, rl.Tensor) else [r for r in result if isinstance(r, rl.Tensor)]


@pytest.mark.parametrize("name", CALLS)
def test_result_is_no_view(name: str) -> None:
    for mode in (rl.enable_grad, rl.no_grad):
        with mode():
            assert [r._base for r in parts(CALLS[name](rl)) if r._is_view()] == []


def test_frozen_embedding_takes_an_inplace_sum_with_a_gradient() -> None:
    x = rl.ones(2, 2, 3, requires_grad=True)
    e = F.embedding(rl.tensor([[0, 1], [2, 3]]), rl.zeros(5, 3))
    e += x
    e.sum().backward()
    assert x.grad.tolist() == rl.ones(2, 2, 3).tolist()


def test_inplace_on_an_op_result_keeps_the_history_of_its_body() -> None:
    w = rl.ones(3, 2, requires_grad=True)
    e = F.embedding(rl.tensor([[0, 0], [1, 2]]), w)
    e *= 3
    e.sum().backward()
    assert w.grad[:, 0].tolist() == [6.0, 3.0, 3.0]
    x = rl.ones(2, 3, requires_grad=True)
    y = x.sum_to_size(1, 1)       # a body without a derivative of its own
    y.mul_(2)
    y.backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_views_of_arguments_stay_views() -> None:
    x = rl.ones(2, 3)
    assert x.reshape(6)._base is x
    assert rl.einsum("ij->ji", x)._base is x
    assert x.t().reshape(6)._is_view()      # of the copy that reshape made, as in PyTorch
    v = rl.ones(4).view(2, 2)               # nobody else holds its base
    assert v.contiguous() is v
    assert v._is_view()
