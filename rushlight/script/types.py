"""The types of TorchScript: a lattice with `Any` on top.

Enters: elements. Leaves: immutable types that compare by structure, with the three ways they are written: `str(t)` and
`annotation_str` as Python annotations (`List[int]`), `ir_text` as graphs print them (`int[]`).
Questions: `is_subtype_of`, `why_not` (the reason in words), `unify` (the least type above two, or None).

Containers that can be written to are invariant (a list of ints is no list of numbers), tuples and futures vary with
their elements. `bool` is no `int` here, and the numbers meet in `number`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..base import late

SCALAR_NAMES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "float32": "Float", "float64": "Double", "complex32": "ComplexHalf", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "bool": "Bool", "qint8": "QInt8", "quint8": "QUInt8", "qint32": "QInt32",
    "bfloat16": "BFloat16", "float8_e5m2": "Float8_e5m2", "float8_e4m3fn": "Float8_e4m3fn",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}


class Type:
    """A type. Subclasses fill in the questions; equality is by structure."""

    __slots__ = ()

    def kind(self) -> str:
        """The name of its class, as programs that walk graphs ask for it."""
        return type(self).__name__

    @property
    def annotation_str(self) -> str:
        """As a Python annotation."""
        raise NotImplementedError

    @property
    def ir_text(self) -> str:
        """As graphs print it."""
        return self.annotation_str

    def contained(self) -> tuple[Type, ...]:
        """The types it is made of."""
        return ()

    def containedTypes(self) -> list[Type]:  # noqa: N802 - the name programs call
        return list(self.contained())

    def with_contained(self, types: Sequence[Type]) -> Type:
        """The same type around other elements."""
        return self

    def is_subtype_of(self, other: Type) -> bool:
        """Whether a value of this type may stand where `other` is asked for."""
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(other, (OptionalType, UnionType)):
            return any(self.is_subtype_of(member) for member in other.members())
        return False

    isSubtypeOf = is_subtype_of  # noqa: N815 - the name programs call

    def why_not(self, other: Type) -> str:
        """What keeps this type from being a subtype, in words; empty where only the names say it."""
        return ""

    def is_interface_type(self) -> bool:
        return False

    def has_free_variables(self) -> bool:
        """Whether a variable of a schema (`t`) is in it."""
        return any(part.has_free_variables() for part in self.contained())

    def _key(self) -> tuple[Any, ...]:
        return self.contained()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._key() == other._key())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __str__(self) -> str:
        return self.annotation_str

    def str(self) -> str:  # type: ignore[valid-type]  # noqa: A003 - the name programs call
        return self.ir_text

    def __repr__(self) -> str:  # type: ignore[valid-type]
        return self.annotation_str


class _Simple(Type):
    """A type without parts: one object of each class."""

    __slots__ = ()
    TEXT = ""
    _only: _Simple | None = None

    def __new__(cls) -> _Simple:
        only = cls.__dict__.get("_only")
        if only is None:
            only = cls._only = object.__new__(cls)
        return only

    @classmethod
    def get(cls) -> _Simple:
        """The one object of this type."""
        return cls()

    @property
    def annotation_str(self) -> str:
        return self.TEXT


class AnyType(_Simple):
    """Whatever there is."""

    TEXT = "Any"


class NoneType(_Simple):
    TEXT = "NoneType"


class NumberType(_Simple):
    """An int, a float or a complex; `Scalar` in schemas."""

    TEXT = "number"

    @property
    def ir_text(self) -> str:
        return "Scalar"

    def is_subtype_of(self, other: Type) -> bool:
        if isinstance(other, UnionType):
            return {IntType(), FloatType(), ComplexType()} <= set(other.members()) or super().is_subtype_of(other)
        return super().is_subtype_of(other)


class _Numeric(_Simple):
    def is_subtype_of(self, other: Type) -> bool:
        return isinstance(other, NumberType) or super().is_subtype_of(other)


class IntType(_Numeric):
    TEXT = "int"


class FloatType(_Numeric):
    TEXT = "float"


class ComplexType(_Numeric):
    TEXT = "complex"


class SymIntType(_Numeric):
    """An integer that may be a symbol; to a program an int."""

    TEXT = "int"

    @property
    def ir_text(self) -> str:
        return "SymInt"

    def is_subtype_of(self, other: Type) -> bool:
        return isinstance(other, IntType) or super().is_subtype_of(other)


class BoolType(_Simple):
    TEXT = "bool"


class StringType(_Simple):
    TEXT = "str"


class DeviceObjType(_Simple):
    TEXT = "Device"


class StreamObjType(_Simple):
    TEXT = "Stream"


class GeneratorType(_Simple):
    TEXT = "Generator"


class StorageType(_Simple):
    TEXT = "Storage"


class PyObjectType(_Simple):
    TEXT = "PyObject"


class AnyListType(_Simple):
    TEXT = "list"


class AnyTupleType(_Simple):
    TEXT = "tuple"


class AnyEnumType(_Simple):
    TEXT = "AnyEnumType"


class AnyClassType(_Simple):
    """Any object of a script class."""

    TEXT = "AnyClassType"


class VarType(Type):
    """A variable of a schema: `t` in `append(t[] self, t el)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def annotation_str(self) -> str:
        return self.name

    def has_free_variables(self) -> bool:
        return True

    def _key(self) -> tuple[Any, ...]:
        return (self.name,)


class TensorType(Type):
    """A tensor; a trace knows its dtype, sizes, strides, device and whether it requires a gradient."""

    __slots__ = ("dtype", "sizes_", "strides_", "device_", "requires_grad_", "undefined_", "is_inferred")

    def __init__(self, dtype: Any = None, sizes: tuple[int | None, ...] | None = None,
                 strides: tuple[int, ...] | None = None, device: Any = None, requires_grad: bool | None = None,
                 undefined: bool | None = None) -> None:
        self.dtype, self.sizes_, self.strides_ = dtype, sizes, strides
        self.device_, self.requires_grad_, self.undefined_ = device, requires_grad, undefined
        self.is_inferred = False        # of a parameter without annotation

    def __str__(self) -> str:
        return "Tensor (inferred)" if self.is_inferred else "Tensor"

    @classmethod
    def get(cls) -> TensorType:
        """Any tensor."""
        return TENSOR

    @classmethod
    def of(cls, tensor: Any) -> TensorType:
        """All that is known about one tensor."""
        strides = tuple(tensor.stride()) if str(tensor.layout).endswith(".strided") else None
        return cls(tensor.dtype, tuple(map(int, tensor.shape)), strides, tensor.device, bool(tensor.requires_grad))

    create_from_tensor = of

    def _key(self) -> tuple[Any, ...]:
        return (self.dtype, self.sizes_, self.strides_, str(self.device_), self.requires_grad_, self.undefined_)

    @property
    def annotation_str(self) -> str:
        return "Tensor"

    def is_plain(self) -> bool:
        """Whether nothing but being a tensor is known."""
        return self._key() == TENSOR._key()

    @property
    def ir_text(self) -> str:
        known = SCALAR_NAMES.get(str(self.dtype).partition(".")[2], "Tensor") if self.dtype is not None else "Tensor"
        inside: list[str] = []
        if self.sizes_ is not None:
            inside += ["*" if size is None else f"{size}" for size in self.sizes_]
            if self.strides_ is not None and self.sizes_:
                inside.append(f"strides=[{', '.join(map(str, self.strides_))}]")
        elif self.dtype is not None:
            known += "Tensor"
        if self.requires_grad_ is not None:
            inside.append(f"requires_grad={int(self.requires_grad_)}")
        if self.device_ is not None:
            inside.append(f"device={self.device_}")
        return f"{known}({', '.join(inside)})" if inside or self.sizes_ is not None else known

    def is_subtype_of(self, other: Type) -> bool:
        if isinstance(other, TensorType):
            return self == other or self.merge(other) == other
        return super().is_subtype_of(other)

    def merge(self, other: TensorType) -> TensorType:
        """What is true of both."""
        def both(name: str) -> Any:
            mine, theirs = getattr(self, name), getattr(other, name)
            return mine if mine == theirs else None

        sizes = None
        if self.sizes_ is not None and other.sizes_ is not None and len(self.sizes_) == len(other.sizes_):
            sizes = tuple(a if a == b else None for a, b in zip(self.sizes_, other.sizes_, strict=True))
        return TensorType(both("dtype"), sizes, both("strides_"), both("device_"), both("requires_grad_"),
                          both("undefined_"))

    def plain(self) -> TensorType:
        """Without shapes: what a compiled function may rely on."""
        return TENSOR

    # What programs that walk graphs ask.
    def scalarType(self) -> str | None:  # noqa: N802 - the name programs call
        return SCALAR_NAMES[str(self.dtype).partition(".")[2]] if self.dtype is not None else None

    def sizes(self) -> list[int] | None:
        complete = self.sizes_ is not None and None not in self.sizes_
        return list(self.sizes_) if complete else None  # type: ignore[arg-type]

    def varyingSizes(self) -> list[int | None] | None:  # noqa: N802 - the name programs call
        return list(self.sizes_) if self.sizes_ is not None else None

    def strides(self) -> list[int] | None:
        return list(self.strides_) if self.strides_ is not None else None

    def dim(self) -> int | None:
        return len(self.sizes_) if self.sizes_ is not None else None

    def device(self) -> Any:
        return self.device_

    def requires_grad(self) -> bool:
        return bool(self.requires_grad_)

    def undefined(self) -> bool | None:
        return self.undefined_

    def with_sizes(self, sizes: Sequence[int | None] | None) -> TensorType:
        kept = None if sizes is None else tuple(sizes)
        return TensorType(self.dtype, kept, None, self.device_, self.requires_grad_)

    def with_dtype(self, dtype: Any) -> TensorType:
        return TensorType(dtype, self.sizes_, self.strides_, self.device_, self.requires_grad_)

    def with_device(self, device: Any) -> TensorType:
        return TensorType(self.dtype, self.sizes_, self.strides_, device, self.requires_grad_)

    def contiguous(self) -> TensorType:
        """With the strides of a contiguous tensor of its sizes. Refuses sizes that are not known."""
        if self.sizes_ is None or None in self.sizes_:
            raise RuntimeError("contiguous: the type of this tensor does not say its sizes")
        strides, step = [], 1
        for size in reversed(self.sizes_):
            strides.append(step)
            step *= max(int(size or 0), 1)
        return TensorType(self.dtype, self.sizes_, tuple(reversed(strides)), self.device_, self.requires_grad_)


TENSOR = TensorType()
INFERRED = TensorType()
INFERRED.is_inferred = True


class _Around(Type):
    """A type around one other."""

    __slots__ = ("element",)
    TEXT = IR = ""

    def __init__(self, element: Type) -> None:
        self.element = element

    def getElementType(self) -> Type:  # noqa: N802 - the name programs call
        return self.element

    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return type(self)(types[0])

    @property
    def annotation_str(self) -> str:
        return self.TEXT.format(self.element.annotation_str)

    @property
    def ir_text(self) -> str:
        return self.IR.format(self.element.ir_text)


class ListType(_Around):
    TEXT, IR = "List[{}]", "{}[]"

    @property
    def ir_text(self) -> str:
        return f"{self.element.ir_text}[]"

    def is_subtype_of(self, other: Type) -> bool:
        return isinstance(other, AnyListType) or super().is_subtype_of(other)

    @staticmethod
    def ofTensors() -> ListType:  # noqa: N802 - the name programs call
        return ListType(TENSOR)

    @staticmethod
    def ofInts() -> ListType:  # noqa: N802 - the name programs call
        return ListType(IntType())

    @staticmethod
    def ofFloats() -> ListType:  # noqa: N802 - the name programs call
        return ListType(FloatType())

    @staticmethod
    def ofBools() -> ListType:  # noqa: N802 - the name programs call
        return ListType(BoolType())

    @staticmethod
    def ofStrings() -> ListType:  # noqa: N802 - the name programs call
        return ListType(StringType())

    @staticmethod
    def ofComplexDoubles() -> ListType:  # noqa: N802 - the name programs call
        return ListType(ComplexType())


class FutureType(_Around):
    TEXT, IR = "Future[{}]", "Future({})"

    def is_subtype_of(self, other: Type) -> bool:
        if isinstance(other, FutureType):
            return self.element.is_subtype_of(other.element)
        return super().is_subtype_of(other)


class AwaitType(_Around):
    TEXT, IR = "Await[{}]", "Await({})"

    def is_subtype_of(self, other: Type) -> bool:
        if isinstance(other, AwaitType):
            return self.element.is_subtype_of(other.element)
        return super().is_subtype_of(other)


class RRefType(_Around):
    TEXT, IR = "RRef[{}]", "RRef[{}]"


class DictType(Type):
    __slots__ = ("key", "value")

    def __init__(self, key: Type, value: Type) -> None:
        allowed = (IntType, FloatType, ComplexType, BoolType, StringType, TensorType, DeviceObjType, VarType, AnyType)
        if not isinstance(key, allowed):
            raise RuntimeError(f"Cannot create dict for key type '{key}': keys are numbers, strings, tensors or"
                               " devices")
        self.key, self.value = key, value

    def getKeyType(self) -> Type:  # noqa: N802 - the name programs call
        return self.key

    def getValueType(self) -> Type:  # noqa: N802 - the name programs call
        return self.value

    def contained(self) -> tuple[Type, ...]:
        return (self.key, self.value)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return DictType(*types)

    @property
    def annotation_str(self) -> str:
        return f"Dict[{self.key.annotation_str}, {self.value.annotation_str}]"

    @property
    def ir_text(self) -> str:
        return f"Dict({self.key.ir_text}, {self.value.ir_text})"


def _default_text(value: Any) -> str:
    """The default of a field, as graphs print it."""
    return value if isinstance(value, str) else late.provided("script text").shown(value)


class TupleType(Type):
    """Elements in a row; with a name and the names of its fields, a NamedTuple."""

    __slots__ = ("elements_", "name", "fields", "defaults", "python_class")

    def __init__(self, elements: Iterable[Type], name: str | None = None, fields: tuple[str, ...] = (),
                 defaults: tuple[Any, ...] = (), python_class: type | None = None) -> None:
        self.elements_, self.name, self.fields = tuple(elements), name, fields
        self.defaults, self.python_class = defaults, python_class

    def elements(self) -> list[Type]:
        return list(self.elements_)

    def contained(self) -> tuple[Type, ...]:
        return self.elements_

    def with_contained(self, types: Sequence[Type]) -> Type:
        return TupleType(types, self.name, self.fields, self.defaults, self.python_class)

    def _key(self) -> tuple[Any, ...]:
        return (self.elements_, self.name, self.fields)

    @property
    def annotation_str(self) -> str:
        if self.name and self.name != "NamedTuple":      # results of ops have fields, but no class
            return self.name
        return f"Tuple[{', '.join(e.annotation_str for e in self.elements_) or '()'}]"

    @property
    def ir_text(self) -> str:
        if self.name:
            first = len(self.fields) - len(self.defaults)
            defaults = ["" if at < first else f" = {_default_text(self.defaults[at - first])}"
                        for at in range(len(self.fields))]
            fields = zip(self.fields, self.elements_, defaults, strict=True)
            return f"NamedTuple({', '.join(f'{name} : {type.ir_text}{default}' for name, type, default in fields)})"
        return f"({', '.join(e.ir_text for e in self.elements_)})"

    def is_subtype_of(self, other: Type) -> bool:
        if isinstance(other, AnyTupleType):
            return True
        if isinstance(other, TupleType):
            named_alike = not other.name or (self.name is not None and self.fields == other.fields)
            return named_alike and len(self.elements_) == len(other.elements_) and all(
                mine.is_subtype_of(theirs) for mine, theirs in zip(self.elements_, other.elements_, strict=True))
        return super().is_subtype_of(other)


class UnionType(Type):
    """One of several; those that others cover are left out. With None among two, print as Optional."""

    __slots__ = ("members_",)

    def __init__(self, members: Iterable[Type]) -> None:
        self.members_ = _joined(members)

    def members(self) -> tuple[Type, ...]:
        return self.members_

    def contained(self) -> tuple[Type, ...]:
        return self.members_

    def with_contained(self, types: Sequence[Type]) -> Type:
        return union_of(types)

    def _key(self) -> tuple[Any, ...]:
        return (frozenset(self.members_),)

    @property
    def annotation_str(self) -> str:
        return f"Union[{', '.join(m.annotation_str for m in self.members_)}]"

    @property
    def ir_text(self) -> str:
        return f"Union({', '.join(m.ir_text for m in self.members_)})"

    def is_subtype_of(self, other: Type) -> bool:
        return isinstance(other, AnyType) or all(member.is_subtype_of(other) for member in self.members_)

    def can_hold(self, type: Type) -> bool:
        """Whether a value of this type may be held."""
        return type.is_subtype_of(self)


class OptionalType(UnionType):
    """A value or None."""

    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        self.element = element
        self.members_ = (element, NoneType())

    def getElementType(self) -> Type:  # noqa: N802 - the name programs call
        return self.element

    @staticmethod
    def ofTensor() -> OptionalType:  # noqa: N802 - the name programs call
        return OptionalType(TENSOR)

    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return optional_of(types[0])

    def _key(self) -> tuple[Any, ...]:
        return (self.element,)

    @property
    def annotation_str(self) -> str:
        return f"Optional[{self.element.annotation_str}]"

    @property
    def ir_text(self) -> str:
        return f"{self.element.ir_text}?"


class FunctionType(Type):
    """The type of one compiled function."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def _key(self) -> tuple[Any, ...]:
        return (id(self.function),)

    @property
    def annotation_str(self) -> str:
        return "Function"


class EnumType(Type):
    """A Python enum whose values are all of one type."""

    __slots__ = ("name", "value_type", "values", "python_class")

    def __init__(self, name: str, value_type: Type, values: tuple[tuple[str, Any], ...],
                 python_class: type | None = None) -> None:
        self.name, self.value_type, self.values, self.python_class = name, value_type, values, python_class

    def getValueType(self) -> Type:  # noqa: N802 - the name programs call
        return self.value_type

    def _key(self) -> tuple[Any, ...]:
        return (self.name,)

    @property
    def annotation_str(self) -> str:
        return self.name

    @property
    def ir_text(self) -> str:
        return f"Enum<{self.name}>"

    def is_subtype_of(self, other: Type) -> bool:
        return isinstance(other, AnyEnumType) or super().is_subtype_of(other)


def _joined(members: Iterable[Type]) -> tuple[Type, ...]:
    """Members of unions among them taken out, each once, without those that others cover."""
    flat: list[Type] = []
    for member in members:
        flat += member.members() if isinstance(member, UnionType) else (member,)
    kept: list[Type] = []
    for member in flat:
        if any(member.is_subtype_of(k) for k in kept):
            continue
        kept = [k for k in kept if not k.is_subtype_of(member)] + [member]
    numbers = (IntType(), FloatType(), ComplexType())
    if all(number in kept for number in numbers):
        at = kept.index(numbers[0])
        kept = [k for k in kept if k not in numbers]
        kept.insert(min(at, len(kept)), NumberType())
    return tuple(sorted(kept, key=_rank))


_RANKS = ("AnyType", "EnumType", "AnyEnumType", "TensorType", "StorageType", "TupleType", "ListType", "DictType",
          "NumberType", "FloatType", "ComplexType", "FutureType", "AwaitType", "RRefType", "IntType", "NoneType",
          "StringType", "GeneratorType", "BoolType", "OptionalType", "VarType", "DeviceObjType", "StreamObjType")


def _rank(type: Type) -> tuple[int, str]:
    """Where a member stands in a union: by kind, then by how it is written."""
    kind = type.kind()
    return (_RANKS.index(kind) if kind in _RANKS else len(_RANKS), type.ir_text)


def optional_of(element: Type) -> Type:
    """Optional[element], flat: what already holds None stays as it is."""
    if NoneType().is_subtype_of(element):
        return element
    if isinstance(element, UnionType):
        return union_of((*element.members(), NoneType()))
    return OptionalType(element)


def union_of(members: Iterable[Type]) -> Type:
    """The union of some types in its plainest form: one type, an Optional, or a Union."""
    kept = _joined(members)
    if len(kept) == 1:
        return kept[0]
    others = [k for k in kept if not isinstance(k, NoneType)]
    return OptionalType(others[0]) if len(others) == 1 else UnionType(kept)


def without_none(type: Type) -> Type:
    """What is left of an Optional or Union where None is excluded."""
    if isinstance(type, OptionalType):
        return type.element
    return without_members(type, (NoneType(),))


def without_members(type: Type, gone: Iterable[Type]) -> Type:
    """What is left of a union once values of some types are excluded; the type itself where nothing would be left."""
    if not isinstance(type, UnionType):
        return type
    away = tuple(gone)
    kept = [m for m in type.members() if not any(m.is_subtype_of(g) for g in away)]
    return union_of(kept) if kept else type


def unify(first: Type, second: Type, *, to_union: bool = False, hint: Type | None = None) -> Type | None:
    """The least type that both are subtypes of; with `to_union` a Union where no other is; else None."""
    if first.is_subtype_of(second):
        return second
    if second.is_subtype_of(first):
        return first
    if isinstance(first, TensorType) and isinstance(second, TensorType):
        return first.merge(second)
    found = _unify_parts(first, second, to_union)
    if found is not None:
        return found
    if hint is not None and first.is_subtype_of(hint) and second.is_subtype_of(hint):
        return hint
    return union_of((first, second)) if to_union else None


def _unify_parts(first: Type, second: Type, to_union: bool) -> Type | None:
    """By their shape: None beside something, tuples, lists and dicts of tensors, futures."""
    if isinstance(first, NoneType) or isinstance(second, NoneType):
        return optional_of(second if isinstance(first, NoneType) else first)
    if isinstance(first, OptionalType) or isinstance(second, OptionalType):
        inner = unify(without_none(first), without_none(second), to_union=to_union)
        return optional_of(inner) if inner is not None else None
    if isinstance(first, TupleType) and isinstance(second, TupleType):
        if len(first.elements_) != len(second.elements_) or ((first.fields or second.fields) and (
                first.fields != second.fields)):
            return None
        parts = [unify(a, b, to_union=to_union) for a, b in zip(first.elements_, second.elements_, strict=True)]
        return None if None in parts else first.with_contained(parts)  # type: ignore[arg-type]
    if isinstance(first, FutureType) and isinstance(second, FutureType):
        inner = unify(first.element, second.element)
        return FutureType(inner) if inner is not None else None
    bare_first, bare_second = plain(first), plain(second)
    if (bare_first, bare_second) != (first, second):
        return unify(bare_first, bare_second, to_union=to_union)
    return None


def unify_all(types: Sequence[Type], *, to_union: bool = False, hint: Type | None = None) -> Type | None:
    """As `unify`, over any number. Refuses an empty row."""
    if not types:
        raise RuntimeError("unify_all: expected at least one type")
    found: Type | None = types[0]
    for type in types[1:]:
        found = unify(found, type, to_union=to_union, hint=hint) if found is not None else None
    return found


def plain(type: Type) -> Type:
    """The same without what a trace knows of tensors."""
    return map_types(type, lambda t: TENSOR if isinstance(t, TensorType) else t)


def map_types(type: Type, change: Callable[[Type], Type]) -> Type:
    """A type with `change` applied to it and to all within, from the inside out."""
    parts = type.contained()
    if parts:
        changed = [map_types(part, change) for part in parts]
        if any(a is not b for a, b in zip(parts, changed, strict=True)):
            type = type.with_contained(changed)
    return change(type)
