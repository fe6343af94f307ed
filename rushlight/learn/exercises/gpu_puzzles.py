"""GPU puzzles: ten kernels for blocks, threads, shared memory and barriers, run by the interpreter of `gpu.py`.

Where there is CUDA, a kernel without fault runs there too, and has to leave the same.
"""

import math
import re
from typing import Any

from ..cuda_text import on_cuda
from ..exercise import Exercise, chapter
from ..gpu import GpuFault, Memory, launch

RULES = """A kernel is a function of `t`, which knows its places `t.thread` and `t.block` and the counts `t.block_dim`
and `t.grid_dim` (each with .x and .y), and of memories with one or two dims. `t.shared(name, size, …)` is a memory of
the block, empty at first, and `yield` the block's barrier. `out` begins with zeros."""


def puzzle(title: str, title_zh: str, text: str, solution: str, hint: str, *cases: tuple, reads: int = 0) -> Exercise:
    """A kernel to write. A case is its grid, block, size of `out`, and arguments, of which lists become memories.
    With `reads`, an element of an input may be read so often, on the average."""
    found = re.search(r"def (\w+)", solution)
    assert found is not None
    name = found[1]

    def probe(answer: Any, grid: tuple, block: tuple, size: tuple, *inputs: Any) -> object:
        out = Memory("out", [0] * math.prod(size), size)
        given = [memory(letter, one) if isinstance(one, list) else one for letter, one in zip("abcd", inputs)]
        kernel, before = getattr(answer, name), list(out.values)
        shared = launch(kernel, grid, block, out, *given)
        true = on_cuda(kernel, grid, block, (Memory("out", before, size), *given), shared)
        if true is not None and true[0] != out.values:
            raise GpuFault(f"on CUDA out holds {true[0]}, on the interpreter {out.values}")
        if not reads:
            return out.values
        return out.values, all(one.reads <= reads * len(one.values) for one in given if isinstance(one, Memory))

    arguments = ", ".join(f"{{{k}}}" for k in range(3, len(cases[0])))
    asks = f"[out, few enough reads] of {name}" if reads else f"out of {name}"
    return Exercise(
        title, title_zh, f"{RULES} {text}", solution, hint, lambda: cases, probe,
        f"{asks} with a grid of {{0}}, blocks of {{1}}, out of size {{2}} and the arguments {arguments}",
    )  # fmt: skip


def memory(name: str, values: list) -> Memory:
    """Numbers, or rows of numbers."""
    if values and isinstance(values[0], list):
        return Memory(name, [value for row in values for value in row], (len(values), len(values[0])))
    return Memory(name, values)


CHAPTER = chapter(
    "gpu_puzzles",
    "GPU puzzles: ten kernels",
    "GPU 谜题：十个核函数",
    puzzle(
        "A thread for each element",
        "每个元素一个线程",
        "There is one block with one thread for each element of a: write twice each element into out.",
        '''
        def double(t, out, a):
            """out = 2 a."""
            out[t.thread.x] = 2 * a[t.thread.x]
        ''',
        "`t.thread.x` is the number of the thread, and of its element.",
        ((1,), (1,), (1,), [3]),
        ((1,), (4,), (4,), [1, 2, 0, -5]),
    ),
    puzzle(
        "More threads than elements",
        "线程比元素多",
        """The block may have more threads than there are elements: n of them, the others must touch nothing. Write a
        + b into out.""",
        '''
        def plus(t, out, a, b, n):
            """out = a + b, n elements."""
            i = t.thread.x
            if i < n:
                out[i] = a[i] + b[i]
        ''',
        "An `if` around all that touches memory.",
        ((1,), (1,), (1,), [3], [4], 1),
        ((1,), (4,), (2,), [1, 2], [5, 9], 2),
        ((1,), (8,), (5,), [1, 2, 3, 4, 5], [9, 7, 5, 3, 1], 5),
    ),
    puzzle(
        "Several blocks",
        "多个线程块",
        """Now there are several blocks; together they have at least n threads. Write the square of each of the n
        elements of a into out.""",
        '''
        def square(t, out, a, n):
            """out = a * a, n elements over all blocks."""
            i = t.block.x * t.block_dim.x + t.thread.x
            if i < n:
                out[i] = a[i] * a[i]
        ''',
        "Before this block there are `t.block.x` blocks of `t.block_dim.x` threads.",
        ((1,), (2,), (1,), [3], 1),
        ((2,), (2,), (4,), [1, 2, 3, 4], 4),
        ((3,), (4,), (9,), [1, 2, 3, 4, 5, 6, 7, 8, 9], 9),
    ),
    puzzle(
        "Two dims",
        "二维",
        """Blocks and threads have two dims, x along the columns and y along the rows. Write the products out[row,
        column] = a[row] * b[column], for so many rows and columns.""",
        '''
        def outer(t, out, a, b, rows, columns):
            """out[r, c] = a[r] * b[c]."""
            row = t.block.y * t.block_dim.y + t.thread.y
            column = t.block.x * t.block_dim.x + t.thread.x
            if row < rows and column < columns:
                out[row, column] = a[row] * b[column]
        ''',
        "Two indices, each as in the puzzle before, and both have to be inside.",
        ((1, 1), (2, 2), (1, 1), [3], [5], 1, 1),
        ((2, 1), (2, 3), (2, 3), [1, 2], [5, 6, 7], 2, 3),
        ((2, 2), (3, 2), (3, 5), [1, 2, 3], [5, 6, 7, 8, 9], 3, 5),
    ),
    puzzle(
        "Few threads, many elements",
        "少量线程，大量元素",
        """There may be fewer threads than the n elements: each thread takes its own element, and then every one that
        is as many places further as there are threads in the grid. Write a + 1 into out.""",
        '''
        def add_one(t, out, a, n):
            """out = a + 1, whatever the grid."""
            threads = t.grid_dim.x * t.block_dim.x
            for i in range(t.block.x * t.block_dim.x + t.thread.x, n, threads):
                out[i] = a[i] + 1
        ''',
        "A `range` from the thread's number to n in steps of all threads.",
        ((1,), (1,), (2,), [3, 4], 2),
        ((2,), (2,), (3,), [1, 2, 3], 3),
        ((2,), (2,), (9,), [5, 6, 7, 8, 9, 10, 11, 12, 13], 9),
    ),
    puzzle(
        "Mirror in shared memory",
        "在共享内存中翻转",
        """Each block reverses its own part of a: one thread for each element, and each thread reads a once, at its
        own place, and writes out once, at its own place. What it writes comes through shared memory.""",
        '''
        def mirror(t, out, a):
            """Each block's part in reverse."""
            width = t.block_dim.x
            tile = t.shared("tile", width)
            i = t.block.x * width + t.thread.x
            tile[t.thread.x] = a[i]
            yield
            out[i] = tile[width - 1 - t.thread.x]
        ''',
        "Put your element into shared memory, wait for the others, then fetch another one.",
        ((1,), (1,), (1,), [3]),
        ((1,), (3,), (3,), [1, 2, 3]),
        ((2,), (4,), (8,), [1, 2, 3, 4, 5, 6, 7, 9]),
        reads=1,
    ),
    puzzle(
        "Neighbours",
        "左右邻居",
        """Within each block, write the sum of an element and its left and right neighbours into out; what lies
        outside of the block counts as 0. One thread for each element; read each element of a only once.""",
        '''
        def neighbours(t, out, a):
            """Sums of three within a block."""
            width, x = t.block_dim.x, t.thread.x
            tile = t.shared("tile", width)
            i = t.block.x * width + x
            tile[x] = a[i]
            yield
            total = tile[x]
            if x > 0:
                total += tile[x - 1]
            if x < width - 1:
                total += tile[x + 1]
            out[i] = total
        ''',
        """Shared memory may be read as often as you like. The first thread has no left neighbour, the last one no
        right one.""",
        ((1,), (1,), (1,), [3]),
        ((1,), (3,), (3,), [1, 2, 4]),
        ((2,), (4,), (8,), [1, 2, 4, 8, 16, 32, 64, 128]),
        reads=1,
    ),
    puzzle(
        "Sum of a block",
        "块内求和",
        """Write the sum of each block's part of the n elements of a into out[block]. Blocks have a power of two of
        threads. Add in halves: in each round the first half of the threads adds what the second half holds; all go
        through every barrier.""",
        '''
        def block_sum(t, out, a, n):
            """out[block] = the sum of the block's elements."""
            x = t.thread.x
            tile = t.shared("tile", t.block_dim.x)
            i = t.block.x * t.block_dim.x + x
            tile[x] = a[i] if i < n else 0
            half = t.block_dim.x // 2
            while half > 0:
                yield
                if x < half:
                    tile[x] = tile[x] + tile[x + half]
                half //= 2
            if x == 0:
                out[t.block.x] = tile[0]
        ''',
        "Who has no element puts 0 into shared memory. The barrier stands in the loop, outside of the `if`.",
        ((1,), (1,), (1,), [3], 1),
        ((1,), (2,), (1,), [3, 4], 2),
        ((1,), (4,), (1,), [1, 2, 4], 3),
        ((2,), (4,), (2,), [1, 2, 4, 8, 16], 5),
        ((2,), (8,), (2,), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9], 15),
        reads=1,
    ),
    puzzle(
        "A histogram",
        "直方图",
        """The n elements of a are numbers of bins: count in out how often each occurs. Threads may meet at a bin:
        `t.atomic_add(memory, index, value)` adds so that nothing gets lost.""",
        '''
        def histogram(t, out, a, n):
            """How often each number occurs."""
            i = t.block.x * t.block_dim.x + t.thread.x
            if i < n:
                t.atomic_add(out, a[i], 1)
        ''',
        "`out[b] = out[b] + 1` is a read and a write, between which another thread may come.",
        ((1,), (1,), (1,), [0], 1),
        ((1,), (4,), (2,), [1, 0, 1], 3),
        ((2,), (4,), (4,), [3, 3, 0, 2, 3, 0], 6),
        ((3,), (2,), (2,), [0, 0, 0, 0, 1], 5),
    ),
    puzzle(
        "A product in tiles",
        "分块矩阵乘法",
        """Multiply two square matrices of n rows. Blocks are squares of T = t.block_dim.x by T threads, T divides n,
        and the grid covers out. For each of the n / T steps the block copies a tile of a and one of b into shared
        memory, so that every element is read n / T times and not n times.""",
        '''
        def product(t, out, a, b, n):
            """out = a @ b."""
            size, x, y = t.block_dim.x, t.thread.x, t.thread.y
            left, right = t.shared("left", size, size), t.shared("right", size, size)
            row, column = t.block.y * size + y, t.block.x * size + x
            total = 0
            for start in range(0, n, size):
                left[y, x] = a[row, start + x]
                right[y, x] = b[start + y, column]
                yield
                for k in range(size):
                    total += left[y, k] * right[k, x]
                yield
            out[row, column] = total
        ''',
        "Two barriers a step: one before the tiles are read, one before they are written again.",
        ((1, 1), (1, 1), (1, 1), [[3]], [[4]], 1),
        ((1, 1), (2, 2), (2, 2), [[1, 2], [3, 4]], [[5, 6], [7, 9]], 2),
        (
            (2, 2),
            (2, 2),
            (4, 4),
            [[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3], [4, 5, 6, 8]],
            [[1, 0, 2, 0], [0, 3, 0, 1], [2, 2, 1, 1], [1, 4, 0, 5]],
            4,
        ),
        reads=2,
    ),
)
