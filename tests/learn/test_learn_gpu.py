"""The interpreter of kernels: what it computes, and every mistake it has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight
from rushlight.learn import catalogue, cuda_text, running
from rushlight.learn.exercises import gpu_puzzles
from rushlight.learn.gpu import GpuFault, Memory, Thread, launch


def race_in_shared(t: Thread, out: Memory) -> None:
    tile = t.shared("tile", 4)
    tile[t.thread.x] = t.thread.x
    out[t.thread.x] = tile[3 - t.thread.x]


def same_place(t: Thread, out: Memory) -> None:
    out[0] = t.thread.x


def lost_update(t: Thread, out: Memory) -> None:
    out[0] = out[0] + 1


def read_after_others(t: Thread, out: Memory) -> Iterator[None]:
    out[t.thread.x] = 1
    yield
    out[t.thread.x] = out[(t.thread.x + 1) % 4]


def barrier_of_some(t: Thread, out: Memory) -> Iterator[None]:
    if t.thread.x < 2:
        yield
    out[t.thread.x] = 1


def beyond(t: Thread, out: Memory) -> None:
    out[t.thread.x + 1] = 1


def before(t: Thread, out: Memory) -> None:
    out[t.thread.x - 1] = 1


def half(t: Thread, out: Memory) -> None:
    out[t.thread.x / 2] = 1


def too_many_dims(t: Thread, out: Memory) -> None:
    out[t.thread.x, 0] = 1


def never_written(t: Thread, out: Memory) -> None:
    out[t.thread.x] = t.shared("tile", 4)[t.thread.x]


def mixed_adds(t: Thread, out: Memory) -> None:
    t.atomic_add(out, 0, 1)
    out[0] = 5


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (race_in_shared, "not written"), (same_place, "race"), (lost_update, "race"), (read_after_others, "race"),
        (barrier_of_some, "barrier"), (beyond, "out of bounds"), (before, "out of bounds"), (half, "out of bounds"),
        (too_many_dims, "out of bounds"), (never_written, "not written"), (mixed_adds, "race"),
    ],
)  # fmt: skip
def test_mistakes_are_found(kernel: Callable[..., Any], says: str) -> None:
    with pytest.raises(GpuFault, match=f"{says}.*thread") as caught:
        launch(kernel, (1,), (4,), Memory("out", [0] * 4))
    with pytest.raises(GpuFault) as again:
        launch(kernel, (1,), (4,), Memory("out", [0] * 4))
    assert str(caught.value) == str(again.value)


def test_blocks_race_across_barriers() -> None:
    def kernel(t: Thread, out: Memory) -> Iterator[None]:
        if t.block.x == 0:
            out[0] = 1
        yield
        if t.block.x == 1:
            out[1] = out[0]

    with pytest.raises(GpuFault, match="race.*block"):
        launch(kernel, (2,), (1,), Memory("out", [0, 0]))
    launch(kernel, (1,), (1,), Memory("out", [0, 0]))


def test_shared_memory_belongs_to_a_block() -> None:
    def kernel(t: Thread, out: Memory) -> Iterator[None]:
        tile = t.shared("tile", 2)
        tile[t.thread.x] = 10 * t.block.x + t.thread.x
        yield
        out[t.block.x, t.thread.x] = tile[1 - t.thread.x]

    out = Memory("out", [0] * 6, (3, 2))
    launch(kernel, (3,), (2,), out)
    assert out.values == [1, 0, 11, 10, 21, 20] and out.writes == 6 and out.reads == 0


def test_atomic_additions_lose_nothing() -> None:
    out = Memory("out", [0])
    launch(lambda t, out: t.atomic_add(out, 0, t.thread.x), (5,), (4,), out)
    assert out.values == [30]


def test_two_dims_count_in_x_first() -> None:
    seen: list[tuple[int, ...]] = []
    launch(lambda t: seen.append((*t.block, *t.thread, *t.grid_dim, *t.block_dim)), (1, 2), (2, 1))
    assert seen == [
        (0, 0, 0, 0, 1, 2, 2, 1),
        (0, 0, 1, 0, 1, 2, 2, 1),
        (0, 1, 0, 0, 1, 2, 2, 1),
        (0, 1, 1, 0, 1, 2, 2, 1),
    ]


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts in CUDA C of all kernels that solve a puzzle."""
    texts: list[str] = []

    def note(kernel: Any, grid: Any, block: Any, arguments: Any, shared: Any) -> None:
        texts.append(cuda_text.translate(kernel, arguments, shared))

    monkeypatch.setattr(gpu_puzzles, "on_cuda", note)
    for exercise in catalogue.load("gpu_puzzles").exercises:
        assert all("value" in record for record in running.expected(exercise))
    return texts


def test_every_solution_can_be_said_in_cuda_c(translated: list[str]) -> None:
    """What they compute on a GPU is for `test_cuda_leaves_the_same`, where there is one."""
    assert len(translated) > 25 and all(text.count("{") == text.count("}") for text in translated)
    tiles = translated[-1]
    assert "__shared__ number s_left[4];" in tiles and tiles.count("__syncthreads();") == 2
    assert "s_left[(v_y) * 2 + (v_x)] = v_a[(v_row) * 4 + ((v_start + v_x))];" in tiles
    assert any(
        "atomicAdd((unsigned long long *)&v_out[v_a[v_i]], (unsigned long long)(1LL));" in text for text in translated
    )


def float_step(t: Thread, out: Memory) -> None:
    out[t.thread.x] = t.thread.x / 2


def calls_python(t: Thread, out: Memory) -> None:
    out[t.thread.x] = len([1])


def unknown_name(t: Thread, out: Memory) -> None:
    out[t.thread.x] = GpuFault


@pytest.mark.parametrize("kernel", [float_step, calls_python, unknown_name, lambda t, out: None, print])
def test_what_c_has_not_stays_on_the_interpreter(kernel: Callable[..., Any]) -> None:
    with pytest.raises(cuda_text.Untranslatable):
        cuda_text.translate(kernel, (Memory("out", [0]),), {})


def test_a_result_that_cuda_does_not_confirm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_puzzles, "on_cuda", lambda *arguments: [[99]])
    records = running.expected(catalogue.find("gpu_puzzles.1"))
    assert all(record["error"].startswith("GpuFault: on CUDA out holds [99]") for record in records)


@pytest.mark.skipif(not rushlight.cuda.is_available(), reason="needs a GPU")
def test_cuda_leaves_the_same() -> None:
    def kernel(t: Thread, out: Memory, a: Memory, n: int) -> Iterator[None]:
        tile = t.shared("tile", 4)
        i = t.block.x * t.block_dim.x + t.thread.x
        tile[t.thread.x] = a[i] % -3 if i < n else -(7 // 2)
        yield
        out[i] = tile[t.block_dim.x - 1 - t.thread.x] - (-5) // 2

    def made() -> tuple[Memory, Memory, int]:
        return Memory("out", [0] * 8), Memory("a", [5, -4, 3, 2, -1, 6]), 6

    arguments = made()
    shared = launch(kernel, (2,), (4,), *arguments)
    found = cuda_text.on_cuda(kernel, (2,), (4,), made(), shared)
    assert found is not None and found[0] == arguments[0].values
