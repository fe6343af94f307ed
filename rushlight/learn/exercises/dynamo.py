"""Exercises of the chapter on Dynamo: bytecode, guards, breaks, recompiles."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter

SOURCES = (
    "x",
    "x + y",
    "f(x)",
    "f(g(x)) - h(y, z)",
    "f(x) if x else g(y)",
    "[f(x), f(y), x * y]",
)


def guarded(answer: ModuleType, values: Any, keys: Any) -> Any:
    """Which of some inputs a function's guards let pass."""
    return [answer.passes(answer.guards(values), dict(other)) for other in keys]


def graphs_of(answer: ModuleType, values: Any) -> Any:
    """The result of a compiled program, how many graphs it took, and what it printed."""
    graphs, printed = [], []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    result = torch.compile(answer.report, backend=count)(torch.tensor(values), printed.append)
    return result, len(graphs), [float(number) for number in printed]


CHAPTER = chapter(
    "dynamo",
    "Dynamo: graphs out of bytecode",
    "Dynamo：从字节码得到图",
    Exercise(
        title="A small stack machine",
        title_zh="一台小小的栈机器",
        text="""Dynamo executes bytecode on symbols. Do it for five instructions, given as tuples: ("load", name)
        pushes a name, ("const", value) pushes `repr(value)`, ("binary", sign) pops the right operand, then the left
        one, and pushes "(left sign right)", ("call", count) pops that many arguments (the last one first), then the
        function, and pushes "function(first, second)", and ("return",) gives the top of the stack and stops. Return
        that text.""",
        solution='''
        def symbolic(instructions):
            """The expression that the instructions return."""
            stack = []
            for name, *arguments in instructions:
                if name == "load":
                    stack.append(arguments[0])
                elif name == "const":
                    stack.append(repr(arguments[0]))
                elif name == "binary":
                    right = stack.pop()
                    left = stack.pop()
                    stack.append(f"({left} {arguments[0]} {right})")
                elif name == "call":
                    values = [stack.pop() for _ in range(arguments[0])]
                    stack.append(f"{stack.pop()}({', '.join(reversed(values))})")
                else:
                    return stack.pop()
        ''',
        hint="A list is a stack: `append` pushes and `pop` pops. What was pushed last is the rightmost operand.",
        cases=lambda: [
            ([("load", "x"), ("return",)],),
            ([("const", "a"), ("return",)],),
            ([("load", "x"), ("const", 2), ("binary", "-"), ("return",)],),
            ([("load", "f"), ("load", "x"), ("load", "y"), ("call", 2), ("return",), ("load", "z"), ("return",)],),
            (
                [
                    ("load", "f"),
                    ("call", 0),
                    ("load", "x"),
                    ("load", "y"),
                    ("binary", "+"),
                    ("binary", "*"),
                    ("return",),
                ],
            ),
        ],
    ),
    Exercise(
        title="Count the calls in bytecode",
        title_zh="数字节码里的调用",
        text="""Given the code object of a function, return how many call instructions its bytecode holds: those whose
        name begins with "CALL" or is "PRECALL" belong to calls, and each call has exactly one instruction whose name
        begins with "CALL", "CALL_INTRINSIC_…" excepted, which are no calls. Use the module `dis`.""",
        solution='''
        import dis


        def calls(code):
            """How many calls there are in a code object."""
            names = [instruction.opname for instruction in dis.get_instructions(code)]
            return sum(name.startswith("CALL") and not name.startswith("CALL_INTRINSIC") for name in names)
        ''',
        hint="`dis.get_instructions(code)` gives records with a field `opname`.",
        cases=lambda: [(source,) for source in SOURCES],
        probe=lambda answer, source: answer.calls(compile(source, "<case>", "eval")),
        asks="the code of the expression {0}",
    ),
    Exercise(
        title="Guards of an input",
        title_zh="输入的守卫",
        text="""Compiled code may be used again only while its guards hold. Write two functions. `guards(values)`
        takes a dictionary from names to values, and returns a dictionary from names to what must stay as it is: for a
        list ("length", its length), for a bool, int or str ("value", the type's name, the value), for anything else
        ("type", the type's name). `passes(guards, values)` says whether all guards hold for other values; a guarded
        name that is missing fails, a further name does not matter.""",
        solution='''
        def guard(value):
            """What must stay as it is for one value."""
            if isinstance(value, list):
                return ("length", len(value))
            if isinstance(value, (bool, int, str)):
                return ("value", type(value).__name__, value)
            return ("type", type(value).__name__)


        def guards(values):
            """What must stay as it is, by name."""
            return {name: guard(value) for name, value in values.items()}


        def passes(guards, values):
            """Whether other values satisfy the guards."""
            return all(name in values and guard(values[name]) == known for name, known in guards.items())
        ''',
        hint="""Make the guard of the new value and compare it with the old one. `True == 1` in Python, so the type's
        name belongs into it.""",
        cases=lambda: [
            ({}, [{}, {"a": 1}]),
            ({"a": 1}, [{"a": 1}, {"a": 2}, {"a": True}, {}, {"a": 1, "b": 2}]),
            ({"a": [1, 2]}, [{"a": [3, 4]}, {"a": [1]}, {"a": (1, 2)}]),
            ({"a": 0.5, "b": "x"}, [{"a": 0.25, "b": "x"}, {"a": 1, "b": "x"}, {"a": 0.5, "b": "y"}, {"b": "x"}]),
            ({"a": True}, [{"a": True}, {"a": False}, {"a": 1}]),
            ({"a": [1]}, [{"a": 1}, {"a": [2]}]),
        ],
        probe=lambda answer, values, others: [answer.guards(values), guarded(answer, values, others)],
        asks="[the guards of {0}, which of {1} pass]",
    ),
    Exercise(
        title="Fewer graph breaks",
        title_zh="减少图断裂",
        text="""`report(x, say)` doubles x, says the sum of that, adds 1, says the sum of that, and returns the square
        of it. Each call of `say(number)` with a Python number ends a graph, because `.item()` is needed. Write
        `report` so that both are said, in their order and with the same numbers, and the program takes as few graphs
        as possible: one.""",
        solution='''
        def report(x, say):
            """Doubles, adds 1, squares; says the sums of the first two."""
            doubled = x * 2
            first = doubled.sum()
            more = doubled + 1
            second = more.sum()
            result = more * more
            say(first.item())
            say(second.item())
            return result
        ''',
        hint="Compute everything with tensors first, and speak at the end.",
        cases=lambda: [([1.0],), ([1.0, 2.0],), ([-3.0, 0.5, 4.0],)],
        probe=graphs_of,
        asks="[the result, the number of graphs, what was said] of report on {0}",
    ),
    Exercise(
        title="When code is compiled again",
        title_zh="何时重新编译",
        text="""A function keeps at most `limit` compiled versions. A call with a guard that fits one of them runs it
        ("hit"). Otherwise, while there is room, a new version is compiled ("compile"); with `limit` versions the
        function runs eagerly ("eager"). Given the guards that calls arrive with, return what happens to each.""",
        solution='''
        def history(arrivals, limit):
            """ "hit", "compile" or "eager" for every call."""
            versions = []
            happened = []
            for guard in arrivals:
                if guard in versions:
                    happened.append("hit")
                elif len(versions) < limit:
                    versions.append(guard)
                    happened.append("compile")
                else:
                    happened.append("eager")
            return happened
        ''',
        hint="What runs eagerly leaves no version behind; old versions stay and may be hit later.",
        cases=lambda: [
            ([], 1),
            ([3], 0),
            ([3, 3], 1),
            ([3, 4, 3, 4], 1),
            ([1, 2, 3, 2, 3], 2),
            (["a", "a", "b", "c", "d", "b"], 3),
        ],
    ),
)
