"""Exercises of the chapter on lazy tensors: record now, run at the mark."""

from types import ModuleType
from typing import Any

from ..exercise import Exercise, chapter


def recorded(answer: ModuleType, numbers: Any) -> Any:
    """A recorder used from outside: what it recorded before and after values were asked for."""
    recorder = answer.Recorder()
    first = recorder.constant(numbers[0])
    second = recorder.constant(numbers[1])
    total = recorder.add(first, second)
    product = recorder.mul(total, second)
    before = recorder.pending()
    value = recorder.value(product)
    between = recorder.pending()
    return before, value, between, recorder.value(total), recorder.pending(), recorder.value(first)


CHAPTER = chapter(
    "lazy",
    "Lazy tensors: deferral and the mark",
    "惰性张量：延迟与标记",
    Exercise(
        title="A recorder that waits",
        title_zh="会等待的记录器",
        text="""Write a class `Recorder`. `constant(number)`, `add(a, b)` and `mul(a, b)` compute nothing: each
        returns a handle, the number of the entry it made, counted from 0. `value(handle)` computes an entry and what
        it needs, each at most once ever, and returns its number. `pending()` says how many entries have not been
        computed; a constant is computed from the start.""",
        solution='''
        class Recorder:
            """Entries that are computed when somebody asks."""

            def __init__(self):
                """Nothing is recorded yet."""
                self.entries = []
                self.known = {}

            def constant(self, number):
                """The handle of a number."""
                self.known[len(self.entries)] = number
                self.entries.append(None)
                return len(self.entries) - 1

            def add(self, a, b):
                """The handle of a sum."""
                self.entries.append(("add", a, b))
                return len(self.entries) - 1

            def mul(self, a, b):
                """The handle of a product."""
                self.entries.append(("mul", a, b))
                return len(self.entries) - 1

            def value(self, handle):
                """The number of an entry."""
                if handle not in self.known:
                    op, a, b = self.entries[handle]
                    left, right = self.value(a), self.value(b)
                    self.known[handle] = left + right if op == "add" else left * right
                return self.known[handle]

            def pending(self):
                """How many entries are not computed."""
                return len(self.entries) - len(self.known)
        ''',
        hint="""Keep what was recorded in a list and what is known in a dictionary; the difference of their lengths is
        pending.""",
        cases=lambda: [((2, 3),), ((0, 5),), ((-1, 4),), ((7, 7),)],
        probe=recorded,
        asks="[pending, (a + b) * b, pending, a + b, pending, a] of two constants {0}, asked for in this order",
    ),
    Exercise(
        title="Where a step has to run",
        title_zh="哪里必须执行",
        text="""Lazy tensors run what was recorded at "mark" and whenever Python needs a number: "item" and "print".
        Given the list of what a program does, return for each run how many ops it executes; every other word is one
        op. A "mark" with nothing recorded runs nothing and is left out, while "item" and "print" always run, if only
        to fetch: their entry may be 0.""",
        solution='''
        def runs(program):
            """How many ops each run executes."""
            sizes = []
            waiting = 0
            for word in program:
                if word in ("item", "print"):
                    sizes.append(waiting)
                    waiting = 0
                elif word == "mark":
                    if waiting > 0:
                        sizes.append(waiting)
                    waiting = 0
                else:
                    waiting += 1
            return sizes
        ''',
        hint="Count what waits. What is left without a mark at the end never runs.",
        cases=lambda: [
            ([],),
            (["add"],),
            (["mark"],),
            (["item"],),
            (["add", "mark"],),
            (["add", "mul", "item", "print"],),
            (["add", "mark", "mark", "mul", "mul", "print", "relu"],),
            (["add", "item", "mul", "mark"],),
            (["add", "add", "mark", "mul", "mark"],),
        ],
    ),
    Exercise(
        title="The key of a cached program",
        title_zh="缓存程序的键",
        text="""Two recorded graphs share one compiled program when they have the same ops on inputs of the same
        shapes; the numbers in the inputs do not matter, nor how inputs are called. A graph is a list of entries:
        ("input", name, shape) or (op, number of an earlier entry, …). Return a tuple that is equal for two graphs
        exactly when they can share a program: entries as tuples, inputs without their names, their shape as a
        tuple.""",
        solution='''
        def key(graph):
            """The same for graphs that can share a program."""
            entries = []
            for entry in graph:
                if entry[0] == "input":
                    entries.append(("input", tuple(entry[2])))
                else:
                    entries.append(tuple(entry))
            return tuple(entries)
        ''',
        hint="Only inputs need a change; shapes may come as lists or as tuples, and must compare equal.",
        cases=lambda: [
            ([],),
            ([("input", "x", [2, 3])],),
            ([("input", "longer", (2, 3))],),
            ([("input", "x", [3, 2]), ("relu", 0)],),
            ([["input", "a", [4]], ["input", "b", [4]], ["add", 0, 1]],),
            ([["input", "a", []], ["mul", 0, 0]],),
        ],
        probe=lambda answer, graph: [answer.key(graph), hash(answer.key(graph)) == hash(answer.key([*graph]))],
        asks="[the key of {0}, whether it can be hashed]",
    ),
)
