"""Exercises of the chapter on what is inside a tensor: storage, strides, views, broadcasting."""

from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "tensors_inside",
    "Inside a tensor",
    "张量的内部",
    Exercise(
        title="Strides of a fresh tensor",
        title_zh="新张量的步长",
        text="""Return the strides (in elements, a tuple) of a contiguous tensor of the given shape. For this exercise
        a size of 0 counts as 1.""",
        solution='''
        def strides(shape):
            """Elements from one index to the next, for every dim."""
            found = []
            step = 1
            for size in reversed(shape):
                found.append(step)
                step *= max(size, 1)
            return tuple(reversed(found))
        ''',
        hint="Begin at the last dim, whose stride is 1; each dim before it steps over all that are behind it.",
        cases=lambda: [((),), ((3,),), ((2, 3),), ((2, 3, 4),), ((5, 1, 2),), ((2, 0, 3),)],
    ),
    Exercise(
        title="Do two views overlap?",
        title_zh="两个视图是否重叠",
        text="""Two views of one storage are given as (offset, shape, strides). Return whether some element of the
        storage belongs to both. Strides are not negative; a shape with a size of 0 has no elements.""",
        solution='''
        def places(offset, shape, strides):
            """The positions in storage that a view shows."""
            found = {offset}
            for size, stride in zip(shape, strides):
                found = {at + k * stride for at in found for k in range(size)}
            return found


        def overlap(one, other):
            """Whether two views share an element."""
            return not places(*one).isdisjoint(places(*other))
        ''',
        hint="""Build the set of positions dim by dim: for every position known so far, `size` positions, `stride`
        apart.""",
        cases=lambda: [
            ((0, (), ()), (0, (), ())),
            ((0, (2,), (1,)), (2, (2,), (1,))),
            ((0, (3,), (1,)), (2, (2,), (1,))),
            ((0, (3,), (2,)), (1, (3,), (2,))),
            ((0, (0,), (1,)), (0, (1,), (1,))),
            ((0, (2, 2), (4, 1)), (2, (2, 2), (4, 1))),
            ((0, (2, 3), (4, 1)), (6, (1,), (9,))),
            ((5, (4,), (0,)), (3, (2,), (2,))),
            ((0, (2, 2), (3, 1)), (4, (1,), (1,))),
        ],
    ),
    Exercise(
        title="Broadcast two shapes",
        title_zh="两个形状的广播",
        text="""Return the shape that two shapes broadcast to, or None where they do not: aligned at their last dims,
        sizes must be equal, or one of them 1, or missing.""",
        solution='''
        def broadcast(one, other):
            """The common shape, or None."""
            length = max(len(one), len(other))
            one = (1,) * (length - len(one)) + tuple(one)
            other = (1,) * (length - len(other)) + tuple(other)
            sizes = []
            for a, b in zip(one, other):
                if a != b and a != 1 and b != 1:
                    return None
                sizes.append(b if a == 1 else a)
            return tuple(sizes)
        ''',
        hint="Put 1s in front of the shorter one. A size of 0 beside a 1 stays 0, so `max` is not the answer.",
        cases=lambda: [
            ((), ()),
            ((3,), ()),
            ((), (3,)),
            ((3,), (1,)),
            ((2, 3), (3,)),
            ((2, 1), (1, 3)),
            ((2,), (3,)),
            ((0,), (1,)),
            ((1,), (0,)),
            ((2, 3), (2, 4)),
            ((4, 1, 2), (5, 1)),
            ((2, 3), (2,)),
            ((1, 1), (3, 2)),
            ((0,), (2,)),
        ],
    ),
    Exercise(
        title="Windows without a copy",
        title_zh="不复制的滑窗",
        text="""Given a one-dimensional contiguous tensor, return a view of shape (number of windows, width) whose row
        k holds the elements from k * step on. Windows that would reach beyond the end are left out. Nothing may be
        copied: use `as_strided`.""",
        solution='''
        def windows(x, width, step):
            """All whole windows, as a view."""
            count = (len(x) - width) // step + 1
            return x.as_strided((max(count, 0), width), (step, 1))
        ''',
        hint="Strides may overlap: the row stride is `step`, the stride inside a row is 1.",
        cases=lambda: [(3, 2, 1), (3, 3, 1), (2, 3, 1), (7, 3, 2), (8, 2, 3), (6, 2, 2), (5, 5, 4)],
        probe=lambda answer, length, width, step: shares(answer.windows, length, width, step),
        asks="[the windows, whether they share memory with x] for x = arange({0}), width {1}, step {2}",
    ),
    Exercise(
        title="Can it be a view?",
        title_zh="能否成为视图",
        text="""Can a tensor of this shape and these strides be viewed as one-dimensional without a copy? It can when,
        dims of size 1 left out, every stride is the product of the next dim's size and stride. A tensor without
        elements always can.""",
        solution='''
        def flattens(shape, strides):
            """Whether view(-1) works."""
            if 0 in shape:
                return True
            dims = [(size, stride) for size, stride in zip(shape, strides) if size != 1]
            return all(a[1] == b[0] * b[1] for a, b in zip(dims, dims[1:]))
        ''',
        hint="Drop the dims of size 1, then compare neighbours.",
        cases=lambda: [
            ((), ()),
            ((3,), (5,)),
            ((2, 3), (3, 1)),
            ((2, 3), (1, 2)),
            ((2, 3), (4, 1)),
            ((2, 1, 3), (3, 99, 1)),
            ((1, 3), (50, 2)),
            ((2, 0), (7, 7)),
            ((2, 3, 4), (12, 4, 1)),
            ((2, 3, 4), (24, 8, 2)),
            ((2, 3, 4), (12, 1, 3)),
            ((3, 3), (0, 0)),
            ((3, 3), (0, 1)),
            ((2, 2), (1, 1)),
        ],
    ),
)


def shares(windows: Any, length: Any, width: Any, step: Any) -> Any:
    """The windows of 0, 1, 2, …, and whether a change of the tensor shows in them."""
    x = torch.arange(float(length))
    view = windows(x, width, step)
    before = view.tolist()
    x += 100
    return before, list(view.shape), (view - 100).tolist() == before
