"""Cross entropy on devices: the kernel leaves out rows that are ignored."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

F = rl.nn.functional
DEVICE = ReferenceDevice("keptrows")
DEVICE.scheduler = "gpu"
register(DEVICE)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [-100, 3])
def test_equals_the_host(reduction, ignore_index):
    rl.manual_seed(0)
    x, target = rl.randn(20, 11), rl.arange(20) % 11
    target[4], target[9] = ignore_index, ignore_index
    results = []
    for device in ("cpu", "keptrows"):
        own = x.detach().to(device).requires_grad_()
        before = DEVICE.launches
        loss = F.cross_entropy(own, target.to(device), ignore_index=ignore_index, reduction=reduction)
        launches = DEVICE.launches - before
        loss.backward(rl.ones(loss.shape).to(device))
        results.append((loss.detach().cpu(), own.grad.cpu()))
    assert launches <= 2
    for ours, wanted in zip(*reversed(results), strict=True):
        assert rl.allclose(ours, wanted, atol=1e-6), (ours - wanted).abs().max()
    assert (results[1][1][4] == 0).all()


def test_means_of_many_rows_and_of_none():
    rl.manual_seed(0)
    for rows in (1, 5000, 70000):      # the last, by more blocks than one
        x, target = rl.randn(rows, 3), rl.arange(rows) % 3
        ours = F.cross_entropy(x.to("keptrows"), target.to("keptrows")).cpu()
        assert rl.allclose(ours, F.cross_entropy(x, target), atol=1e-5) and ours.shape == ()
    nothing = F.cross_entropy(x[:4].to("keptrows"), rl.full((4,), -100).to("keptrows"))
    assert nothing.cpu().isnan()


def test_other_targets_that_name_no_class_are_refused():
    x, target = rl.randn(6, 5).to("keptrows"), rl.tensor([0, 1, 5, 2, 3, 4]).to("keptrows")
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        F.cross_entropy(x, target, ignore_index=-100).cpu()


def test_second_derivatives():
    rl.manual_seed(0)
    op = rl.ops.aten._cross_entropy_kept_rows
    x, target = rl.randn(4, 5, dtype=rl.float64, requires_grad=True), rl.tensor([[1], [-1], [0], [4]])
    assert rl.autograd.gradcheck(lambda x: op(x, target, -1)[:2], (x,))
    assert rl.autograd.gradgradcheck(lambda x: op(x, target, -1)[0], (x,))
    loss, kept = rl.randn(6, 1, dtype=rl.float64, requires_grad=True), rl.ones(6, 1, dtype=rl.float64)
    assert rl.autograd.gradcheck(lambda loss: rl.ops.aten._mean_of_kept(loss, kept)[0], (loss,))
