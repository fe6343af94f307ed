"""Ops, products, convolutions and training on the chip give the host's results."""

from __future__ import annotations

import math
import warnings

import pytest

import rushlight as rl
import rushlight.nn.functional as F  # noqa: N812

from .chip import chip

SIZES = ((7, 13), (3, 129), (1, 1))


def sample(*shape: int, dtype: rl.dtype = rl.float32) -> rl.Tensor:
    n = math.prod(shape)
    numbers = (rl.arange(n) * 37 % 23).to(rl.float64) / 7 - 1.5
    return (numbers * 3 if dtype in (rl.int32, rl.int64, rl.uint8) else numbers).to(dtype).reshape(shape)


def picks(x: rl.Tensor) -> rl.Tensor:
    return (rl.arange(5) % x.shape[0]).to(x.device)


ANY = {
    "add": lambda x, y: x + y, "broadcast": lambda x, y: x * y[0] - x[:, :1], "scalar": lambda x, y: 2 - x,
    "turned": lambda x, y: x.t() + y.t().contiguous(), "slice": lambda x, y: x[:, ::2] * y[:, ::2],
    "flip": lambda x, y: x.flip(0, 1) + 0, "compare": lambda x, y: (x > y) | (x == y),
    "where": lambda x, y: rl.where(x > 0, x, y), "clamp": lambda x, y: x.clamp(-1, 2),
    "sum": lambda x, y: x.sum(), "sum rows": lambda x, y: x.sum(1),
    "sum columns": lambda x, y: x.sum(0), "max": lambda x, y: x.max(1), "argmin": lambda x, y: x.argmin(0),
    "prod": lambda x, y: x[:, :2].prod(1), "any": lambda x, y: (x > 2).any(0), "cat": lambda x, y: rl.cat([x, y], 1),
    "index": lambda x, y: x[picks(x)], "gather": lambda x, y: x.gather(1, (y > 0).long() * (x.shape[1] - 1)),
    "cumsum": lambda x, y: x.cumsum(1), "cummax": lambda x, y: x.cummax(1), "sort": lambda x, y: x.sort(1),
    "topk": lambda x, y: x.topk(1, 1), "tril": lambda x, y: x.tril(-1) + y.triu(),
    "pad": lambda x, y: F.pad(x, (1, 2, 0, 1)),
    "index_add": lambda x, y: x.index_add(0, picks(x), y[picks(x)]), "roll": lambda x, y: x.roll(3, 1),
    "scatter": lambda x, y: x.scatter_reduce(0, (y > 0).long() * (x.shape[0] - 1), y, "amax"),
    "many dims": lambda x, y: x.reshape(1, *x.shape, 1).permute(3, 2, 0, 1).contiguous() + 1,
    "convert": lambda x, y: x.to(rl.float64) + y.to(rl.int64), "unique": lambda x, y: (x.unique(), y[y > 1]),
    "searchsorted": lambda x, y: rl.searchsorted(x.flatten().sort()[0], y), "matmul": lambda x, y: x @ y.t(),
}
FLOATS = {
    "special": lambda x, y: (x.exp(), x.sin(), x.abs().log(), x.tanh(), x.erf(), x.sigmoid(), rl.lgamma(x.abs() + 1)),
    "roots": lambda x, y: x.abs().sqrt() + (y.abs() + 1).rsqrt(), "pow": lambda x, y: x.abs().pow(y),
    "divide": lambda x, y: (x / (y.abs() + 1), x // (y.abs() + 1), x % 1.5), "softmax": lambda x, y: F.softmax(x, 1),
    "log_softmax": lambda x, y: F.log_softmax(x, 0),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[1:], y[0], y[0]),
    "var": lambda x, y: (x.var(1, correction=0), x.std(0, correction=0), x.mean()), "gelu": lambda x, y: F.gelu(x),
    "special values": lambda x, y: rl.stack([x / 0, x * math.inf, -x * 0]).nan_to_num(3.0).maximum(y),
    "not a number": lambda x, y: ((x / 0 * 0).maximum(y), (x * 0 / 0).minimum(y), rl.fmax(x / 0 * 0, y)),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "rounding": lambda x, y: (x.round(), x.floor(), x.trunc(), x.frac()),
}
INTS = {
    "bits": lambda x, y: (x & y) ^ (x | 3), "shift": lambda x, y: x << 2, "quotient": lambda x, y: x // 3 + x % 5,
    "gcd": lambda x, y: rl.gcd(x, y), "wrap": lambda x, y: x * 1_000_003 * y,
}
CASES = [
    *[("float32", name) for name in (*ANY, *FLOATS)], *[("int64", name) for name in (*ANY, *INTS)],
    *[(kind, name) for kind in ("float16", "bfloat16") for name in (*FLOATS, "add", "sum", "cat", "matmul", "sort")],
    *[("uint8", name) for name in ("add", "sum", "max", "bits", "convert")],
    *[("float64", name) for name in ("add", "sum", "special", "matmul", "var")],
    *[("complex64", name) for name in ("add", "broadcast", "sum", "matmul", "turned")],
]
CLOSE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}


def leaves(result: object) -> list[rl.Tensor]:
    return [result] if isinstance(result, rl.Tensor) else [t for part in result for t in leaves(part)]


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in CASES))
def test_the_chip_gives_the_hosts_results(kind):
    dtype, wrong = getattr(rl, kind), []
    for name in [name for other, name in CASES if other == kind]:
        call = (ANY | FLOATS | INTS)[name]
        for size in SIZES[:1] if name == "unique" else SIZES:
            x, y = sample(*size, dtype=dtype), sample(*size, dtype=dtype).flip(1)
            for mine, theirs in zip(leaves(call(x.to("npu"), y.to("npu"))), leaves(call(x, y)), strict=True):
                assert mine.device.type == "npu" and mine.dtype is theirs.dtype
                wide = rl.complex128 if theirs.is_complex() else rl.float64
                a, b = mine.cpu().to(wide), theirs.to(wide)
                exact = not theirs.dtype.is_floating_point and not theirs.is_complex()
                close = CLOSE.get(kind, 3e-6)
                if not (rl.equal(a, b) if exact else rl.allclose(a, b, rtol=close, atol=close, equal_nan=True)):
                    wrong.append((name, size))
    assert not wrong


def test_generated_kernels_are_the_chips_own():
    before = chip.host_counts()
    x = sample(40, 50).to("npu")
    (x.exp() @ x.t()).softmax(1).cumsum(0).sort(0).values.sum().item()
    assert chip.host_counts() == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rl.linalg.inv(sample(3, 3).to("npu") + 9 * rl.eye(3).to("npu"))
    assert sum(chip.host_counts().values()) > sum(before.values())


@pytest.mark.parametrize("sizes", [(16, 16, 16), (5, 300, 3), (130, 129, 257), (1, 1, 1)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_products_run_on_the_array(sizes, kind):
    m, k, n = sizes
    a, b = sample(m, k, dtype=getattr(rl, kind)), sample(n, k, dtype=getattr(rl, kind)).t()
    result = a.to("npu") @ b.to("npu")
    tiles = sum(
        16 + -(-min(128, k - deep) // 16) * -(-min(128, n - column) // 16) * max(16, min(128, m - row))
        for row in range(0, m, 128) for column in range(0, n, 128) for deep in range(0, k, 128)
    )
    assert chip.busy()["array"] == tiles and "amul" in chip.listing()
    expected = a.to(rl.float64) @ b.to(rl.float64)
    close = 1e-5 if kind == "float32" else 1e-2
    assert rl.allclose(result.cpu().to(rl.float64), expected, rtol=close, atol=close * expected.abs().max().item())


def test_large_products_keep_the_array_busy():
    x = sample(256, 512).to("npu")
    x @ x.t()
    assert chip.busy()["array"] > 0.75 * chip.cycles()      # loads of the next tiles hide behind it
    added = rl.addmm(x[:, :256], x, x.t(), beta=0.5, alpha=2.0)
    assert rl.allclose(added.cpu(), rl.addmm(x.cpu()[:, :256], x.cpu(), x.cpu().t(), beta=0.5, alpha=2.0), atol=1e-2)


CONVOLUTIONS = [
    dict(), dict(stride=2, padding=1), dict(dilation=2, padding=(2, 1)), dict(groups=2), dict(transposed=True),
    dict(transposed=True, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
]


@pytest.mark.parametrize("form", CONVOLUTIONS)
@pytest.mark.parametrize("dims", [1, 2])
def test_convolutions_and_their_gradients_run_on_the_array(form, dims):
    form = dict(form)
    if isinstance(form.get("padding"), tuple) and dims == 1:
        form["padding"] = 2
    transposed, groups = form.pop("transposed", False), form.get("groups", 1)
    call = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    x, bias = sample(2, 4, *(9, 8)[:dims]), sample(6 if not transposed else 3 * groups)
    weight = sample(*((4, 3) if transposed else (6, 4 // groups)), *(3, 2)[:dims])
    grads = []
    before = chip.host_counts()
    for device in ("cpu", "npu"):
        tensors = [t.to(device).detach().clone().requires_grad_() for t in (x, weight, bias)]
        result = call(*tensors, **form)
        (result * result).sum().backward()
        grads.append([result.detach().cpu(), *[t.grad.cpu() for t in tensors]])
    assert chip.host_counts() == before
    for mine, theirs in zip(*grads, strict=True):
        assert rl.allclose(mine, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())


def test_indices_out_of_range_are_told_and_work_goes_on():
    x = sample(4, 3).to("npu")
    with pytest.raises(IndexError, match="9"):
        x.index_select(0, rl.tensor([0, 9], device="npu")).tolist()
    assert (x + 1).cpu().equal(sample(4, 3) + 1)


def test_memory_that_is_not_there_is_told_and_work_goes_on():
    with pytest.raises(rl.OutOfMemoryError):
        rl.empty(1 << 29, dtype=rl.float64, device="npu")
    assert rl.ones(3, device="npu").sum().item() == 3


# --- training ---------------------------------------------------------------------------------------------------------


class Block(rl.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.also = rl.nn.LayerNorm(width), rl.nn.LayerNorm(width)
        self.qkv, self.out = rl.nn.Linear(width, 3 * width), rl.nn.Linear(width, width)
        self.mlp = rl.nn.Sequential(rl.nn.Linear(width, 4 * width), rl.nn.GELU(), rl.nn.Linear(4 * width, width))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.mlp(self.also(x))


def mlp() -> tuple:
    net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 3))
    return net, sample(32, 8), rl.arange(32) % 3


def lenet() -> tuple:
    net = rl.nn.Sequential(
        rl.nn.Conv2d(1, 4, 5), rl.nn.ReLU(), rl.nn.MaxPool2d(2), rl.nn.Conv2d(4, 8, 3), rl.nn.ReLU(),
        rl.nn.MaxPool2d(2), rl.nn.Flatten(), rl.nn.Linear(32, 16), rl.nn.ReLU(), rl.nn.Linear(16, 10),
    )
    return net, sample(8, 1, 16, 16), rl.arange(8) % 10


def gpt() -> tuple:
    net = rl.nn.Sequential(rl.nn.Embedding(17, 16), Block(16), Block(16), rl.nn.LayerNorm(16), rl.nn.Linear(16, 17))
    tokens = (rl.arange(4 * 13) * 7 % 17).reshape(4, 13)
    return rl.nn.Sequential(net, rl.nn.Flatten(0, 1)), tokens[:, :-1], tokens[:, 1:].reshape(-1)


@pytest.mark.parametrize("make", [mlp, lenet, gpt])
def test_models_train_to_the_hosts_losses(make):
    losses = {}
    before = chip.host_counts()
    for device in ("cpu", "npu"):
        rl.manual_seed(0)
        net, inputs, targets = make()
        net, inputs, targets = net.to(device), inputs.to(device), targets.to(device)
        optimizer = rl.optim.AdamW(net.parameters(), lr=1e-2)
        losses[device] = []
        for _ in range(4):
            loss = F.cross_entropy(net(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert chip.host_counts() == before
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=1e-4) and losses["npu"][-1] < losses["npu"][0]
