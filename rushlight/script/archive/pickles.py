"""Pickles of archives: objects of script classes, tensors by their storages, lists with the types of their elements.

Enters: the bytes of `data.pkl` or `constants.pkl` and an importer for the classes they name. Leaves: values as programs
have them: `Object`s, tensors, lists, dicts. Only what such pickles hold is made; everything else is refused as a
RuntimeError that names record and reason.
"""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable
from typing import Any

from ... import _C
from ...serialization import restricted
from .. import types as t
from ..classes import ClassType, Object
from .imports import Importer


class _Class:
    """A class that a pickle names: NEWOBJ makes an object of it, REDUCE a member of an enum or a named tuple."""

    def __init__(self, type: t.Type) -> None:
        self.type = type

    def __call__(self) -> Object:
        if not isinstance(self.type, ClassType):
            raise pickle.UnpicklingError(f"'{self.type}' is no class of objects")
        return Object(self.type)

    def of(self, given: Any) -> Any:
        """A value of an enum or a named tuple."""
        if isinstance(self.type, t.EnumType):
            return self.type.python_class(given)  # type: ignore[misc]
        if isinstance(self.type, t.TupleType) and isinstance(given, tuple):
            return self.type.python_class(*given)  # type: ignore[misc]
        raise pickle.UnpicklingError(f"'{self.type}' cannot be called")


def _row_of(*kinds: type) -> Callable[[Any], list]:
    def build(row: Any) -> list:
        if type(row) is not list or not all(isinstance(item, kinds) for item in row):
            raise pickle.UnpicklingError(f"expected a list of {kinds[0].__name__}")
        return row

    return build


def _tagged(value: Any, tag: Any) -> Any:
    """A container with the name of its type. Values carry no types here: the slots that hold them do."""
    if not isinstance(value, (list, dict)) or not isinstance(tag, str):
        raise pickle.UnpicklingError("restore_type_tag: expected a list or dict and the name of its type")
    return value


_TAGS: dict[str, Callable[..., Any]] = {
    "build_intlist": _row_of(int), "build_doublelist": _row_of(float, int), "build_boollist": _row_of(bool),
    "build_tensorlist": _row_of(_C.Tensor), "restore_type_tag": _tagged,
}


class ArchiveUnpickler(restricted.Unpickler):
    """Reads one pickle of an archive."""

    importer: Importer | None = None

    def name(self, module: str, name: str) -> None:
        if module == "__torch__" or module.startswith("__torch__."):
            found: Any = self._class(f"{module}.{name}")
        elif module == "torch.jit._pickle":
            found = _TAGS.get(name)
            if found is None:
                raise pickle.UnpicklingError(f"'{module}.{name}' is not supported")
        elif (module, name) == ("builtins", "complex"):
            found = complex
        else:
            super().name(module, name)
            return
        self.callable.add(id(found))
        self.memo_alive.append(found)
        self.stack.append(found)

    def _class(self, name: str) -> _Class:
        type = self.importer.type(name) if self.importer is not None else None
        if type is None:
            kind = "a custom class of C++, which is not there" if ".torch.classes." in name else "not in the archive"
            raise pickle.UnpicklingError(f"class '{name}' is {kind}")
        return _Class(type)

    def __init__(self, data: bytes, persistent_load: Callable[[Any], Any], importer: Importer | None = None) -> None:
        super().__init__(data, 0, persistent_load)
        self.importer = importer
        self.memo_alive: list[Any] = []      # identities of what was named stay taken while it is read


def _reduce(u: Any) -> None:
    if isinstance(u.stack[-2], _Class):
        given, held = u.stack.pop(), u.stack[-1]
        u.stack[-1] = held.of(given)
    else:
        restricted._reduce(u)


def _build(u: Any) -> None:
    if not isinstance(u.stack[-2], Object):
        restricted._build(u)
        return
    state, made = u.stack.pop(), u.stack[-1]
    setter = made.type.find_method("__setstate__")
    if setter is not None and made.type.find_method("__getstate__") is not None:
        made.method("__setstate__")(state)
        _check_filled(made)
        return
    if not isinstance(state, dict):
        raise pickle.UnpicklingError(f"expected the attributes of a '{made.type}' as a dict, got a"
                                     f" {type(state).__name__}")
    for at, slot in enumerate(made.type.slots):
        if slot.name not in state:
            raise pickle.UnpicklingError(f"an object of '{made.type}' lacks attribute '{slot.name}'")
        made.slots[at] = checked(state[slot.name], slot.type, f"{made.type}.{slot.name}")


def _check_filled(made: Object) -> None:
    for slot, value in made.items():
        if value is None and not t.NoneType().is_subtype_of(slot.type):
            raise pickle.UnpicklingError(f"__setstate__ of '{made.type}' left attribute '{slot.name}' of type"
                                         f" {slot.type} without a value")


ArchiveUnpickler.table = restricted.table_of({b"R": _reduce, b"b": _build})


def checked(value: Any, type: t.Type, where: str) -> Any:
    """A value that stands in a file for an attribute: it must be of the attribute's type, down to the objects in it.
    Empty and long containers are looked at by their first elements only."""
    if not _is_of(value, type):
        raise pickle.UnpicklingError(f"attribute '{where}' should be of type {type}, but the file holds a"
                                     f" {value.__class__.__name__}")
    return value


def _is_of(value: Any, type: t.Type) -> bool:
    if isinstance(type, t.UnionType):
        return any(_is_of(value, member) for member in type.members())
    if isinstance(type, ClassType):
        return isinstance(value, Object) and value.type is type
    if isinstance(type, t.ListType):
        return isinstance(value, list) and all(_is_of(item, type.element) for item in value[:4])
    if isinstance(type, t.DictType):
        return isinstance(value, dict)
    if isinstance(type, t.TupleType):
        return isinstance(value, tuple) and len(value) == len(type.elements_) and all(
            _is_of(item, part) for item, part in zip(value, type.elements_, strict=True))
    plain = {t.IntType: int, t.FloatType: (int, float), t.BoolType: bool, t.StringType: str, t.TensorType: _C.Tensor,
             t.NoneType: None.__class__, t.DeviceObjType: (_C.device, str), t.EnumType: enum.Enum,
             t.ComplexType: (int, float, complex)}
    kind = plain.get(type.__class__)
    if kind is not None:
        return isinstance(value, kind)  # type: ignore[arg-type]
    return isinstance(value, Object) if type.is_interface_type() else True


def unpickled(data: bytes, storages: Callable[[Any], Any], importer: Importer | None, record: str) -> Any:
    """The value of one pickle. Refuses, as a RuntimeError that names the record, whatever cannot be read."""
    try:
        return ArchiveUnpickler(data, storages, importer).load()
    except (pickle.UnpicklingError, EOFError, RecursionError) as error:
        raise RuntimeError(f"the record '{record}' of the archive cannot be read: {error}") from error
