"""Memory: nothing leaks, nothing is handed out twice, and a full device says so and goes on.

What a device holds is asked of the device, not of the cache before it: `Held` sees the calls of `allocate` and `free`
of one written in Python, `memory_info` is what a device says itself, and of the host the system is asked.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import rushlight as rl
from rushlight.devices import empty_cache, memory_stats, reset_peak_memory_stats

from .case import Case, Chip, Skip, case
from .expect import same
from .family import family

KIB, MIB = 1 << 10, 1 << 20
ROUNDS = 1000


class Held:
    """While it is open: the stretches of memory that were got from the device and not given back, by address."""

    def __init__(self, chip: Chip) -> None:
        if chip.handler is None or chip.handler.native() is not None:
            raise Skip("the calls of allocate and free cannot be seen")
        self.handler, self.live, self.errors = chip.handler, {}, []      # type: Any, dict[tuple[int, int], int], list

    def __enter__(self) -> Held:
        take, give = self.handler.allocate, self.handler.free

        def allocate(nbytes: int, index: int) -> int:
            address = take(nbytes, index)
            self.note(address, nbytes, index)
            return address

        def free(address: int, nbytes: int, index: int) -> None:
            self.live.pop((index, address), None)
            give(address, nbytes, index)

        self.handler.allocate, self.handler.free = allocate, free
        return self

    def __exit__(self, *exc: object) -> None:
        del self.handler.allocate, self.handler.free

    def note(self, address: int, nbytes: int, index: int) -> None:
        """One more stretch, which must not lie in another."""
        for (unit, start), size in self.live.items():
            if unit == index and start < address + nbytes and address < start + size:
                self.errors.append(
                    f"allocate({nbytes}) on unit {index} gave {address:#x}, inside of the {size} bytes at {start:#x},"
                    " which were not given back"
                )
        self.live[index, address] = nbytes

    def total(self, index: int = 0) -> int:
        """How many bytes of a unit are held."""
        return sum(size for (unit, _), size in self.live.items() if unit == index)


def said_free(chip: Chip, index: int = 0) -> int | None:
    """How many bytes are free, by the device's own word; None where it has none."""
    asked = getattr(chip.handler, "memory_info", None)
    return asked(index)[0] if asked is not None else None


def held_now(chip: Chip) -> tuple[int | None, int]:
    """What the device says is free, and what the system says that this process holds: some devices are part of it."""
    return said_free(chip), resident()


def resident() -> int:
    """The bytes of memory that this process has, by the system's word."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0      # a system that does not say


def settle(chip: Chip, collect: bool = False) -> None:
    """Everything done, what nobody uses given back; `collect`: of tensors in circles too, which takes longer."""
    if collect:
        gc.collect()
    if chip.handler is not None:
        for unit in range(chip.units):
            empty_cache(f"{chip.name}:{unit}")


def no_less_free(chip: Chip, before: tuple[int | None, int], what: str) -> None:
    """Refuse that there is less memory than before. Others may use a GPU too, and a process grows a little."""
    (free, process), (now, grown) = before, held_now(chip)
    if free is not None and now is not None:
        missing, allowed = free - now, 96 * MIB if chip.name == "cuda" else 0
        assert missing <= allowed, f"{what}: all was given back, but the device says that {missing} bytes are missing"
    more = grown - process
    assert more <= 160 * MIB, f"{what}: all was given back, but the process has grown by {more} bytes"


# Leaks
# ---------------------------------------------------------------------------------------------------------------------


def a_round(device: Any, k: int) -> None:
    """A little work on memory of changing sizes."""
    x = rl.full((1 + 37 * k % 5000,), float(k), device=device)
    y = x * 2 + x[:1]
    x.add_(y)


@case()
def nothing_leaks_over_1000_rounds_of_kernels(chip: Chip) -> None:
    for k in range(20):
        a_round(chip.device, k)
    settle(chip, collect=True)
    before = held_now(chip)
    for k in range(ROUNDS):
        a_round(chip.device, k)
    settle(chip)
    no_less_free(chip, before, f"{ROUNDS} rounds of small kernels")


@case()
def nothing_leaks_over_1000_rounds_of_memory(chip: Chip) -> None:
    settle(chip, collect=True)
    before = held_now(chip)
    for k in range(ROUNDS):
        x = rl.empty(MIB + 4 * KIB * (k % 7), dtype=rl.uint8, device=chip.device)
        del x
        if k % 20 == 0 and chip.handler is not None:
            empty_cache(chip.device)      # the device itself is asked each time
    settle(chip)
    no_less_free(chip, before, f"{ROUNDS} tensors of a mebibyte, one after the other")


@case()
def nothing_leaks_over_1000_copies(chip: Chip) -> None:
    host = rl.arange(3000.0)
    there = host.to(chip.device)
    for _ in range(10):
        there.copy_(host)
        there.cpu()
    settle(chip, collect=True)
    before = held_now(chip)
    for _ in range(ROUNDS // 4):
        there.copy_(host)
        there[::2].cpu()
        host.to(chip.device)
        there.clone()
    settle(chip)
    no_less_free(chip, before, f"{ROUNDS} copies")


@case()
def nothing_leaks_while_a_model_trains(chip: Chip) -> None:
    def steps(count: int) -> None:
        model = rl.nn.Sequential(rl.nn.Linear(20, 30), rl.nn.ReLU(), rl.nn.Linear(30, 1)).to(chip.device)
        optimizer = rl.optim.Adam(model.parameters())
        x = rl.ones(16, 20, device=chip.device)
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    steps(3)
    settle(chip, collect=True)
    before = held_now(chip)
    steps(30)
    settle(chip, collect=True)
    no_less_free(chip, before, "30 steps of a model")


@case()
def the_cache_gives_everything_back(chip: Chip) -> None:
    if chip.handler is None:
        raise Skip("the host's memory is not cached by unit")
    settle(chip)
    with Held(chip) as held:
        x = [rl.zeros(n, device=chip.device) for n in (10, 5000, 700_000, 3_000_000)]
        assert held.total() >= sum(t.nbytes for t in x[2:]), "large tensors came from nowhere: allocate was not called"
        del x
        settle(chip)
        left = held.total()
    assert not held.errors, held.errors[0]
    assert left <= 2 * MIB, f"{left} bytes were not given back to the device although nobody uses them"


@case()
def large_memory_comes_back_many_times(chip: Chip) -> None:
    settle(chip, collect=True)
    before = held_now(chip)
    for k in range(64):
        x = rl.full((4 * MIB,), float(k), device=chip.device)
        assert float(x[-1]) == k, f"the last element of 16 MiB is {float(x[-1])}, not {k}"
        del x
        settle(chip)
    no_less_free(chip, before, "64 tensors of 16 MiB, one after the other")


# Tensors that live beside each other
# ---------------------------------------------------------------------------------------------------------------------

SIZES = (1, 7, 200, 5000, 40_000, 300_000, 700_000, 5, 9000, 77_777)


@case()
def live_tensors_keep_their_values(chip: Chip) -> None:
    kept: dict[int, rl.Tensor] = {}
    for k, n in enumerate(SIZES * 4):
        kept[k] = rl.full((n,), k, device=chip.device, dtype=rl.int32)
        if k % 3 == 0:
            kept.pop(k // 2, None)
    for k, x in kept.items():
        same(x, rl.full(x.shape, k, dtype=rl.int32), exact=True, what=f"tensor {k} of {len(SIZES) * 4}")


@case()
def live_tensors_never_share_bytes(chip: Chip) -> None:
    for unit in range(chip.units):
        place = f"{chip.name}:{unit}" if chip.handler is not None else "cpu"
        kept: list[rl.Tensor] = []
        for k, n in enumerate(SIZES * 4):
            kept.append(rl.empty(n, device=place))
            if k % 4 == 3:
                del kept[len(kept) // 2]
        ranges = sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in kept)
        for (start, end), (other, _) in pairwise(ranges):
            assert end <= other, f"a tensor at {start:#x} to {end:#x} and one at {other:#x} share bytes, on {place}"


@case(needs=("handler",))
def the_device_hands_out_nothing_twice(chip: Chip) -> None:
    settle(chip)
    with Held(chip) as held:
        kept: list[Any] = []
        for k in range(24):
            for unit in range(chip.units):
                kept.append(rl.empty((1 + k % 3) * MIB + 1, dtype=rl.uint8, device=f"{chip.name}:{unit}"))
            if k % 3 == 2:
                del kept[k // 2 : k // 2 + 2]
                settle(chip)
    assert not held.errors, held.errors[0]


@case()
def segments_taken_and_given_in_any_order_keep_values(chip: Chip) -> None:
    kept: dict[int, rl.Tensor] = {}
    for k in range(30):
        kept[k] = rl.full((MIB // 4 + 1 + 1000 * (k % 5),), k, device=chip.device, dtype=rl.int32)
        if k % 3 == 2:
            kept.pop(k - 1)
            kept.pop(k // 2, None)
            settle(chip)
    for k, x in kept.items():
        edges = [x[:3], x[-3:], x[x.numel() // 2 :][:3]]
        for part in edges:
            same(part, rl.full((3,), k, dtype=rl.int32), exact=True, what=f"an element of tensor {k} of 30")


@case()
def views_share_memory_and_clones_do_not(chip: Chip) -> None:
    x = rl.zeros(100, device=chip.device)
    view, clone = x[10:20], x.clone()
    x[12] = 5.0
    assert float(view[2]) == 5.0 and float(clone[12]) == 0.0, "a view must see a write to its tensor, a clone must not"
    assert view.data_ptr() == x.data_ptr() + 40, "the address of x[10:] must be 40 bytes behind that of x"


@case()
def resized_tensors_keep_what_they_held(chip: Chip) -> None:
    x = rl.arange(1000, device=chip.device, dtype=rl.int32)
    x.resize_(300_000)
    same(x[:1000], rl.arange(1000, dtype=rl.int32), exact=True, what="the old part of a tensor that was made larger")
    x.resize_(10)
    same(x, rl.arange(10, dtype=rl.int32), exact=True, what="a tensor that was made smaller")


@case()
def threads_share_the_memory(chip: Chip) -> None:
    wrong: list[str] = []

    def work(k: int) -> None:
        try:
            for i in range(40):
                x = rl.full((50 + 997 * i % 20_000,), k, device=chip.device, dtype=rl.int32)
                low, high = int(x.min()), int(x.max())
                if (low, high) != (k, k):
                    wrong.append(f"thread {k} found {low} to {high} in its tensor")
        except Exception as error:
            wrong.append(f"thread {k}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


# A full device
# ---------------------------------------------------------------------------------------------------------------------


def refused(chip: Chip, nbytes: int) -> BaseException:
    """What is raised for more memory than there is."""
    try:
        x = rl.empty(nbytes, dtype=rl.uint8, device=chip.device)
    except Exception as error:
        return error
    raise AssertionError(f"{nbytes} bytes were given: {tuple(x.shape)} elements at {x.data_ptr():#x}")


def too_much_is_an_out_of_memory_error(chip: Chip, power: int) -> None:
    error = refused(chip, 2**power)
    wanted: type = RuntimeError if chip.handler is None else rl.OutOfMemoryError
    assert isinstance(error, wanted), f"2**{power} bytes: expected {wanted.__name__}, got {error!r}"
    same(rl.ones(5, device=chip.device) + 1, rl.full((5,), 2.0), exact=True, what="ones + 1 after memory ran out")


@case()
def work_goes_on_after_memory_ran_out(chip: Chip) -> None:
    kept = rl.arange(5000.0, device=chip.device)
    for _ in range(3):
        refused(chip, 2**52)
    x = rl.ones(300_000, device=chip.device)
    same((x * 3).sum(), rl.tensor(900_000.0), what="a sum after memory ran out")
    same(kept, rl.arange(5000.0), exact=True, what="a tensor that was there before")


@case(needs=("handler",))
def memory_that_ran_out_is_counted_and_told(chip: Chip) -> None:
    before = memory_stats(chip.device)["num_ooms"]
    error = refused(chip, 2**52)
    assert memory_stats(chip.device)["num_ooms"] == before + 1, "memory_stats does not count that memory ran out"
    assert str(2**52) in str(error) and chip.name in str(error), f"the message names no size or device: {error}"


def room(chip: Chip) -> tuple[int, int]:
    """How many bytes are free, and how many of them are given in one piece; of a device with little memory."""
    settle(chip, collect=True)
    free = said_free(chip)
    if free is None or free > 1 << 29:
        raise Skip("the device has more than half a gibibyte of memory, or does not say how much")
    kept = rl.empty(4 * MIB, dtype=rl.uint8, device=chip.device)
    if said_free(chip) == free:
        raise Skip("the device says the same of its free memory, whatever is used")
    del kept
    settle(chip)
    piece = free
    while piece > MIB:
        try:
            rl.empty(piece, dtype=rl.uint8, device=chip.device)
        except rl.OutOfMemoryError:
            piece = piece * 7 // 8
        else:
            settle(chip)
            return free, piece
    raise AssertionError(f"not one mebibyte is given of {free} bytes that are free")


@case(needs=("handler",))
def a_device_filled_to_the_brim_says_so_and_is_whole_again(chip: Chip) -> None:
    free, whole = room(chip)
    piece, kept = 8 * MIB, []
    try:
        for k in range(free // piece + 2):
            kept.append(rl.full((piece // 4,), k, device=chip.device, dtype=rl.int32))
    except rl.OutOfMemoryError:
        pass
    else:
        raise AssertionError(f"{len(kept)} pieces of 8 MiB were given of {free} bytes that were free")
    assert len(kept) * piece > free // 2, f"full after {len(kept) * piece} of {free} bytes that were free"
    for k, x in enumerate(kept):
        same(x[:: piece // 8], rl.full((2,), k, dtype=rl.int32), exact=True, what=f"piece {k} of a full device")
    del kept, x
    settle(chip)
    big = rl.full((whole // 4,), 7, device=chip.device, dtype=rl.int32)
    assert int(big[-1]) == 7, "memory that was got again after the device was full does not hold what is written"


@case(needs=("handler",))
def memory_is_got_back_from_the_cache_before_it_runs_out(chip: Chip) -> None:
    _, whole = room(chip)
    blocks = [rl.empty(whole // 5, dtype=rl.uint8, device=chip.device) for _ in range(4)]
    del blocks
    big = rl.empty(whole, dtype=rl.uint8, device=chip.device)      # fits once the four are given back
    assert big.numel() == whole


# What the statistics say
# ---------------------------------------------------------------------------------------------------------------------


@case(needs=("handler",))
def statistics_add_up(chip: Chip) -> None:
    settle(chip)
    before = memory_stats(chip.device)
    x, y = (rl.empty(n * KIB, dtype=rl.uint8, device=chip.device) for n in (256, 512))
    now = memory_stats(chip.device)
    grown = now["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
    assert grown == 768 * KIB, f"two tensors of {x.nbytes} and {y.nbytes} bytes are counted as {grown}"
    assert now["allocation.all.current"] - before["allocation.all.current"] == 2, "two tensors are not counted as two"
    assert now["reserved_bytes.all.current"] >= now["allocated_bytes.all.current"], "more is used than held"
    assert now["allocated_bytes.all.peak"] >= now["allocated_bytes.all.current"], "the peak is below what is used"
    parts = sum(now[f"allocated_bytes.{pool}.current"] for pool in ("small_pool", "large_pool"))
    assert parts == now["allocated_bytes.all.current"], "small and large requests are not all of them"
    held = now["num_device_alloc"] - now["num_device_free"]
    assert held == now["segment.all.current"], f"{held} segments were got, {now['segment.all.current']} are held"


@case(needs=("handler",))
def the_peak_starts_anew(chip: Chip) -> None:
    x = rl.empty(3 * MIB, dtype=rl.uint8, device=chip.device)
    del x
    reset_peak_memory_stats(chip.device)
    stats = memory_stats(chip.device)
    assert stats["allocated_bytes.all.peak"] == stats["allocated_bytes.all.current"], "the peak did not start anew"


@case(needs=("handler",))
def what_is_held_is_what_the_device_gave(chip: Chip) -> None:
    settle(chip)
    before = memory_stats(chip.device)["reserved_bytes.all.current"]
    with Held(chip) as held:
        x = [rl.empty(n * MIB, dtype=rl.uint8, device=chip.device) for n in (1, 3, 12)]
        counted = memory_stats(chip.device)["reserved_bytes.all.current"] - before
        assert counted == held.total(), f"{counted} bytes are counted as held, the device gave {held.total()}"
        del x
        settle(chip)


@case(needs=("two units",))
def units_have_memory_of_their_own(chip: Chip) -> None:
    first, second = (rl.device(f"{chip.name}:{unit}") for unit in (0, 1))
    before = memory_stats(first)["allocated_bytes.all.current"]
    x = rl.full((50_000,), 3.0, device=second)
    assert memory_stats(first)["allocated_bytes.all.current"] == before, "a tensor of unit 1 is counted on unit 0"
    y = rl.full((50_000,), 4.0, device=first)
    same(x, rl.full((50_000,), 3.0), exact=True, what="a tensor of unit 1 after one of unit 0 was filled")
    same(y, rl.full((50_000,), 4.0), exact=True, what="a tensor of unit 0")


@case()
def empty_tensors_take_nothing(chip: Chip) -> None:
    x = rl.empty(0, 5, device=chip.device)
    assert x.numel() == 0 and (x + 1).shape == (0, 5) and float(x.sum()) == 0.0, "no elements do not work"


def cases(chip: Chip) -> Iterator[Case]:
    """More than there is, by powers of two."""
    powers = (45, 52, 60) if chip.handler is not None else (52, 60)      # the host's memory may be promised, not there
    yield from family(too_much_is_an_out_of_memory_error, {f"2**{power}": (power,) for power in powers})
