"""Streams: order within one, waits between two, events that are reached only when they are, times, `record_stream`.

Nothing here measures how long something takes on the host. A case queues much on one stream, does what must wait for
it, and looks on another stream: where the wait was none, it sees how far the first one has come. A device that has done
everything on return passes as well. Each is tried several times, since a device may be in luck, and leaves nothing
queued: memory goes back when a case ends.
"""

from __future__ import annotations

import threading
import time

import rushlight as rl

from .case import Chip, Skip, case
from .expect import same

SIZE = 1 << 20      # elements of the tensors that take long
JOBS = 24
TRIES = 3


def fresh(chip: Chip, size: int = SIZE, unit: int = 0) -> rl.Tensor:
    """Zeros that are there already, and the kernels that `work` and `seen` need, made before anything is queued."""
    x = rl.zeros(size, dtype=rl.int32, device=f"{chip.name}:{unit}")
    work(x, 1)
    x.zero_()
    x[-1:].clone().cpu()
    first_queue(chip, unit).synchronize()
    return x


def first_queue(chip: Chip, unit: int = 0) -> rl.Stream:
    """The stream that a unit uses unless told."""
    return rl.Stream(f"{chip.name}:{unit}", stream_id=0)


def work(x: rl.Tensor, jobs: int = JOBS) -> None:
    """Queue kernels that each add one to all of a large tensor."""
    for _ in range(jobs):
        x.add_(1)


def seen(x: rl.Tensor, want: int, what: str) -> None:
    """Refuse a tensor in which the current stream does not find `want` everywhere."""
    last = x[-1:].cpu()
    copy = x.cpu()
    low, high = int(copy.min()), int(copy.max())
    assert (int(last), low, high) == (want, want, want), (
        f"{what}: the other stream had come to {min(int(last), low)} of {want} jobs"
    )


# Order
# ---------------------------------------------------------------------------------------------------------------------


@case(needs=("streams",))
def jobs_of_one_stream_are_done_in_order(chip: Chip) -> None:
    for number, stream in enumerate((first_queue(chip), rl.Stream(chip.device))):
        with stream:
            x, want = rl.ones(300, dtype=rl.int32, device=chip.device), rl.ones(300, dtype=rl.int32)
            for k in range(120):
                x.mul_(3)
                x.add_(k)
                want.mul_(3).add_(k)
            same(x, want, exact=True, what=f"240 kernels one behind the other, on stream {number},")


@case(needs=("streams",))
def small_jobs_do_not_overtake_large_ones(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    x = fresh(chip)
    with side:
        for k in range(1, TRIES + 1):
            x.zero_()
            work(x)
            small = x[-4:].clone()
            x.mul_(2)
            want = rl.full((4,), JOBS, dtype=rl.int32)
            same(small, want, exact=True, what=f"try {k}: four elements behind large jobs")
            same(x[:4], 2 * want, exact=True, what=f"try {k}: what came behind that")


@case(needs=("streams",))
def copies_take_their_turn(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    x = fresh(chip)
    with side:
        for k in range(1, TRIES + 1):
            x.zero_()
            work(x)
            x[:1000].copy_(rl.full((1000,), -k, dtype=rl.int32))
            clone = x.clone()
            x.add_(1000)
            moved = x[:1001].cpu()
            same(clone[:1000], rl.full((1000,), -k, dtype=rl.int32), exact=True, what="what the host wrote, cloned,")
            same(clone[1000:1010], rl.full((10,), JOBS, dtype=rl.int32), exact=True, what="a clone behind large jobs")
            same(moved[:1000], rl.full((1000,), 1000 - k, dtype=rl.int32), exact=True, what="a copy to the host")


# Waits
# ---------------------------------------------------------------------------------------------------------------------


@case(needs=("streams",))
def a_stream_waits_for_an_event(chip: Chip) -> None:
    side, main = rl.Stream(chip.device), first_queue(chip)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
            done = side.record_event()
        main.wait_event(done)
        seen(x, JOBS, "read behind wait_event")


@case(needs=("streams",))
def a_stream_waits_for_another(chip: Chip) -> None:
    side, main = rl.Stream(chip.device), first_queue(chip)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
        main.wait_stream(side)
        seen(x, JOBS, "read behind wait_stream")


@case(needs=("streams",))
def the_first_stream_is_waited_for_too(chip: Chip) -> None:
    side, main = rl.Stream(chip.device), first_queue(chip)
    for _ in range(TRIES):
        x = fresh(chip)
        work(x)
        side.wait_stream(main)
        with side:
            seen(x, JOBS, "read on a stream that waits for the first one")


@case(needs=("streams",))
def a_stream_waits_for_two_events(chip: Chip) -> None:
    sides = [rl.Stream(chip.device), rl.Stream(chip.device)]
    for k in range(TRIES):
        tensors = [fresh(chip), fresh(chip)]
        order = sides if k % 2 else sides[::-1]
        for side, x, jobs in zip(order, tensors, (JOBS, 3), strict=True):
            with side:
                work(x, jobs)
        marks = [side.record_event() for side in order]
        for mark in marks:
            first_queue(chip).wait_event(mark)
        seen(tensors[0], JOBS, "read behind two waits, the first one for long")
        seen(tensors[1], 3, "read behind two waits, the second one for long")


@case(needs=("streams",))
def waits_pass_along_three_streams(chip: Chip) -> None:
    streams = [rl.Stream(chip.device) for _ in range(3)]
    for _ in range(TRIES):
        x = fresh(chip)
        with streams[0]:
            work(x)
        streams[1].wait_stream(streams[0])
        with streams[1]:
            x.mul_(2)
        streams[2].wait_stream(streams[1])
        with streams[2]:
            x.add_(1)
            seen(x, 2 * JOBS + 1, "read on the last of three streams that wait for each other")


@case(needs=("streams",))
def two_streams_take_turns(chip: Chip) -> None:
    side, main = rl.Stream(chip.device), first_queue(chip)
    x, want = rl.ones(5000, dtype=rl.int32, device=chip.device), rl.ones(5000, dtype=rl.int32)
    for k in range(40):
        x.mul_(3)
        side.wait_stream(main)
        with side:
            x.add_(k)
        main.wait_stream(side)
        want.mul_(3).add_(k)
    same(x, want, exact=True, what="a tensor that two streams changed in turns")


@case(needs=("streams", "two units"))
def a_unit_waits_for_the_other(chip: Chip) -> None:
    here, there = rl.Stream(f"{chip.name}:0"), rl.Stream(f"{chip.name}:1")
    for _ in range(TRIES):
        x, y = fresh(chip), fresh(chip, unit=1)
        with here:
            work(x)
            done = here.record_event()
        there.wait_event(done)
        with there:
            y.copy_(x)
            seen(y, JOBS, "a copy to unit 1 behind a wait for unit 0")


# Events
# ---------------------------------------------------------------------------------------------------------------------


@case(needs=("streams",))
def a_reached_event_means_that_the_work_is_done(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
            done = side.record_event()
        while not done.query():
            time.sleep(0)
        seen(x, JOBS, "read after query said that an event was reached")


@case(needs=("streams",))
def synchronize_of_an_event_waits(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
            done = side.record_event()
        done.synchronize()
        seen(x, JOBS, "read after the event was waited for")
        assert done.query(), "an event that was waited for must be reached"


@case(needs=("streams",))
def synchronize_of_a_stream_waits(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
            done = side.record_event()
        side.synchronize()
        assert done.query(), "an event must be reached when its stream was waited for"
        seen(x, JOBS, "read after the stream was waited for")


@case(needs=("streams",))
def synchronize_of_the_first_stream_waits(chip: Chip) -> None:
    side, main = rl.Stream(chip.device), first_queue(chip)
    for _ in range(TRIES):
        x = fresh(chip)
        work(x)
        main.synchronize()
        with side:
            seen(x, JOBS, "read on a stream after the first one was waited for")


@case(needs=("streams",))
def an_idle_stream_means_that_the_work_is_done(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    for _ in range(TRIES):
        x = fresh(chip)
        with side:
            work(x)
        while not side.query():
            time.sleep(0)
        seen(x, JOBS, "read after query said that a stream was done")


@case(needs=("streams",))
def an_event_marks_what_was_queued_before_it(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    x = fresh(chip)
    with side:
        work(x, 5)
        early = side.record_event()
        work(x, JOBS)
        late = side.record_event()
    early.synchronize()
    assert int(x[-1:].cpu()) >= 5, "the jobs before an event were not done when it was reached"
    late.synchronize()
    assert early.query(), "an event must be reached when a later one of its stream is"
    seen(x, 5 + JOBS, "read after the later of two events")


@case(needs=("streams",))
def an_event_recorded_again_is_a_new_mark(chip: Chip) -> None:
    side, event = rl.Stream(chip.device), rl.Event(chip.device)
    assert event.query(), "an event that was never recorded has nothing to wait for"
    event.synchronize()
    x = fresh(chip)
    with side:
        for k in range(1, TRIES + 1):
            work(x)
            event.record(side)
            event.synchronize()
            with first_queue(chip):
                seen(x, k * JOBS, f"read after an event that was recorded {k} times")


def timed(chip: Chip) -> tuple[rl.Event, rl.Event, rl.Event]:
    """Three events that measure time."""
    a, b, c = (rl.Event(chip.device, enable_timing=True) for _ in range(3))
    return a, b, c


def between(start: rl.Event, end: rl.Event) -> float:
    """Milliseconds, of a device that measures them."""
    try:
        return start.elapsed_time(end)
    except NotImplementedError:
        raise Skip("the device measures no time") from None


@case(needs=("streams",))
def elapsed_times_are_not_negative_and_add_up(chip: Chip) -> None:
    x = fresh(chip)
    for _ in range(TRIES):
        start, middle, end = timed(chip)
        start.record()
        work(x, 6)
        middle.record()
        work(x, 6)
        end.record()
        end.synchronize()
        first, second, both = between(start, middle), between(middle, end), between(start, end)
        assert min(first, second, both) >= 0, f"times must not be negative, got {first}, {second} and {both} ms"
        assert abs(first + second - both) <= 0.01 + 0.001 * both, f"{first} ms and {second} ms are not {both} ms"


@case(needs=("streams",))
def elapsed_times_fit_in_the_time_that_passed(chip: Chip) -> None:
    x = fresh(chip)
    start, _, end = timed(chip)
    outer = time.perf_counter()
    start.record()
    start.synchronize()
    inner = time.perf_counter()
    work(x, 3)
    time.sleep(0.02)
    least = (time.perf_counter() - inner) * 1e3
    end.record()
    end.synchronize()
    most = (time.perf_counter() - outer) * 1e3
    measured = between(start, end)
    assert 0.9 * least <= measured <= 1.1 * most + 0.1, (
        f"{measured:.3f} ms are said to lie between two events, of which {least:.3f} to {most:.3f} ms passed here"
    )


# Memory and streams
# ---------------------------------------------------------------------------------------------------------------------


@case(needs=("streams",))
def recorded_memory_waits_for_its_stream(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    x = fresh(chip)
    first_queue(chip).synchronize()
    for k in range(TRIES):
        table = rl.full((SIZE // 4,), 7 + k, dtype=rl.int32, device=chip.device)
        first_queue(chip).synchronize()
        with side:
            work(x)
            kept = table.clone()
        table.record_stream(side)
        del table
        other = rl.full((SIZE // 4,), -1, dtype=rl.int32, device=chip.device)
        other.add_(1)
        with side:
            want = rl.full((SIZE // 4,), 7 + k, dtype=rl.int32)
            same(kept, want, exact=True, what="what a stream made of memory that was let go with record_stream")
        same(other, rl.zeros(SIZE // 4, dtype=rl.int32), exact=True, what="a tensor made after that")


@case(needs=("streams",))
def memory_let_go_serves_its_own_stream(chip: Chip) -> None:
    side = rl.Stream(chip.device)
    with side:
        sums = []
        for k in range(30):
            x = rl.full((50_000,), k, dtype=rl.int32, device=chip.device)
            sums.append((x + 1).max())
            del x
        got = rl.stack(sums)
        same(got, rl.arange(1, 31, dtype=rl.int32), exact=True, what="what was made of 30 tensors of the same memory")


@case(needs=("streams",))
def many_streams_work_side_by_side(chip: Chip) -> None:
    streams = [rl.Stream(chip.device) for _ in range(12)]
    tensors = [rl.zeros(20_000, dtype=rl.int32, device=chip.device) for _ in streams]
    first_queue(chip).synchronize()
    for k in range(10):
        for number, (stream, x) in enumerate(zip(streams, tensors, strict=True)):
            with stream:
                x.add_(number + k)
    for number, (stream, x) in enumerate(zip(streams, tensors, strict=True)):
        with stream:
            want = rl.full((20_000,), 10 * number + 45, dtype=rl.int32)
            same(x, want, exact=True, what=f"the tensor of stream {number} of 12")


@case(needs=("streams",))
def streams_of_any_priority_work(chip: Chip) -> None:
    for priority in (-1, 0, 1):
        with rl.Stream(chip.device, priority=priority):
            x = rl.ones(100, device=chip.device)
            same(x * 3, rl.full((100,), 3.0), exact=True, what=f"a kernel on a stream of priority {priority}")


@case(needs=("streams",))
def threads_have_streams_of_their_own(chip: Chip) -> None:
    wrong: list[str] = []

    def task(number: int) -> None:
        try:
            with rl.Stream(chip.device):
                x, want = rl.ones(3000, dtype=rl.int32, device=chip.device), rl.ones(3000, dtype=rl.int32)
                for k in range(30):
                    x.mul_(3).add_(k + number)
                    want.mul_(3).add_(k + number)
                same(x, want, exact=True, what=f"the tensor of thread {number}")
        except Exception as error:
            wrong.append(f"thread {number}: {error}")

    threads = [threading.Thread(target=task, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


@case(needs=("streams",))
def the_stream_before_is_back_after_a_block(chip: Chip) -> None:
    side, x = rl.Stream(chip.device), fresh(chip)
    with side:
        pass
    work(x)
    first_queue(chip).synchronize()
    with side:
        seen(x, JOBS, "read after the first stream was waited for, on which it was queued after `with stream:`")


@case(needs=("streams",))
def errors_are_raised_on_their_stream(chip: Chip) -> None:
    side, x = rl.Stream(chip.device), rl.arange(5, device=chip.device)
    at = rl.tensor([1, 9]).to(chip.device)
    first_queue(chip).synchronize()
    with side:
        x.index_select(0, at)
    same((x + 1).sum(), rl.tensor(15), exact=True, what="a sum on the first stream, beside one with an error,")
    try:
        side.synchronize()
    except IndexError as error:
        assert "9" in str(error), f"the error does not name the index 9: {error}"
    else:
        raise AssertionError("index 9 of 5 was not refused when its stream was waited for")
