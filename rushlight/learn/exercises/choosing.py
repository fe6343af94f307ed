"""Exercises of the chapter on choosing a way to run a model: counts that decide it."""

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "choosing",
    "Choosing a way to run a model",
    "选择模型的运行方式",
    Exercise(
        title="When compiling pays",
        title_zh="编译何时划算",
        text="""A program runs `calls` steps. Eager mode takes `eager` seconds a step; compiled it takes `compiled`
        seconds a step after `start` seconds of compilation. Return "compile" when the compiled total is strictly
        smaller, and "eager" otherwise.""",
        solution='''
        def faster(calls, eager, compiled, start):
            """The way that ends first: "eager" or "compile"."""
            return "compile" if start + calls * compiled < calls * eager else "eager"
        ''',
        hint="Write both totals down. A tie means that compiling was work for nothing.",
        cases=lambda: [
            (0, 1.0, 0.5, 0.0),
            (1, 1.0, 0.5, 0.25),
            (1, 1.0, 0.5, 0.5),
            (10, 2.0, 1.0, 10.0),
            (11, 2.0, 1.0, 10.0),
            (3, 4.0, 4.0, 0.0),
            (100, 0.01, 0.02, 0.0),
            (1000, 0.01, 0.001, 8.0),
        ],
    ),
    Exercise(
        title="The first step that pays",
        title_zh="回本的步数",
        text="""Return the smallest number of whole steps after which compilation has paid for itself: the compiled
        total (`start` seconds, then `compiled` a step) is strictly below the eager one (`eager` a step). Return None
        if it never is. All three are whole milliseconds.""",
        solution='''
        def break_even(eager, compiled, start):
            """The first number of steps with start + n * compiled < n * eager, or None."""
            gain = eager - compiled
            if gain <= 0:
                return None
            return start // gain + 1
        ''',
        hint="Each step gains `eager - compiled`. The gains must exceed `start`, not only reach it.",
        cases=lambda: [(2, 1, 0), (2, 1, 5), (5, 2, 9), (5, 2, 10), (3, 3, 0), (3, 4, 1), (1, 5, 0), (40, 8, 30_000)],
    ),
    Exercise(
        title="Read a requirement, choose a tool",
        title_zh="按需求选工具",
        text="""A project is described by a dictionary of booleans. Decide in this order. `no_python` (the model must
        run where there is no Python): "export". Otherwise `edits_graph` (the program is to be rewritten): "fx".
        Otherwise `steady_shapes` and `long_running` both: "compile". Otherwise "eager". A name that is missing counts
        as False.""",
        solution='''
        def choose(project):
            """One of "export", "fx", "compile", "eager"."""
            if project.get("no_python", False):
                return "export"
            if project.get("edits_graph", False):
                return "fx"
            if project.get("steady_shapes", False) and project.get("long_running", False):
                return "compile"
            return "eager"
        ''',
        hint="`dict.get(name, False)` treats a missing name as False; the order of the questions is the answer.",
        cases=lambda: (
            [
                (
                    {
                        name: True
                        for name, bit in zip(("no_python", "edits_graph", "steady_shapes", "long_running"), bits)
                        if bit
                    },
                )
                for bits in ((a, b, c, d) for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1))
            ]
            + [({"no_python": False, "edits_graph": False},), ({"steady_shapes": True, "long_running": False},)]
        ),
    ),
    Exercise(
        title="How often a cache of shapes misses",
        title_zh="形状缓存的未命中次数",
        text="""A compiler that specialises on shapes keeps the programs of the last `room` distinct shapes, and drops
        the one used the longest time ago when it needs space. Given the sequence of shapes that arrive, return how
        many times it has to compile.""",
        solution='''
        def compilations(shapes, room):
            """How many of `shapes` find no program in a cache of `room` entries."""
            kept = []
            misses = 0
            for shape in shapes:
                if shape in kept:
                    kept.remove(shape)
                else:
                    misses += 1
                kept.append(shape)
                if len(kept) > room:
                    kept.pop(0)
            return misses
        ''',
        hint="Keep a list in the order of use: what is used moves to the end, what is dropped is at the front.",
        cases=lambda: [
            ([], 1),
            ([(1,)], 1),
            ([(1,), (1,)], 1),
            ([(1,), (2,), (1,)], 1),
            ([(1,), (2,), (1,)], 2),
            ([(1,), (2,), (1,), (3,), (1,), (2,)], 2),
            ([(4,), (5,), (6,), (4,)], 3),
            ([(1,), (1,)], 0),
            ([(1,), (2,), (3,), (1,), (2,), (3,)], 2),
        ],
    ),
)
