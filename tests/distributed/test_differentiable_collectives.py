"""`distributed.nn.functional`: collectives that gradients pass through, as PyTorch's do."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest

from .parity import both, cases, close, part, plain, run_ours


def _collectives(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    f, dist = part(torch, "distributed.nn.functional"), torch.distributed
    warnings.simplefilter("ignore", FutureWarning)
    rows = torch.arange(12.0).view(4, 3)

    def graded(call: Any, count: int = 1) -> Any:
        """Results and gradients of a call with several tensors of this rank."""
        given = [((rows + i) * (rank + 1)).requires_grad_() for i in range(count)]
        made = call(*given)
        made = made if isinstance(made, tuple) else (made,)
        loss = sum((m * m * (rank + 2) * (i + 1)).sum() for i, m in enumerate(made))
        gradients = torch.autograd.grad(loss, given, create_graph=True)
        sum((g * g).sum() for g in gradients).backward()
        return plain(list(made)), plain(list(gradients)), plain([g.grad for g in given])

    uneven = ([1, 1], [1, 3]) if rank == 0 else ([3, 3], [1, 3])
    return cases(torch, {
        "broadcast": lambda _: graded(lambda t: f.broadcast(t, 1)),
        "gather": lambda _: graded(lambda t: f.gather(t, 1)),
        "scatter": lambda _: graded(lambda *t: f.scatter(list(t), 0), 2),
        "reduce on its rank": lambda _: [part for part in graded(lambda t: f.reduce(t, 0)) if rank == 0],
        "reduce_scatter": lambda _: graded(lambda *t: f.reduce_scatter(torch.empty(4, 3), list(t)), 2),
        "all_gather": lambda _: graded(f.all_gather),
        "all_to_all": lambda _: graded(
            lambda *t: f.all_to_all([torch.empty(4, 3), torch.empty(4, 3)], list(t)), 2),
        "all_to_all_single": lambda _: graded(lambda t: f.all_to_all_single(torch.empty(4, 3), t)),
        "uneven": lambda _: graded(
            lambda t: f.all_to_all_single(torch.empty(sum(uneven[0]), 3), t, uneven[0], uneven[1])),
        "all_reduce": lambda _: graded(f.all_reduce),
        "all_reduce max": lambda _: graded(lambda t: f.all_reduce(t, dist.ReduceOp.MAX)),
        "not contiguous": lambda _: graded(lambda t: f.all_reduce(t.t())),
        "a group": lambda _: graded(lambda t: f.all_gather(t, dist.new_group([0, 1]))),
        "shapes differ": lambda _: f.scatter([rows, rows[:2]], 0),
    })


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_say_what_pytorchs_say() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what they are compared with")
    for ours, theirs in zip(*both(2, _collectives), strict=True):
        wrong = [k for k in theirs if not k.endswith("because") and not close(ours[k], theirs[k])]
        assert not wrong, [(k, ours[k], ours.get(f"{k} because"), theirs[k]) for k in wrong]


def _known(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    f = part(torch, "distributed.nn.functional")
    weight = rank + 2.0

    def gradient(call: Any) -> Any:
        x = torch.full((2,), rank + 1.0, requires_grad=True)
        made = call(x)
        made = made if isinstance(made, tuple) else (made,)
        sum((m.sum() * weight) for m in made).backward()
        return [m.tolist() for m in made], x.grad.tolist()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = {
            "all_reduce": gradient(f.all_reduce), "all_gather": gradient(f.all_gather),
            "broadcast": gradient(lambda t: f.broadcast(t, 0)), "gather": gradient(lambda t: f.gather(t, 0)),
            "whole": gradient(lambda t: f._all_gather_base(torch.empty(4), t)),
        }
    found["said"] = sorted({str(w.message).split()[0].rpartition(".")[2] for w in said})
    return found


def test_gradients_come_from_the_ranks_that_values_went_to() -> None:
    first, second = run_ours(2, _known)
    assert first["all_reduce"] == second["all_reduce"] == ([[3.0, 3.0]], [5.0, 5.0])
    assert first["all_gather"] == second["all_gather"] == ([[1.0, 1.0], [2.0, 2.0]], [5.0, 5.0])
    assert first["broadcast"] == ([[1.0, 1.0]], [5.0, 5.0]) and second["broadcast"] == ([[1.0, 1.0]], [0.0, 0.0])
    assert first["gather"] == ([[1.0, 1.0], [2.0, 2.0]], [2.0, 2.0])
    assert second["gather"] == ([[0.0, 0.0], [0.0, 0.0]], [2.0, 2.0])
    assert first["whole"] == second["whole"] == ([[1.0, 1.0, 2.0, 2.0]], [5.0, 5.0])
    assert first["said"] == ["all_gather", "all_reduce", "broadcast"]
