"""Exercises of the chapter on TorchScript: what tracing loses, what scripting needs."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def scripted(answer: ModuleType, *case: Any) -> Any:
    """What a function gives when it is scripted."""
    return torch.jit.script(answer.collatz)(*case)


def traced_differs(answer: ModuleType, count: Any) -> Any:
    """Whether an example shows that a trace is wrong."""
    example, other = answer.witness(count)

    def loop(x: Any) -> Any:
        while x.sum() < count:
            x = x + 1
        return x

    def steps(x: Any) -> Any:
        before = x.sum()
        return int(loop(x).sum() - before)

    return steps(torch.tensor([float(example)])) == count, steps(torch.tensor([float(other)])) == 0


CHAPTER = chapter(
    "torchscript",
    "TorchScript: trace and script",
    "TorchScript：跟踪与脚本",
    Exercise(
        title="What a trace keeps",
        title_zh="跟踪留下了什么",
        text="""A program is a list of steps. A string is an op. A tuple ("if", asked, yes, no) asks a question and
        goes on with one of two programs (lists). A tuple ("repeat", name, body) runs a program as often as a number
        says. Tracing with an example runs the program once and keeps only the ops. Given the program and the
        example's answers (a dictionary from names to booleans and numbers), return what the trace keeps.""",
        solution='''
        def trace(program, example):
            """The ops that run on the example, in order."""
            ops = []
            for step in program:
                if isinstance(step, str):
                    ops.append(step)
                elif step[0] == "if":
                    ops += trace(step[2] if example[step[1]] else step[3], example)
                else:
                    ops += trace(step[2], example) * example[step[1]]
            return ops
        ''',
        hint="It is recursive: a branch and a loop's body are programs themselves, and a list times a number repeats.",
        cases=lambda: [
            ([], {}),
            (["add"], {}),
            ([("if", "big", ["mul"], ["add"])], {"big": True}),
            ([("if", "big", ["mul"], ["add"])], {"big": False}),
            ([("repeat", "n", ["add", "mul"])], {"n": 3}),
            ([("repeat", "n", ["add"])], {"n": 0}),
            (
                ["relu", ("repeat", "n", [("if", "p", ["a"], [("repeat", "m", ["b"])])]), "sum"],
                {"n": 2, "p": False, "m": 2},
            ),
        ],
    ),
    Exercise(
        title="A loop that scripts",
        title_zh="能写成脚本的循环",
        text="""Write `collatz(n: int) -> int`, which returns how many steps it takes from n to 1, halving even
        numbers and replacing odd ones by 3n + 1. It is checked through `torch.jit.script`, so it needs annotations
        and names whose types do not change; for n below 1 return -1.""",
        solution='''
        def collatz(n: int) -> int:
            """Steps from n to 1; -1 for n below 1."""
            if n < 1:
                return -1
            steps = 0
            while n > 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps += 1
            return steps
        ''',
        hint="Use `//`: in a script `/` makes a float, and a name keeps the type it was first given.",
        cases=lambda: [(1,), (2,), (3,), (7,), (0,), (-4,), (27,), (10,)],
        probe=scripted,
    ),
    Exercise(
        title="Types a script can see",
        title_zh="脚本看得见的类型",
        text="""TorchScript types every value. Given a Python value, return its type as a script writes it: "int",
        "float", "bool", "str", "NoneType", "List[T]" for a list whose elements all have type T, "Tuple[A, B]" for
        tuples, "Dict[K, V]" for dictionaries whose keys and whose values agree. An empty list is "List[Tensor]" and
        an empty dictionary "Dict[str, Tensor]". Where elements disagree return None, also inside.""",
        solution='''
        def agreed(values, empty):
            """The one type of all values, `empty` for no values, None where they disagree."""
            kinds = {script_type(value) for value in values}
            return kinds.pop() if len(kinds) == 1 else None if kinds else empty


        def script_type(value):
            """The name of a value's type, or None where it has none."""
            if value is None:
                return "NoneType"
            if isinstance(value, tuple):
                parts = [script_type(part) for part in value]
                return None if None in parts else f"Tuple[{', '.join(parts)}]"
            if isinstance(value, list):
                kind = agreed(value, "Tensor")
                return None if kind is None else f"List[{kind}]"
            if isinstance(value, dict):
                key, item = agreed(value.keys(), "str"), agreed(value.values(), "Tensor")
                return None if key is None or item is None else f"Dict[{key}, {item}]"
            return type(value).__name__
        ''',
        hint="Ask each element for its type and put the answers into a set: one answer is a type, several are none.",
        cases=lambda: [
            (1,),
            (None,),
            (1.5,),
            (True,),
            ("a",),
            ([],),
            ({},),
            ([1, 2],),
            ([1, 2.0],),
            ((1, "a"),),
            ((),),
            ([[1], [2, 3]],),
            ([(1, 2), (3,)],),
            ({"a": [1.0]},),
            ({"a": 1, "b": "c"},),
            ({"a": 1, 2: 1},),
            ([None],),
            (([1, "x"], 2),),
            ([[1], ["x", 1]],),
        ],
    ),
    Exercise(
        title="An input that unmasks a trace",
        title_zh="揭穿跟踪的输入",
        text="""`loop(x)` adds 1 to a tensor of one element while it is below `count`. A trace of it repeats the
        additions of its example. Return two numbers (example, other): a whole number with which a trace holds exactly
        `count` additions, the largest there is, and the smallest whole number that the true loop leaves as it is.
        `count` is a positive whole number.""",
        solution='''
        def witness(count):
            """An example that traces `count` additions, and the smallest input that needs none."""
            return 0, count
        ''',
        hint="""From which number are there exactly `count` steps of 1 up to `count`? And which is the first that is
        not below it?""",
        cases=lambda: [(1,), (2,), (5,), (9,)],
        probe=lambda answer, count: (*traced_differs(answer, count), list(answer.witness(count))),
        asks="[the example traces {0} additions, the other none, the two] with count {0}",
    ),
)
