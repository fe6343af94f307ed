"""An asynchronous device with two units: nothing is done on return, and results are right all the same."""

from __future__ import annotations

import threading
import time

import pytest

import rushlight as torch
from rushlight import accelerator
from rushlight.devices import empty_cache, memory_stats, register, set_unit

from .async_device import AsyncDevice
from .test_reference_device import CALLS, sample

DEVICE = AsyncDevice()
register(DEVICE)


class Slow:
    """While it is open the device's workers rest longer before each job."""

    def __init__(self, rest: float = 0.02) -> None:
        self.rest = rest

    def __enter__(self) -> None:
        self.before, DEVICE.rest = DEVICE.rest, self.rest

    def __exit__(self, *exc: object) -> None:
        DEVICE.rest = self.before


@pytest.fixture(autouse=True)
def idle():
    yield
    set_unit("asyncdev:0")
    for unit in (0, 1):
        torch._C.synchronize(torch.device("asyncdev", unit))
    assert DEVICE.errors == []


@pytest.mark.filterwarnings("ignore:.*computed on the host")
@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_device_matches_host(name, unit):
    x, y = sample(4, 6), sample(4, 6).flip(0)
    expected = CALLS[name](x, y)
    with torch.device(f"asyncdev:{unit}"):
        result = CALLS[name](x.to(f"asyncdev:{unit}"), y.to(f"asyncdev:{unit}"))
    assert result.device == torch.device("asyncdev", unit)
    assert torch.allclose(result.cpu().to(torch.float64), expected.to(torch.float64), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*computed on the host")
def test_a_model_trains_as_on_the_host():
    losses = []
    for device in ("cpu", "asyncdev:1"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
        ).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        inputs, targets = sample(16, 6).to(device), (torch.arange(16) % 3).to(device)
        losses.append([])
        for _ in range(3):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert torch.allclose(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=1e-4)


def test_nothing_waits_until_the_host_looks():
    x = torch.ones(8).to("asyncdev")
    (x + 1).sum()
    before = DEVICE.waits
    for _ in range(20):
        x = (x * 1.5).index_select(0, torch.arange(8, device="asyncdev")) // 1
    assert DEVICE.waits == before
    x.tolist()
    assert DEVICE.waits > before


def test_host_memory_may_change_after_a_copy():
    source = torch.ones(100).zero_().fill_(1)   # what follows must not be compiled while the copy waits
    with Slow(0.05):
        there = source.to("asyncdev")
        source.zero_()
        assert there.sum().item() == 100
        back = there.cpu()
        assert back.sum().item() == 100


def test_streams_run_beside_each_other_and_wait_when_told():
    x = torch.ones(64, device="asyncdev")
    torch._C.synchronize(x.device)
    side = torch.Stream("asyncdev")
    assert side != torch.Stream("asyncdev") and side.device == torch.device("asyncdev", 0)
    with Slow():
        with side:
            y = x
            for _ in range(5):
                y = y + 1
            done = side.record_event()
        assert not done.query() and not side.query()
        main = torch.Stream("asyncdev", stream_id=0)
        main.wait_event(done)
        z = y * 2
        assert z.cpu().tolist() == [12.0] * 64 and done.query()
    side.synchronize()
    deadline = time.monotonic() + 10
    while not side.query():   # asked by a mark, which takes its turn
        assert time.monotonic() < deadline


def test_wait_stream_orders_work_on_two_units():
    first, second = torch.Stream("asyncdev:0"), torch.Stream("asyncdev:1")
    with Slow(0.01):
        with first:
            x = torch.arange(10.0, device="asyncdev:0") * 3
            y = x.to("asyncdev:1")   # on unit 1's current stream, after what made x
            x.zero_()                # and this after the copy
        second.wait_stream(torch.Stream("asyncdev:1", stream_id=0))
        with second:
            assert (y + 1).tolist() == [3.0 * i + 1 for i in range(10)]
        first.synchronize()


def test_memory_is_not_given_to_another_stream():
    side = torch.Stream("asyncdev")
    x = torch.ones(1000, device="asyncdev")
    place = x.data_ptr()
    del x
    with side:
        other = torch.zeros(1000, device="asyncdev")
        assert other.data_ptr() != place
    assert torch.empty(1000, device="asyncdev").data_ptr() == place


def test_memory_that_another_stream_uses_waits_for_it():
    side = torch.Stream("asyncdev")
    x = torch.ones(2000, device="asyncdev")
    torch._C.synchronize(x.device)
    place = x.data_ptr()
    with Slow(0.05):
        with side:
            total = x.sum()
        x.record_stream(side)
        del x
        new = torch.zeros(2000, device="asyncdev")
        assert new.data_ptr() != place
        with side:
            assert total.item() == 2000
    del new
    torch._C.synchronize(total.device)
    held = [torch.empty(2000, device="asyncdev") for _ in range(2)]
    assert place in [t.data_ptr() for t in held]
    with pytest.raises(RuntimeError, match="record_stream"):
        torch.ones(2).record_stream(side)


def test_errors_belong_to_their_stream():
    side = torch.Stream("asyncdev")
    x = torch.arange(5, device="asyncdev")
    torch._C.synchronize(x.device)
    with side:
        x.index_select(0, torch.tensor([9]).to("asyncdev"))
    assert (x + 1).sum().item() == 15
    with pytest.raises(IndexError, match="index_select.*9"):
        side.synchronize()


def test_a_failing_job_is_raised_where_it_is_waited_for():
    x = torch.ones(3, device="asyncdev")
    DEVICE.later(0, 0, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        x.cpu()


def test_events_measure_time():
    start, end = torch.Event("asyncdev", enable_timing=True), torch.Event("asyncdev", enable_timing=True)
    with Slow():
        start.record()
        torch.ones(3, device="asyncdev") + 1
        end.record()
        end.synchronize()
    assert start.elapsed_time(end) >= 20
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.Event("asyncdev").elapsed_time(end)


def test_threads_have_their_own_current_stream_and_unit():
    side = torch.Stream("asyncdev:1")
    seen = []
    with side:
        thread = threading.Thread(
            target=lambda: seen.extend(
                [torch._C.current_stream("asyncdev:1"), torch.ones(1, device="asyncdev").device.index]
            )
        )
        thread.start()
        thread.join()
        assert (
            torch._C.current_stream("asyncdev:1") == side.stream_id
            and torch.ones(1, device="asyncdev").device.index == 1
        )
    assert seen == [0, 0] and torch.ones(1, device="asyncdev").device.index == 0


def test_units_are_devices_of_their_own():
    a, b = torch.ones(3, device="asyncdev:0"), torch.ones(3, device="asyncdev:1")
    with pytest.raises(RuntimeError, match="same device"):
        a + b
    assert torch.equal((a + b.to("asyncdev:0")).cpu(), torch.full((3,), 2.0))
    assert a.to("asyncdev") is a and a.to("asyncdev:0") is a
    with pytest.raises(RuntimeError, match="has 2 units"):
        torch.ones(3, device="asyncdev:2")


@pytest.fixture
def as_accelerator(monkeypatch):
    monkeypatch.setattr(DEVICE, "accelerator", True)


def test_the_accelerator_is_the_device_that_says_so(as_accelerator):
    assert accelerator.is_available() and accelerator.device_count() == 2
    assert accelerator.current_accelerator() == torch.device("asyncdev") and accelerator.current_device_index() == 0
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
        assert torch.zeros(2, device="asyncdev").device.index == 1
        assert torch.ones(2, device="asyncdev").device.index == 1
    assert torch.zeros(2, device="asyncdev").device.index == 0
    side = torch.Stream()
    accelerator.set_stream(side)
    assert accelerator.current_stream() == side
    accelerator.set_stream(torch.Stream(stream_id=0))
    accelerator.synchronize()
    assert accelerator.get_memory_info() == (1 << 30, 1 << 31)


def test_the_accelerator_counts_memory(as_accelerator):
    accelerator.synchronize()
    before = accelerator.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="asyncdev")
    assert accelerator.memory_allocated() == before + (1 << 20) <= accelerator.max_memory_allocated()
    assert accelerator.memory_reserved() >= accelerator.memory_allocated()
    del x
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    assert accelerator.memory_stats()["num_ooms"] == 0


def test_without_an_accelerator_its_use_is_refused():
    assert not accelerator.is_available() and accelerator.current_accelerator() is None
    for call in (
        accelerator.synchronize,
        accelerator.current_stream,
        torch.Stream,
        torch.Event,
        accelerator.memory_stats,
    ):
        with pytest.raises(RuntimeError, match="accelerator"):
            call()


def test_emptying_the_cache_waits_for_the_streams():
    side = torch.Stream("asyncdev:1")
    with Slow(0.005), side:
        x = torch.ones(100_000, device="asyncdev")
        for _ in range(3):
            x = x + 1
        del x
        empty_cache("asyncdev:1")
    assert (
        memory_stats("asyncdev:1")["reserved_bytes.all.current"]
        >= memory_stats("asyncdev:1")["allocated_bytes.all.current"]
    )
