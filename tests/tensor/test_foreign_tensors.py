"""Tensors of PyTorch beside ours: a TypeError that says how to convert them, whichever library is asked first."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CALLS = {
    "ours + theirs": lambda a, b: a + b,
    "theirs + ours": lambda a, b: b + a,
    "ours * theirs": lambda a, b: a * b,
    "theirs - ours": lambda a, b: b - a,
    "ours @ theirs": lambda a, b: a @ b,
    "compare": lambda a, b: a < b,
    "function": lambda a, b: rl.add(a, b),
    "their function": lambda a, b: torch.add(b, a),
    "their function of ours": lambda a, b: torch.relu(a),
    "our function of theirs": lambda a, b: rl.relu(b),
    "method": lambda a, b: a.mul(b),
    "in place": lambda a, b: a.add_(b),
    "list": lambda a, b: rl.cat([a, b]),
    "their list": lambda a, b: torch.cat([b, a]),
    "nn.functional": lambda a, b: rl.nn.functional.linear(a, b.view(1, 3)),
    "their nn.functional": lambda a, b: torch.nn.functional.linear(b, a.view(1, 3)),
    "python function": lambda a, b: rl.einsum("i,i->", a, b),
    "where": lambda a, b: rl.where(a > 0, a, b),
}


@pytest.mark.parametrize("name", CALLS)
def test_foreign_tensors_are_refused_by_name(name):
    with pytest.raises(TypeError, match="from_dlpack"):
        CALLS[name](rl.ones(3), torch.ones(3))


def test_parameters_are_foreign_too():
    with pytest.raises(TypeError, match="from_dlpack"):
        rl.ones(3) + torch.nn.Parameter(torch.ones(3))


def test_converted_they_work():
    assert (rl.ones(3) + rl.from_dlpack(torch.ones(3))).tolist() == [2, 2, 2]
