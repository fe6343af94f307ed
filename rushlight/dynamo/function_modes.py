"""`TorchFunctionMode`s that a program enters: their handlers are interpreted, call by call.

Enters: `with mode:` around ops. The recorder sees every op, whoever calls it, as the mode would; it hands the call to
the program's `__torch_function__`, in the interpreter, with the mode off, and what that calls is recorded. Leaves: the
ops that the handlers make of others, in the graph; the modes themselves are not there when it runs. Refuses: breaks
inside of such a block, since the rest would need the mode (the frame runs as it is), modes that see what reaches
kernels (`TorchDispatchMode`), which a graph of calls does not show, and `with device:` of another device than new
tensors go to anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _C
from ..devices.base import default_device
from ..dispatch.modes import TorchDispatchMode, TorchFunctionMode
from .breaks import GraphBreak, Raised, shown
from .natives import special
from .operators import unwatched

if TYPE_CHECKING:
    from .interpreter import Machine


@special(TorchFunctionMode.__enter__)
def _enter(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    mode = args[0]
    if type(mode).__module__.startswith("rushlight"):
        raise GraphBreak("not modelled", f"{shown(type(mode))} sees ops")
    m.user_modes.append(mode)
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
