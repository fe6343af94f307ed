"""Exercises of the chapter on the dispatcher: keys, fallthrough, modes, custom ops."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def without_error(function: Any, *case: Any) -> Any:
    """A result, or the name of a refusal."""
    try:
        return function(*case)
    except LookupError:
        return "LookupError"


def logged(answer: ModuleType, values: Any) -> Any:
    """What a mode noted of a small program, its result, and what it notes after it ended."""
    x = torch.tensor(values)
    with answer.Count() as mode:
        result = torch.relu(x * 2) + x * 3
    torch.relu(x)
    return dict(mode.counts), result


def op_of(answer: ModuleType, values: Any, scale: Any) -> Any:
    """The forward and backward of a function with its own derivative."""
    x = torch.tensor(values, requires_grad=True)
    result = answer.clip(x, scale)
    result.sum().backward()
    return result.detach(), x.grad


CHAPTER = chapter(
    "dispatcher",
    "The dispatcher: who handles a call",
    "分发器：谁来处理一次调用",
    Exercise(
        title="The highest key wins",
        title_zh="最高的键优先",
        text="""Keys have a fixed order, given from the highest to the lowest. A tensor carries a set of keys. Return
        the key that handles a call: the highest key that any argument carries and that is not in `excluded`; None
        where there is none.""",
        solution='''
        def handler(order, arguments, excluded):
            """The key that handles a call, or None."""
            carried = set().union(*arguments) - set(excluded)
            for key in order:
                if key in carried:
                    return key
            return None
        ''',
        hint="The union of the arguments' sets, without what is excluded, looked through in the order of the keys.",
        cases=lambda: [
            (["Autograd", "CPU"], [], []),
            (["Autograd", "CPU"], [{"CPU"}], []),
            (["Autograd", "CPU"], [{"CPU"}, {"Autograd", "CPU"}], []),
            (["Autograd", "CPU"], [{"CPU", "Autograd"}], ["Autograd"]),
            (["Python", "Autograd", "CUDA"], [{"CUDA"}, {"Python"}], ["Autograd"]),
            (["A", "B"], [{"A"}, {"B"}], ["A", "B"]),
            (["A", "B"], [{"B"}], ["A"]),
        ],
    ),
    Exercise(
        title="Redispatch and fallthrough",
        title_zh="再分发与穿透",
        text="""`table` maps keys to what is registered: "kernel" computes and ends the call, "wrapper" does something
        and dispatches to the keys below its own, "fallthrough" does nothing and goes below. Going down `order`, only
        keys that are in `carried` count. Return the list of keys whose code ran. A carried key without an entry, and
        a call that no kernel ends, raise LookupError.""",
        solution='''
        def path(order, carried, table):
            """The keys whose code runs, down to the kernel."""
            ran = []
            for key in order:
                if key not in carried:
                    continue
                if key not in table:
                    raise LookupError(f"no kernel for {key}")
                if table[key] != "fallthrough":
                    ran.append(key)
                if table[key] == "kernel":
                    return ran
            raise LookupError("no kernel below")
        ''',
        hint="One loop over the order. A fallthrough leaves no trace; a kernel is the end.",
        cases=lambda: [
            (["A", "C"], ["C"], {"C": "kernel"}),
            (["A", "C"], ["A", "C"], {"A": "wrapper", "C": "kernel"}),
            (["A", "C"], ["A", "C"], {"A": "fallthrough", "C": "kernel"}),
            (["A", "C"], ["A"], {"C": "kernel"}),
            (["A", "B", "C"], ["C", "B", "A"], {"A": "wrapper", "B": "kernel", "C": "kernel"}),
            (["A"], ["A"], {"A": "wrapper"}),
            (["A", "C"], [], {"A": "kernel"}),
            (["A", "B", "C"], ["C", "A"], {"A": "wrapper", "C": "kernel"}),
        ],
        probe=lambda answer, *case: without_error(answer.path, *case),
        asks="path({0}, {1}, {2})",
    ),
    Exercise(
        title="A mode that counts ops",
        title_zh="会计数的模式",
        text="""Write a class `Count`, a `TorchDispatchMode` whose attribute `counts` maps the names of ops to how
        often they ran inside it. Take the name as `str(func.overloadpacket).rpartition(".")[2]`, which is "add" for
        `aten.add`. The ops must still run.""",
        solution='''
        from rushlight.utils._python_dispatch import TorchDispatchMode


        class Count(TorchDispatchMode):
            """Counts the ops that run inside it."""

            def __init__(self):
                """Nothing was counted yet."""
                super().__init__()
                self.counts = {}

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                """Count a call, and let it happen."""
                name = str(func.overloadpacket).rpartition(".")[2]
                self.counts[name] = self.counts.get(name, 0) + 1
                return func(*args, **(kwargs or {}))
        ''',
        hint="""Within `__torch_dispatch__` the mode is off, so calling `func(*args, **(kwargs or {}))` does not count
        again.""",
        cases=lambda: [([1.0],), ([-1.0, 2.0],), ([],)],
        probe=logged,
        asks="[the counts, the result] of relu(x * 2) + x * 3 for x = {0}",
    ),
    Exercise(
        title="A custom derivative",
        title_zh="自定义导数",
        text="""Write `clip(x, scale)` with an `autograd.Function`: forward limits x to the range from -scale to
        scale. Backward lets gradients pass where x was strictly inside, and lets them pass at a tenth of their size
        elsewhere (so that a unit that is clipped can recover).""",
        solution='''
        import rushlight as torch


        class Clip(torch.autograd.Function):
            """Limits values; what is outside still gets a tenth of its gradient."""

            @staticmethod
            def forward(ctx, x, scale):
                """x limited to [-scale, scale]."""
                ctx.save_for_backward(x)
                ctx.scale = scale
                return x.clamp(-scale, scale)

            @staticmethod
            def backward(ctx, g):
                """All of g inside, a tenth of it outside; nothing for the scale."""
                (x,) = ctx.saved_tensors
                return torch.where(x.abs() < ctx.scale, g, g * 0.1), None


        def clip(x, scale):
            """x limited to [-scale, scale], with a leaky derivative."""
            return Clip.apply(x, scale)
        ''',
        hint="`backward` returns one gradient per argument of `forward`: None for a plain number.",
        cases=lambda: [([0.5], 1.0), ([2.0], 1.0), ([-3.0, 0.0, 3.0], 2.0), ([1.0, -1.0, 0.999], 1.0)],
        probe=op_of,
        asks="[the value, the gradient of its sum] of clip({0}, {1})",
    ),
)
