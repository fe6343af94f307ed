"""The caching allocator of plugged-in devices."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

import rushlight as torch
from rushlight.devices import empty_cache, memory_stats, register, reset_peak_memory_stats

from .reference_device import ReferenceDevice

KIB, MIB = 1 << 10, 1 << 20


class Counted(ReferenceDevice):
    """A device with little memory that counts how often it is asked."""

    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(name)
        self.capacity, self.used, self.asked = capacity, 0, 0
        self.sizes: dict[int, int] = {}

    def allocate(self, nbytes: int, index: int) -> int:
        self.asked += 1
        if self.used + nbytes > self.capacity:
            raise RuntimeError(f"the chip has {self.capacity - self.used} bytes left")
        self.used += nbytes
        address = super().allocate(nbytes, index)
        self.sizes[address] = nbytes
        return address

    def free(self, address: int, nbytes: int, index: int) -> None:
        assert self.sizes.pop(address) == nbytes
        self.used -= nbytes
        super().free(address, nbytes, index)


@pytest.fixture
def chip(request):
    device = Counted("".join(c for c in request.node.name if c.isalnum())[-30:].lower(), 64 * MIB)
    register(device)
    return device


def test_freed_memory_is_used_again(chip):
    x = torch.ones(64, 64, device=chip.name)
    asked = chip.asked
    for _ in range(50):
        y = (x + 1) * 2
        assert y.cpu()[3, 3].item() == 4
    assert chip.asked == asked


def test_blocks_in_use_never_overlap(chip):
    result = []
    for n in (1, 7, 200, 5000, 40000, 300000, 3_000_000, 5, 9000, 77777) * 3:
        result.append(torch.full((n,), float(len(result)), device=chip.name))
        if len(result) % 4 == 0:
            result[len(result) // 2] = None
    for value, t in enumerate(result):
        assert t is None or (t.cpu() == value).all()
    starts = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in result if t is not None)
    assert all(end <= start for (_, end), (start, _) in pairwise(starts))


def test_empty_cache_gives_everything_back(chip):
    x = torch.ones(100, 100, device=chip.name)
    y = (x + 1) @ x
    assert chip.used > 0
    del x, y
    assert memory_stats(chip.name)["allocated_bytes.all.current"] == 0
    assert memory_stats(chip.name)["reserved_bytes.all.current"] == chip.used
    empty_cache(chip.name)
    assert chip.used == 0 == memory_stats(chip.name)["reserved_bytes.all.current"]


def test_memory_in_use_survives_empty_cache(chip):
    x = torch.arange(1000, device=chip.name)
    y = x + 1
    del y
    empty_cache(chip.name)
    assert (x.cpu() == torch.arange(1000)).all()


def test_statistics_count_bytes_and_peaks(chip):
    x = torch.empty(256 * KIB, dtype=torch.uint8, device=chip.name)
    y = torch.empty(512 * KIB, dtype=torch.uint8, device=chip.name)
    stats = memory_stats(chip.name)
    assert stats["allocated_bytes.all.current"] == 768 * KIB == stats["allocated_bytes.all.peak"]
    assert stats["allocation.all.current"] == 2
    del y
    assert memory_stats(chip.name)["allocated_bytes.all.current"] == 256 * KIB
    assert memory_stats(chip.name)["allocated_bytes.all.peak"] == 768 * KIB
    reset_peak_memory_stats(chip.name)
    assert memory_stats(chip.name)["allocated_bytes.all.peak"] == 256 * KIB
    del x


def test_the_cache_is_freed_before_memory_runs_out(chip):
    blocks = [torch.empty(11 * MIB, dtype=torch.uint8, device=chip.name) for _ in range(4)]
    del blocks
    big = torch.empty(50 * MIB, dtype=torch.uint8, device=chip.name)   # fits only once the four are given back
    assert memory_stats(chip.name)["num_alloc_retries"] == 1 and memory_stats(chip.name)["num_ooms"] == 0
    del big


def test_running_out_of_memory_names_sizes(chip):
    kept = torch.empty(30 * MIB, dtype=torch.uint8, device=chip.name)
    with pytest.raises(
        torch.OutOfMemoryError,
        match=rf"{chip.name}:0' is out of memory: {40 * MIB} bytes .* use {30 * MIB}.*bytes left",
    ) as caught:
        torch.empty(40 * MIB, dtype=torch.uint8, device=chip.name)
    assert isinstance(caught.value, RuntimeError) and "bytes left" in str(caught.value.__cause__)
    assert memory_stats(chip.name)["num_ooms"] == 1
    assert kept.numel() and torch.empty(10, device=chip.name).numel() == 10


def test_other_errors_of_a_device_pass_through(chip):
    def broken(nbytes: int, index: int) -> int:
        raise KeyError("not a matter of memory")

    chip.allocate = broken
    with pytest.raises(KeyError, match="not a matter"):
        torch.empty(10, device=chip.name)


def test_a_chip_smaller_than_a_segment_works(request):
    register(Counted("tinychip", 64 * KIB))
    x = torch.arange(100.0, device="tinychip")
    assert (x * 2).sum().item() == 9900


def test_storages_grow_on_a_device(chip):
    x = torch.arange(10, device=chip.name)
    x.resize_(3000)
    assert x[:10].cpu().tolist() == list(range(10))


def test_threads_share_the_cache(chip):
    failures = []

    def work(k: int) -> None:
        try:
            for i in range(100):
                x = torch.full((50 + i % 7,), float(k), device=chip.name)
                if not ((x + 1).cpu() == k + 1).all():
                    failures.append(k)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert memory_stats(chip.name)["allocated_bytes.all.current"] == 0


def test_units_that_do_not_exist_are_refused(chip):
    with pytest.raises(RuntimeError, match="has 1 unit"):
        torch.empty(2, device=f"{chip.name}:3")
