"""Tensor puzzles: twenty functions, each one return of arithmetic, indexing, `arange`, `where` and earlier puzzles."""

from collections.abc import Sequence
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter
from ..one_line import one_line

NUMBERS = ([4], [3, -1], [2, 7, 1], [5, -2, 0, 9], [6, 1, 8, 3, -7, 2])


def puzzle(
    title: str, title_zh: str, text: str, solution: str, hint: str, cases: Sequence[tuple[Any, ...]], *needs: int
) -> Exercise:
    """A puzzle; lists among its cases become tensors, and `needs` are numbers of earlier ones."""

    def made() -> list[tuple[Any, ...]]:
        return [tuple(torch.tensor(value) if isinstance(value, list) else value for value in case) for case in cases]

    return Exercise(
        title, title_zh, text, solution, hint, made, rule=one_line, needs=tuple(f"tensor_puzzles.{k}" for k in needs),
        given="from rushlight import arange, where",
    )  # fmt: skip


def each(*rest: Any) -> list[tuple[Any, ...]]:
    return [(row, *rest) for row in NUMBERS]


CHAPTER = chapter(
    "tensor_puzzles",
    "Tensor puzzles: twenty one-liners",
    "张量谜题：二十个单行",
    puzzle(
        "Odd numbers",
        "奇数",
        "The first n odd numbers: 1, 3, 5, …",
        '''
        def odds(n):
            """1, 3, 5, …"""
            return 2 * arange(n) + 1
        ''',
        "Number k is twice k, plus one.",
        [(1,), (2,), (5,), (0,)],
    ),
    puzzle(
        "All the same",
        "全都一样",
        "n times the same whole number.",
        '''
        def fill(n, value):
            """The value, n times."""
            return arange(n) * 0 + value
        ''',
        "Something times 0 has the right length.",
        [(1, 7), (3, 2), (4, -5), (0, 1)],
    ),
    puzzle(
        "Total",
        "总和",
        "The sum of a vector of whole numbers, without dims.",
        '''
        def total(x):
            """The sum of all elements."""
            return x @ fill(x.shape[0], 1)
        ''',
        "A dot product with ones.",
        each(),
        2,
    ),
    puzzle(
        "Multiplication table",
        "乘法表",
        "The n by n matrix of products, from 1 * 1 on.",
        '''
        def table(n):
            """Row i, column j: (i + 1) * (j + 1)."""
            return (arange(n) + 1)[:, None] * (arange(n) + 1)
        ''',
        "`x[:, None]` makes a column, and a column with a row broadcasts to a matrix.",
        [(1,), (2,), (4,)],
    ),
    puzzle(
        "Chessboard",
        "棋盘",
        "An n by n matrix of 0 and 1 in turns, 0 in the corner at the top left.",
        '''
        def board(n):
            """0 1 0 … over 1 0 1 …"""
            return where(arange(n)[:, None] % 2 == arange(n) % 2, 0, 1)
        ''',
        "A field is 0 where its row and its column are both even or both odd.",
        [(1,), (2,), (3,), (4,)],
    ),
    puzzle(
        "Unit matrix",
        "单位矩阵",
        "The n by n matrix with 1 on the diagonal, otherwise 0.",
        '''
        def unit(n):
            """1 where row and column are equal."""
            return where(arange(n)[:, None] == arange(n), 1, 0)
        ''',
        "Compare a column with a row.",
        [(1,), (2,), (4,)],
    ),
    puzzle(
        "Lower triangle",
        "下三角",
        "The n by n matrix with 1 on and below the diagonal, otherwise 0.",
        '''
        def lower(n):
            """1 where the column is not behind the row."""
            return where(arange(n)[:, None] >= arange(n), 1, 0)
        ''',
        "As the unit matrix, with another comparison.",
        [(1,), (2,), (4,)],
    ),
    puzzle(
        "Running total",
        "累计和",
        "Element k of the result is the sum of the elements 0 to k.",
        '''
        def running(x):
            """Sums of all beginnings."""
            return lower(x.shape[0]) @ x
        ''',
        "Each sum is a row of 1s and 0s times x.",
        each(),
        7,
    ),
    puzzle(
        "Steps",
        "相邻之差",
        "What is added from each element to the next: one less than there are elements.",
        '''
        def steps(x):
            """Differences of neighbours."""
            return x[1:] - x[:-1]
        ''',
        "x without its first minus x without its last.",
        each(),
    ),
    puzzle(
        "Marks",
        "独热",
        "A matrix with a row for each label: 1 in the label's column, 0 in the others.",
        '''
        def marks(labels, classes):
            """One-hot rows."""
            return where(labels[:, None] == arange(classes), 1, 0)
        ''',
        "Compare a column of labels with a row of classes.",
        [([0], 1), ([1], 3), ([2, 0, 2], 3), ([4, 1, 0, 1], 5)],
    ),
    puzzle(
        "Counts",
        "计数",
        "How often each of the labels 0 … classes-1 occurs.",
        '''
        def counts(labels, classes):
            """Occurrences of each class."""
            return fill(labels.shape[0], 1) @ marks(labels, classes)
        ''',
        "The sum of the marks over their rows.",
        [([0], 1), ([1], 3), ([2, 0, 2], 3), ([4, 1, 0, 1, 1], 5)],
        2,
        10,
    ),
    puzzle(
        "Mirror",
        "镜像",
        "The elements in reverse order.",
        '''
        def mirror(x):
            """The last element first."""
            return x[x.shape[0] - 1 - arange(x.shape[0])]
        ''',
        "A tensor of whole numbers as an index picks elements in its order.",
        each(),
    ),
    puzzle(
        "Turn",
        "轮转",
        "The elements from place k on, then those before it.",
        '''
        def turn(x, k):
            """x rotated to the left by k."""
            return x[(arange(x.shape[0]) + k) % x.shape[0]]
        ''',
        "Places k, k + 1, …, which begin again at the end: a remainder.",
        [(row, k) for row in NUMBERS for k in (1, 2)],
    ),
    puzzle(
        "Distances",
        "两两距离",
        "The matrix of |x_i - y_j|.",
        '''
        def distances(x, y):
            """Row i, column j: how far x_i is from y_j."""
            return where(x[:, None] > y, x[:, None] - y, y - x[:, None])
        ''',
        "Take one difference or the other, whichever is positive.",
        [([1], [4]), ([1, 5], [3]), ([1, 9, -2], [0, 4]), ([2, 2], [2, 3])],
    ),
    puzzle(
        "Frames",
        "滑窗",
        "Row k of the result holds `width` elements of x from place k on; as many rows as fit.",
        '''
        def frames(x, width):
            """All windows of a width."""
            return x[arange(x.shape[0] - width + 1)[:, None] + arange(width)]
        ''',
        "A matrix of places as the index gives a matrix.",
        [([4], 1), ([3, -1], 1), ([3, -1], 2), ([2, 7, 1], 2), ([5, -2, 0, 9], 2), ([5, -2, 0, 9, 4], 3)],
    ),
    puzzle(
        "Slide",
        "滑动点积",
        "The dot products of a kernel with all windows of its length.",
        '''
        def slide(x, kernel):
            """A convolution without padding, the kernel not reversed."""
            return frames(x, kernel.shape[0]) @ kernel
        ''',
        "Windows are rows.",
        [([4], [2]), ([3, -1], [2, 5]), ([2, 7, 1], [1, -1]), ([5, -2, 0, 9], [3]), ([5, -2, 0, 9, 4], [1, 0, 2])],
        15,
    ),
    puzzle(
        "Stretch",
        "拉长",
        "Every element k times in a row.",
        '''
        def stretch(x, k):
            """a a b b c c for k = 2."""
            return x[arange(x.shape[0] * k) // k]
        ''',
        "Place j of the result shows element j // k.",
        [(row, k) for row in NUMBERS[:4] for k in (1, 2, 3)],
    ),
    puzzle(
        "Weave",
        "交织",
        "x_0, y_0, x_1, y_1, … of two vectors of the same length.",
        '''
        def weave(x, y):
            """Elements of both in turns."""
            return where(arange(2 * x.shape[0]) % 2 == 0, stretch(x, 2), stretch(y, 2))
        ''',
        "Stretch both, and take from them in turns.",
        [([1], [9]), ([1, 2], [8, 9]), ([4, 0, 5], [7, -7, 6])],
        17,
    ),
    puzzle(
        "Rank",
        "名次",
        "For every element, how many elements are smaller.",
        '''
        def rank(x):
            """How many are smaller, for each."""
            return where(x[:, None] > x, 1, 0) @ fill(x.shape[0], 1)
        ''',
        "Compare all with all, and add up the rows.",
        [*each(), ([2, 2, 1],), ([3, 1, 3, 1],)],
        2,
    ),
    puzzle(
        "In order",
        "排好序",
        "The elements in ascending order; all are different.",
        '''
        def in_order(x):
            """The smallest element first."""
            return where(rank(x) == arange(x.shape[0])[:, None], 1, 0) @ x
        ''',
        "Row k marks the element of rank k.",
        each(),
        19,
    ),
)
