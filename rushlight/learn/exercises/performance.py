"""Exercises of the chapter on performance: roofline, overhead, FLOPs, convolution as a product."""

import rushlight as torch

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "performance",
    "Performance: what bounds a program",
    "性能：程序受什么限制",
    Exercise(
        title="The roofline",
        title_zh="屋顶线",
        text="""A chip computes at most `peak` FLOP a second and moves at most `bandwidth` bytes a second. A kernel
        needs `flops` and moves `bytes`. Return (seconds, bound): the shortest possible time if both overlap, and
        "compute" where computing takes longer, "memory" otherwise.""",
        solution='''
        def roofline(flops, bytes, peak, bandwidth):
            """The shortest time of a kernel, and what bounds it."""
            compute, memory = flops / peak, bytes / bandwidth
            return max(compute, memory), "compute" if compute > memory else "memory"
        ''',
        hint="Two times, one for each limit; the longer one is what the kernel takes.",
        cases=lambda: [(10, 10, 1, 1), (20, 10, 2, 2), (100, 5, 10, 1), (5, 100, 10, 1), (64, 8, 16, 4), (7, 9, 2, 3)],
    ),
    Exercise(
        title="FLOPs of a layer",
        title_zh="一层的浮点运算数",
        text="""Return the FLOPs (a multiplication and an addition are two) of a convolution without padding and bias:
        input (n, c, h, w), `out` channels, a square kernel of size k, and stride s in both directions. Where the
        kernel does not fit, there are none.""",
        solution='''
        def conv_flops(shape, out, k, s):
            """FLOPs of a convolution."""
            n, c, h, w = shape
            rows, columns = ((size - k) // s + 1 if size >= k else 0 for size in (h, w))
            return 2 * n * out * rows * columns * c * k * k
        ''',
        hint="Every element of the output is a dot product of c * k * k numbers.",
        cases=lambda: [
            ((1, 1, 1, 1), 1, 1, 1),
            ((1, 1, 4, 4), 1, 3, 1),
            ((2, 3, 8, 6), 4, 3, 2),
            ((1, 1, 2, 5), 1, 3, 1),
            ((1, 2, 5, 5), 3, 2, 3),
            ((1, 1, 3, 3), 1, 3, 2),
            ((1, 1, 1, 1), 1, 2, 1),
            ((1, 1, 9, 1), 1, 2, 1),
            ((1, 1, 1, 1), 1, 4, 1),
            ((1, 1, 1, 1), 1, 4, 2),
        ],
    ),
    Exercise(
        title="Convolution as a matrix product",
        title_zh="把卷积变成矩阵乘法",
        text="""Convolve an image (h, w) with a kernel (k, k), no padding, stride 1, by one matrix product:
        `patches(image, k)` returns the matrix (positions, k * k) of all windows, row by row, and `conv(image,
        kernel)` uses it and returns the result as a matrix.""",
        solution='''
        def patches(image, k):
            """All windows of an image, each a row."""
            return image.unfold(0, k, 1).unfold(1, k, 1).reshape(-1, k * k)


        def conv(image, kernel):
            """The convolution of an image with a square kernel."""
            k = len(kernel)
            h, w = image.shape
            return (patches(image, k) @ kernel.reshape(-1)).reshape(h - k + 1, w - k + 1)
        ''',
        hint="`unfold(dim, size, step)` makes windows along one dim, as a view; use it twice.",
        cases=lambda: [
            (torch.arange(float(h * w)).reshape(h, w).square(), torch.arange(1.0, k * k + 1).reshape(k, k))
            for h, w, k in ((1, 1, 1), (2, 3, 1), (3, 3, 2), (4, 3, 3), (3, 4, 2))
        ],
        probe=lambda answer, image, kernel: [answer.patches(image, len(kernel)), answer.conv(image, kernel)],
        asks="[the patches, the convolution] of {0} with {1}",
    ),
    Exercise(
        title="Overhead or work",
        title_zh="开销还是计算",
        text="""The time of a kernel is overhead + n * each. Given two measurements (n, microseconds) at different n,
        return (overhead, each), and with them the smallest whole n at which the work is at least as long as the
        overhead, or None if `each` is not positive.""",
        solution='''
        import math


        def split(one, other):
            """(overhead, each, the n at which they are level)."""
            each = (other[1] - one[1]) / (other[0] - one[0])
            overhead = one[1] - one[0] * each
            return overhead, each, math.ceil(overhead / each) if each > 0 else None
        ''',
        hint="A straight line through two points; the work is level with the overhead at n = overhead / each.",
        cases=lambda: [
            ((0, 2), (1, 3)),
            ((1, 3), (2, 4)),
            ((10, 8), (20, 11)),
            ((4, 5), (8, 5)),
            ((100, 30), (500, 130)),
            ((2, 8), (4, 4)),
        ],
    ),
)
