"""Exercises of the chapter on GPUs: indices, occupancy, the caching allocator, half precision, asynchrony."""

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "gpu",
    "GPUs",
    "GPU",
    Exercise(
        title="How many blocks",
        title_zh="需要多少个块",
        text="""n elements are worked on by blocks of `threads` threads, one element a thread. Return (blocks, idle):
        the fewest blocks that suffice, and how many threads have nothing to do. At least one block is always
        launched.""",
        solution='''
        def grid(n, threads):
            """(blocks, idle threads)."""
            blocks = max((n + threads - 1) // threads, 1)
            return blocks, blocks * threads - n
        ''',
        hint="Divide and round up.",
        cases=lambda: [(0, 32), (1, 32), (32, 32), (33, 32), (100, 7), (64, 16), (31, 16)],
    ),
    Exercise(
        title="Transactions of a warp",
        title_zh="一个 warp 的内存事务",
        text="""The threads of a warp read 4-byte numbers; thread t reads number start + t * step. Memory is moved in
        lines of `line` bytes. Return how many lines a warp of `threads` threads touches.""",
        solution='''
        def lines(start, step, threads, line):
            """How many lines of memory a warp touches."""
            return len({(start + t * step) * 4 // line for t in range(threads)})
        ''',
        hint="The line of a byte is its address divided by the line's size, rounded down; count different ones.",
        cases=lambda: [
            (0, 1, 1, 4),
            (0, 1, 4, 16),
            (0, 2, 4, 16),
            (1, 1, 4, 16),
            (0, 0, 32, 32),
            (0, 1, 32, 128),
            (1, 1, 32, 128),
            (0, 32, 32, 128),
            (5, 3, 8, 32),
        ],
    ),
    Exercise(
        title="A caching allocator",
        title_zh="缓存分配器",
        text="""Follow a caching allocator. It rounds requests up to multiples of 512 bytes. "free" puts a block aside
        instead of giving it back; a request takes the smallest block put aside that is large enough and at most twice
        the rounded request, the earliest of equal ones; otherwise it asks the driver. Events are ("take", name, size)
        and ("free", name). Return (calls of the driver, bytes from the driver).""",
        solution='''
        def driver_calls(events):
            """How often, and for how many bytes, the driver is asked."""
            aside = []
            held = {}
            calls = total = 0
            for event in events:
                if event[0] == "free":
                    aside.append(held.pop(event[1]))
                    continue
                size = (event[2] + 511) // 512 * 512
                fitting = [block for block in aside if size <= block <= 2 * size]
                if fitting:
                    held[event[1]] = min(fitting)
                    aside.remove(min(fitting))
                else:
                    held[event[1]] = size
                    calls += 1
                    total += size
            return calls, total
        ''',
        hint="Keep blocks by name while they are held, and a list of sizes of those put aside.",
        cases=lambda: [
            ([],),
            ([("take", "a", 1)],),
            ([("take", "a", 512), ("take", "b", 513)],),
            ([("take", "a", 100), ("free", "a"), ("take", "b", 300)],),
            ([("take", "a", 2000), ("free", "a"), ("take", "b", 513)],),
            ([("take", "a", 2048), ("free", "a"), ("take", "b", 1025)],),
            ([("take", "a", 2048), ("free", "a"), ("take", "b", 1024)],),
            ([("take", "a", 2049), ("free", "a"), ("take", "b", 1024)],),
            (
                [
                    ("take", "a", 1500),
                    ("take", "b", 1024),
                    ("free", "a"),
                    ("free", "b"),
                    ("take", "c", 1000),
                    ("take", "d", 1500),
                    ("take", "e", 700),
                ],
            ),
            ([("take", "a", 600), ("free", "a"), ("take", "b", 1024), ("take", "c", 1024)],),
            ([("take", "a", 512), ("free", "a"), ("take", "b", 600)],),
            ([("take", "a", 1536), ("free", "a"), ("take", "b", 700)],),
        ],
    ),
    Exercise(
        title="Scale the loss",
        title_zh="放大损失",
        text="""A GradScaler multiplies the loss by `scale`. After each step: if gradients were infinite, the step is
        skipped and the scale halves; after `interval` good steps in a row the scale doubles and the count begins
        anew. Given for each step whether its gradients were finite, return (the final scale, steps taken).""",
        solution='''
        def scaled(finite, scale, interval):
            """The scale in the end, and how many steps were taken."""
            row = taken = 0
            for good in finite:
                if good:
                    taken += 1
                    row += 1
                    if row == interval:
                        scale *= 2
                        row = 0
                else:
                    scale /= 2
                    row = 0
            return scale, taken
        ''',
        hint="A bad step also ends the row of good ones.",
        cases=lambda: [
            ([], 8.0, 2),
            ([True], 8.0, 2),
            ([True, True], 8.0, 2),
            ([False], 8.0, 2),
            ([True, False, True], 8.0, 2),
            ([True, True, True], 8.0, 2),
            ([True] * 7, 1.0, 3),
            ([True, True, False, True, True, True, False, False], 16.0, 3),
            ([True, True, True, True], 4.0, 2),
        ],
    ),
    Exercise(
        title="Asynchrony",
        title_zh="异步",
        text="""The host needs `launch` microseconds to launch a kernel, which then runs on the device for its own
        time, after all kernels before it. Kernels are launched one after the other without waiting, then the host
        waits for all. Return (when the host begins to wait, when it goes on).""",
        solution='''
        def timeline(kernels, launch):
            """(the host has launched everything, everything is done)."""
            host = device = 0
            for time in kernels:
                host += launch
                device = max(device, host) + time
            return host, max(host, device)
        ''',
        hint="A kernel begins when it is launched and the one before it has ended.",
        cases=lambda: [([], 5), ([3], 5), ([9], 5), ([1, 1, 1], 5), ([9, 9], 5), ([20, 1, 1, 1], 5), ([1, 30, 2], 4)],
    ),
)
