"""Classes of tensors: which of them capture follows, and how.

Enters: a class. Leaves: its `Way`. Tensors of the framework and of classes without rules of their own (parameters of
the program's classes) are PLAIN. A class with `__torch_function__` is FUNCTION: its handler is interpreted, op by op,
and the graph has plain tensors. One with `__torch_dispatch__` that can be taken apart and put together
(`__tensor_flatten__`, `__tensor_unflatten__`) is WRAPPER: the graph has the tensor itself, with fakes inside, and its
handler runs as it is. Everything else is CLOSED, and ends the graph.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.homes import is_own
from ...dispatch.overrides import default_torch_function
from ...fake import FakeTensor
from ...nn import Buffer, Parameter

TENSORS = (Tensor, Parameter, Buffer)


class Way(enum.Enum):
    """How capture follows tensors of a class."""

    PLAIN = "plain"
    FUNCTION = "function"
    WRAPPER = "wrapper"
    CLOSED = "closed"


@functools.lru_cache(1024)
def way_of(kind: type) -> Way:
    """How tensors of a class are followed."""
    if kind in TENSORS or issubclass(kind, FakeTensor):
        return Way.PLAIN
    if kind.__module__.partition(".")[0] in ("rushlight", "torch") or hasattr(kind, "__compose__"):
        return Way.CLOSED
    is_plain = kind.__torch_function__ is _C._disabled_torch_function_impl
    if getattr(kind, "__torch_dispatch__", None) not in (None, _C._disabled_torch_function_impl):
        can_open = hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")
        return Way.WRAPPER if can_open else Way.CLOSED
    return Way.PLAIN if is_plain else Way.FUNCTION


def has_default_rules(kind: type) -> bool:
    """Whether a class has the `__torch_function__` that every tensor has."""
    return getattr(kind.__torch_function__, "__func__", None) is default_torch_function


def is_wrapper(value: Any) -> bool:
    """Whether a value is a tensor made of others, which capture follows as one."""
    return isinstance(value, Tensor) and way_of(type(value)) is Way.WRAPPER


def is_whole(value: Any) -> bool:
    """Whether a value is a tensor around others: such a one, or one of ours that says how it is taken apart."""
    return is_wrapper(value) or hasattr(type(value), "_taken_apart")


def parts(t: Any) -> tuple[list[str], Any]:
    """The names of the tensors inside of a wrapper, and what else is needed to put it together."""
    names, context = t.__tensor_flatten__()
    return list(names), context


def own_attribute(kind: type, name: str) -> Any:
    """What a class of the program's holds under a name, before what tensors have; None if nothing."""
    for one in kind.__mro__:
        if one in TENSORS or is_own(one):
            return None
        if name in one.__dict__:
            return one.__dict__[name]
    return None
