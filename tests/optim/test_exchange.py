"""State dicts exchanged with PyTorch: training begun in one library goes on in the other as if nothing had happened."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
import rushlight.optim  # noqa: E402
from tests.optim.optim_records import RECORDS  # noqa: E402
from tests.parity import convert  # noqa: E402

NAMES = [n for n in RECORDS if n not in ("LBFGS", "SparseAdam")]


def to_ours(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return convert.tensor(x.detach(), {})
    if isinstance(x, dict):
        return {k: to_ours(v) for k, v in x.items()}
    return type(x)(to_ours(v) for v in x) if isinstance(x, (list, tuple)) else x


def to_theirs(x: Any) -> Any:
    if isinstance(x, rl.Tensor):
        return convert.back(x.detach())
    if isinstance(x, dict):
        return {k: to_theirs(v) for k, v in x.items()}
    return type(x)(to_theirs(v) for v in x) if isinstance(x, (list, tuple)) else x


def setting(name: str) -> tuple[Any, Any, list, list]:
    torch.manual_seed(0)
    theirs = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(3)]
    ours = [rl.nn.Parameter(convert.tensor(p.detach(), {})) for p in theirs]
    a, b = (
        getattr(library.optim, name)(list(zip("abc", ps, strict=True)), lr=0.02)
        for library, ps in ((torch, theirs), (rl, ours))
    )
    return a, b, theirs, ours


def step(optimizer: Any, params: list, library: Any, number: int) -> None:
    torch.manual_seed(number)
    for p in params:
        g = torch.randn(4, 3)
        p.grad = g if library is torch else convert.tensor(g, {})
    optimizer.step()


@pytest.mark.parametrize("name", NAMES)
def test_training_moves_to_rushlight(name: str) -> None:
    a, b, theirs, ours = setting(name)
    for k in range(3):
        step(a, theirs, torch, k)
    for p, q in zip(theirs, ours, strict=True):
        q.data = convert.tensor(p.detach(), {})
    b.load_state_dict(to_ours(a.state_dict()))
    for k in range(3, 6):
        step(a, theirs, torch, k)
        step(b, ours, rl, k)
    compare(a, b, theirs, ours)


@pytest.mark.parametrize("name", NAMES)
def test_training_moves_to_pytorch(name: str) -> None:
    a, b, theirs, ours = setting(name)
    for k in range(3):
        step(b, ours, rl, k)
    with torch.no_grad():
        for p, q in zip(theirs, ours, strict=True):
            p.copy_(convert.back(q.detach()))
    a.load_state_dict(to_theirs(b.state_dict()))
    for k in range(3, 6):
        step(a, theirs, torch, k)
        step(b, ours, rl, k)
    compare(a, b, theirs, ours)


def compare(a: Any, b: Any, theirs: list, ours: list) -> None:
    for p, q in zip(theirs, ours, strict=True):
        torch.testing.assert_close(convert.back(q.detach()), p.detach(), rtol=1e-4, atol=2e-5)
    x, y = a.state_dict(), b.state_dict()
    assert {k: set(s) for k, s in x["state"].items()} == {k: set(s) for k, s in y["state"].items()}
    assert [set(g) for g in x["param_groups"]] == [set(g) for g in y["param_groups"]]
    assert [{k: v for k, v in g.items() if k != "betas"} for g in x["param_groups"]] == [
        {k: v for k, v in g.items() if k != "betas"} for g in y["param_groups"]
    ]


def test_state_of_pytorch_loads_as_it_is() -> None:
    """Its tensors are taken over without a converter."""
    a, b, theirs, ours = setting("AdamW")
    step(a, theirs, torch, 0)
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    assert isinstance(b.state[ours[0]]["exp_avg"], rl.Tensor)
    step(b, ours, rl, 1)
    assert b.state[ours[0]]["step"].item() == 2
