"""`compile` on plugged-in devices: their own kernels, few launches, graphs over several devices, and a disk that keeps
chips apart."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.devices import Device, register
from rushlight.loops.expr import arg, const, load, select, var
from rushlight.loops.nest import Nest, Store, operands, pointwise_nest, reduction, rows
from rushlight.loops.together import BLOCKS, ITEMS, SERIAL, Part, can_join, scales, together

from .reference_device import ReferenceDevice

F = rl.nn.functional
SCHEDULERS = ("cpu", "gpu")
SOUND = {name: ReferenceDevice(f"compiled_{name}") for name in SCHEDULERS}
for _name, _device in SOUND.items():
    _device.scheduler = _name
    register(_device)


class Counting(Device):
    """Runs nothing, and counts what it is asked for."""

    def __init__(self, name: str, scheduler: str) -> None:
        self.name, self.scheduler, self.next, self.counts = name, scheduler, 1 << 20, Counter()

    def allocate(self, nbytes: int, index: int) -> int:
        self.next += (nbytes + 511) // 512 * 512
        return self.next - (nbytes + 511) // 512 * 512

    def free(self, *args: Any) -> None: ...
    def copy_from_host(self, *args: Any) -> None: ...
    def copy_to_host(self, *args: Any) -> None: ...
    def copy_within(self, *args: Any) -> None: ...

    def load(self, nest: Any) -> Any:
        return nest

    def launch(self, *args: Any) -> None:
        self.counts["launches"] += 1


class CountingAtOnce(Counting):
    def launch_pointwise(self, *args: Any) -> None:
        self.counts["launches"] += 1


class Block(rl.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = rl.nn.LayerNorm(width), rl.nn.LayerNorm(width), heads
        self.qkv, self.out = rl.nn.Linear(width, 3 * width), rl.nn.Linear(width, width)
        self.wide = rl.nn.Sequential(rl.nn.Linear(width, 2 * width), rl.nn.GELU(), rl.nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, -1)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.norm2(x))


class GPT(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = rl.nn.Embedding(31, 16), rl.nn.Embedding(8, 16)
        self.block, self.norm, self.head = Block(16, 2), rl.nn.LayerNorm(16), rl.nn.Linear(16, 31, bias=False)

    def forward(self, x: Any) -> Any:
        at = rl.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.block(self.tokens(x) + self.places(at)))).flatten(0, 1)


def mlp() -> tuple:
    nn = rl.nn
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    return net, rl.randn(8, 16), rl.randn(8, 1), F.mse_loss


def lenet() -> tuple:
    nn = rl.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return net, rl.randn(4, 1, 28, 28), rl.zeros(4, dtype=rl.int64), F.cross_entropy


def gpt() -> tuple:
    return GPT(), rl.randint(0, 31, (2, 8)), rl.randint(0, 31, (16,)), F.cross_entropy


COUNTING = [Counting("countingchip", "cpu"), CountingAtOnce("countingatonce", "gpu")]
for _device in COUNTING:
    register(_device)


@pytest.mark.filterwarnings("ignore:.*has no implementation")
@pytest.mark.parametrize("make", [mlp, lenet, gpt])
@pytest.mark.parametrize("device", COUNTING, ids=lambda device: device.name)
def test_a_compiled_step_launches_little(make, device):
    net, x, y, loss = make()
    net, x, y = (thing.to(device.name) for thing in (net, x, y))
    optimizer = rl.optim.AdamW(net.parameters())
    counts = []
    for forward in (lambda x, y: loss(net(x), y), rl.compile(lambda x, y: loss(net(x), y))):
        for _ in range(2):
            device.counts.clear()
            forward(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
        counts.append(device.counts["launches"])
    eager, compiled = counts
    assert 0 < compiled <= 0.6 * eager


@pytest.mark.parametrize(("scheduler", "dynamic"), [("cpu", None), ("gpu", True)])
def test_compiled_training_is_the_hosts(scheduler, dynamic):
    rl.manual_seed(0)
    net, x, y, loss = mlp()
    losses = []
    for name in ("cpu", SOUND[scheduler].name):
        own = copy.deepcopy(net).to(name)
        step = rl.compile(lambda x, y, own=own: loss(own(x), y), dynamic=dynamic)
        optimizer = rl.optim.SGD(own.parameters(), lr=0.05)
        found = []
        for k in range(4):
            rows = 8 - k % 2 if dynamic else 8
            optimizer.zero_grad()
            value = step(x[:rows].to(name), y[:rows].to(name))
            value.backward()
            optimizer.step()
            found.append(value.item())
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[1][3] < losses[1][0]


# --- several nests as one -----------------------------------------------------------------------------------------


def scaled() -> Nest:
    i = var("i")
    return Nest("scaled", operands(["f32"], ["f32"]), ("by",), rows(Store(1, i, load(0, i * var("by"), "f32") * 2.0)))


def total() -> Nest:
    i, j, n = var("i"), var("j"), var("n")
    folded = reduction("j", const(0, "i64"), n, ["acc"], [const(0.0, "f32")],
                       lambda acc: [acc[0] + load(0, i * n + j, "f32")], lambda a, b: [a[0] + b[0]])
    return Nest("total", operands(["f32"], ["f32"]), ("n",), rows(folded, Store(1, i, var("acc", "f32"))))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", [SERIAL, BLOCKS, ITEMS])
def test_nests_together_do_what_each_does(way, known):
    np = pytest.importorskip("numpy")
    from tests.codegen.interpreter import Interpreter

    x = arg(0, "f32")
    positive = pointwise_nest("positive", ["f32"], ["f32"], [select(x > 0.0, x, 0.0)])
    a = np.arange(-6, 6, dtype=np.float32)
    out = [np.zeros(6, np.float32), np.zeros(3, np.float32), np.zeros(12, np.float32)]
    parts = [Part(scaled(), (0, 1)), Part(total(), (0, 2)), Part(positive, (0, 3))]
    assert all(can_join(p.nest) for p in parts)
    strides = [n // d for n, d in zip([4, 4, 4, 16, 16], scales(positive), strict=True)]
    counts = [6, 3, 12 if way == ITEMS else 3]
    own = [[2], [4], strides]
    given: dict[str, int] = {}
    for k, part in enumerate(parts):
        names = [f"count{k}", f"block{k}", *[f"{k}.{p}" for p in part.nest.params]]
        given.update(zip(names, [counts[k], 2, *own[k]], strict=True))
    whole = together("all", parts, ["f32"] * 4, way, given if known else {})
    items = {SERIAL: 1, BLOCKS: sum(-(-n // 2) for n in counts), ITEMS: sum(counts)}[way]
    Interpreter(whole, [a, *out], [] if known else list(given.values())).run(0, items)
    assert out[0].tolist() == (a[::2] * 2).tolist()
    assert out[1].tolist() == a.reshape(3, 4).sum(1).tolist()
    assert out[2].tolist() == np.maximum(a, 0).tolist()


# --- graphs over several devices ------------------------------------------------------------------------------------

NAME = SOUND["cpu"].name
PROGRAMS = {
    "made there": lambda x, w: x * rl.ones(8, device=NAME) + rl.arange(8, device=NAME),
    "nothing but made": lambda x, w: rl.ones(8, device=NAME) + 1,
    "data": lambda x, w: x + rl.tensor([1.0, 2, 3, 4, 5, 6, 7, 8], device=NAME),
    "to the host": lambda x, w: ((x.exp() + 1).to("cpu") + w).exp(),
    "there and back": lambda x, w: (x.cpu() * 2 + w).to(NAME) * x,
    "another chip": lambda x, w: (x.sin() + 1).to(SOUND["gpu"].name) * 2,
    "by copying": lambda x, w: x + rl.zeros(8, device=NAME).copy_(w),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_graphs_may_lie_on_several_devices(program):
    f = PROGRAMS[program]
    x, w = (rl.arange(16.0) / 16).reshape(2, 8).to(NAME), rl.arange(8.0)
    expected = f(x, w)
    result = rl.compile(f, fullgraph=True)(x, w)
    assert result.device == expected.device
    assert rl.allclose(result.cpu(), expected.cpu())


# --- a chip's own compiler ------------------------------------------------------------------------------------------


class Whole(ReferenceDevice):
    """Compiles graphs whole; how is said by `answer`."""

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(name)
        self.answer, self.graphs = answer, []

    def compile(self, graph: Any) -> Any:
        self.graphs.append(graph)
        return self.answer(graph)


def test_a_chip_may_have_the_whole_graph():
    device = Whole("wholechip", lambda graph: graph)
    register(device)
    x = rl.linspace(-1, 1, 8).to("wholechip").requires_grad_()
    y = rl.compile(lambda x: (x.tanh() * 2).sum())(x)
    y.backward()
    assert x.grad.cpu().tolist() == pytest.approx((2 - 2 * x.detach().cpu().tanh() ** 2).tolist())
    forward, backward = [[str(n.target) for n in g.graph.nodes if n.op == "call_function"] for g in device.graphs]
    assert "aten.tanh.default" in forward and "aten.tanh_backward.default" in backward


def test_a_chip_may_leave_a_graph():
    device = Whole("leavingchip", lambda graph: NotImplemented)
    register(device)
    assert rl.compile(lambda x: x * 2 + 1)(rl.ones(3, device="leavingchip")).tolist() == [3, 3, 3]
    assert len(device.graphs) == 1


def test_a_chips_compiler_may_fail():
    device = Whole("failingchip", None)
    register(device)
    x = rl.ones(3, device="failingchip")
    for device.answer in (lambda graph: 7, lambda graph: 1 / 0, lambda graph: lambda *args: []):
        with pytest.raises(rl.AcceleratorError, match="device 'failingchip' failed in compile"):
            rl.compile(lambda x: x * 2 + 1)(x)
    assert (x * 2).tolist() == [2, 2, 2]


# --- the disk -------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

device = ReferenceDevice(sys.argv[1])
device.scheduler = sys.argv[2]
register(device)
print(rl.compile(lambda x: x.relu() * 2)(rl.empty(3, device=device.name)).device)
"""


def test_what_is_kept_for_one_chip_is_not_anothers(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    env = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(root),
           "RUSHLIGHT_GRAPH_CACHE": "1"}
    for name, scheduler in (("chipa", "cpu"), ("chipb", "gpu")):
        run = subprocess.run([sys.executable, str(script), name, scheduler], env=env, cwd=root, capture_output=True,
                             text=True, check=False)
        assert run.stdout.split() == [f"{name}:0"], run.stderr


def test_inputs_are_written_where_the_program_says():
    def function(x, y):
        x.add_(y)
        y[0] = 7.0
        return x * y

    given = rl.arange(24.0).reshape(4, 6), rl.ones(4, 6)
    here, there = [t.clone() for t in given], [t.clone().to("compiled_cpu") for t in given]
    want, got = function(*here), rl.compile(function)(*there)
    assert got.cpu().equal(want) and all(a.cpu().equal(b) for a, b in zip(there, here, strict=True))
