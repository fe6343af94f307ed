"""Pictures of the chapter on several processes: a ring that adds, and a pipeline's schedule."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import grid, lanes

from rushlight.distributed.pipelining import orders

Say = Callable[[str, str], str]


def draw_ring(say: Say) -> str:
    ranks = 3
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]      # whose numbers are in a rank's pieces
    cells, side, fresh = [], [], set()
    for turn in range(ranks):
        for rank in range(ranks):
            side.append(say(f"round {turn}, rank {rank}", f"第 {turn} 轮，进程 {rank}"))
            cells.append(["+".join("abc"[r] + str(piece) for r in sorted(held[rank][piece])) for piece in range(ranks)])
            fresh |= {(3 * turn + rank, piece) for piece in range(ranks) if len(held[rank][piece]) == ranks}
        sent = [(rank, (rank - turn) % ranks) for rank in range(ranks)]
        moved = [(rank, piece, set(held[rank][piece])) for rank, piece in sent]
        for rank, piece, whose in moved:
            held[(rank + 1) % ranks][piece] |= whose
    title = say("Ranks a, b, c pass one piece in each round; full sums stand out",
                "进程 a、b、c 每轮传一块；完整的和用深色标出")
    return grid(title, cells, lambda row, column: (row, column) in fresh, side)


def draw_pipeline(say: Say) -> str:
    stages, parts = 4, 6
    order = orders.one_forward_one_backward(stages, parts)
    done: dict[tuple[str, int, int], int] = {}
    clock, place = [0] * stages, [0] * stages
    pieces: list[list[tuple[float, float, str]]] = [[] for _ in range(stages)]
    while any(place[rank] < len(order[rank]) for rank in range(stages)):
        for rank in range(stages):
            if place[rank] == len(order[rank]):
                continue
            stage, kind, part = order[rank][place[rank]]
            needs = ("F", stage - 1, part) if kind == "F" else ("B", stage + 1, part)
            if 0 <= needs[1] < stages and needs not in done:
                continue
            start = max(clock[rank], done.get(needs, 0))
            stop = start + (1 if kind == "F" else 2)
            done[(str(kind), stage, part)] = clock[rank] = stop
            pieces[rank].append((start, stop, f"{kind}{part}"))
            place[rank] += 1
    title = say("1F1B: 4 stages, 6 microbatches; a backward takes as long as two forwards",
                "1F1B：4 个阶段，6 个微批；一次反向的时间是前向的两倍")
    rows = [(say(f"stage {rank}", f"阶段 {rank}"), pieces[rank]) for rank in range(stages)]
    return lanes(title, rows, say("time →", "时间 →"))
