"""Calls with a factor among the positions, as programs older than PyTorch 1.5 write them, and what is still refused."""

import warnings

import pytest

import rushlight as rl

CALLS = [
    ("x.add(2, y)", "x.add(y, alpha=2)"),
    ("x.add_(-0.5, y)", "x.add_(y, alpha=-0.5)"),
    ("x.sub_(2, other=y)", "x.sub_(y, alpha=2)"),
    ("torch.add(x, 2, y)", "torch.add(x, y, alpha=2)"),
    ("torch.add(x, 2, 3)", "torch.add(x, 3, alpha=2)"),
    ("x.addcmul_(2, x, y)", "x.addcmul_(x, y, value=2)"),
    ("x.addcdiv_(-0.1, x, y)", "x.addcdiv_(x, y, value=-0.1)"),
    ("torch.addcdiv(x, 2, x, y, out=torch.ones(2, 2))", "torch.addcdiv(x, x, y, value=2)"),
    ("torch.addmm(2, x, 3, x, y)", "torch.addmm(x, x, y, beta=2, alpha=3)"),
    ("torch.addmm(2, x, x, y)", "torch.addmm(x, x, y, beta=2)"),
    ("x.addmm(2, 3, x, y)", "x.addmm(x, y, beta=2, alpha=3)"),
    ("x.addmm_(2, y, y)", "x.addmm_(y, y, beta=2)"),
    ("torch.addmv(2, x[0], 3, y, x[1])", "torch.addmv(x[0], y, x[1], beta=2, alpha=3)"),
    ("x.addr(2, 3, x[0], y[1])", "x.addr(x[0], y[1], beta=2, alpha=3)"),
    ("x.addbmm(2, 3, x[None], y[None])", "x.addbmm(x[None], y[None], beta=2, alpha=3)"),
    ("torch.baddbmm(2, x[None], x[None], y[None])", "torch.baddbmm(x[None], x[None], y[None], beta=2)"),
]


def value(call, torch):
    names = {"torch": torch, "x": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "y": torch.tensor([[5.0, 6.0], [7.0, 8.0]])}
    return eval(call, names).tolist()


@pytest.mark.parametrize(("older", "today"), CALLS)
def test_a_factor_among_the_positions_means_the_keyword(older, today):
    with pytest.warns(UserWarning, match="deprecated") as told:
        got = value(older, rl)
    assert got == value(today, rl)
    assert told[0].filename in (__file__, "<string>")   # the program's line, not one of ours


@pytest.mark.parametrize(("older", "today"), CALLS)
def test_older_forms_are_pytorchs(older, today):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert value(older, rl) == value(older, torch)


def test_gradients_and_captured_graphs_take_older_forms():
    def f(x, y):
        return x.add(2, y).addcmul(3, x, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = rl.ones(2, requires_grad=True), rl.ones(2)
        f(x, y).sum().backward()
        assert x.grad.tolist() == [4.0, 4.0]
        assert rl.compile(f, backend="eager", fullgraph=True)(y, y).tolist() == [6.0, 6.0]
        assert rl.vmap(f)(y, y).tolist() == [6.0, 6.0]
        assert rl.fx.symbolic_trace(f)(y, y).tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    "call",
    ["x.add(y, 2, y)", "x.add(2, y, 3)", "x.mul(2, y)", "torch.rsub(x, 2, y)", "x.addcmul(2, y)", "x.add('2', y)"],
)
def test_anything_else_is_refused_as_before(call):
    with pytest.raises(TypeError):
        value(call, rl)
