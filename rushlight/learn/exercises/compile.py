"""Exercises of the chapter on compilation: fusion, bytes moved, graph breaks, dynamic sizes."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def captured(answer: ModuleType, values: Any) -> Any:
    """What a program gives, and how many graphs the compiler saw in it."""
    graphs = []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    x = torch.tensor(values)
    return torch.compile(answer.steps, backend=count)(x), len(graphs), answer.steps(x)


CHAPTER = chapter(
    "compile",
    "Compiling: what it does and what it gains",
    "编译：做什么、得到什么",
    Exercise(
        title="Bytes that a chain moves",
        title_zh="一串逐点运算搬动的字节",
        text="""`steps` elementwise ops are applied one after the other to a tensor of `count` elements of `size`
        bytes. Eager mode reads and writes the whole tensor in each of them. A fused kernel reads it once and writes
        it once. Return both amounts of bytes, eager first; with no step at all, nothing moves in either.""",
        solution='''
        def traffic(count, size, steps):
            """Bytes moved: (eager, fused)."""
            once = 2 * count * size
            return once * steps, once * min(steps, 1)
        ''',
        hint="One op moves every element twice: in and out. Fusion keeps what is between two ops in registers.",
        cases=lambda: [(0, 4, 3), (1, 4, 1), (1, 2, 5), (1000, 4, 0), (1000, 4, 7), (12, 8, 2)],
    ),
    Exercise(
        title="Group what can be fused",
        title_zh="把可融合的分组",
        text="""A program is a list of the names of its ops, in order. Ops in POINTWISE can share a kernel with
        pointwise neighbours, a "sum" can end such a kernel (nothing is fused after it), and everything else is a
        kernel of its own. Return the list of kernels, each a list of names.""",
        solution='''
        POINTWISE = {"add", "mul", "relu", "exp", "tanh"}


        def kernels(names):
            """Neighbours that share a kernel, in order."""
            groups = []
            is_open = False
            for name in names:
                if is_open and (name in POINTWISE or name == "sum"):
                    groups[-1].append(name)
                else:
                    groups.append([name])
                is_open = name in POINTWISE
            return groups
        ''',
        hint="Remember whether the last group may still grow: only a pointwise op leaves it open.",
        cases=lambda: [
            ([],),
            (["add"],),
            (["add", "mul"],),
            (["matmul", "add"],),
            (["add", "sum", "mul"],),
            (["sum", "sum"],),
            (["exp", "sum", "relu", "tanh", "matmul", "sum", "add"],),
            (["matmul", "sort", "relu"],),
            (["sum", "relu"],),
            (["tanh", "exp", "sum"],),
            (["relu", "matmul", "relu"],),
            (["mul", "tanh"],),
        ],
    ),
    Exercise(
        title="A program in one graph",
        title_zh="整个程序一张图",
        text="""This program doubles x when its sum is positive and negates it otherwise, with an `if` on a tensor's
        value: `return x * 2 if x.sum() > 0 else -x`. The compiler cannot know which way it goes and breaks the graph.
        Write `steps(x)` so that it computes the same in exactly one graph.""",
        solution='''
        import rushlight as torch


        def steps(x):
            """x * 2 where the sum of x is positive, otherwise -x, without asking Python."""
            return torch.where(x.sum() > 0, x * 2, -x)
        ''',
        hint="`torch.where` takes a condition that is a tensor of one element, and computes both ways.",
        cases=lambda: [([1.0],), ([-1.0],), ([2.0, -1.0],), ([2.0, -3.0],), ([0.5, 0.25, -0.5],), ([1.0, -1.0],)],
        probe=captured,
        asks="[the result, the number of graphs, the result in eager mode] of steps on {0}",
    ),
    Exercise(
        title="Guards of a dynamic size",
        title_zh="动态尺寸的守卫",
        text="""The compiler keeps programs with their guards. A static program serves one size. The first size is
        compiled statically; the second distinct size makes a dynamic program that serves every size of 2 and more.
        Sizes 0 and 1 always get static programs of their own, and do not count as a second size. Return which program
        serves each size: "static" when a static program is compiled or found, "dynamic" otherwise. A static program
        that fits is preferred.""",
        solution='''
        def programs(sizes):
            """For every size that arrives, the kind of program that serves it."""
            static = set()
            served = []
            for size in sizes:
                first = not any(known >= 2 for known in static)
                if size in static or size < 2 or first:
                    static.add(size)
                    served.append("static")
                else:
                    served.append("dynamic")
            return served
        ''',
        hint="""Keep the set of sizes with static programs. A size of 2 or more is compiled statically only if none is
        in it yet.""",
        cases=lambda: [
            ([],),
            ([3],),
            ([3, 3],),
            ([3, 4],),
            ([3, 4, 3, 5],),
            ([1, 3, 0, 4, 1],),
            ([0, 1],),
            ([2, 1, 3, 2, 0],),
            ([1, 2, 3],),
            ([0, 2, 5, 2],),
            ([3, 2],),
            ([2, 3, 2],),
        ],
    ),
)
