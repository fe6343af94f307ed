"""The lazy device against eager mode: what is written down, when it runs, and what it gives."""

from __future__ import annotations

import threading

import pytest

import rushlight as rl
from rushlight import _C, lazy
from rushlight.lazy import cache, metrics


@pytest.fixture(autouse=True)
def counted_anew():
    lazy.mark_step()
    cache.reset()
    metrics.reset()
    yield


def calls() -> int:
    return _C.recording("lazy").calls


def test_nothing_runs_before_the_step():
    x = rl.arange(6.0).reshape(2, 3)
    y = (x.to("lazy") * 2 + 1).relu().sum(1)
    assert calls() == 4 and metrics.counter_value("UncachedCompile") == 0
    assert y.shape == (2,) and y.device.type == "lazy" and y.dtype is rl.float32
    lazy.mark_step()
    assert calls() == 0 and metrics.counter_value("UncachedCompile") == 1
    assert y.tolist() == [9.0, 27.0]


def test_errors_come_at_the_call():
    x = rl.ones(2, 3).to("lazy")
    with pytest.raises(RuntimeError):
        x @ x
    with pytest.raises(RuntimeError):
        x + rl.ones(4).to("lazy")
    with pytest.raises(RuntimeError, match="device"):
        x + rl.ones(2, 3)
    assert (x + 1).tolist() == [[2.0] * 3] * 2


def test_numbers_are_inputs():
    x = rl.ones(3).to("lazy")
    got = []
    for factor in (1.0, 2.0, 0.5, 3.0, -1.0, 7.0):
        y = x * factor
        lazy.mark_step()
        got.append(y[0].item())
    assert got == [1.0, 2.0, 0.5, 3.0, -1.0, 7.0]
    assert metrics.counter_value("UncachedCompile") <= 2      # the products, and the element that is looked at


def test_equal_steps_compile_once_and_old_sizes_stay():
    x = {n: rl.randn(n, n) for n in (3, 4)}
    for n in (3, 4, 3, 4, 3):
        y = (x[n].to("lazy") @ x[n].to("lazy")).exp()
        lazy.mark_step()
        assert rl.allclose(y.cpu(), (x[n] @ x[n]).exp(), rtol=1e-5)
    assert metrics.counter_value("UncachedCompile") == 2 and metrics.counter_value("CachedCompile") == 3


def views(x):
    """Programs of views and writes, each on a 4 x 6 tensor; all end with what others see."""

    def rows():
        x[1:3] += 10
        return x

    def steps():
        x[:, ::2].mul_(3)
        return x.t() + 0

    def diagonal():
        x.diagonal().zero_()
        return x

    def view_of_view():
        x.view(2, 2, 6)[1].view(12)[3:7].fill_(5)
        return x

    def parts():
        a, b = x.split(2)
        a += 1
        b.copy_(a)
        return x

    def chunks():
        for k, part in enumerate(x.chunk(3, 1)):
            part.add_(k)
        return x

    def masks():
        x[x > 10] = -1
        return x

    def puts():
        x.index_put_((rl.tensor([0, 2], device=x.device), rl.tensor([1, 1], device=x.device)),
                     rl.tensor([8.0, 9.0], device=x.device), accumulate=True)
        return x

    def scatters():
        x.scatter_(1, rl.tensor([[0, 1], [2, 3]], device=x.device), 4.0)
        return x.index_add_(0, rl.tensor([3, 0], device=x.device), rl.ones(2, 6, device=x.device))

    def given():
        out = rl.empty(4, 6, device=x.device)
        rl.add(x, 1, out=out)
        rl.mul(out, 2, out=out[:, :])
        return out

    def detached():
        y = x.detach()
        y[0] = 0
        x.data.add_(1)
        return y

    def expanded():
        y = x[:1].expand(3, 6)
        x[0, 0] = 100
        return y + 0

    def transposed():
        x.t().narrow(0, 1, 2).sub_(7)
        return x

    return (rows, steps, diagonal, view_of_view, parts, chunks, masks, puts, scatters, given, detached, expanded,
            transposed)


@pytest.mark.parametrize("k", range(13))
def test_views_and_writes_are_those_of_eager_mode(k):
    start = rl.arange(24.0).reshape(4, 6)
    want = views(start.clone())[k]()
    x = start.to("lazy")
    got = views(x)[k]()
    eager = start.clone()
    views(eager)[k]()
    assert got.cpu().equal(want) and x.cpu().equal(eager)


def test_aliases_live_across_a_step():
    x = rl.zeros(3, 4).to("lazy")
    row = x[1]
    lazy.mark_step()
    row += 1
    assert x.cpu().tolist() == [[0.0] * 4, [1.0] * 4, [0.0] * 4]
    lazy.mark_step()
    x.mul_(5)
    assert row.tolist() == [5.0] * 4


def test_what_is_looked_at_is_computed_and_the_rest_stays():
    x = rl.ones(4).to("lazy")
    y, z = x + 1, x * 3
    before = calls()
    assert y.sum().item() == 8.0
    assert calls() > before                                   # still written down
    lazy.mark_step()
    assert z.tolist() == [3.0] * 4 and y.tolist() == [2.0] * 4


def test_dead_tensors_are_not_computed():
    x = rl.ones(4).to("lazy")
    y = (x + 1) * 2
    del x
    lazy.mark_step()
    assert metrics.counter_value("SyncedTensorsWithIR") == 1
    assert y.tolist() == [4.0] * 4


def test_data_decides_sizes_on_the_host():
    x = rl.tensor([0.0, 3.0, 0.0, 2.0]).to("lazy")
    found = (x + 1 > 1).nonzero()
    assert found.device.type == "lazy" and found.tolist() == [[1], [3]]
    assert x[x > 0].tolist() == [3.0, 2.0]
    assert metrics.counter_value("aten::nonzero") >= 1


def test_an_index_out_of_range_leaves_the_others_usable():
    x = rl.arange(4.0).to("lazy")
    good = x * 2
    bad = x.index_select(0, rl.tensor([9]).to("lazy"))
    worse = bad + 1
    with pytest.raises(IndexError, match="index_select"):
        lazy.mark_step()
    assert good.tolist() == [0.0, 2.0, 4.0, 6.0] and (x + 1).tolist() == [1.0, 2.0, 3.0, 4.0]
    for broken in (bad, worse):
        with pytest.raises(IndexError, match="index_select"):
            broken.tolist()


def test_a_failed_compile_keeps_what_was_written_down(monkeypatch):
    from rushlight.lazy.engines import engine_of

    x = rl.ones(3).to("lazy")
    y = x + 41
    with monkeypatch.context() as patched:
        patched.setattr(type(engine_of("lazy")), "compile", lambda *_: (_ for _ in ()).throw(RuntimeError("no")))
        with pytest.raises(RuntimeError, match="no"):
            lazy.mark_step()
    assert y.tolist() == [42.0] * 3


@pytest.mark.slow
def test_three_thousand_calls_in_a_row():
    x = y = rl.ones(2).to("lazy")
    for _ in range(3000):
        y = y + x
    assert y.tolist() == [3001.0] * 2


def test_threads_have_recordings_of_their_own():
    results = {}

    def work(k):
        x = rl.full((3,), float(k)).to("lazy")
        y = x * 2
        seen = calls()
        lazy.mark_step()
        results[k] = seen, y.tolist()

    shared = rl.ones(3).to("lazy") + 1
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: (1, [2.0 * k] * 3) for k in range(4)}
    other = threading.Thread(target=lambda: results.update(shared=(shared * 10).tolist()))
    other.start()
    other.join()
    assert results["shared"] == [20.0] * 3


def test_tensors_are_made_on_the_device_by_its_name():
    made = [rl.ones(3, device="lazy"), rl.full((2,), 7, device="lazy"), rl.arange(4, device="lazy"),
            rl.eye(2, device="lazy"), rl.zeros(2, device="lazy") + 1, rl.linspace(0, 1, 3, device="lazy")]
    lazy.mark_step()
    assert [t.tolist() for t in made] == [[1.0] * 3, [7, 7], [0, 1, 2, 3], [[1.0, 0.0], [0.0, 1.0]], [1.0] * 2,
                                          [0.0, 0.5, 1.0]]
    rl.set_default_device("lazy")
    try:
        assert rl.ones(2).device.type == "lazy" and (rl.ones(2) * 3).tolist() == [3.0, 3.0]
    finally:
        rl.set_default_device(None)
