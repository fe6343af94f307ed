"""Exercises of the chapter on reading the source: layers, plans, loop nests, tests."""

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "reading_the_source",
    "Reading the source",
    "阅读源码",
    Exercise(
        title="Imports point down",
        title_zh="导入只向下",
        text="""Layers are given as a list from the bottom up, imports as pairs (who, whom). Return the pairs that
        point up or sideways (to a layer that is not below), in their order. A layer may import itself.""",
        solution='''
        def upward(layers, imports):
            """The imports that are not allowed."""
            rank = {name: number for number, name in enumerate(layers)}
            return [(who, whom) for who, whom in imports if who != whom and rank[whom] >= rank[who]]
        ''',
        hint="Number the layers; an import is fine when the number of whom is smaller.",
        cases=lambda: [
            (["a"], []),
            (["a"], [("a", "a")]),
            (["a", "b"], [("b", "a")]),
            (["a", "b"], [("a", "b")]),
            (["a", "b", "c"], [("c", "a"), ("a", "c"), ("b", "c"), ("b", "b"), ("c", "b"), ("a", "b")]),
        ],
    ),
    Exercise(
        title="The key of a plan",
        title_zh="计划的键",
        text="""Eager plans are kept by rank, dtype and stride class, not by exact shape. Given (shape, strides,
        dtype) return (rank, dtype, class): "contiguous" when strides are those of a fresh tensor (dims of size 1 may
        have any stride), otherwise "dense" when sorting the dims by stride, largest first, makes them so, otherwise
        "strided". A tensor with a size of 0 is "contiguous".""",
        solution='''
        def is_packed(dims):
            """Whether (size, stride) pairs follow one another without gaps."""
            step = 1
            for size, stride in reversed(dims):
                if size != 1 and stride != step:
                    return False
                step *= size
            return True


        def plan_key(shape, strides, dtype):
            """(rank, dtype, stride class)."""
            dims = list(zip(shape, strides))
            if 0 in shape or is_packed(dims):
                return len(shape), dtype, "contiguous"
            dense = is_packed(sorted(dims, key=lambda dim: -dim[1]))
            return len(shape), dtype, "dense" if dense else "strided"
        ''',
        hint="""One function that checks packed dims from the last one back; call it on the dims as they are, and
        sorted.""",
        cases=lambda: [
            ((), (), "float32"),
            ((3,), (1,), "int64"),
            ((3,), (2,), "int64"),
            ((2, 3), (3, 1), "float32"),
            ((2, 3), (1, 2), "float32"),
            ((2, 3), (4, 1), "float32"),
            ((1, 3), (77, 1), "bool"),
            ((2, 0), (5, 5), "bool"),
            ((2, 3, 4), (12, 1, 3), "float64"),
            ((2, 3, 4), (12, 0, 3), "float64"),
            ((3, 1), (1, 5), "int8"),
            ((2, 1, 2), (1, 9, 2), "int8"),
        ],
        asks="shape {0}, strides {1}, dtype {2}",
    ),
    Exercise(
        title="Run a loop nest",
        title_zh="执行一个循环嵌套",
        text="""Interpret a small loop nest. `ranges` are the sizes of the loops, the first the outermost; `load` and
        `store` are strides of the input and the output for every loop. Every step does out[store place] += input[load
        place]. `out` begins as zeros. Return it as a list of `length` numbers.""",
        solution='''
        def run(ranges, load, store, values, length):
            """What the nest leaves in its output."""
            out = [0] * length
            places = [(0, 0)]
            for size, read, write in zip(ranges, load, store):
                places = [(a + k * read, b + k * write) for a, b in places for k in range(size)]
            for a, b in places:
                out[b] += values[a]
            return out
        ''',
        hint="A store stride of 0 makes a loop a sum. `itertools.product` or a growing list of places both do.",
        cases=lambda: [
            ([], [], [], [7], 1),
            ([3], [1], [1], [1, 2, 3], 3),
            ([3], [1], [0], [1, 2, 3], 1),
            ([2, 3], [3, 1], [1, 0], [1, 2, 3, 4, 5, 6], 2),
            ([2, 3], [3, 1], [1, 2], [1, 2, 3, 4, 5, 6], 6),
            ([2, 3], [0, 1], [3, 1], [1, 2, 3], 6),
            ([0], [1], [1], [], 2),
        ],
    ),
    Exercise(
        title="Which share of the cases",
        title_zh="轮到哪些用例",
        text="""A long sweep runs one in `n` of its cases, rounded up, chosen by the turn: order the names by (a
        checksum of turn and name, the name), and take the first ones. The checksum is `zlib.crc32` of the text "turn
        name" in UTF-8. Return the chosen names in their original order; with the turn "all" all of them.""",
        solution='''
        import zlib


        def chosen(names, n, turn):
            """The names whose turn it is."""
            if turn == "all":
                return list(names)
            order = sorted(names, key=lambda name: (zlib.crc32(f"{turn} {name}".encode()), name))
            kept = order[: -(-len(names) // n)]
            return [name for name in names if name in kept]
        ''',
        hint="`-(-a // b)` rounds up. Sorting by a checksum is a shuffle that everyone repeats alike.",
        cases=lambda: [
            ([], 2, "7"),
            (["a"], 2, "7"),
            (["a", "b", "c"], 1, "7"),
            (["a", "b", "c"], 2, "all"),
            (list("fedcba"), 2, "7"),
            (list("fedcba"), 4, "8"),
            (list("abcdefghij"), 3, "12"),
        ],
    ),
)
