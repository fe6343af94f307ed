"""Pictures of the chapter on the dispatcher: the levels in order, and what two kinds of mode see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from page_pictures import lines

import rushlight as torch
from rushlight.dispatch import DispatchKey
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._python_dispatch import TorchDispatchMode

Say = Callable[[str, str], str]


def draw_levels(say: Say) -> str:
    told = {
        "PythonMode": say("function modes, subclasses: what the program wrote", "函数模式、子类：程序的原话"),
        "FuncTorchDynamicLayer": say("vmap, grad, jvp", "vmap、grad、jvp"),
        "Functionalize": say("writes become values", "写操作变成值"),
        "Autocast": say("casts to lower precision", "转换到较低精度"),
        "Tracer": say("fx and TorchScript write calls down", "fx 和 TorchScript 记下调用"),
        "ADInplaceOrView": say("versions of what is written to", "被写入的张量的版本号"),
        "Autograd": say("a node on the tape", "在磁带上添一个节点"),
        "Python": say("dispatch modes: what is left to run", "分派模式：真正要运行的"),
        "BackendSelect": say("which device a new tensor is for", "新张量归哪个设备"),
        "CPU": say("kernels", "内核"),
    }
    order = [key.name for key in sorted(set(DispatchKey), key=int) if key.name in told]
    assert order[0] == "PythonMode" and order[-1] == "CPU"
    return lines(say("The levels of a call, from the outermost in", "一次调用经过的各层，由外向里"),
                 [(name, told[name]) for name in order], hot=(order.index("Autograd"), order.index("CPU")))


def draw_modes(say: Say) -> str:
    written: list[str] = []
    run: list[str] = []

    class Written(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            written.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Run(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            run.append(str(func))
            return func(*args, **(kwargs or {}))

    x, weight, bias = torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)
    with Written():
        torch.nn.functional.linear(x, weight, bias).relu()
    with Run():
        torch.nn.functional.linear(x, weight, bias).relu()
    count = max(len(written), len(run))
    left, right = (side + [""] * (count - len(side)) for side in (written, run))
    head = (say("a function mode sees", "函数模式看到"), say("a dispatch mode sees", "分派模式看到"))
    return lines("linear(x, weight, bias).relu()", [head, *zip(left, right, strict=True)], hot=(0,))
