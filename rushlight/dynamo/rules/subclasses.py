"""Tensors of the program's own classes, while they are captured.

Enters: ops on tensors (and other objects) with a `__torch_function__`, attributes of such tensors, calls that make
them. Leaves: handlers interpreted, call by call, with what they call in the graph; which class each tensor of the graph
is to have when it leaves the frame, and which attributes. Tensors made of others (`__torch_dispatch__`) are values of
the graph themselves: their handlers run as they are, on fakes, here and wherever the graph is traced again.
"""

from __future__ import annotations

import itertools
import types
from typing import Any

from ... import _C
from ..._C import Tensor
from ...dispatch.dispatcher import flat
from ...dispatch.modes import DisableTorchFunction, DisableTorchFunctionSubclass, state as mode_state
from ...dispatch.overrides import default_torch_function
from ...tensors.methods import _make_subclass
from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from ..record.recorder import as_target
from ..record.tensor_classes import Way, own_attribute, parts, way_of
from ..values.attributes import MISSING, is_data_descriptor, on_class
from ..values.guards import Kind, Predicate
from ..values.operators import unwatched
from ..values.outside import is_python_class
from ..values.sources import Constant
from .custom_functions import guard_globals
from .natives import detached, is_ours, special, tensor_method


class TensorClasses:
    """What is known of the tensors of one capture beyond their elements."""

    def __init__(self) -> None:
        self.of: dict[int, type] = {}                              # classes of tensors made here, by id
        self.written: dict[int, tuple[Tensor, dict[str, Any]]] = {}      # attributes written here, by id of the tensor
        self.off = 0                                               # blocks in which handlers are not asked
        self.said = (False, False)                                 # what blocks around the frame say of handlers


# --- handlers ---------------------------------------------------------------------------------------------------------


def overriding(m: Machine, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """One argument per class with a `__torch_function__` of the program's, subclasses before their bases."""
    found: list[Any] = []
    for a in flat((*args, *kwargs.values())):
        if isinstance(a, Tensor):
            if not m.has_classes or way_of(kind := m.class_of(a)) is not Way.FUNCTION:
                continue
        elif not _overrides(kind := type(a)):
            continue
        if all(m.class_of(f) is not kind for f in found):
            at = next((i for i, f in enumerate(found) if issubclass(kind, m.class_of(f))), len(found))
            found.insert(at, a)
    return found


def _overrides(kind: type) -> bool:
    """Whether objects that are no tensors take calls of ops."""
    if kind.__module__ == "builtins" or getattr(kind, "__torch_function__", None) is None:
        return False
    return is_python_class(kind) and not is_ours(kind.__module__)


def flags(now: Any) -> tuple[bool, bool]:
    """What blocks around the program say about handlers."""
    return now.subclass_functions_disabled, now.all_functions_disabled


def _flags_guard(said: tuple[bool, bool]) -> Predicate:
    return Predicate(lambda now: flags(now) == said, f"blocks turn handlers of classes, or all, off: {said}")


_SAID = {said: _flags_guard(said) for said in itertools.product((False, True), repeat=2)}


def guard_flags(m: Machine) -> None:
    """That blocks around the program say of handlers what they said when it began."""
    m.outside.guard(Kind.PREDICATE, Constant(mode_state, "modes"), _SAID[m.classes.said])


def ask(m: Machine, func: Any, owners: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the classes' handlers make of a call."""
    guard_flags(m)
    kinds = tuple(m.class_of(owner) for owner in owners)
    try:
        with unwatched(), m.recorder:
            for owner, kind in zip(owners, kinds, strict=True):
                m.guard_class(kind, "__torch_function__", kind.__dict__.get("__torch_function__"))
                handler = m.load_attr(kind if isinstance(owner, Tensor) else owner, "__torch_function__")
                result = m.call(handler, (func, kinds, args, kwargs), {})
                if result is not NotImplemented:
                    return result
    except Raised as raised:
        raise raised.exception from raised.exception.__cause__
    name = getattr(func, "__name__", func)
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:"
        f" {[c.__name__ for c in kinds]}"
    )


@special(default_torch_function)
def _default(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The handler that classes inherit: the op on plain tensors, its results of the class."""
    names = ("cls", "func", "types", "args", "kwargs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    cls = given["cls"]
    if not all(issubclass(cls, t) for t in given["types"]):
        return NotImplemented
    before = {id(t) for t in m.recorder.kept}
    m.classes.off += 1
    try:
        result = m.call(given["func"], tuple(given.get("args", ())), dict(given.get("kwargs") or {}))
    finally:
        m.classes.off -= 1
    return _converted(m, result, cls, before)


def _converted(m: Machine, result: Any, cls: type, before: set[int]) -> Any:
    if isinstance(result, Tensor) and cls is not Tensor and not issubclass(m.class_of(result), cls):
        return as_class(m, result, cls, is_new=id(result) not in before)
    if isinstance(result, (tuple, list)):
        return type(result)([_converted(m, r, cls, before) for r in result])  # type: ignore[call-arg]
    return result


def as_class(m: Machine, t: Tensor, cls: type, is_new: bool = False) -> Tensor:
    """A tensor with the elements and history of another, of a class."""
    if way_of(cls) not in (Way.FUNCTION, Way.PLAIN):
        raise GraphBreak("tensor subclass", f"a {cls.__name__}, which has rules of its own, is made of a tensor")
    result = t if is_new else m.recorder.call(_aliased, (t,), {})
    m.has_classes = True
    m.kept.append(result)
    m.classes.of[id(result)] = cls
    return result


def _aliased(t: Tensor) -> Tensor:
    """The same elements as another object."""
    return t.view(t.shape)


@tensor_method("as_subclass")
def _as_subclass(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    owner, cls = (*args, *kwargs.values())
    return as_class(m, owner, cls)


@special(_make_subclass)
def _make(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    names = ("cls", "data", "require_grad")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.get("require_grad") or set(given) - set(names) or not isinstance(given.get("data"), Tensor):
        raise GraphBreak("not modelled", "_make_subclass with other arguments than a tensor")
    return as_class(m, m.recorder.call(detached, (given["data"],), {}), given["cls"], is_new=True)


def make(m: Machine, kind: type, args: tuple, kwargs: dict[str, Any]) -> Any:
    """kind(...), for a class of tensors."""
    way = way_of(kind)
    if way is Way.WRAPPER:
        for name in ("__new__", "__init__"):
            function = own_attribute(kind, name)
            function = getattr(function, "__func__", function)
            if isinstance(function, types.FunctionType):
                guard_globals(m, function)
                if function.__closure__:
                    raise GraphBreak("not modelled", f"{shown(function)} is a closure")
        m.has_classes = True
        return m.record(as_target(kind.__name__, kind), args, kwargs)
    new = own_attribute(kind, "__new__")
    new = getattr(new, "__func__", new)
    if way is not Way.CLOSED and isinstance(new, types.FunctionType):
        result = m.call(new, (kind, *args), kwargs)
        init = own_attribute(kind, "__init__")
        if isinstance(init, types.FunctionType) and issubclass(m.class_of(result), kind):
            m.call(init, (result, *args), kwargs)
        return result
    raise GraphBreak("not modelled", f"a {kind.__name__} is made from its class")


class _Off:
    """A block in which handlers are not asked."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __enter__(self) -> None:
        self.machine.classes.off += 1

    def __exit__(self, *exc: object) -> None:
        self.machine.classes.off -= 1


@special(DisableTorchFunctionSubclass)
def _disable(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    return _Off(m)


@special(DisableTorchFunction)
def _disable_all(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if m.user_modes:
        raise GraphBreak("not modelled", "modes that see ops are turned off")
    return _Off(m)


# --- attributes -------------------------------------------------------------------------------------------------------


def load(m: Machine, owner: Tensor, name: str) -> Any:
    """An attribute that tensors do not have by themselves; MISSING if there is none."""
    written = m.classes.written.get(id(owner))
    if written is not None and name in written[1]:
        return written[1][name]
    kind = m.class_of(owner)
    if kind is Tensor:
        return MISSING
    found = own_attribute(kind, name)
    if found is not None:
        return m.from_descriptor(owner, kind, name, found, m.twin_of(owner))
    if way_of(kind) is not Way.WRAPPER:
        if name == "data" and way_of(kind) is Way.FUNCTION:
            raise GraphBreak("not modelled", f"the attribute data of a {kind.__name__}")
        return MISSING
    return _inner(m, owner, name)


def _inner(m: Machine, owner: Tensor, name: str) -> Any:
    """What a tensor made of others holds."""
    if name in parts(owner)[0]:
        inner = getattr(owner, name)
        if id(inner) not in m.recorder.nodes:
            node = m.recorder.graph.call_function(getattr, (m.recorder.argument(owner), name), {})
            m.recorder.track(inner, node)
        return inner
    own = owner.__dict__
    if name not in own:
        return MISSING
    known = m.twin_of(owner)
    if known is not None:
        return m.outside.admit(known.real.__dict__[name], m.outside.attribute_of(known, name))
    if isinstance(own[name], (int, float, str, bool, type(None), _C.dtype, tuple)):
        return own[name]
    raise GraphBreak("opaque object", f"the attribute {name} of a {type(owner).__name__}")


def store(m: Machine, owner: Tensor, name: str, value: Any) -> None:
    """owner.name = value"""
    kind = m.class_of(owner)
    found = own_attribute(kind, name)
    if type(found) is property and found.fset is not None:
        m.call(found.fset, (owner, value), {})
        return
    if is_data_descriptor(found) or is_data_descriptor(on_class(Tensor, name)) or way_of(kind) is Way.WRAPPER:
        raise GraphBreak("mutation", f"the attribute {name} of a tensor is written to")
    m.kept += (owner, value)
    m.classes.written.setdefault(id(owner), (owner, {}))[1][name] = value
