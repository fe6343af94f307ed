"""Exported programs, compiled: one graph, for many sizes and for sizes that elements decide, with checks that stay."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, export


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, mask):
        return self.linear(x[mask]).relu()


class First(nn.Module):
    def forward(self, x, n):
        count = n.item()
        torch._check_is_size(count)
        torch._check(count <= x.shape[0])
        return x[:count].sum(0)


class Positive(nn.Module):
    def forward(self, x):
        return (x[x > 0] * 2).cumsum(0), x.nonzero()


def rows(*kept: int):
    return torch.randn(5, 4), torch.tensor([k in kept for k in range(5)])


PROGRAMS = {
    "rows by a mask": (Chosen, [rows(0, 2, 3), rows(1), rows()]),
    "as many as a number says": (First, [(torch.randn(6, 3), torch.tensor(n)) for n in (4, 2, 0)]),
    "positions and sums": (Positive, [(torch.tensor(v),) for v in ([1.0, -1, 2, 0], [-1.0, 0, -2, 3], [0.0, 0, 0, 0])]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_serves_all_counts(name: str) -> None:
    kind, calls = PROGRAMS[name]
    model = kind()
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    fast = torch.compile(export(model, calls[0]).module(), fullgraph=True)
    for call in calls:
        torch.testing.assert_close(fast(*call), model(*call))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_gradients_of_a_compiled_program() -> None:
    model = Chosen()
    program = export(model, rows(0, 2)).module()
    fast = torch.compile(program, fullgraph=True)
    for kept in ((0, 2), (1, 2, 4)):
        x, mask = rows(*kept)
        program.zero_grad(), model.zero_grad()
        fast(x, mask).sum().backward()
        model(x, mask).sum().backward()
        torch.testing.assert_close(program.linear.weight.grad, model.linear.weight.grad)


def test_checks_of_arguments_stay() -> None:
    program = export(nn.Linear(4, 3), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("batch", min=2, max=8)},))
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    fast = torch.compile(program.module(), fullgraph=True)
    for n in (5, 3, 8, 2, 4):
        assert fast(torch.randn(n, 4)).shape == (n, 3)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2      # for one size, then for all
    with pytest.raises((AssertionError, RuntimeError), match="at most 8"):
        fast(torch.randn(9, 4))
    with pytest.raises((AssertionError, RuntimeError), match="must be 4"):
        fast(torch.randn(5, 3))
    with pytest.raises((AssertionError, RuntimeError), match="dims"):
        fast(torch.randn(5, 4, 1))
    assert fast(torch.randn(6, 4)).shape == (6, 3)


def test_programs_of_one_form_are_told_apart() -> None:
    """The checks belong to the module: another one that is called in its place is captured anew."""
    narrow, wide = (export(nn.ReLU(), (torch.randn(5),), dynamic_shapes=({0: Dim("n", max=most)},)).module()
                    for most in (8, 64))
    fast = torch.compile(lambda module, x: module(x), fullgraph=True)
    for n in (5, 6, 7):
        fast(wide, torch.randn(n)), fast(narrow, torch.randn(n))
    assert fast(wide, torch.randn(20)).shape == (20,)
    with pytest.raises((AssertionError, RuntimeError), match="at most 8"):
        fast(narrow, torch.randn(20))


def test_arguments_in_containers() -> None:
    class Pairs(nn.Module):
        def forward(self, pair, named):
            return {"sum": pair[0] + named["x"], "product": pair[1] * 2}

    model, x = Pairs(), torch.randn(3)
    fast = torch.compile(export(model, ((x, x), {"x": x})).module(), fullgraph=True)
    given = ((torch.randn(3), torch.randn(3)), {"x": torch.randn(3)})
    torch.testing.assert_close(fast(*given), model(*given))
