"""distributed._tools beside PyTorch's: the same hooks in the same order, the same bytes by kind at the ends of forward,
backward and step, and the same estimates for the same peaks."""

from __future__ import annotations

import contextlib
import importlib
import io
from copy import copy
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight._subclasses import FakeTensorMode
from rushlight.distributed import _tools
from rushlight.distributed._tools import MemTracker, ModTracker, op_costs


def tools(lib: ModuleType) -> ModuleType:
    return importlib.import_module(f"{lib.__name__}.distributed._tools")


def checkpointed(lib: ModuleType) -> Any:
    checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint

    class Foo(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linears = lib.nn.ModuleList([lib.nn.Linear(8, 8) for _ in range(2)])

        def forward(self, x):
            for i, block in enumerate(self.linears):
                x = lib.nn.functional.relu(checkpoint(block, x, use_reentrant=False) if i else block(x))
            return x

    return Foo()


def hooked(lib: ModuleType) -> list[Any]:
    """What ModTracker calls: with inputs that need gradients, and with checkpointing and inputs that do not."""
    found: list[Any] = []
    for model, x in (
        (lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.ReLU()), lib.ones(2, 4).requires_grad_()),
        (checkpointed(lib), lib.ones(2, 8)),
    ):
        tracker = tools(lib).ModTracker()

        def note(kind: str, tracker: Any = tracker) -> Any:
            return lambda mod, *rest: found.append(
                (kind, tracker.get_known_fqn(mod), tracker.get_known_fqn(mod) in tracker.parents, tracker.is_bw)
            )

        tracker.register_user_hooks(note("pre_fw"), note("post_fw"), note("pre_bw"), note("post_bw"))
        with tracker:
            model(x).sum().backward()
        found.append(sorted(tracker.parents))
        with pytest.raises(AssertionError):
            tracker.register_user_hooks(pre_bw_hook=print)
        tracker.clear_user_hooks()
    return found


EXPECTED = [
    ("pre_fw", "Foo", True, False), ("pre_fw", "Foo.linears.0", True, False), ("post_fw", "Foo.linears.0", True, False),
    ("pre_fw", "Foo.linears.1", True, False), ("post_fw", "Foo.linears.1", True, False),
    ("post_fw", "Foo", True, False),
    ("pre_bw", "Foo", True, True), ("pre_bw", "Foo.linears.1", True, True), ("pre_fw", "Foo.linears.1", True, True),
    ("post_fw", "Foo.linears.1", True, True), ("post_bw", "Foo.linears.1", True, True),
    ("pre_bw", "Foo.linears.0", True, True), ("post_bw", "Foo.linears.0", True, True), ("post_bw", "Foo", True, True),
    ["Global"],
]


def test_modules_are_followed_as_pytorchs_are() -> None:
    found = hooked(rl)
    assert found[-len(EXPECTED) :] == EXPECTED
    assert found == hooked(pytest.importorskip("torch"))


def test_parents_are_known_inside_modules() -> None:
    forward, backward = [], []

    class Inner(rl.nn.Module):
        def forward(self, x):
            x = x["a"].relu()
            forward.append(copy(tracker.parents))
            x.register_hook(lambda g: backward.append((copy(tracker.parents), tracker.is_bw)))
            return {"a": x @ x}

    class Outer(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Inner(), rl.nn.ModuleDict({"nest": Inner()})

        def forward(self, x):
            return self.b["nest"](self.a(x))

    with ModTracker() as tracker:
        Outer()({"a": rl.randn(3, 3, requires_grad=True).clone()})["a"].sum().backward()
        assert tracker.parents == {"Global"}
        assert not tracker.is_bw
    assert forward == [{"Global", "Outer", "Outer.a"}, {"Global", "Outer", "Outer.b.nest"}]
    assert backward == [({"Global", "Outer", "Outer.b.nest"}, True), ({"Global", "Outer", "Outer.a"}, True)]


def memory(lib: ModuleType, kind: str) -> dict[str, Any]:
    """Bytes by kind, at the ends of a step and of every module's forward and backward."""
    nn = lib.nn
    lib.manual_seed(0)
    model, shape = {
        "mlp": lambda: (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), (8, 16)),
        "checkpointed": lambda: (checkpointed(lib), (4, 8)),
    }[kind]()
    optimizer = lib.optim.Adam(model.parameters())
    tracker, found = tools(lib).MemTracker(), {}
    tracker.track_external(model, optimizer)

    def note(when: str) -> None:
        found[when] = plain(tracker.get_tracker_snapshot())

    def plain(snapshot: Any) -> Any:
        return {str(d): {getattr(k, "value", k): v for k, v in s.items()} for d, s in snapshot.items()}

    with tracker:
        x = lib.randn(*shape)
        note("before")
        out = model(x)
        note("forward")
        out.sum().backward()
        note("backward")
        del out
        optimizer.step()
        note("step")
        optimizer.zero_grad()
        note("zero_grad")
    for stats in tracker.memory_tracking.values():
        found[stats.mod_fqn] = (stats.parameter_mem, stats.buffer_mem, stats.input_mem, stats.output_mem)
        for state, taken in stats.snapshots.items():
            # peaks between ops, and what a recomputed forward has let go, depend on what ops are made of
            if state.value in ("Pre-Forward", "Post-Forward", "Peak-Forward", "Pre-Backward", "Post-Backward"):
                found[f"{stats.mod_fqn} {state.value}"] = [plain(s) for s in taken]
    return found


STORED = {
    "before": [2704, 0, 0, 512, 0, 0, 0, 3216],
    "forward": [2704, 0, 0, 2688, 0, 0, 0, 5392],
    "backward": [2704, 0, 2704, 640, 0, 0, 0, 6048],
    "step": [2704, 0, 2704, 512, 0, 5424, 0, 11344],
    "zero_grad": [2704, 0, 0, 512, 0, 5424, 0, 8640],
}


@pytest.mark.parametrize("kind", ["mlp", "checkpointed"])
def test_memory_by_kind_equals_pytorchs(kind: str) -> None:
    found = memory(rl, kind)
    if kind == "mlp":
        assert {when: list(found[when]["cpu"].values()) for when in STORED} == STORED
    assert found == memory(pytest.importorskip("torch"), kind)


def test_snapshots_are_printed() -> None:
    model, tracker = rl.nn.Sequential(rl.nn.Linear(4, 4)), MemTracker()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        tracker.display_snapshot()
        tracker.track_external(model, rl.ones(256), None)
        with tracker:
            model(rl.ones(2, 4)).sum().backward()
            with pytest.raises(NotImplementedError, match="reset_mod_stats"):
                model(rl.ones(2, 4))
            tracker.reset_mod_stats()
        tracker.display_snapshot("peak", units="KiB")
        tracker.track_external(model)
    lines = said.getvalue().splitlines()
    assert lines[:2] == ["No memory tracked.", "Device: cpu"]
    assert "\tParameter: 0.08 KiB" in lines
    with pytest.raises(ValueError, match="Unsupported unit: TB"):
        tracker.display_snapshot(units="TB")
    with pytest.raises(ValueError, match="Invalid type now"):
        tracker.get_tracker_snapshot("now")
    with pytest.raises(TypeError, match="track_external"):
        tracker.track_external("x")


def test_memory_is_let_go_without_a_collection() -> None:
    import gc

    gc.collect()
    gc.disable()
    try:
        with MemTracker() as tracker:
            x = rl.ones(1000)
            y = x * 2
            assert tracker.get_tracker_snapshot()[x.device]["Total"] == 8000
            part = y[:10]
            del y
            assert tracker.get_tracker_snapshot()[x.device]["Total"] == 8000
            x.untyped_storage().resize_(400)
            assert tracker.get_tracker_snapshot()[part.device]["Total"] == 4400
            del part, x
            assert tracker.get_tracker_snapshot() == {}
    finally:
        gc.enable()


def estimates(lib: ModuleType, fake_mode: Any) -> dict[str, Any]:
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.c = nn.Linear(16, 32), nn.Linear(32, 4)
            self.b = nn.Sequential(nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Dropout(0.2))

        def forward(self, x):
            return self.c(self.b(self.a(x.mul_(2))).add_(1).exp())

    found: dict[str, Any] = {}
    with fake_mode(), contextlib.redirect_stdout(io.StringIO()) as said:
        model, x = Net(), lib.randn(8, 16)
        timed = tools(lib).RuntimeEstimator()("operator-level-cost-model")
        with timed:
            model(x).sum().backward()
        found["forward"] = {k: round(v["fw"] * 1e9) for k, v in timed.mod_runtimes.items()}
        found["orders"] = [timed.mod_fw_pre_order, timed.mod_fw_post_order, timed.mod_bw_pre_order,
                           timed.mod_bw_post_order]
        kept = tools(lib).SACEstimator()("operator-level-cost-model")
        with kept:
            Net()(x)
        kept.display_modulewise_sac_stats(depth=3)
        timed.display_modulewise_stats(depth=1)
    found["titles"] = [line for line in said.getvalue().splitlines() if line.startswith(("Module", "Total", "Op I"))]
    for name, s in kept.sac_mod_stats.items():
        found[name] = [s.func_names, [round(t * 1e9) for t in s.runtimes], s.memory, s.view_like_ops, s.rand_ops,
                       s.saved_autograd_ops, s.inplace_ops, s.force_store_random]
        g = kept.sac_mod_greedy_order_meta[name]
        found[f"{name} order"] = [g.recomputed_ops, g.stored_ops, g.inplace_op_groups, g.random_ops_group,
                                  [(m.func_names, m.op_idx, m.memory) for m in g.msps_meta]]
    return found


def test_estimates_equal_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.cuda, "is_available", lambda: True)
    monkeypatch.setattr(op_costs, "get_device_tflops", lambda dtype: 100.0)
    monkeypatch.setattr(op_costs, "get_gpu_dram_gbps", lambda: 500.0)
    found = estimates(rl, FakeTensorMode)
    assert found["Net.b"][0] == ["t", "addmm", "relu_", "empty_like", "bernoulli_", "div_", "mul"]
    assert found["Net.b"][2] == [0, 1024, 1024, 1024, 1024, 1024, 0]
    assert found["Net.b"][6] == [(2, 1), (4, 3), (5, 3)]
    assert found["Net order"][1] == {0}      # what comes from outside and is written to cannot be made again
    assert found["forward"]["Net.a"] == 7424      # 3712 bytes at 500 GB/s
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode as TheirMode
    from torch.distributed._tools import RuntimeEstimator
    from torch.utils import _runtime_estimation

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(_runtime_estimation, "get_device_tflops", lambda dtype: 100.0)
    monkeypatch.setattr(_runtime_estimation, "get_gpu_dram_gbps", lambda: 500.0)
    # it counts asking a tensor for its device as reading it
    whole = RuntimeEstimator._roofline_estimate.__func__
    monkeypatch.setattr(RuntimeEstimator, "_roofline_estimate", classmethod(
        lambda cls, func, args, kwargs: (func(*args), 0.0) if str(func) == "prim.device.default"
        else whole(cls, func, args, kwargs)
    ))
    expected = estimates(torch, TheirMode)
    assert found == expected


def test_what_is_refused() -> None:
    with pytest.raises(AssertionError, match="FakeTensorMode"), _tools.RuntimeEstimator()("operator-level-benchmark"):
        pass
    with pytest.raises(AssertionError, match="FakeTensorMode"), _tools.SACEstimator():
        pass
    with pytest.raises(NotImplementedError, match="by guess not supported"):
        _tools.SACEstimator()("by guess")
    with pytest.raises(NotImplementedError, match="MemTracker"):
        _tools.FSDPMemTracker(None)
    if not rl.cuda.is_available():
        with FakeTensorMode(), pytest.raises(AssertionError, match="GPU"), _tools.RuntimeEstimator():
            rl.ones(2) + 1
        with pytest.raises(AttributeError, match="does not count memory"):
            _tools.MemoryTracker().start_monitor(rl.nn.Linear(2, 2))


def test_memory_of_ops_is_kept_in_files(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    class Counting:
        """A device that takes a megabyte more at every question."""

        __name__ = "device"
        asked = 0

        def memory_allocated(self) -> int:
            self.asked += 1
            return self.asked * 1024 * 1024

        memory_reserved = memory_allocated

        def memory_stats(self) -> dict[str, int]:
            return {"active_bytes.all.current": 0, "num_alloc_retries": 3}

        def empty_cache(self) -> None:
            pass

    tracker = _tools.MemoryTracker()
    tracker._device_module = Counting()
    model = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU())
    x = rl.ones(1, 2)
    tracker.start_monitor(model)
    model(x).sum().backward()
    tracker.stop()
    names = [name for name, _ in tracker.memories_allocated.values()]
    assert names[:3] == ["0.forward.t.default_0", "0.forward.addmm.default_0", "1.forward.relu.default_0"]
    assert tracker._markers == {"fw_start": 0, "fw_bw_boundary": 3}
    tracker.save_stats(str(tmp_path / "stats"))
    again = _tools.MemoryTracker()
    again.load(str(tmp_path / "stats"))
    again.summary(top=2)
    assert "The number of alloc retries are: 3\nTop 2 ops" in capsys.readouterr().out
    with pytest.raises(AssertionError):
        tracker.stop()
