"""An out-of-tree device is complete by implementing the kinds: the same calls give the same results as on the host."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight.devices import register, registered

from .reference_device import ReferenceDevice

DEVICE = ReferenceDevice()
OTHER = ReferenceDevice("otherdev")
register(DEVICE)
register(OTHER)


def sample(*shape: int, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    return ((torch.arange(n) * 37 % 23).to(torch.float64) / 7 - 1.5).to(dtype).reshape(shape)


CALLS = {
    "add": lambda x, y: x + y,
    "broadcast": lambda x, y: x * y[0] - x[:, :1],
    "scalar": lambda x, y: (2 - x) / 3,
    "transpose": lambda x, y: x.t() + y.t().contiguous(),
    "transcendental": lambda x, y: x.exp().sin() + y.abs().sqrt(),
    "compare": lambda x, y: (x > y).to(torch.float32),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "sum": lambda x, y: x.sum(),
    "sum_dim": lambda x, y: x.sum(0) + y.sum(1).sum(),
    "mean_var": lambda x, y: x.mean(1) + y.var(1),
    "max": lambda x, y: x.max(1).values,
    "argmax": lambda x, y: x.argmax(0).to(torch.float32),
    "softmax": lambda x, y: torch.softmax(x, -1),
    "layer_norm": lambda x, y: torch.layer_norm(x, (x.shape[-1],), y[0], y[1]),
    "matmul": lambda x, y: x @ y.t(),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "slice": lambda x, y: x[1:, ::2] + y[:-1, ::2],
    "index": lambda x, y: x[torch.tensor([0, 2, 0], device=x.device)],
    "gather": lambda x, y: x.gather(1, (y > 0).to(torch.int64)),
    "cumsum": lambda x, y: x.cumsum(1),
    "sort": lambda x, y: x.sort(1).values,
    "cast": lambda x, y: x.to(torch.float64) + y.to(torch.bfloat16).to(torch.float64),
    "inplace": lambda x, y: x.clone().add_(y).mul_(2),
    "fill": lambda x, y: torch.full_like(x, 3.0) + torch.ones(4, 6, device=x.device),
    "arange": lambda x, y: x + torch.arange(6, device=x.device),
    "tril": lambda x, y: x.tril() + y.triu(),
    "clone_strided": lambda x, y: x.t().clone(),
    "setitem": lambda x, y: (x.clone().index_fill(0, torch.tensor([1], device=x.device), 5.0)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_device_matches_host(name, dtype):
    x, y = sample(4, 6, dtype=getattr(torch, dtype)), sample(4, 6, dtype=getattr(torch, dtype)).flip(0)
    expected = CALLS[name](x, y)
    result = CALLS[name](x.to("refdev"), y.to("refdev"))
    assert result.device.type == "refdev"
    assert result.dtype is expected.dtype
    assert torch.allclose(result.to("cpu").to(torch.float64), expected.to(torch.float64), atol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["add", "broadcast", "transcendental", "sum_dim", "softmax", "layer_norm", "matmul", "slice", "cat", "index"],
)
def test_gradients_match_host(name):
    grads = []
    for device in ("cpu", "refdev"):
        x = sample(4, 6, dtype=torch.float64).to(device).requires_grad_()
        y = sample(4, 6, dtype=torch.float64).flip(0).to(device)
        (CALLS[name](x, y) ** 2).sum().backward()
        assert x.grad.device.type == device
        grads.append(x.grad.to("cpu"))
    assert torch.allclose(grads[0], grads[1], atol=1e-9)


def test_several_devices_at_once():
    assert {"refdev", "otherdev"} <= set(registered())
    x = sample(3, 3)
    a, b = x.to("refdev"), x.to("otherdev")
    assert (a + a).device.type == "refdev" and (b * 2).device.type == "otherdev"
    assert torch.equal(b.to("refdev").to("cpu"), x)
    with pytest.raises(RuntimeError, match="same device"):
        a + b


def test_zero_dim_host_tensor_joins_any_device():
    x = sample(3, 3).to("refdev")
    assert torch.allclose((x + torch.tensor(2.0)).to("cpu"), sample(3, 3) + 2)


def test_printing_and_item():
    x = sample(2, 2).to("refdev")
    assert "device='refdev:0'" in repr(x)
    assert x[0, 0].item() == sample(2, 2)[0, 0].item()
    assert x.tolist() == sample(2, 2).tolist()


def test_unfinished_devices_are_refused():
    class Half(torch.devices.Device):
        name = "half_done"

    with pytest.raises(TypeError, match="allocate"):
        register(Half())


def test_null_device_records_kernels():
    from rushlight.devices.null import NullDevice

    null = NullDevice()
    null.name = "nulltest"   # the guide registers one as "null"
    register(null)
    x = torch.ones(4, device="nulltest")
    x + x
    assert any("add" in text for text in null.launched)


# --- ops that call libraries ------------------------------------------------------------------------------------------


class Asked(ReferenceDevice):
    """A device that has functions of its own for some library ops, and notes what it was asked for."""

    def __init__(self, name: str, has: tuple[str, ...]) -> None:
        super().__init__(name)
        self.has, self.asked, self.ran = has, [], []

    def implementation(self, op: str):
        self.asked.append(op)
        return self.by_the_host(op) if op in self.has else None

    def by_the_host(self, op: str):
        def run(out, *args):
            self.ran.append(op)
            host = getattr(torch, op) if hasattr(torch, op) else torch.ops.aten.__getattr__(op)
            result = host(*[a.cpu() if isinstance(a, torch.Tensor) else a for a in args])
            for target, source in zip(out, result, strict=True) if isinstance(out, tuple) else ((out, result),):
                target.copy_(source)

        return run


ASKED = Asked("askeddev", ("matmul", "convolution", "linalg_qr"))
register(ASKED)
STRICT = ReferenceDevice("strictdev")
STRICT.host_fallback = False
register(STRICT)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16", "int64"])
@pytest.mark.parametrize(
    "shapes",
    [((40, 50), (50, 60)), ((3, 40, 33), (33, 35)), ((2, 40, 40), (2, 40, 40)), ((70,), (70,)), ((64, 64), (64,))],
)
def test_products_of_any_size_run_as_generated_kernels(dtype, shapes):
    x, y = (sample(*s, dtype=getattr(torch, dtype)) for s in shapes)
    result = x.to("refdev") @ y.to("refdev")
    assert result.device.type == "refdev"
    wide = torch.complex128 if dtype == "complex64" else torch.float64
    assert torch.allclose(
        result.cpu().to(wide),
        x.to(wide) @ y.to(wide),
        rtol=2e-2 if dtype == "bfloat16" else 1e-4,
        atol=1e-3 if dtype != "bfloat16" else 0.5,
    )


def test_products_of_strided_operands_and_sums():
    x, y = sample(60, 50), sample(60, 45)
    transposed = x.to("refdev").t() @ y.to("refdev")
    assert torch.allclose(transposed.cpu(), x.t() @ y, rtol=1e-4, atol=1e-4)
    bias = sample(45)
    added = torch.addmm(bias.to("refdev"), x.t().to("refdev"), y.to("refdev"), beta=0.5, alpha=2.0)
    assert torch.allclose(added.cpu(), torch.addmm(bias, x.t(), y, beta=0.5, alpha=2.0), rtol=1e-4, atol=1e-4)
    weight = sample(45, 50)
    applied = torch.nn.functional.linear(x.to("refdev"), weight.to("refdev"), bias.to("refdev"))
    assert torch.allclose(applied.cpu(), torch.nn.functional.linear(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_a_device_is_asked_before_the_host():
    x, y = sample(40, 40), sample(40, 40)
    ASKED.ran.clear()
    product = x.to("askeddev") @ y.to("askeddev")
    conv = torch.nn.functional.conv2d(x.to("askeddev").view(1, 1, 40, 40), y.to("askeddev")[:3, :3].reshape(1, 1, 3, 3))
    q, r = torch.linalg.qr(x.to("askeddev"))
    assert ASKED.ran == ["matmul", "convolution", "linalg_qr"]
    assert torch.allclose(product.cpu(), x @ y, atol=1e-3) and conv.device.type == "askeddev"
    assert torch.allclose((q @ r).cpu(), x, atol=1e-3)


def test_falling_back_to_the_host_is_said_once():
    device = ReferenceDevice("quietdev")
    register(device)
    x = (sample(5, 5) + 9 * torch.eye(5)).to("quietdev")
    with pytest.warns(RuntimeWarning, match="linalg_.*device 'quietdev' has no implementation"):
        first = torch.linalg.inv(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = torch.linalg.inv(x)
    assert torch.equal(first.cpu(), again.cpu())
    with pytest.warns(RuntimeWarning, match="convolution: device 'quietdev'"):
        torch.nn.functional.conv1d(x.view(1, 5, 5), x[:, :, None])


def test_a_device_may_refuse_the_host():
    with pytest.raises(NotImplementedError, match="strictdev"):
        torch.linalg.inv(torch.eye(3).to("strictdev"))
    assert (torch.eye(40).to("strictdev") @ torch.ones(40, 40).to("strictdev")).cpu().sum().item() == 1600


def test_a_registered_meta_kernel_leaves_other_devices_alone():
    calls = []

    def own(self, other, *, alpha=1):
        calls.append(self.device.type)
        return self.new_empty(self.shape)

    lib = torch.library.Library("aten", "IMPL")
    lib.impl("add.Tensor", own, "Meta")
    try:
        overload = torch.ops.aten.add.Tensor
        numbers = {name: i for i, name in enumerate(torch._C.device_types())}
        assert not overload.overridden >> numbers["cpu"] & 1 and overload.overridden >> numbers["meta"] & 1
        assert (torch.ones(2) + torch.ones(2)).tolist() == [2, 2] and calls == []
        assert (torch.ones(2, device="meta") + torch.ones(2, device="meta")).is_meta and calls == ["meta"]
        assert (torch.ones(2).to("refdev") + 1).cpu().tolist() == [2, 2] and calls == ["meta"]
    finally:
        lib._destroy()
    assert not torch.ops.aten.add.Tensor.overridden


@pytest.mark.parametrize("key", ["refdev", "PrivateUse1", "CPU"])
def test_a_kernel_registered_for_one_device_leaves_the_others_on_the_fast_path(key):
    calls = []

    def own(self, other):
        calls.append(self.device.type)
        return self.new_full(self.shape, 7.0)

    numbers = {name: i for i, name in enumerate(torch._C.device_types())}
    concerned = {"refdev": {"refdev"}, "PrivateUse1": {"refdev", "otherdev"}, "CPU": {"cpu"}}[key]
    lib = torch.library.Library("aten", "IMPL")
    lib.impl("mul.Tensor", own, key)
    try:
        mask = torch.ops.aten.mul.Tensor.overridden
        assert {name for name in ("cpu", "meta", "refdev", "otherdev") if mask >> numbers[name] & 1} == concerned
        for device in ("cpu", "refdev", "otherdev"):
            result = (torch.full((2,), 3.0).to(device) * torch.full((2,), 2.0).to(device)).cpu()
            assert result.tolist() == ([7, 7] if device in concerned else [6, 6])
        assert set(calls) == concerned
    finally:
        lib._destroy()


def test_what_runs_on_the_host_is_shown(monkeypatch, capsys):
    monkeypatch.setenv("RUSHLIGHT_SHOW", "fallback")
    x = torch.eye(3).to("refdev")
    capsys.readouterr()
    x + x
    x @ x
    x.nonzero()
    torch.repeat_interleave(torch.tensor([1, 2]).to("refdev"))
    assert "fallback" not in capsys.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.linalg.inv(x)
        torch.randn(3, device="refdev")
        torch.multinomial(x + 1, 2, replacement=True)
    lines = capsys.readouterr().err
    for op in ("linalg_inv", "random_normal", "random_multinomial"):
        assert f"--- fallback: {op}" in lines
    assert "device 'refdev'" in lines


def test_a_device_with_functions_of_data_dependent_size_is_asked():
    class Finder(ReferenceDevice):
        def implementation(self, op):
            return {"nonzero": self.find, "random_normal": self.draw}.get(op)

        def find(self, out, mask):
            assert out is None
            return torch.zeros(1, mask.ndim, dtype=torch.int64, device=mask.device)

        def draw(self, out, generator, *parameters):
            out.fill_(0.25)

    register(Finder("finderdev"))
    x = torch.ones(2, 2).to("finderdev")
    assert x.nonzero().tolist() == [[0, 0]]
    assert torch.randn(3, device="finderdev").tolist() == [0.25] * 3


def test_parameters_that_are_shared_stay_shared_when_a_module_moves():
    net = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False))
    net[1].weight = shared = net[0].weight
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net.to(DEVICE.name)
    assert net[0].weight is net[1].weight is shared and shared.device.type == DEVICE.name
    assert len(list(net.parameters())) == 1
    before = shared.detach().cpu().clone()
    net(torch.tensor([1, 2]).to(DEVICE.name)).sum().backward()
    optimizer.step()
    assert (shared.detach().cpu() != before).any()      # the optimizer has the parameter that moved


class Counted(ReferenceDevice):
    """Its kernels are places in a list."""

    launch_pointwise = None

    def __init__(self, name):
        super().__init__(name)
        self.kernels = [None]

    def load(self, nest):
        self.kernels.append(super().load(nest))
        return len(self.kernels) - 1

    def launch(self, handle, *rest):
        assert type(handle) is int
        return super().launch(self.kernels[handle], *rest)


def test_kernels_may_be_numbers():
    register(Counted("counted"))
    x = torch.arange(12.0).reshape(3, 4)
    y = x.to("counted")
    assert ((y * 2 + 1) @ y.t()).cpu().equal((x * 2 + 1) @ x.t())
    assert torch.compile(lambda a: (a + 1).sum(0))(y).cpu().equal((x + 1).sum(0))
