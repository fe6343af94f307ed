"""Writes the pickles of archives, instruction by instruction as PyTorch's own reader expects them.

Enters: a value and the type of the place that holds it. Leaves: the bytes of a pickle, the storages its tensors need in
the order met, and the classes of its objects. Refuses: values that no archive can hold, saying which attribute.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable
from typing import Any

from ... import _C
from ...serialization.locations import location_tag
from .. import types as t
from ..classes import ClassType, Object
from ..constants import type_of

_LISTS = {t.IntType: "build_intlist", t.FloatType: "build_doublelist", t.BoolType: "build_boollist",
          t.TensorType: "build_tensorlist"}
_TUPLES = {0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}
_SMALL, _MIDDLE = 256, 65536


class Pickler:
    """One pickle. `name_of` names classes, `places` numbers storages (shared by pickles of one folder)."""

    def __init__(self, name_of: Callable[[Any], str] = str, kind_of: Callable[[t.Type], str] = str) -> None:
        self.out = bytearray(b"\x80\x02")
        self.name_of, self.kind_of = name_of, kind_of
        self.storages: list[Any] = []                  # by their number
        self.classes: list[ClassType] = []             # of the objects, in order
        self._known: dict[Any, int] = {}               # what was written and can be named again
        self._alive: list[Any] = []
        self._shared: set[int] = set()
        self._where: list[str] = []

    def dumped(self, value: Any, type: t.Type | None = None) -> bytes:
        """The whole pickle."""
        self._count(value)
        self.push(value, type)
        return bytes(self.out + b".")

    def _count(self, value: Any) -> None:
        """Find the lists and dicts that are held in two places."""
        waiting, seen = [value], set()
        while waiting:
            held = waiting.pop()
            if not isinstance(held, (list, dict, tuple, Object)):
                continue
            if id(held) in seen:
                self._shared.add(id(held))
                continue
            seen.add(id(held))
            waiting += held.slots if isinstance(held, Object) else held.values() if isinstance(held, dict) else held

    # --- memory
    def _again(self, key: Any) -> bool:
        """Name something that was written before."""
        at = self._known.get(key)
        if at is None:
            return False
        self.out += struct.pack("<cB", b"h", at) if at < _SMALL else struct.pack("<cI", b"j", at)
        return True

    def _keep(self, key: Any, alive: Any = None) -> None:
        at = self._known[key] = len(self._known)
        self._alive.append(alive)
        self.out += struct.pack("<cB", b"q", at) if at < _SMALL else struct.pack("<cI", b"r", at)

    def word(self, text: str) -> None:
        if not self._again(("word", text)):
            data = text.encode("utf-8", "surrogatepass")
            self.out += struct.pack("<cI", b"X", len(data)) + data
            self._keep(("word", text))

    def name(self, module: str, name: str) -> None:
        if not self._again(("global", module, name)):
            self.out += f"c{module}\n{name}\n".encode()
            self._keep(("global", module, name))

    def row(self, values: Iterable[Any], type: t.Type | None = None) -> None:
        """A tuple."""
        values = list(values)
        short = _TUPLES.get(len(values))
        self.out += b"" if short else b"("
        parts = type.elements_ if isinstance(type, t.TupleType) and len(type.elements_) == len(values) else (
            [None] * len(values))
        for value, part in zip(values, parts, strict=True):
            self.push(value, part)
        self.out += short or b"t"

    # --- values
    def push(self, value: Any, type: t.Type | None = None) -> None:
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, enum.Enum):
            self._enum(value, type)
        elif isinstance(value, int):
            self._double(float(value)) if isinstance(type, t.FloatType) else self.integer(value)
        elif isinstance(value, float):
            self._double(value)
        elif isinstance(value, complex):
            self.name("builtins", "complex")
            self.row([value.real, value.imag])
            self.out += b"R"
        elif isinstance(value, str):
            self.word(value)
        elif isinstance(value, _C.Tensor):
            self._tensor(value)
        elif isinstance(value, Object):
            self._object(value)
        elif isinstance(value, tuple):
            self.row(value, _inner(type, t.TupleType))
        elif isinstance(value, (list, dict)):
            self._container(value, type)
        elif isinstance(value, _C.device):
            self.name("torch", "device")
            self.row([str(value)])
            self.out += b"R"
        else:
            self._refuse(f"a value of type '{value.__class__.__name__}'")

    def _refuse(self, what: str) -> None:
        where = ".".join(self._where)
        raise RuntimeError(f"{what} cannot be saved in a TorchScript archive{f' (attribute {where})' if where else ''}")

    def integer(self, value: int) -> None:
        if 0 <= value < _SMALL:
            self.out += struct.pack("<cB", b"K", value)
        elif 0 <= value < _MIDDLE:
            self.out += struct.pack("<cH", b"M", value)
        elif -(2**31) <= value < 2**31:
            self.out += struct.pack("<ci", b"J", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def _double(self, value: float) -> None:
        self.out += struct.pack(">cd", b"G", value)

    def _enum(self, value: enum.Enum, type: t.Type | None) -> None:
        found = _inner(type, t.EnumType)
        if found is None:
            self._refuse(f"enum member {value!r} of no known type")
        module, _, name = self.name_of(found).rpartition(".")
        self.name(module, name)
        self.push(value.value, found.value_type)  # type: ignore[union-attr]
        self.out += b"R"

    def _container(self, value: Any, type: t.Type | None) -> None:
        if self._again(id(value)):
            return
        wanted = _inner(type, t.ListType if isinstance(value, list) else t.DictType) or type_of(value)
        if isinstance(value, list):
            element = wanted.element if isinstance(wanted, t.ListType) else t.AnyType()
            self._list(value, element, wanted)
        else:
            self.name("torch.jit._pickle", "restore_type_tag")
            self._items(value, wanted)
            self._tag(wanted if isinstance(wanted, t.DictType) else t.DictType(t.AnyType(), t.AnyType()))
        if id(value) in self._shared:
            self._keep(id(value), value)

    def _items(self, value: dict, type: t.Type | None) -> None:
        key, item = (type.key, type.value) if isinstance(type, t.DictType) else (None, None)
        self.out += b"}("
        for k, v in value.items():
            self.push(k, key)
            self.push(v, item)
        self.out += b"u"

    def _list(self, value: list, element: t.Type, type: t.Type | None) -> None:
        word = _LISTS.get(element.__class__)
        self.name("torch.jit._pickle", word or "restore_type_tag")
        self.out += b"(](" if word else b"]("
        for item in value:
            self.push(item, element)
        self.out += b"e"
        if word:
            self.out += b"tR"
        else:
            self._tag(type or t.ListType(element))

    def _tag(self, type: t.Type) -> None:
        self.word(self.kind_of(type))
        self.out += b"\x86R"

    def _object(self, value: Object) -> None:
        if self._again(id(value)):
            return
        self.classes.append(value.type)
        module, _, name = self.name_of(value.type).rpartition(".")
        self.name(module, name)
        self.out += b")\x81"
        getter = value.type.find_method("__getstate__")
        if getter is not None and value.type.find_method("__setstate__") is not None:
            self.push(value.method("__getstate__")(), getter.schema.return_type())
        else:
            self.out += b"}("
            for slot, held in value.items():
                self._where.append(slot.name)
                self.word(slot.name)
                self.push(held, slot.type)
                self._where.pop()
            self.out += b"u"
        self.out += b"b"
        self._keep(id(value), value)

    # --- tensors
    def _tensor(self, value: Any) -> None:
        if self._again(id(value)):
            return
        if value.layout is not _strided() or getattr(value, "is_quantized", False) or type(value) not in _plain():
            self._refuse(f"a tensor that is {value.layout if value.layout is not _strided() else type(value).__name__}")
        held = value.detach()
        if held.is_conj() or held.is_neg():
            held = held.resolve_conj().resolve_neg()
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out += b"("
        self._storage(held)
        self.integer(held.storage_offset())
        for numbers in (held.shape, held.stride()):
            self.out += b"("
            for number in numbers:
                self.integer(int(number))
            self.out += b"t"
        self.out += b"\x88" if value.requires_grad else b"\x89"
        self.name("collections", "OrderedDict")
        self.out += b")RtR"
        self._keep(id(value), (value, held))

    def _storage(self, held: Any) -> None:
        storage = held.untyped_storage()
        key = ("storage", storage._cdata, held.dtype)
        if self._again(key):
            return
        self.out += b"("
        self.word("storage")
        self.name("torch", _storage_name(held.dtype))
        self.word(str(len(self.storages)))
        self.storages.append(storage)
        self.word(location_tag(storage))
        self.integer(storage.nbytes() // held.dtype.itemsize)
        self.out += b"tQ"
        self._keep(key, storage)


def _inner(type: t.Type | None, kind: type) -> Any:
    """The type of one kind that a place holds: itself, or the one member of a union that is such."""
    if isinstance(type, kind):
        return type
    if isinstance(type, t.UnionType):
        found = [member for member in type.members() if isinstance(member, kind)]
        return found[0] if len(found) == 1 else None
    return None


def _storage_name(dtype: Any) -> str:
    word = t.SCALAR_NAMES.get(str(dtype).partition(".")[2])
    if word is None:
        raise RuntimeError(f"a tensor of {dtype} cannot be saved in a TorchScript archive")
    return f"{word}Storage"


def _strided() -> Any:
    from ...base import late

    return late.provided("package").strided


def _plain() -> tuple[type, ...]:
    from ...tensors.pickling import parameter_class

    return (_C.Tensor, parameter_class())
