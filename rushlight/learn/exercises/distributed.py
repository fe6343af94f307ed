"""Exercises of the chapter on several processes: all-reduce, shards, pipelines."""

from typing import Any

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "distributed",
    "Several processes",
    "多个进程",
    Exercise(
        title="Ring all-reduce, step by step",
        title_zh="环形 all-reduce",
        text="""n workers each hold a list of n numbers. In each of n - 1 rounds worker r sends its number at place (r
        - round) % n to worker (r + 1) % n, which adds it to its own number at that place; all sends of a round happen
        at once, rounds count from 0. Return the lists after `rounds` rounds.""",
        solution='''
        def reduce_scatter(lists, rounds):
            """The lists of all workers after some rounds."""
            n = len(lists)
            held = [list(row) for row in lists]
            for turn in range(rounds):
                sent = [held[r][(r - turn) % n] for r in range(n)]
                for r in range(n):
                    held[(r + 1) % n][(r - turn) % n] += sent[r]
            return held
        ''',
        hint="Collect what is sent before anything is added. After n - 1 rounds worker r holds one finished sum.",
        cases=lambda: [
            ([[1]], 0),
            ([[1, 2], [3, 4]], 0),
            ([[1, 2], [3, 4]], 1),
            ([[1, 2, 3], [10, 20, 30], [100, 200, 300]], 1),
            ([[1, 2, 3], [10, 20, 30], [100, 200, 300]], 2),
        ],
    ),
    Exercise(
        title="Gradients in buckets",
        title_zh="梯度分桶",
        text="""DDP sends gradients in buckets of up to `limit` bytes, in the order in which they become ready: the
        parameters backwards. Given the sizes of all parameters, return the list of buckets, each a list of parameter
        numbers. A parameter that would make a bucket exceed the limit opens a new one; one larger than the limit has
        a bucket of its own.""",
        solution='''
        def buckets(sizes, limit):
            """Numbers of parameters, bucket by bucket, the last parameters first."""
            made = []
            room = 0
            for number in reversed(range(len(sizes))):
                if not made or sizes[number] > room:
                    made.append([])
                    room = limit
                made[-1].append(number)
                room -= sizes[number]
            return made
        ''',
        hint="Keep how much room the last bucket has; it may become negative, and then nothing fits.",
        cases=lambda: [
            ([], 4),
            ([1], 4),
            ([2, 2], 4),
            ([2, 3], 4),
            ([9, 1, 1], 4),
            ([1, 9, 1, 2], 4),
            ([3, 1, 2, 2, 4, 1], 4),
            ([5, 5], 3),
        ],
    ),
    Exercise(
        title="Shards of a parameter",
        title_zh="参数分片",
        text="""FSDP flattens the parameters into one list, pads it with zeros to a multiple of the number of workers,
        and gives each worker an equal part. Given the flat numbers, return the part of worker `rank` and how many
        zeros of padding it holds.""",
        solution='''
        def shard(numbers, workers, rank):
            """(the part of one worker, how many of its numbers are padding)."""
            length = -(-len(numbers) // workers)
            part = numbers[rank * length : (rank + 1) * length]
            missing = length - len(part)
            return part + [0] * missing, missing
        ''',
        hint="Divide and round up; what a slice lacks is padding.",
        cases=lambda: [
            ([], 2, 0),
            ([5], 1, 0),
            ([5], 2, 1),
            ([5], 2, 0),
            ([1, 2, 3], 2, 0),
            ([1, 2, 3], 2, 1),
            ([1, 2, 3, 4, 5], 4, 2),
            ([1, 2, 3, 4, 5], 4, 3),
        ],
    ),
    Exercise(
        title="A linear layer on two workers",
        title_zh="两个进程上的线性层",
        text="""Tensor parallelism of y = W2 relu(W1 x): W1 is cut by rows, W2 by columns, so that each of `workers`
        workers computes its part without the others, and one sum ends it. Given W1 and W2 (tensors), x and the number
        of workers, which divides the hidden size, return (the list of partial results, their sum).""",
        solution='''
        def parallel_mlp(W1, W2, x, workers):
            """What each worker contributes, and the result."""
            parts = []
            for top, bottom in zip(W1.chunk(workers, 0), W2.chunk(workers, 1)):
                parts.append(bottom @ (top @ x).relu())
            return parts, sum(parts)
        ''',
        hint="`tensor.chunk(n, dim)` cuts along a dim. relu needs no communication because it is elementwise.",
        cases=lambda: tensors(((1, 1, 1, 1), (1, 2, 1, 2), (2, 4, 3, 2), (3, 6, 2, 3))),
    ),
    Exercise(
        title="The bubble of a pipeline",
        title_zh="流水线气泡",
        text="""A pipeline of `stages` stages works on `batches` micro-batches, each stage taking one tick for each.
        Return a table: for every stage the list of what it does at every tick, the number of a micro-batch or None
        while it idles, from the first tick to the last. Stage s can begin a micro-batch when stage s - 1 is done with
        it.""",
        solution='''
        def schedule(stages, batches):
            """What every stage does at every tick."""
            table = []
            for stage in range(stages):
                table.append([None] * stage + list(range(batches)) + [None] * (stages - 1 - stage))
            return table
        ''',
        hint="Stage s waits s ticks, works through all micro-batches, and idles until the last stage is done.",
        cases=lambda: [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (4, 4)],
    ),
)


def tensors(shapes: Any) -> Any:
    """Weights and inputs of small networks, not random."""
    import rushlight as torch

    made = []
    for inner, hidden, outer, workers in shapes:
        W1 = torch.arange(1.0, hidden * inner + 1).reshape(hidden, inner) - 2
        W2 = 3 - torch.arange(1.0, hidden * outer + 1).reshape(outer, hidden)
        made.append((W1, W2, torch.arange(1.0, inner + 1), workers))
    return made
