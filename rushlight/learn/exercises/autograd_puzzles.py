"""Autograd puzzles: ten rules for going backwards, each held against numerical differences by `gradcheck`."""

from collections.abc import Callable
from typing import Any

import rushlight as torch

from ..exercise import Exercise, Probe, chapter


def rule_of(forward: Callable[..., torch.Tensor]) -> Probe:
    """A probe: the answer's gradients, and whether differences of the forward function confirm them."""

    def probe(answer: Any, g: list, *inputs: Any) -> object:
        tensors = [torch.tensor(value) if isinstance(value, list) else value for value in inputs]
        rule = next(value for name, value in vars(answer).items() if name.endswith("_backward"))

        class Op(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
                ctx.inputs = arguments
                return forward(*arguments)

            @staticmethod
            def backward(ctx: Any, arriving: torch.Tensor) -> Any:
                found = rule(arriving, *ctx.inputs)
                found = found if isinstance(found, tuple) else (found,)
                return (*found, *[None] * (len(ctx.inputs) - len(found)))

        found = rule(torch.tensor(g), *tensors)
        doubles = [
            one.double().requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
            for one in tensors
        ]
        return found, torch.autograd.gradcheck(Op.apply, doubles, raise_exception=False)

    return probe


def puzzle(
    title: str, title_zh: str, text: str, forward: Callable[..., torch.Tensor], solution: str, hint: str, *cases: tuple
) -> Exercise:
    """A rule to write: g arrives for forward(*inputs)."""
    shown = " and ".join(f"{{{k}}}" for k in range(1, len(cases[0])))
    return Exercise(
        title, title_zh, f"{text} Return the gradients in the shapes of the inputs, without autograd.", solution, hint,
        lambda: cases, rule_of(forward), f"[the gradients, gradcheck] with g = {{0}} at {shown}",
        given="import rushlight as torch",
    )  # fmt: skip


def convolve(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x.unfold(0, len(k), 1) @ k


CHAPTER = chapter(
    "autograd_puzzles",
    "Autograd puzzles: ten rules",
    "自动求导谜题：十条规则",
    puzzle(
        "Squared difference",
        "差的平方",
        "y = (a - b)², element by element. g has the shape of y.",
        lambda a, b: (a - b) ** 2,
        '''
        def difference_backward(g, a, b):
            """Gradients of a and b."""
            slope = 2 * g * (a - b)
            return slope, -slope
        ''',
        "The derivative of a square is twice what is squared; b counts negatively.",
        ([1.0], [3.0], [1.0]),
        ([1.0, 2.0], [0.5, 1.0], [2.0, -3.0]),
        ([0.0], [1.0], [5.0]),
    ),
    puzzle(
        "Mean",
        "平均值",
        "y is the mean of all elements of x, which may have any shape; g has no dims.",
        lambda x: x.mean(),
        '''
        def mean_backward(g, x):
            """The gradient of x."""
            return torch.ones_like(x) * g / x.numel()
        ''',
        "Every element moves the mean by one part in x.numel().",
        (1.0, [3.0]),
        (2.0, [1.0, 2.0]),
        (-3.0, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ),
    puzzle(
        "A scale for each column",
        "逐列缩放",
        "y = x * s, x of shape (rows, columns), s of shape (columns).",
        lambda x, s: x * s,
        '''
        def scale_backward(g, x, s):
            """Gradients of x and s."""
            return g * s, (g * x).sum(0)
        ''',
        "What was broadcast on the way there is summed on the way back.",
        ([[1.0]], [[2.0]], [3.0]),
        ([[1.0, 2.0]], [[3.0, 4.0]], [5.0, 6.0]),
        ([[1.0, -1.0], [0.5, 2.0], [3.0, 1.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0.5, -2.0]),
    ),
    puzzle(
        "The larger one",
        "取较大者",
        "y = maximum(a, b), element by element. Where they are equal, a gets the whole gradient.",
        torch.maximum,
        '''
        def larger_backward(g, a, b):
            """Gradients of a and b."""
            return torch.where(a >= b, g, 0.0), torch.where(a >= b, 0.0, g)
        ''',
        "One of the two gets all of g, the other nothing.",
        ([2.0], [1.0], [3.0]),
        ([2.0], [3.0], [1.0]),
        ([1.0, 4.0, -2.0], [1.0, 5.0, 0.0], [2.0, -5.0, 0.5]),
        ([1.5, 2.0], [1.0, 1.0], [1.0, 2.0]),
    ),
    puzzle(
        "Running total",
        "累计和",
        "y = cumsum(x) of a vector: y_k is the sum of x_0 … x_k.",
        lambda x: x.cumsum(0),
        '''
        def running_backward(g, x):
            """The gradient of x."""
            return g.flip(0).cumsum(0).flip(0)
        ''',
        "x_k is part of y_k and of all behind it: a running total from the other end.",
        ([2.0], [1.0]),
        ([1.0, 2.0], [3.0, 4.0]),
        ([1.0, -2.0, 4.0, 0.5], [1.0, 2.0, 3.0, 4.0]),
    ),
    puzzle(
        "Matrix product",
        "矩阵乘法",
        "y = a @ b of two matrices.",
        lambda a, b: a @ b,
        '''
        def matmul_backward(g, a, b):
            """Gradients of a and b."""
            return g @ b.T, a.T @ g
        ''',
        "Only one way of multiplying g with the other matrix has the right shape.",
        ([[1.0]], [[2.0]], [[3.0]]),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], [[1.0, 0.0], [2.0, 1.0], [0.0, 4.0]]),
        ([[1.0], [-1.0]], [[2.0, 1.0], [0.0, 3.0]], [[5.0], [7.0]]),
    ),
    puzzle(
        "Softmax",
        "Softmax",
        "y = softmax(x) of a vector.",
        lambda x: torch.softmax(x, 0),
        '''
        def softmax_backward(g, x):
            """The gradient of x."""
            y = torch.softmax(x, 0)
            return y * (g - (g * y).sum())
        ''',
        "Raising one probability lowers the others: from g its mean under y is taken away.",
        ([1.0, 0.0], [0.0, 0.0]),
        ([1.0, 2.0], [1.0, -1.0]),
        ([1.0, -2.0, 0.5], [0.5, 1.0, 2.0]),
        ([3.0], [4.0]),
    ),
    puzzle(
        "Unit length",
        "单位长度",
        "y = x / |x|, the Euclidean length of the vector x; x is not 0.",
        lambda x: x / x.norm(),
        '''
        def unit_backward(g, x):
            """The gradient of x."""
            length = x.norm()
            y = x / length
            return (g - y * (g * y).sum()) / length
        ''',
        "y cannot grow in its own direction: take that part of g away, then divide by the length.",
        ([1.0], [2.0]),
        ([1.0, 0.0], [3.0, 4.0]),
        ([0.5, -1.0, 2.0], [1.0, 2.0, -2.0]),
        ([1.0, 1.0], [0.0, 0.5]),
    ),
    puzzle(
        "Rows of a table",
        "查表",
        """y = table[index]: row k of y is row index[k] of the table. index has whole numbers, some maybe twice; only
        the table gets a gradient.""",
        lambda table, index: table[index],
        '''
        def rows_backward(g, table, index):
            """The gradient of the table."""
            return torch.zeros_like(table).index_add(0, index, g)
        ''',
        "Rows that were looked up twice get both gradients: `index_add` adds them up.",
        ([[1.0]], [[2.0]], [0]),
        ([[1.0, 2.0]], [[1.0, 1.0], [3.0, 3.0]], [1]),
        ([[1.0], [2.0], [4.0]], [[5.0], [6.0], [7.0]], [2, 0, 2]),
    ),
    puzzle(
        "Convolution",
        "卷积",
        "y_k is the sum over j of x_(k+j) * kernel_j, for all k that fit: a vector and a kernel.",
        convolve,
        '''
        def convolution_backward(g, x, kernel):
            """Gradients of x and of the kernel."""
            to_x = torch.zeros_like(x)
            for j, weight in enumerate(kernel):
                to_x[j : j + len(g)] += g * weight
            return to_x, x.unfold(0, len(g), 1) @ g
        ''',
        "Each weight sends g back to where it looked; the kernel's gradient slides g over x.",
        ([1.0], [2.0], [3.0]),
        ([1.0, 2.0], [1.0, 4.0], [2.0]),
        ([1.0, -2.0], [1.0, 2.0, 3.0], [4.0, 5.0]),
        ([1.0, 2.0, -1.0], [1.0, 0.0, 2.0, 5.0, 3.0], [0.5, 1.0, -1.0]),
    ),
)
