"""The allocator behind tensors: blocks never overlap, freed ones of other sizes are reused,
pages go back when asked."""

from __future__ import annotations

import random
import threading

import pytest

import rushlight
from rushlight import _C

MIB = 1 << 20


def resident() -> int:
    with open("/proc/self/statm") as handle:
        return int(handle.read().split()[1]) * 4096


def churn(seed: int) -> None:
    """Make and drop tensors of many sizes; each keeps its own number until it is dropped."""
    draw = random.Random(seed)
    alive: list[tuple[rushlight.Tensor, int]] = []
    for step in range(400):
        if alive and draw.random() < 0.5:
            tensor, number = alive.pop(draw.randrange(len(alive)))
            assert int(tensor[0]) == number and int(tensor[-1]) == number and bool((tensor == number).all())
        else:
            size = draw.choice([10, 5000, 40_000, 33_000, 70_001, 300_000])
            alive.append((rushlight.full((size,), step, dtype=rushlight.int32), step))


def test_blocks_never_overlap() -> None:
    churn(0)


def test_blocks_never_overlap_between_threads() -> None:
    failures: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            churn(seed)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_freed_memory_serves_other_sizes() -> None:
    whole = rushlight.ones(64 * MIB // 4)
    address = whole.data_ptr()
    del whole
    parts = [rushlight.ones(15 * MIB // 4) for _ in range(4)]
    assert any(address <= part.data_ptr() < address + 64 * MIB for part in parts)
    del parts
    before = _C.memory_stats()["cached"]
    again = rushlight.ones(60 * MIB // 4)
    assert _C.memory_stats()["cached"] <= before - 60 * MIB
    del again


def test_empty_cache_returns_pages() -> None:
    tensor = rushlight.ones(128 * MIB // 4)
    high = resident()
    del tensor
    _C.empty_cache()
    assert resident() < high - 100 * MIB
    assert bool((rushlight.ones(128 * MIB // 4) == 1).all())


def test_more_than_there_is() -> None:
    with pytest.raises(RuntimeError, match="not enough memory"):
        rushlight.empty(1 << 46)
