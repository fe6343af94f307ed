"""Targets that name classes: they are checked as they are met, whether a plan is replayed or a gradient is recorded."""

from __future__ import annotations

import sys
import warnings

import pytest

import rushlight as rl

F = rl.nn.functional
LOSSES = ["cross_entropy", "nll_loss", "multi_margin_loss"]


def reference(x, target, ignore_index, reduction, weight, name):
    """In float64, a row at a time."""
    scores = x.double() if name == "nll_loss" else x.double().log_softmax(1)
    rows = scores.movedim(1, -1).reshape(-1, scores.shape[1])
    flat = target.reshape(-1)
    weights = rl.ones(scores.shape[1], dtype=rl.float64) if weight is None else weight.double()
    kept = [0.0 if t == ignore_index else weights[t].item() for t in flat.tolist()]
    losses = [0.0 if not k else -k * row[t].item() for k, row, t in zip(kept, rows, flat.tolist(), strict=True)]
    if reduction == "none":
        return rl.tensor(losses, dtype=rl.float64).reshape(target.shape)
    return rl.tensor(sum(losses) / (sum(kept) if reduction == "mean" else 1.0), dtype=rl.float64)


@pytest.mark.parametrize("name", LOSSES[:2])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16])
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 2, 3)])
def test_equals_a_row_at_a_time(name, dtype, shape):
    rl.manual_seed(1)
    x, loss = rl.randn(shape).to(dtype), getattr(F, name)
    target = (rl.arange(x.numel() // 5) * 3 % 5).reshape(shape[0], *shape[2:])
    tolerance = 1e-2 if dtype is rl.float16 else 1e-6
    ways = ((-100, "mean", None), (2, "mean", None), (2, "none", None), (2, "sum", 0.5))
    for ignore_index, reduction, weight in ways:
        weight = None if weight is None else rl.rand(5).to(dtype) + weight
        wanted = reference(x, target, ignore_index, reduction, weight, name)
        given = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
        for source in (x, x, x, x.clone().requires_grad_()):   # in Python, then written down, then replayed
            found = loss(source, target, **given).detach()
            assert found.dtype is dtype and found.shape == wanted.shape
            assert rl.allclose(found.double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, shape", [*((n, (6, 5)) for n in LOSSES), *((n, (2, 5, 3)) for n in LOSSES[:2])])
@pytest.mark.parametrize("wrong", [5, -1])
@pytest.mark.parametrize("records", [False, True])
def test_targets_that_are_no_class_are_refused_every_time(name, shape, wrong, records):
    x, target = rl.randn(shape, requires_grad=records), rl.zeros(shape[0], *shape[2:], dtype=rl.int64)
    for _ in range(3):
        getattr(F, name)(x, target)
    bad = target.clone()
    bad.view(-1)[1] = wrong
    for _ in range(3):
        with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
            getattr(F, name)(x, bad)
    assert rl.isfinite(getattr(F, name)(x, target))


def test_rows_that_are_ignored_count_for_nothing():
    x = rl.tensor([[1.0, 2.0], [float("nan"), 0.0], [float("inf"), 1.0]], requires_grad=True)
    loss = F.cross_entropy(x, rl.tensor([0, -100, -100]))
    loss.backward()
    assert rl.allclose(loss, F.cross_entropy(x[:1], rl.tensor([0])))
    assert rl.isfinite(x.grad).all() and not x.grad[1:].any()
    assert F.cross_entropy(x.detach(), rl.full((3,), -100)).isnan()
    assert F.cross_entropy(x[:0].detach(), rl.zeros(0, dtype=rl.int64)).isnan()


def test_halves_are_added_as_wider_numbers():
    x = rl.zeros(70000, 3, dtype=rl.float16)
    for reduction, wanted in (("mean", rl.tensor(3.0).log()), ("sum", rl.tensor(float("inf")))):
        found = F.cross_entropy(x, rl.zeros(70000, dtype=rl.int64), reduction=reduction)
        assert found.dtype is rl.float16 and rl.allclose(found.float(), wanted, rtol=1e-3)


@pytest.mark.parametrize("before", ["nothing", "empty", "refused"])
def test_a_loss_that_nobody_records_runs_without_python(before):
    rows = {"nothing": 4, "empty": 13, "refused": 17}[before]
    x, target = rl.randn(rows, 5), rl.arange(rows) % 5
    if before != "nothing":
        for _ in range(3):
            F.cross_entropy(rl.randn(7, 5), target[:7])
    if before == "empty":
        F.cross_entropy(x[:0], target[:0])
    if before == "refused":
        for wrong, named in ((target[:3], "batch"), (target.int(), "dtype"), (target + 5, "is out of bounds")):
            with pytest.raises((IndexError, RuntimeError, ValueError), match=named):
                F.cross_entropy(x, wrong)
    for _ in range(3):
        F.cross_entropy(x, target), F.nll_loss(x, target), F.multi_margin_loss(x, target)
    called: list[str] = []
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        F.cross_entropy(x, target), F.nll_loss(x, target), F.multi_margin_loss(x, target)
    finally:
        sys.setprofile(None)
    assert not called


def test_switches_of_old_are_warned_of_every_time():
    x, target = rl.randn(4, 5), rl.tensor([0, 4, 2, 1])
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            F.cross_entropy(x, target, size_average=False)
        assert len(seen) == 1
