"""Hooks of tensors that the program computes: a node that registers them, wherever the graph runs or is traced.

Enters: `t.register_hook(hook)` whose result is dropped. Leaves: a node that does the same, with a hook that closes over
inputs of the node where the program's closes over tensors; what it reads from around it is relied upon by guards.
Refuses (breaks the graph): hooks of tensors from outside, which stay when the call is over, hooks that change what is
around them, and handles that are kept.
"""

from __future__ import annotations

import types
from typing import Any

from ..record.breaks import GraphBreak
from ..record.machine import Machine
from ..record.recorder import as_target
from .custom_functions import Surrounded
from .natives import check_method, tensor_method


@tensor_method("register_hook")
def _register_hook(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    t, *given = *args, *kwargs.values()
    frame = m.frames[-1]
    is_dropped = frame.instructions[frame.at].name == "POP_TOP"
    if len(given) != 1 or not is_dropped or not t.requires_grad or id(t) in m.outside.by_twin:
        check_method("register_hook")
    around = Surrounded(m, None)
    hook = around.itself(given[0])
    if not isinstance(hook, types.FunctionType):
        raise GraphBreak("not modelled", "register_hook is given something else than a function")
    make = around.function(hook)

    def register(tensor: Any, *lifted: Any) -> None:
        tensor.register_hook(make(lifted, None))

    return m.record(as_target("register_hook", register), (t, *around.lifted), {})
