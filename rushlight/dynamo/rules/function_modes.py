"""`TorchFunctionMode`s of a program, around a frame or entered in it: their handlers are interpreted, call by call.

Enters: modes that are active when a frame begins (guarded, as other objects from outside), and `with mode:` around ops.
The recorder sees every op, whoever calls it, as the mode would; it hands the call to the program's
`__torch_function__`, in the interpreter, with the mode off, and what that calls is recorded. Leaves: the ops that the
handlers make of others, in the graph, and code around the frame's: the thread's modes are off while it runs, and at
its end those are on that the frame leaves on. Refuses: modes that see what reaches kernels (`TorchDispatchMode`), which
a graph of calls does not show, and `with device:` of another device than new tensors go to anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import _C
from ...devices.base import default_device
from ...dispatch.keys import MODE
from ...dispatch.modes import TorchDispatchMode, TorchFunctionMode, is_open, refresh, state
from ..bytecode.instructions import Handler
from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from ..values.guards import Guard, Kind
from ..values.locks import under
from ..values.operators import unwatched
from ..values.sources import FunctionModes, Item
from . import subclasses
from .natives import special

if TYPE_CHECKING:
    from ..bytecode.emitter import Emitter
    from ..machine.rebuild import Rebuilder


def start(m: Machine, modes: list[Any], flags: tuple[bool, bool], guard: Guard) -> None:
    """The frame begins under these modes, in blocks that say this of handlers; `guard` is the one on all modes of the
    thread."""
    m.classes.said, m.classes.off = flags, int(any(flags))
    if any(flags):
        subclasses.guard_flags(m)
    if not guard.value.keys[0] & MODE:
        return
    m.outside.guard(Kind.LENGTH, FunctionModes(), len(modes))
    subclasses.guard_flags(m)
    m.user_modes += [m.outside.admit(mode, Item(FunctionModes(), i)) for i, mode in enumerate(modes)]
    m.outer_modes, m.has_function_modes = list(m.user_modes), bool(modes)


@special(TorchFunctionMode.__enter__)
def _enter(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    mode = args[0]
    if not is_open(mode):
        raise GraphBreak("not modelled", f"{shown(type(mode))} sees ops")
    m.user_modes.append(mode)
    m.has_function_modes = True
    return mode


@special(TorchFunctionMode.__exit__)
def _exit(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    if not m.user_modes or m.user_modes[-1] is not args[0]:
        raise GraphBreak("not modelled", "a mode is left that is not the innermost one")
    m.user_modes.pop()


@special(TorchDispatchMode.__enter__)
def _enter_below(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    raise GraphBreak("not modelled", f"{shown(type(args[0]))} sees what reaches kernels")


@special(_C.device.__enter__)
def _enter_device(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if args[0] != default_device():
        raise GraphBreak("native", f"new tensors go to {args[0]} inside of a block")
    m.entered_devices.append(args[0])      # which changes nothing
    return args[0]


@special(_C.device.__exit__)
def _leave_device(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    if not m.entered_devices:
        raise GraphBreak("native", "a block ends that decided where new tensors go")
    m.entered_devices.pop()


def seen(m: Machine, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An op that the innermost mode of the program sees first."""
    mode = m.user_modes.pop()
    try:
        with unwatched(), m.recorder:      # it is off its stack while it handles this call
            return m.call(m.load_attr(mode, "__torch_function__"), (func, (), args, kwargs), {})
    except Raised as raised:
        raise raised.exception from raised.exception.__cause__
    finally:
        m.user_modes.append(mode)


# --- the code ---------------------------------------------------------------------------------------------------------


def write_start(emitter: Emitter, end: int) -> None:
    """Take the thread's modes off before the code that is there; where one of its first `end` instructions raises,
    they are on again."""
    rest, emitter.instructions = emitter.instructions, []
    emitter.load_const(taken_off)
    emitter.call(0)
    emitter.store_local(FunctionModes.local)
    go_on, failed = emitter.label(), emitter.label()
    emitter.jump(go_on)
    emitter.place(failed)      # the exception alone is on the stack
    _write_put_on(emitter)
    emitter.emit("RERAISE", 0, 0)
    emitter.place(go_on)
    under(Handler(failed, 0, False), rest[:end])
    emitter.instructions += rest


def _write_put_on(emitter: Emitter) -> None:
    emitter.load_const(put_on)
    emitter.load_local(FunctionModes.local)
    emitter.call(1)
    emitter.pop()


def write_end(m: Machine, rebuilder: Rebuilder) -> None:
    """Turn on the modes that the frame leaves on."""
    emitter = rebuilder.emitter
    if list(map(id, m.user_modes)) != list(map(id, m.outer_modes)):
        emitter.load_const(replace)
        emitter.load_local(FunctionModes.local)
        for mode in m.user_modes:
            rebuilder.load(mode)
        emitter.build_list(len(m.user_modes))
        emitter.call(2)
        emitter.pop()
    _write_put_on(emitter)


def taken_off() -> list[Any]:
    """Turn off the thread's modes that see calls; what they were."""
    before, state.function_modes = state.function_modes, []
    refresh()
    return before


def put_on(modes: list[Any]) -> None:
    """Let these modes see the thread's calls. (The same list: handlers that run now know it.)"""
    state.function_modes = modes
    refresh()


def replace(modes: list[Any], others: list[Any]) -> None:
    """Make a list of modes one of others."""
    modes[:] = others
