"""PyTorch's lazy device as the oracle: the same programs, what they give, what they count, and the names."""

from __future__ import annotations

import importlib
import types

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl
from rushlight import _lazy, lazy
from rushlight._lazy import extract_compiled_graph

FILES = ("", ".closure", ".computation", ".config", ".debug", ".device_context", ".ir_cache", ".metrics",
         ".tensor_factory_functions", ".ts_backend")


@pytest.fixture(scope="module")
def theirs():
    """PyTorch's lazy device, begun once in a process."""
    module = importlib.import_module("torch._lazy")
    if not hasattr(module, "begun"):
        importlib.import_module("torch._lazy.ts_backend").init()
        module.begun = True
    return module


@pytest.mark.parametrize("file", FILES)
def test_names(file):
    there = importlib.import_module(f"torch._lazy{file}")
    here = importlib.import_module(f"rushlight._lazy{file}")
    assert hasattr(extract_compiled_graph, "extract_compiled_graph")
    own = {name for name, value in vars(there).items() if not name.startswith("_") and name != "begun"
           and not isinstance(value, types.ModuleType)
           and getattr(value, "__module__", there.__name__) == there.__name__}
    assert own <= set(vars(here)), own - set(vars(here))


def chain(t, device):
    x = t.arange(12.0).reshape(3, 4).to(device)
    return [(x * 2 - 1).relu().sum(1), x.t() @ x, x.softmax(-1), x.mean(), (x > 4).float()]


def views(t, device):
    x = t.arange(24.0).reshape(4, 6).to(device)
    x[1:3] += 10
    x[:, ::2].mul_(3)
    y = x.view(2, 12)
    y[0, 3:5] = 7
    x.t().narrow(0, 1, 2).sub_(1)
    return [x, y, x.t().contiguous(), x.unsqueeze(0).expand(2, 4, 6)]


def trained(t, device):
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Tanh(), t.nn.Linear(8, 1)).to(device)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = t.randn(6, 4).to(device), t.randn(6, 1).to(device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = t.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        importlib.import_module(f"{t.__name__}._lazy").mark_step(device)
        losses.append(loss)
    return losses


@pytest.mark.parametrize("program", [chain, views, trained])
def test_the_same_programs_give_the_same(theirs, program):
    want = [r.detach().cpu() for r in program(torch, "lazy")]
    got = [r.detach().cpu() for r in program(rl, "lazy")]
    for a, b in zip(got, want, strict=True):
        assert list(a.shape) == list(b.shape)
        assert a.flatten().tolist() == pytest.approx(b.flatten().tolist(), rel=1e-5, abs=1e-6)


def counted(module, metrics, t):
    module.mark_step("lazy")
    metrics.reset()
    x = t.ones(5, 3).to("lazy")
    for factor in (2.0, 3.0, 4.0):
        (x * factor).exp().sum().item()
        y = x * factor + 1
        module.mark_step("lazy")
        del y
    return {name: metrics.counter_value(name) for name in ("MarkStep",)}, set(metrics.counter_names())


def test_counters_are_theirs(theirs):
    want, names = counted(theirs, importlib.import_module("torch._lazy.metrics"), torch)
    got, ours = counted(_lazy, importlib.import_module("rushlight._lazy.metrics"), rl)
    assert got == want
    for name in ("MarkStep", "UncachedCompile", "CachedCompile", "lazy::mul", "lazy::exp", "lazy::sum"):
        assert name in ours and name in names, name


def test_dumps_name_what_theirs_name(theirs):
    debug = importlib.import_module("torch._lazy.debug")
    for t, dump in ((torch, debug.dump_ir), (rl, lazy.debug.dump_ir)):
        text = dump([t.ones(2).to("lazy") * 3 + 1], "text")
        assert text.startswith("IR {") and "mul" in text and "add" in text
        with pytest.raises(RuntimeError, match="html"):
            dump([t.ones(2).to("lazy") + 1], "html")
