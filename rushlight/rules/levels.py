"""Levels of function transforms: the stack of active `vmap`, `grad` and `jvp` calls,
and the tensors that belong to one.

Enters: a transform opens a level. Leaves: while any level is open one bit of the thread's mask sends every call to the
dispatcher, which hands it to the innermost level; that level's interpreter works on what stands behind its tensors,
with itself taken off the stack, so that what it calls goes to the level below. A tensor of a level is an ordinary
`Tensor` whose `_wrapped` holds a `Tracked`, a `Batch` or a `Dual`. Without levels nothing here runs.

Refuses: reading elements of a tensor that stands for a batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..op.registry import find_op

FUNCTORCH = 1 << 2   # kKeyFunctorch of csrc/types.h


class Level:
    """One open transform. `number` counts from the outside in; a closed level's tensors stand for their values."""

    kind = ""
    __slots__ = ("is_open", "number", "outer_grad_mode")

    def __init__(self) -> None:
        self.number = 0
        self.is_open = False
        self.outer_grad_mode = True


class GradLevel(Level):
    """A `grad` or `vjp`: its tensors have histories of their own."""

    kind = "grad"
    __slots__ = ()


class JvpLevel(Level):
    """A `jvp` or a dual level: its tensors carry tangents."""

    kind = "jvp"
    __slots__ = ("is_ambient",)

    def __init__(self, is_ambient: bool = False) -> None:
        super().__init__()
        self.is_ambient = is_ambient   # a dual level around code of any kind: only tensors with tangents belong to it


class VmapLevel(Level):
    """A `vmap`: its tensors are examples of a batch."""

    kind = "vmap"
    __slots__ = ("batch_size", "randomness")

    def __init__(self, batch_size: int, randomness: str = "error") -> None:
        super().__init__()
        self.batch_size, self.randomness = batch_size, randomness


class FunctionalizeLevel(Level):
    """A `functionalize`: writes inside become ops with results of their own, and so do views if `removes_views`."""

    kind = "functionalize"
    __slots__ = ("removes_views",)

    def __init__(self, removes_views: bool = False) -> None:
        super().__init__()
        self.removes_views = removes_views


class RandomStateLevel(Level):
    """A `with_random_state`: ops inside draw from `state`, a tensor, and leave the one that follows it there."""

    kind = "random_state"
    __slots__ = ("state",)

    def __init__(self, random_state: Any) -> None:
        super().__init__()
        self.state = random_state


class Tracked:
    """Behind a tensor of a grad level: the same tensor one level down."""

    __slots__ = ("level", "value")
    dim = -1

    def __init__(self, level: Level, value: Any) -> None:
        self.level, self.value = level, value

    def again(self, value: Any) -> Tracked:
        return Tracked(self.level, value)


class Batch:
    """Behind a tensor of a vmap level: all examples, along dim `dim`."""

    __slots__ = ("dim", "level", "value")

    def __init__(self, level: VmapLevel, value: Any, dim: int) -> None:
        self.level, self.value, self.dim = level, value, dim

    def again(self, value: Any) -> Batch:
        return Batch(self.level, value, self.dim)


class Dual:
    """Behind a tensor of a jvp level: the primal, and its tangent or None."""

    __slots__ = ("is_shared", "level", "tangent", "value")
    dim = -1

    def __init__(self, level: Level, value: Any, tangent: Any = None) -> None:
        self.level, self.value, self.tangent = level, value, tangent
        self.is_shared = False   # a view, or a tensor with views: writes to the tangent must be seen by others

    def again(self, value: Any) -> Dual:
        return Dual(self.level, value)


class Memory:
    """What tensors of a functionalize level share that would share memory: the value of all of it,
    and how often it was written."""

    __slots__ = ("value", "writes")

    def __init__(self, value: Any) -> None:
        self.value, self.writes = value, 0


class Functional:
    """Behind a tensor of a functionalize level: some memory, the views that lead to the tensor,
    and what they showed after `seen` writes.

    A view is (overload, its arguments after the first, which of its results).
    """

    __slots__ = ("level", "memory", "seen", "value", "views")
    dim = -1

    def __init__(self, level: Level, value: Any, memory: Memory | None = None, views: tuple = ()) -> None:
        self.level, self.value, self.views = level, value, views
        self.memory = Memory(value) if memory is None else memory
        self.seen = self.memory.writes

    def again(self, value: Any) -> Functional:
        result = Functional(self.level, value, self.memory, self.views)
        result.seen = self.seen
        return result


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Level] = []
        self.is_internal = False   # the call being interpreted was made by an op's body or a derivative rule


state = _State()
interpreters: dict[str, Callable] = {}   # kind of level -> function(level, overload, args, tensors)


def readable(t: Any) -> bool:
    """Whether elements may be looked at now: not without data, nor where it is on other processes, nor where tensors
    stand for batches."""
    if t._keys and getattr(t, "_is_elsewhere", False):
        return False
    return not t.is_meta and not any(level.kind == "vmap" for level in state.stack)


def refresh() -> None:
    """Set or clear the thread's bit to match the stack."""
    keys, excluded = _C.get_thread_keys()
    wanted = keys | FUNCTORCH if state.stack else keys & ~FUNCTORCH
    if wanted != keys:
        _C.set_thread_keys(wanted, excluded)


@contextmanager
def opened(level: Level) -> Iterator[Level]:
    """The level on top of the stack; closed at the end."""
    enter(level)
    try:
        yield level
    finally:
        leave(level)


def enter(level: Level) -> None:
    """Put a level on top."""
    stack = state.stack
    level.number = len(stack)
    level.is_open = True
    level.outer_grad_mode = _C.is_grad_enabled()
    stack.append(level)
    if len(stack) == 1:
        refresh()


def leave(level: Level) -> None:
    """Take the top level off for good."""
    assert state.stack and state.stack[-1] is level, "levels of function transforms must close in order"
    state.stack.pop()
    level.is_open = False
    if not state.stack:
        refresh()


def below(level: Level, function: Callable, *args: Any, grad_mode: bool | None = None) -> Any:
    """function(*args) with the top level taken off, so that ops go to the level below it."""
    stack = state.stack
    assert stack[-1] is level, "only the innermost level hands calls down"
    stack.pop()
    if not stack:
        refresh()
    before = _C.is_grad_enabled()
    if grad_mode is not None and grad_mode != before:
        _C._set_grad_enabled(grad_mode)
    try:
        return function(*args)
    finally:
        if _C.is_grad_enabled() != before:
            _C._set_grad_enabled(before)
        stack.append(level)
        if len(stack) == 1:
            refresh()


class Reopened:
    """A level that has closed, open again at the top: for calling back into what it recorded."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> Level:
        self.before = (self.level.number, self.level.is_open, self.level.outer_grad_mode)
        enter(self.level)
        return self.level

    def __exit__(self, *exc: object) -> None:
        leave(self.level)
        self.level.number, self.level.is_open, self.level.outer_grad_mode = self.before


# --- tensors of a level -----------------------------------------------------------------------------------------------


def behind(t: Any, level: Level) -> Any:
    """What stands behind tensor `t` at `level`; None if it does not belong to it."""
    w = t._wrapped
    return w if w is not None and w.level is level else None


def whole(value: Any) -> Any:
    """`value`, unless it is made of other tensors: transforms see one tensor at a time."""
    if value._keys and hasattr(type(value), "__compose__"):
        raise NotImplementedError(
            f"function transforms do not take tensors of layout {value.layout}. Transform a function of their values."
        )
    return value


def track(level: Level, value: Any) -> Any:
    """`value` as a tensor of a grad level."""
    return _C.wrap(whole(value), Tracked(level, value))


def batch(level: VmapLevel, value: Any, dim: int) -> Any:
    """`value` as a tensor of a vmap level, `dim` being the batch."""
    return _C.wrap(whole(value), Batch(level, value, dim), dim)


def dual(level: Level, value: Any, tangent: Any = None) -> Any:
    """`value` as a tensor of a jvp level."""
    return _C.wrap(whole(value), Dual(level, value, tangent))


def functional(level: Level, value: Any, memory: Memory | None = None, views: tuple = ()) -> Any:
    """`value` as a tensor of a functionalize level: of fresh memory, or of some through views."""
    return _C.wrap(whole(value), Functional(level, value, memory, views))


def adopt(t: Any, level: Level) -> None:
    """Make a tensor just made by the body of an op one of the level in place, so that it can be written;
    its base with it."""
    stack = state.stack
    state.stack = stack[: stack.index(level)] if level in stack else stack   # these ops belong below the level
    refresh()
    try:
        base = t._base
        root = t if base is None else base
        if behind(root, level) is None:
            _take_in(root, level)
        if base is not None:
            w = root._wrapped
            t._wrapped = w.again(seen_through(w.value, base, t, isinstance(w, Batch)))
            if isinstance(w, Dual):
                w.is_shared = t._wrapped.is_shared = True
    finally:
        state.stack = stack
        refresh()


def join_base(t: Any, level: Level) -> None:
    """Make a view of a tensor that became one of the level, after the view was made, one of the level too."""
    base = t._base
    if base is not None and behind(base, level) is not None and behind(t, level) is None:
        adopt(t, level)


def tangent_of(t: Any, level: Level) -> Any:
    """The tangent of a tensor at a jvp level, or None. That of a view may have come to its base through another."""
    w = behind(t, level)
    if w is None:
        return None
    if w.tangent is None and w.is_shared and t._base is not None:
        root = behind(t._base, level)
        if root is not None and root.tangent is not None:
            w.tangent = seen_through(root.tangent, root.value, w.value)
    return w.tangent


def seen_through(whole: Any, base: Any, view: Any, is_batch: bool = False) -> Any:
    """The part of `whole`, which lies as `base` does, each of its examples if it is a batch, that `view` is of the
    base. A view may be one of the parts of complex numbers, or of pairs as such numbers."""
    offset = base.storage_offset()
    sizes, strides, at = tuple(view.shape), view.stride(), view.storage_offset()
    if whole.is_complex() and not view.is_complex():
        whole, offset = find_op("view_as_real")(whole), 2 * offset
    elif view.is_complex() and not whole.is_complex():
        sizes, strides, at = (*sizes, 2), (*[2 * s for s in strides], 1), 2 * at
    if is_batch:
        sizes, strides = (whole.shape[0], *sizes), (whole.stride(0), *strides)
    result = whole.as_strided(sizes, strides, at + whole.storage_offset() - offset)
    return find_op("view_as_complex")(result) if len(sizes) > view.ndim + is_batch else result


def _take_in(t: Any, level: Level) -> None:
    value = t
    if t._wrapped is None:      # a tensor of another class (a fake one) knows how to be copied
        value = _C.shallow_copy(t, True) if type(t) is _C.Tensor else t.detach()
    if isinstance(level, VmapLevel):
        span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
        whole = value.new_empty_strided((level.batch_size, *t.shape), (span, *t.stride())).copy_(value)
        t._wrapped = Batch(level, whole, 0)
    elif value is t:
        raise RuntimeError("a tensor of an outer level cannot be written inside a transform")
    else:
        t._wrapped = Tracked(level, value) if isinstance(level, GradLevel) else Dual(level, value)


def lowered(t: Any, level: Level) -> Any:
    """The tensor one level down; itself where it does not belong to `level`."""
    w = t._wrapped
    return w.value if w is not None and w.level is level else t


def alive(t: Any) -> Any:
    """The tensor without the levels that have closed."""
    w = t._wrapped
    while w is not None and not w.level.is_open:
        t = w.value
        w = t._wrapped
    return t


def map_tensors(function: Callable, value: Any) -> Any:
    """`value` with every tensor mapped: a tensor, or a (named) tuple or list of them and others."""
    if isinstance(value, _C.Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        result = [map_tensors(function, v) for v in value]
        if type(value) is tuple:
            return tuple(result)
        if type(value) is list:
            return result
        make: Callable = getattr(type(value), "_make", type(value))
        return make(result)
    return value


def map_args(function: Callable, args: tuple) -> tuple:
    """Bound arguments with every tensor mapped, lists opened once; other arguments as they are."""
    return tuple(
        [
            function(a) if isinstance(a, _C.Tensor) else _map_list(function, a) if isinstance(a, (tuple, list)) else a
            for a in args
        ]
    )


def _map_list(function: Callable, values: Any) -> Any:
    if not any(isinstance(v, _C.Tensor) for v in values):
        return values
    return [function(v) if isinstance(v, _C.Tensor) else v for v in values]


def shape_is_enough(name: str, t: Any) -> bool:
    """Whether `t` has no elements, so that only the shape of the result can be wanted.

    Raises where the calls are recorded: a graph must hold what is computed, whatever the elements will be.
    """
    if t.is_meta and is_recorded(t):
        t._refuse_recording(name)
    return t.is_meta


def is_recorded(t: Any) -> bool:
    """Whether a graph is being recorded from what is called on `t`, which has no elements yet."""
    return bool(t._keys) and hasattr(t, "_is_recorded") and t._is_recorded()


def is_readable(t: Any) -> bool:
    """Whether elements of `t` may be looked at: it stands for no batch."""
    w = t._wrapped
    while w is not None:
        if isinstance(w, Batch) and w.level.is_open:
            return False
        w = w.value._wrapped
    return True


def alias(t: Any) -> Any:
    """The same tensor as one of its own, to differentiate by; under vmap one for every example."""
    level = state.stack[-1] if state.stack else None
    if isinstance(level, VmapLevel) and behind(t, level) is None:
        t = batch(level, t.unsqueeze(0).expand((level.batch_size, *t.shape)), 0)
    return t.view_as(t)


# --- what the core asks -----------------------------------------------------------------------------------------------


def _detach(t: Any) -> Any:
    """The same data outside the graph of every level; without its tangent."""
    w = t._wrapped
    value = w.value.detach()
    behind_it = w.again(value)
    result = _C.wrap(value, behind_it, behind_it.dim)
    if isinstance(w, Functional) and result.stride() != t.stride():      # copies lie as the views they stand for
        _C.rewrap(result, t)
    return result


def readable_value(t: Any, what: str) -> Any:
    """The tensor whose elements may be read."""
    w = t._wrapped
    while w is not None:
        if isinstance(w, Batch) and w.level.is_open:
            raise RuntimeError(
                f"vmap: Tensor.{what}() needs the elements of a tensor, but this one stands for a batch of"
                f" {w.level.batch_size} examples. Control flow and numbers that depend on data cannot be batched; use"
                " tensor ops such as where() instead."
            )
        t = w.value
        w = t._wrapped
    return t


_C._autograd_callbacks["wrapped_detach"] = _detach
_C._autograd_callbacks["wrapped_value"] = readable_value
