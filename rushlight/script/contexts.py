"""`with` in scripts: entering and leaving objects while a program runs, and PyTorch's own contexts as script classes.

Enters: objects whose class has `__enter__` and `__exit__`. Leaves: `Entered`, the row of those a function is inside of;
what is still in it when the function raises is left in reverse order, and the error goes on.
`no_grad`, `record_function` and `autocast` are classes of programs too: the forms below are what is compiled for them;
those that change how ops run, or leave a mark in a recording, do so when they are entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from ..amp import autocast_mode
from ..autograd import grad_mode, labels
from ..autograd.grad_mode import is_grad_enabled, set_grad_enabled
from .constants import NUMBERED_DTYPES

_MODES = "torch.autograd.grad_mode"


class no_grad:  # noqa: N801 - PyTorch's name
    """Ops inside are not recorded."""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = is_grad_enabled()
        set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        set_grad_enabled(self.prev)


class record_function:  # noqa: N801 - PyTorch's name
    """A label in a recording."""

    def __init__(self, name: str, args: Optional[str] = None) -> None:  # noqa: UP045 - as programs write it
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True

    def __enter__(self):  # noqa: ANN204 - the compiler infers it
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        pass


class autocast:  # noqa: N801 - PyTorch's name
    """Ops inside run in a smaller type where that is safe."""

    def __init__(self, device_type: str, dtype: Optional[int] = None, enabled: bool = True,  # noqa: UP045
                 cache_enabled: Optional[bool] = None) -> None:  # noqa: UP045
        self.device = device_type
        self.fast_dtype = dtype
        self._enabled = enabled

    def __enter__(self):  # noqa: ANN204 - the compiler infers it
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        pass


class StandIn(NamedTuple):
    """What is compiled for a class of ours, and the module that programs know it from."""

    cls: type
    home: str


def stand_in(python_class: type) -> StandIn | None:
    """The script form of one of our context classes."""
    return _STAND_INS.get(python_class)


_STAND_INS: dict[type, StandIn] = {
    grad_mode.no_grad: StandIn(no_grad, _MODES),
    labels.record_function: StandIn(record_function, "torch.autograd.profiler"),
    autocast_mode.autocast: StandIn(autocast, "torch.amp.autocast_mode"),
}


def _recorded(held: Any) -> Any:
    return labels.record_function(held.get("name"), held.get("args") if held.has("args") else None)


def _cast(held: Any) -> Any:
    dtype = held.get("fast_dtype")
    return autocast_mode.autocast(held.get("device"), None if dtype is None else NUMBERED_DTYPES[dtype],
                                  held.get("_enabled"))


_NATIVE: dict[str, Callable[[Any], Any]] = {
    "__torch__.torch.autograd.profiler.record_function": _recorded,
    "__torch__.torch.amp.autocast_mode.autocast": _cast,
}


class Entered:
    """The objects that a running function is inside of, innermost last."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[tuple[Any, Any]] = []        # the object, and the context of ours behind it

    def enter(self, item: Any) -> Any:
        """Go in; what `__enter__` gives."""
        native = _NATIVE.get(item.type.name_)
        behind = None
        if native is not None:
            behind = native(item)
            behind.__enter__()
        self.held.append((item, behind))
        return item.method("__enter__")()

    def leave(self) -> None:
        """Come out of the innermost; the compiler has seen to it that this is the one."""
        item, behind = self.held.pop()
        if behind is not None:
            behind.__exit__(None, None, None)
        item.method("__exit__")(None, None, None)

    def leave_all(self) -> None:
        """Come out of all that is left, after an error."""
        while self.held:
            self.leave()
