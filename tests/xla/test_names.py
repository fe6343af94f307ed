"""torch_xla's names: what training loops call, and how the package is served."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("jaxlib")

import rushlight as rl
from rushlight import xla
from rushlight.lazy import cache
from rushlight.xla import runtime
from rushlight.xla.core import xla_model as xm
from rushlight.xla.debug import metrics as met
from rushlight.xla.distributed import parallel_loader, xla_multiprocessing


@pytest.fixture(autouse=True)
def counted_anew():
    xla.sync()
    cache.reset()
    met.clear_all()
    yield


def test_devices():
    assert str(xla.device()) == str(xm.xla_device()) == "xla:0" and xla.device_count() == 1
    assert xm.get_xla_supported_devices() == ["xla:0"] and xm.get_xla_supported_devices("TPU") is None
    assert xm.xla_real_devices() == ["CPU:0"] and xm.xla_device_hw("xla:0") == runtime.device_type() == "CPU"
    assert xm.parse_xla_device("CPU:0") == ("CPU", 0) and xm.parse_xla_device("xla") is None
    for wrong in (lambda: xla.device(1), lambda: xm.xla_device(devkind="TPU"), lambda: xm.get_memory_info("cpu")):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(NotImplementedError):
        runtime.use_spmd()
    with pytest.raises(NotImplementedError):
        runtime.set_device_type("TPU")


def test_metrics():
    x = rl.ones(3).to("xla") + 1
    xm.mark_step()
    assert met.counter_value("MarkStep") == 1 and met.counter_value("nothing") is None
    samples, total, taken = met.metric_data("CompileTime")
    assert samples == 1 and total > 0 and len(taken) == 1 and met.metric_data("nothing") is None
    assert "CompileTime" in met.metric_names() and "UncachedCompile" in met.short_metrics_report()
    assert "Counter: xla::add" in met.metrics_report()
    x.nonzero()
    assert met.executed_fallback_ops() == ["aten::nonzero"]
    met.clear_all()
    assert met.counter_names() == [] and met.metric_names() == []


def test_memory_is_counted():
    before = xm.get_memory_info()["bytes_used"]
    x = rl.zeros(1000).to("xla")
    assert xm.get_memory_info("xla:0")["bytes_used"] >= before + 4000
    assert xm.get_memory_info()["bytes_limit"] > 2**20 and x.sum() == 0


def test_regions():
    x = rl.ones(2).to("xla")

    @xla.compile
    def double(a):
        return a * 2

    assert double(x).tolist() == [2.0, 2.0]
    with xla.step():
        y = x + 1
    assert met.counter_value("UncachedCompile") >= 2 and y.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="looks at"):
        xla.compile(lambda a: a if a.sum() > 0 else -a, full_graph=True)(x)
    limited = xla.compile(lambda a: a.exp(), num_different_graphs_allowed=1)
    limited(x)
    limited(x)
    with pytest.raises(RuntimeError, match="2 graphs"):
        limited(rl.ones(3).to("xla"))
    with pytest.raises(ValueError):
        xla.compile(lambda a: a, num_different_graphs_allowed=0)


def test_loaders():
    data = [(rl.full((2,), float(k)), k) for k in range(5)]
    loader = parallel_loader.MpDeviceLoader(data, xla.device(), batches_per_execution=2)
    seen = [(x.device.type, x.tolist(), k) for x, k in loader]
    assert seen == [("xla", [float(k)] * 2, k) for k in range(5)] and len(loader) == 5

    def broken():
        yield rl.ones(1)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        list(parallel_loader.MpDeviceLoader(broken(), xla.device()))
    for batch, _ in parallel_loader.ParallelLoader(data, ["xla:0"]).per_device_loader("xla:0"):
        assert batch.tolist() == [0.0, 0.0]
        break                                      # the thread that reads ahead ends
    with pytest.raises(RuntimeError, match="xla"):
        parallel_loader.MpDeviceLoader(data, "cpu")


def test_a_world_of_one():
    x = rl.arange(4.0).to("xla")
    assert xm.all_reduce(xm.REDUCE_SUM, x, 0.5).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert xm.all_gather(x).equal(x) and xm.get_ordinal() == 0 and xm.is_master_ordinal()
    assert xm.rendezvous("here", b"me") == [b"me"] and xm.mesh_reduce("x", x, sum).tolist() == [0, 1, 2, 3]
    assert xm.all_to_all(x, 0, 0, 1).equal(x) and xm.reduce_scatter("sum", x, 2.0, 0, 1).tolist() == [0, 2, 4, 6]
    for wrong in (lambda: xm.all_reduce("median", x), lambda: xm.all_gather(x, groups=[[0, 1]]),
                  lambda: xm.reduce_scatter("sum", x, 1.0, 0, 2), lambda: xm.collective_permute(x, [[0, 1]])):
        with pytest.raises(ValueError):
            wrong()
    called = []
    xla_multiprocessing.spawn(lambda index, word: called.append((index, word)), args=("hello",))
    assert called == [(0, "hello")]
    with pytest.raises(ValueError, match="one unit"):
        xla_multiprocessing.spawn(print, nprocs=8)


def test_closures_run_when_the_step_ends():
    called = []
    x = rl.ones(2).to("xla")
    xm.add_step_closure(lambda t: called.append(t.tolist()), (x + 1,))
    assert called == []
    xm.mark_step()
    assert called == [[2.0, 2.0]]


PROGRAM = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
model = torch.nn.Linear(4, 2).to(xm.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(3, 4, device=torch_xla.device())).square().mean()
    optimizer.zero_grad()
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
assert torch_xla.__name__ == "rushlight.xla" or torch_xla.__name__ == "torch.xla", torch_xla.__name__
print("graphs", met.counter_value("UncachedCompile"))
"""


def test_it_is_served_as_torch_xla(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "graphs" and int(done.stdout.split()[1]) <= 2


def test_libraries_that_look_for_it_do_not_find_it_unless_the_program_says_so(tmp_path):
    library = tmp_path / "site-packages" / "looks_for_xla"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import importlib.util\nfound = importlib.util.find_spec('torch_xla')\n")
    script = tmp_path / "program.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(library.parent)!r})\nimport torch, looks_for_xla\n"
                      "print(looks_for_xla.found is not None)\nimport torch_xla\n")
    for told, want in (({}, "False"), ({"PJRT_DEVICE": "CPU"}, "True")):
        environment = {k: v for k, v in os.environ.items() if k != "PJRT_DEVICE"} | told
        done = subprocess.run([sys.executable, "-m", "rushlight", "run", str(script)], capture_output=True, text=True,
                              env=environment)
        assert done.returncode == 0 and done.stdout.strip() == want, done.stdout + done.stderr
