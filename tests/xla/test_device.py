"""The device xla against eager mode: what it computes, what it keeps, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("jaxlib")

import rushlight as rl
from rushlight import _C, lazy, xla
from rushlight.lazy import cache, metrics
from rushlight.xla import client, stored
from rushlight.xla.core import xla_model as xm
from tests.lazy.test_recording import views


@pytest.fixture(autouse=True)
def counted_anew():
    xla.sync()
    cache.reset()
    metrics.reset()
    yield
    stored.forget()


def trained(device: str, steps: int = 4) -> list[float]:
    """Losses of a small network with dropout."""
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(6, 16), rl.nn.Tanh(), rl.nn.Dropout(0.3), rl.nn.Linear(16, 2)).to(device)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    x, y = rl.randn(8, 6).to(device), rl.randn(8, 2).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = rl.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if device == "xla":
            xla.sync()
        losses.append(loss.item())
    return losses


def test_training_is_that_of_eager_mode_and_two_graphs_are_enough():
    want = trained("cpu")
    assert trained("xla") == pytest.approx(want, rel=1e-5)
    assert metrics.counter_value("UncachedCompile") <= 2
    assert metrics.counter_value("xla::linear") > 0 and metrics.counter_value("MarkStep") >= 4
    compiled = metrics.counter_value("UncachedCompile")
    assert trained("xla") == pytest.approx(want, rel=1e-5)      # one seed, one mask
    assert metrics.counter_value("UncachedCompile") == compiled


@pytest.mark.parametrize("k", range(13))
def test_views_and_writes_are_those_of_eager_mode(k):
    start = rl.arange(24.0).reshape(4, 6)
    want = views(start.clone())[k]()
    x = start.to("xla")
    got = views(x)[k]()
    eager = start.clone()
    views(eager)[k]()
    assert got.cpu().equal(want) and x.cpu().equal(eager)


@pytest.mark.parametrize("dtype", client.DTYPES, ids=lambda d: d.name)
def test_all_types_of_elements_that_xla_has(dtype):
    raw = rl.arange(256, dtype=rl.uint8) if dtype is not rl.bool else rl.arange(16, dtype=rl.uint8) % 2
    x = raw.view(dtype) if dtype.itemsize > 1 or "float8" in dtype.name or dtype is rl.bool else raw.to(dtype)
    back = x.to("xla").cpu()
    assert back.dtype is dtype and back.view(rl.uint8).equal(x.view(rl.uint8))
    moved = x.to("xla").flip(0)[1:].cpu()
    assert moved.view(rl.uint8).equal(x.flip(0)[1:].contiguous().view(rl.uint8))


def test_others_are_refused_by_name():
    with pytest.raises(TypeError, match="complex32"):
        rl.zeros(2, dtype=rl.complex32).to("xla")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_sizes_at_the_edges(shape):
    x = rl.ones(shape)
    y = (x.to("xla") * 3).exp()
    assert y.shape == shape and rl.allclose(y.cpu(), (x * 3).exp())


def test_layouts_travel():
    x = rl.arange(24.0).reshape(2, 3, 4)
    for seen in (x.permute(2, 0, 1), x[:, ::2], x[1].t(), x.expand(2, 2, 3, 4), x.as_strided((2, 3), (1, 1))):
        assert (seen.to("xla") + 1).cpu().equal(seen + 1)
        there = x.to("xla")
        strided = there.as_strided(seen.shape, seen.stride(), seen.storage_offset())
        assert strided.cpu().equal(seen)


def test_what_a_step_replaces_is_donated():
    x = rl.zeros(4).to("xla")
    for _ in range(3):
        x += 1
        xla.sync()
    texts = [c.text for entries in cache.caches["xla"].entries.values() for _, c, _ in entries if c is not None]
    assert any("tf.aliasing_output" in text for text in texts)
    assert x.tolist() == [3.0] * 4


def test_a_look_donates_nothing():
    x = rl.zeros(4).to("xla")
    xla.sync()
    x += 1
    assert x.sum().item() == 4.0
    y = x * 2
    xla.sync()
    assert x.tolist() == [1.0] * 4 and y.tolist() == [2.0] * 4


def test_elements_on_the_host_are_nobody_elses():
    x = rl.arange(32.0).to("xla")
    held = x.cpu()
    x += 1
    xla.sync()
    held[0] = 100
    assert x.cpu().equal(rl.arange(32.0) + 1)
    source = rl.ones(64)
    moved = source.to("xla")
    source.zero_()
    assert moved.cpu().equal(rl.ones(64))


def test_buffers_are_shared_where_memory_is_aligned():
    t = rl.arange(64.0)
    assert t.data_ptr() % 64 == 0
    value = client.value_of(t)
    assert value.buffer.unsafe_buffer_pointer() == t.data_ptr() == value.tensor().data_ptr()
    assert client.value_of(t[1:]).tensor().equal(t[1:])


def test_aliases_live_across_a_step():
    x = rl.zeros(3, 4).to("xla")
    row = x[1]
    xla.sync()
    row += 1
    xla.sync()
    x.mul_(5)
    assert row.tolist() == [5.0] * 4 and x.cpu().sum() == 20


def test_data_decides_sizes_on_the_host():
    x = rl.tensor([0.0, 3.0, 0.0, 2.0]).to("xla")
    assert x[x > 0].tolist() == [3.0, 2.0] and (x > 0).nonzero().device.type == "xla"
    assert metrics.counter_value("aten::nonzero") >= 1


def test_indices_out_of_range_are_moved_inside_as_xla_does():
    x = rl.arange(4.0).to("xla")
    assert x.index_select(0, rl.tensor([9]).to("xla")).tolist() == [3.0]


def test_hosts_tensors_and_ours_do_not_mix():
    with pytest.raises(RuntimeError, match="device"):
        rl.ones(3).to("xla") + rl.ones(3)


def test_to_and_from_the_lazy_device():
    x = rl.arange(3.0).to("lazy") * 2
    assert (x.to("xla") + 1).to("lazy").tolist() == [1.0, 3.0, 5.0]


def test_programs_are_kept_in_a_folder(tmp_path):
    folder = tmp_path / "programs"
    xla.initialize_cache(str(folder))

    def run() -> list[float]:
        cache.reset()
        metrics.reset()
        y = rl.arange(5.0).to("xla") * 7 + 3
        xla.sync()
        return y.tolist()

    want = [3.0, 10.0, 17.0, 24.0, 31.0]
    assert run() == want and metrics.counter_value("PersistentCacheMiss") == 1
    (entry,) = folder.iterdir()
    assert run() == want and metrics.counter_value("PersistentCacheHit") == 1
    whole = entry.read_bytes()
    for damaged in (whole[:-9], whole[:20], b"", b"foreign" * 100, whole[:-1] + bytes([whole[-1] ^ 1])):
        entry.write_bytes(damaged)
        assert run() == want and metrics.counter_value("PersistentCacheHit") == 0
        assert entry.read_bytes()[:16] == whole[:16]            # written anew
    entry.chmod(0o666)
    assert run() == want and metrics.counter_value("PersistentCacheHit") == 0
    entry.unlink()
    xla.initialize_cache(str(folder), readonly=True)
    assert run() == want and not list(folder.iterdir())


def test_folders_that_others_can_write_to_are_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod"):
        xla.initialize_cache(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        xla.initialize_cache(str(tmp_path / "none"), readonly=True)
    with pytest.raises(TypeError):
        xla.initialize_cache(3)


def test_a_failing_compile_keeps_what_was_written_down(monkeypatch):
    x = rl.ones(3).to("xla")
    y = x + 41
    with monkeypatch.context() as patched:
        patched.setattr(client, "compile_text", lambda _: (_ for _ in ()).throw(RuntimeError("no")))
        with pytest.raises(RuntimeError, match="no"):
            xla.sync()
    assert y.tolist() == [42.0] * 3


def test_without_jaxlib_use_says_what_is_missing():
    code = """
import sys
sys.modules["jaxlib"] = None
import rushlight as rl
from rushlight import xla
assert xla.is_available() is False and xla.device_count() == 0
for use in (lambda: rl.ones(2).to("xla"), xla.device, xla.sync, lambda: rl.compile(lambda x: x, backend="openxla")):
    try:
        use()
    except RuntimeError as error:
        assert "jaxlib" in str(error), error
    else:
        raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_brings_no_jaxlib():
    code = "import sys, rushlight; from rushlight import xla; assert not any(m.startswith('jax') for m in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_text_of_what_is_written_down():
    x = rl.ones(2).to("xla")
    text = lazy.debug.dump_ir([x * 3 + 1], "backend")
    assert "stablehlo" in text and "@main" in text
    assert "stablehlo" in xm.get_stablehlo([x * 3 + 1])
    assert xm.get_stablehlo_bytecode([x * 2]).startswith(b"ML")


@pytest.mark.slow
def test_max_pooling_and_its_gradient():
    rl.manual_seed(0)
    F = rl.nn.functional
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
                    {"kernel_size": 3, "stride": 1, "dilation": 2, "ceil_mode": True}, {"kernel_size": 9}):
        x = rl.randn(2, 3, 9, 10)
        x[0, 0, 3, 3] = float("nan")
        want, at = F.max_pool2d(x, return_indices=True, **options)
        got, where = F.max_pool2d(x.to("xla"), return_indices=True, **options)
        assert rl.allclose(got.cpu(), want, equal_nan=True) and where.cpu().equal(at)
    x = rl.randn(2, 3, 8, 8, requires_grad=True)
    F.max_pool2d(x, 3, 2, 1).sum().backward()
    there = x.detach().to("xla").requires_grad_()
    F.max_pool2d(there, 3, 2, 1).sum().backward()
    assert there.grad.cpu().equal(x.grad)


def test_random_numbers_repeat_for_a_seed():
    def drawn() -> list[float]:
        xla.manual_seed(3)
        return (rl.rand(4, device="xla") + rl.nn.functional.dropout(rl.ones(4, device="xla"), 0.5)).tolist()

    assert drawn() == drawn()
    assert _C.device("xla").type == "xla"
