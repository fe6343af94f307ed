"""The GPU scheduler's nests, run by a CPU on a device of its own, have the CPU's results:
what is left to a card is how nests become PTX."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

from .cases import CASES, compare

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DEVICE = ReferenceDevice("gpuform")
DEVICE.scheduler = "gpu"
register(DEVICE)


@pytest.mark.share(2)
@pytest.mark.filterwarnings("ignore:.*computed on the host")
@pytest.mark.parametrize("name", CASES)
def test_op(name):
    compare(name, "gpuform")


@pytest.mark.parametrize("shape", [(1 << 20,), (4096, 300), (300, 4096), (7, 3000, 11), (5, 100_000), (100_000, 5)])
def test_chunks_of_folds(shape):
    rl.manual_seed(0)
    x = rl.rand(shape)
    y = x.to("gpuform")
    assert rl.allclose(y.sum().cpu(), x.double().sum().float(), rtol=1e-4)
    for d in range(len(shape)):
        assert rl.allclose(y.sum(d).cpu(), x.double().sum(d).float(), rtol=1e-4)
        assert (y.amax(d).cpu() == x.amax(d)).all() and (y.argmax(d).cpu() == x.argmax(d)).all()
        assert rl.allclose(y.var(d).cpu(), x.var(d), rtol=1e-4)


@pytest.mark.parametrize("make", [
    lambda p: rl.optim.SGD(p, lr=0.1), lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    rl.optim.AdamW, lambda p: rl.optim.Adam(p, amsgrad=True), rl.optim.RMSprop, rl.optim.Adagrad,
])
def test_an_optimizer_step_is_one_launch(make):
    results = []
    for device in ("cpu", "gpuform"):
        rl.manual_seed(0)
        param = rl.randn(5, 7).to(device).requires_grad_()
        optimizer = make([param])
        for i in range(4):
            param.grad = param.detach() * 0.3 + i
            launches, version = DEVICE.launches, param._version
            optimizer.step()
        assert device == "cpu" or (DEVICE.launches == launches + 1 and param._version == version + 1)
        results.append(param.detach().cpu())
    assert rl.allclose(*results, rtol=1e-6, atol=1e-6)


def test_optimizer_steps_over_views_go_through_ops():
    results = []
    for device in ("cpu", "gpuform"):
        rl.manual_seed(0)
        base = rl.randn(6, 8).to(device)
        param = base[:, ::2].requires_grad_()
        param.grad = base[:, 1::2] * 2
        rl.optim.AdamW([param], lr=0.1).step()
        results.append(base.detach().cpu())
    assert rl.allclose(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels, batch", [(64, 2), (24, 3), (320, 2)])
def test_batch_norm_of_half_types_channels_last(channels, batch):
    """Statistics by sums around an element: those of the same numbers in single precision, far from 0 as well."""
    results = []
    for device, dtype in (("cpu", rl.float32), ("gpuform", rl.bfloat16)):
        rl.manual_seed(0)
        x = (rl.randn(batch, channels, 9, 9) + 20).to(rl.bfloat16).to(dtype).to(memory_format=rl.channels_last)
        g = rl.randn(batch, channels, 9, 9).to(rl.bfloat16).to(dtype).to(memory_format=rl.channels_last)
        norm = rl.nn.BatchNorm2d(channels).to(dtype).to(device)
        x = x.to(device).requires_grad_()
        launches = DEVICE.launches
        y = norm(x)
        assert device == "cpu" or DEVICE.launches - launches <= 6
        y.backward(g.to(device))
        found = (y, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)
        results.append([t.detach().cpu().float() for t in found])
    for wanted, found in zip(*results, strict=True):
        assert rl.allclose(found, wanted, rtol=2e-2, atol=2e-2)


DEVICES = ["gpuform", pytest.param("cuda", marks=pytest.mark.skipif(not rl.cuda.is_available(), reason="no card"))]


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float32, rl.int64, rl.bool])
@pytest.mark.parametrize("device", DEVICES)
def test_long_slices_are_copied_by_blocks(device, dtype):
    rl.manual_seed(0)
    table, index = rl.randint(0, 99, (50, 392)).to(dtype), rl.randint(0, 50, (300,))
    there, chosen = table.to(device), index.to(device)
    assert rl.equal(there.index_select(0, chosen).cpu(), table.index_select(0, index))
    assert rl.equal(there[:, 1:385].index_select(0, chosen).cpu(), table[:, 1:385].index_select(0, index))
    assert rl.equal(there[:, ::1][chosen].cpu(), table[index])
    cube = table.reshape(10, 5, 392).transpose(0, 1)
    assert rl.equal(there.reshape(10, 5, 392).transpose(0, 1).index_select(1, chosen % 10).cpu(),
                    cube.index_select(1, index % 10))
    places = rl.randint(0, 392, (300, 392))
    assert rl.equal(there[chosen].gather(1, places.to(device)).cpu(), table[index].gather(1, places))
    chosen[7] = 50
    with pytest.raises(IndexError, match="index 50 is out of bounds"):
        there.index_select(0, chosen).cpu()


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_half_types_go_through_single_precision(device):
    rl.manual_seed(0)
    index, rows = rl.randint(0, 5, (200,)), rl.randn(200, 24)
    wanted = rl.ones(5, 24).index_add(0, index, rows)
    for target in (rl.ones(5, 24), rl.ones(24, 5).t(), rl.ones(5, 30)[:, 3:27]):
        found = target.to(rl.bfloat16).to(device).index_add(0, index.to(device), rows.to(rl.bfloat16).to(device))
        assert rl.allclose(found.cpu().float(), wanted, rtol=2e-2, atol=0.1)
        held = rl.empty_like(target, dtype=rl.bfloat16, device=device).copy_(target)
        held.index_add_(0, index.to(device), rows.to(rl.bfloat16).to(device))
        assert rl.equal(held.cpu(), found.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_cross_entropy_of_half_types_over_many_classes(device):
    rl.manual_seed(0)
    scores, classes = (rl.randn(40, 5003) * 4).to(rl.bfloat16), rl.randint(0, 5003, (40,))
    classes[3] = -100
    results = []
    for place, dtype in (("cpu", rl.float32), (device, rl.bfloat16)):
        x = scores.to(dtype).to(place).requires_grad_()
        loss = rl.nn.functional.cross_entropy(x, classes.to(place))
        loss.backward()
        results.append((loss.detach().cpu().float(), x.grad.cpu().float()))
    assert rl.allclose(results[1][0], results[0][0], rtol=1e-2)
    assert rl.allclose(results[1][1], results[0][1], rtol=8e-2, atol=1e-6)      # what is saved of a row is of the type
