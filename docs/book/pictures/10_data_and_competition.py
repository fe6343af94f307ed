"""Pictures of the chapter on data: folds, and a loop that waits for its batches or does not."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import grid, lanes

import rushlight as torch

Say = Callable[[str, str], str]
LOAD, STEP, BATCHES = 80, 20, 4


def draw_folds(say: Say) -> str:
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    held = [set(part.tolist()) for part in order.chunk(5)]
    assert set().union(*held) == set(range(10))
    return grid(
        say("Five folds of ten blocks; the marked ones are held back", "十块数据分成五折，标出的是留出的块"),
        [[str(block) for block in range(10)] for _ in held],
        hot=lambda row, column: column in held[row],
        side=[say(f"fold {fold + 1}", f"第 {fold + 1} 折") for fold in range(5)],
    )


def timeline(workers: int) -> tuple[list[list[tuple[float, float, str]]], list[tuple[float, float, str]]]:
    """Pieces of time of each loader, and of the steps, in ms."""
    loading: list[list[tuple[float, float, str]]] = [[] for _ in range(max(workers, 1))]
    steps: list[tuple[float, float, str]] = []
    for batch in range(BATCHES):
        own = loading[batch % len(loading)]
        ended = steps[-1][1] if steps else 0.0
        begin = own[-1][1] if own else 0.0
        begin = begin if workers else ended
        own.append((begin, begin + LOAD, str(batch)))
        begin = max(ended, begin + LOAD)
        steps.append((begin, begin + STEP, str(batch)))
    return loading, steps


def draw_lanes(say: Say) -> str:
    alone, steps = timeline(0)
    spread, sooner = timeline(4)
    rows = [
        (say("0 workers: loading", "0 个进程：读取"), alone[0]),
        (say("0 workers: steps", "0 个进程：训练"), steps),
        *((say(f"worker {number}", f"进程 {number}"), pieces) for number, pieces in enumerate(spread)),
        (say("4 workers: steps", "4 个进程：训练"), sooner),
    ]
    return lanes(say("Four batches: 80 ms to load, 20 ms a step", "四个批次：读取 80 毫秒，训练一步 20 毫秒"), rows,
                 say("0 to 400 ms; numbers are batches", "0 到 400 毫秒；数字是批次的编号"))
