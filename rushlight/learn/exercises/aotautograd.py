"""Exercises of the chapter on AOTAutograd: the joint graph, functionalization, what to keep."""

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "aotautograd",
    "AOTAutograd: the backward pass ahead of time",
    "AOTAutograd：提前得到反向图",
    Exercise(
        title="Names instead of mutation",
        title_zh="用新名字代替改写",
        text="""Functionalize a list of steps (target, op, arguments). An op whose name ends in "_" writes into its
        first argument; its target is that argument. Return steps that write into nothing: ops without the "_", and
        each write gives a name a new version: "x" becomes "x.1", then "x.2". Later steps read the newest version.
        Other targets are written once and keep their names.""",
        solution='''
        def functionalize(steps):
            """The same steps without mutation."""
            versions = {}
            done = []
            for target, op, arguments in steps:
                read = [name if not versions.get(name) else f"{name}.{versions[name]}" for name in arguments]
                if op.endswith("_"):
                    versions[target] = versions.get(target, 0) + 1
                    done.append((f"{target}.{versions[target]}", op[:-1], read))
                else:
                    done.append((target, op, read))
            return done
        ''',
        hint="Count the writes to each name. Read with the counts of before the step, write with those of after it.",
        cases=lambda: [
            ([],),
            ([("y", "relu", ["x"])],),
            ([("x", "add_", ["x", "y"])],),
            ([("x", "mul_", ["x", "x"]), ("y", "exp", ["x"]), ("x", "add_", ["x", "y"]), ("z", "sub", ["x", "y"])],),
            ([("y", "exp", ["x"]), ("y", "mul_", ["y", "x"]), ("x", "add_", ["x", "y"])],),
        ],
    ),
    Exercise(
        title="The backward graph of a chain",
        title_zh="链的反向图",
        text="""A forward graph is a list of ops from {"sin", "exp", "square"}, applied one after the other to v0,
        giving v1, v2, …; `n` ops end in vn. Return the steps of the backward graph as strings. The gradient of vn is
        "g"; going backwards, each op makes one step whose result is "g{k}", k being the number of the value before
        it: "g{k} = G * cos(v{k})" for sin, "g{k} = G * v{k+1}" for exp, "g{k} = G * 2 * v{k}" for square, with G the
        name of the gradient that arrives.""",
        solution='''
        def backward(ops):
            """The steps of the backward graph, the last op's first."""
            steps = []
            arriving = "g"
            for k in reversed(range(len(ops))):
                local = {"sin": f"cos(v{k})", "exp": f"v{k + 1}", "square": f"2 * v{k}"}[ops[k]]
                steps.append(f"g{k} = {arriving} * {local}")
                arriving = f"g{k}"
            return steps
        ''',
        hint="exp is its own derivative: its step uses the output, which is why it is worth keeping.",
        cases=lambda: [
            ([],),
            (["sin"],),
            (["exp"],),
            (["square"],),
            (["sin", "exp"],),
            (["exp", "square", "sin", "exp"],),
        ],
    ),
    Exercise(
        title="What the backward pass keeps",
        title_zh="反向需要保留什么",
        text="""The same chains of "sin", "exp" and "square". Return the sorted list of the numbers of those values v0
        … vn that the backward graph reads: sin and square read their input, exp reads its output.""",
        solution='''
        def kept(ops):
            """Numbers of the values that are read backwards, ascending."""
            return sorted({k + 1 if op == "exp" else k for k, op in enumerate(ops)})
        ''',
        hint="A value that two steps read is kept once: a set.",
        cases=lambda: [
            ([],),
            (["sin"],),
            (["exp"],),
            (["exp", "sin"],),
            (["sin", "exp", "square", "exp"],),
            (["exp", "exp"],),
        ],
    ),
    Exercise(
        title="The cheapest cut of a chain",
        title_zh="链上最便宜的割",
        text="""The backward pass needs the last value of a chain, and may compute it again from any earlier one.
        `sizes[k]` is the number of bytes of value k, `costs[k]` the cost of computing value k from value k - 1
        (`costs[0]` is never paid). Return which single value to keep so that its size is smallest while the cost of
        computing the last value from it is at most `budget`; among equal sizes the one nearest to the end.""",
        solution='''
        def keep(sizes, costs, budget):
            """The number of the value to keep."""
            best = len(sizes) - 1
            spent = 0
            for k in reversed(range(len(sizes))):
                if spent > budget:
                    break
                if sizes[k] < sizes[best]:
                    best = k
                spent += costs[k]
            return best
        ''',
        hint="Go backwards and add up costs. The last value itself costs nothing to compute again.",
        cases=lambda: [
            ([4], [0], 0),
            ([2, 4], [0, 1], 0),
            ([2, 4], [0, 1], 1),
            ([2, 2], [0, 1], 5),
            ([1, 8, 4, 8], [0, 9, 1, 1], 2),
            ([1, 8, 4, 8], [0, 9, 1, 1], 11),
            ([1, 8, 4, 8], [5, 9, 1, 1], 10),
            ([3, 2, 2, 9], [0, 1, 1, 1], 3),
            ([8, 9, 9], [1, 2, 3], 4),
        ],
    ),
)
