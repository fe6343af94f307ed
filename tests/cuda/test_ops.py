"""Ops on a CUDA device against the CPU, forward and backward. Skipped where there is no device."""

from __future__ import annotations

import pytest

import rushlight as rl

from .cases import CASES, compare

F = rl.nn.functional
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def exact_convolutions():
    with rl.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def relative(a, b):
    return ((a.cpu().double() - b.double()).norm() / (b.double().norm() + 1e-3)).item()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "own", "length", "keys", "width"), [
    (4, 4, 256, 256, 64), (6, 2, 100, 150, 32), (2, 2, 65, 65, 128), (2, 2, 33, 33, 20), (2, 1, 1, 40, 64),
])
def test_attention_of_half_types(causal, heads, own, length, keys, width):
    rl.manual_seed(0)
    shapes = ((2, length, heads, width), (2, keys, own, width), (2, keys, own, width))
    given = [rl.randn(shape).bfloat16() for shape in shapes]
    g = rl.randn(2, heads, length, width).bfloat16()
    results = []
    for device, dtype in (("cuda", rl.bfloat16), ("cpu", rl.float64)):
        tensors = [t.to(device).to(dtype).transpose(1, 2).requires_grad_() for t in given]
        out = F.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=heads != own)
        out.backward(g.to(device).to(dtype))
        results.append([out.detach(), *[t.grad for t in tensors]])
    for got, expected in zip(*results, strict=True):
        assert relative(got, expected) < 1.5e-2


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 2, 4)])
def test_convolution(last, dtype, stride, padding, dilation, groups):
    rl.manual_seed(0)
    x, w, b = rl.randn(2, 8, 13, 11), rl.randn(12, 8 // groups, 3, 3), rl.randn(12)
    order = rl.channels_last if last else rl.contiguous_format
    results = []
    for device, own in (("cuda", dtype), ("cpu", rl.float64)):
        tensors = [t.to(dtype).to(device).to(own) for t in (x, w, b)]
        tensors = [t.to(memory_format=order) if t.ndim == 4 else t for t in tensors]
        tensors = [t.requires_grad_() for t in tensors]
        y = F.conv2d(*tensors, stride, padding, dilation, groups)
        y.square().sum().backward()
        results.append([y.detach(), *[t.grad for t in tensors]])
        assert not last or tensors[1].grad.is_contiguous(memory_format=order) or device == "cpu"
    for got, expected in zip(*results, strict=True):
        assert relative(got, expected) < {rl.float32: 1e-5, rl.float64: 1e-12, rl.bfloat16: 2e-2}[dtype]


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_gradient_of_max_pool(dtype, last):
    x = rl.randn(2, 8, 13, 11).to(dtype)
    results = []
    for device in ("cuda", "cpu"):
        y = x.to(device).contiguous(memory_format=rl.channels_last if last else rl.contiguous_format).requires_grad_()
        F.max_pool2d(y, 3, 2, 1).sum().backward()
        results.append(y.grad.cpu())
    assert (results[0] == results[1]).all()


@pytest.mark.filterwarnings("ignore:.*computed on the host")
@pytest.mark.parametrize("name", CASES)
def test_op(name):
    compare(name, "cuda")


@pytest.mark.parametrize(
    "dtype", [rl.float32, rl.bfloat16, rl.float16, rl.float64, rl.int64, rl.uint8, rl.bool, rl.complex64]
)
@pytest.mark.parametrize("n", [0, 1, 3, 8, 255, 4096, 100_003])
def test_lengths(dtype, n):
    x = (rl.arange(n) % 100).to(dtype)
    y = x.cuda()
    assert (y.cpu() == x).all()
    if dtype is not rl.bool:
        assert ((y + y).cpu() == x + x).all() and ((y * 2).cpu() == x * 2).all()
        assert ((y[1:] + y[:-1]).cpu() == x[1:] + x[:-1]).all()
    assert (y.clone().cpu() == x).all()


@pytest.mark.parametrize("shape", [(1 << 20,), (4096, 300), (300, 4096), (64, 64, 64), (5, 100_000), (100_000, 5)])
def test_large_sums(shape):
    rl.manual_seed(0)
    x = rl.rand(shape)
    y = x.cuda()
    assert rl.allclose(y.sum().cpu(), x.double().sum().float(), rtol=1e-5)
    for d in range(len(shape)):
        assert rl.allclose(y.sum(d).cpu(), x.double().sum(d).float(), rtol=1e-5)
        assert (y.amax(d).cpu() == x.amax(d)).all() and (y.argmax(d).cpu() == x.argmax(d)).all()


@pytest.mark.parametrize("shape", [(3, 7), (64, 1000), (128, 4096), (2, 100_000), (16, 33), (33, 50257), (9, 777)])
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_rows(shape, dtype):
    rl.manual_seed(0)
    x = rl.randn(shape).to(dtype)
    y = x.cuda()
    tolerance = 1e-5 if dtype is rl.float32 else 2e-2
    for f in (lambda t: F.softmax(t, -1), lambda t: F.log_softmax(t, -1), lambda t: F.layer_norm(t, t.shape[-1:])):
        assert rl.allclose(f(y).cpu().float(), f(x).float(), rtol=tolerance, atol=tolerance)
    target, grads = rl.arange(shape[0]) % shape[1], []
    for t in (x, y):
        leaf = t.requires_grad_()
        F.cross_entropy(leaf, target.to(leaf.device)).backward()
        grads.append(leaf.grad.cpu().float())
    assert rl.allclose(*grads, rtol=tolerance, atol=tolerance / 100)


def test_checks_are_raised_when_the_device_is_waited_for():
    x = rl.arange(6.0, device="cuda").reshape(2, 3)
    picked = x.index_select(0, rl.tensor([0, 5], device="cuda"))
    with pytest.raises(IndexError, match="index_select"):
        picked.tolist()
    whole = rl.tensor([1, 2], device="cuda") // rl.tensor([1, 0], device="cuda")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        whole.tolist()
    assert (x + 1).sum().item() == 21.0


@pytest.mark.parametrize(
    "make",
    [
        lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: rl.optim.AdamW(p, lr=1e-2),
        lambda p: rl.optim.Adam(p, lr=1e-2),
    ],
)
def test_training_follows_the_cpu(make):
    losses = []
    for device in ("cpu", "cuda"):
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(8, 32), rl.nn.GELU(), rl.nn.LayerNorm(32), rl.nn.Linear(32, 4)).to(device)
        optimizer = make(net.parameters())
        x, y = rl.randn(64, 8).to(device), (rl.arange(64) % 4).to(device)
        own = []
        for _ in range(10):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            own.append(loss.item())
        losses.append(own)
    assert losses[1][-1] < losses[1][0]
    assert all(abs(a - b) < 2e-3 for a, b in zip(*losses, strict=True)), losses


def test_streams_and_events_measure_time():
    x = rl.randn(4096, 4096, device="cuda")
    start, end = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    x + x
    start.record()
    for _ in range(10):
        x = x + 1
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 1000
    side = rl.cuda.Stream()
    side.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(side):
        y = x * 2
    rl.cuda.current_stream().wait_stream(side)
    assert rl.allclose(y.cpu(), x.cpu() * 2)


def test_out_of_memory_leaves_a_usable_process():
    with pytest.raises(rl.OutOfMemoryError):
        rl.empty(1 << 50, dtype=rl.uint8, device="cuda")
    assert (rl.ones(3, device="cuda") + 1).tolist() == [2.0, 2.0, 2.0]


def test_a_graph_replays_its_work():
    x = rl.ones(64, 64, device="cuda")
    w = rl.randn(64, 64, device="cuda")
    (x @ w).tanh().sum()
    g = rl.cuda.CUDAGraph()
    with rl.cuda.graph(g):
        y = (x @ w).tanh()
        total = y.sum()
    for k in range(3):
        x.fill_(k * 0.1)
        g.replay()
        assert rl.allclose(y, (x @ w).tanh()) and rl.allclose(total, y.sum())
    junk = [rl.randn(64, 64, device="cuda") for _ in range(20)]
    g.replay()
    assert rl.allclose(y, (x @ w).tanh()) and len(junk) == 20


def test_graphed_callables_train():
    losses = []
    for graphed in (False, True):
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(8, 32), rl.nn.GELU(), rl.nn.LayerNorm(32), rl.nn.Linear(32, 4)).cuda()
        x, y = rl.randn(64, 8).cuda(), (rl.arange(64) % 4).cuda()
        step = rl.cuda.make_graphed_callables(net, (rl.randn(64, 8).cuda(),)) if graphed else net
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        own = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(step(x), y)
            loss.backward()
            optimizer.step()
            own.append(loss.item())
        losses.append(own)
    assert all(abs(a - b) < 1e-5 for a, b in zip(*losses, strict=True)) and losses[0][-1] < losses[0][0]
