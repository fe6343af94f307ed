"""Python's annotations as types.

Enters: an annotation, as an object or as syntax (quoted, in a type comment, in an archive). Leaves: a type. Refuses:
annotations that mean nothing here, saying which.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import sys
import types as python_types
import typing
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import late
from ...futures import Future
from .. import types as t
from ..constants import type_of
from ..source import Range
from .errors import CompileError

NOT_FOUND = object()          # what a lookup of names answers for those it does not know
_PLAIN: dict[Any, t.Type] = {
    int: t.IntType(), float: t.FloatType(), complex: t.ComplexType(), bool: t.BoolType(), str: t.StringType(),
    None: t.NoneType(), type(None): t.NoneType(), typing.Any: t.AnyType(), _C.Tensor: t.TENSOR,
    _C.device: t.DeviceObjType(), _C.dtype: t.IntType(), list: t.AnyListType(), tuple: t.AnyTupleType(),
    inspect.Parameter.empty: t.TENSOR,
}


def type_of_annotation(annotation: Any, at: Range | None, lookup: Callable[[str], Any] | None = None) -> t.Type:
    """The type that an annotation means."""
    found = try_type(annotation, lookup, at)
    if found is None:
        raise CompileError(_unknown(annotation), at)
    return found


def _unknown(annotation: Any) -> str:
    """Why an annotation means nothing here."""
    bare = {typing.List: ("List", "a contained type", "List[int]"),  # noqa: UP006
            typing.Dict: ("Dict", "contained types", "Dict[int, int]"),  # noqa: UP006
            typing.Tuple: ("Tuple", "a contained type", "Tuple[int]"),  # noqa: UP006
            typing.Optional: ("Optional", "a contained type", "Optional[int]")}
    try:
        word, what, example = bare[annotation]
    except (KeyError, TypeError):
        origin = typing.get_origin(annotation)
        if origin is not None:
            return f"Unknown type constructor {getattr(annotation, '__name__', None) or origin}: '{_shown(annotation)}'"
        return f"Unknown type name '{_shown(annotation)}'"
    return f"Attempted to use {word} without {what}: write what it holds, as in {example}"


def is_whole(annotation: Any) -> bool:
    """Whether an annotation names no type by a word that is still to be looked up."""
    return not isinstance(annotation, (str, typing.ForwardRef)) and all(map(is_whole, typing.get_args(annotation)))


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def try_type(annotation: Any, lookup: Callable[[str], Any] | None = None, at: Range | None = None) -> t.Type | None:
    """As above; None for annotations that are not known."""
    if isinstance(annotation, t.Type):
        return annotation
    if isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        return try_type(object_of(ast.parse(text, mode="eval").body, lookup), lookup, at) if lookup else None
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:
        return None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (typing.List, typing.Dict, typing.Tuple):  # noqa: UP006 - bare ones say nothing of what they hold
        return None
    if origin is not None:
        return _generic(origin, args, lookup, at)
    if annotation in (typing.List, typing.Dict, typing.Tuple, typing.Optional, typing.Union):  # noqa: UP006
        return None
    kind = getattr(annotation, "__name__", "")
    if kind in ("layout", "memory_format", "qscheme"):
        return t.IntType()
    if kind in ("Generator",):
        return t.GeneratorType()
    if kind in ("Stream",):
        return t.StreamObjType()
    return _class(annotation, at) if inspect.isclass(annotation) else None


def _generic(origin: Any, args: tuple[Any, ...], lookup: Callable[[str], Any] | None,
             at: Range | None) -> t.Type | None:
    if origin in (typing.Union, python_types.UnionType):
        parts = [try_type(arg, lookup, at) for arg in args]
        return None if None in parts else t.union_of(parts)  # type: ignore[arg-type]
    if origin is tuple and (args == ((),) or not args):
        return t.TupleType(())
    parts = [try_type(arg, lookup, at) for arg in args]
    if None in parts or not parts:
        return None
    if origin is list:
        return t.ListType(parts[0])  # type: ignore[arg-type]
    if origin is dict:
        return t.DictType(*parts)  # type: ignore[arg-type]
    if origin is tuple:
        return t.TupleType(parts)  # type: ignore[arg-type]
    if origin is Future or getattr(origin, "__name__", "") == "Future":
        return t.FutureType(parts[0])  # type: ignore[arg-type]
    if getattr(origin, "__name__", "") in ("Final", "BroadcastingList", "BroadcastingListCls"):
        return parts[0]
    return None


def _class(annotation: type, at: Range | None) -> t.Type | None:
    """Named tuples, enums, subclasses of Tensor, and classes that can be compiled."""
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        return _named_tuple(annotation, at)
    if issubclass(annotation, enum.Enum):
        return enum_type(annotation)
    if issubclass(annotation, _C.Tensor) or type(annotation).__name__ == "LegacyType":
        return t.TENSOR
    return late.provided("script classes")(annotation, at)


def _named_tuple(annotation: Any, at: Range | None) -> t.Type | None:
    """A NamedTuple. Fields without annotation are tensors. Refuses fields that may be anything, tensors as defaults."""
    name = qualified_name(annotation)
    space = getattr(sys.modules.get(annotation.__module__), "__dict__", {})
    hints = inspect.get_annotations(annotation)
    parts = []
    for field in annotation._fields:
        hint = hints.get(field, inspect.Parameter.empty)
        part = try_type(hint, lambda word: space.get(word, getattr(builtins, word, NOT_FOUND)), at)
        if part is None:
            return None
        if isinstance(part, t.AnyType):
            raise RuntimeError(f"field '{field}' of NamedTuple '{name}' contains an Any type, which no field may")
        parts.append(part)
    defaults = tuple(annotation._field_defaults.values())
    if any(isinstance(default, _C.Tensor) for default in defaults):
        raise RuntimeError(f"Tensors are not supported as default NamedTuple fields, and '{name}' has one: every tuple"
                           " made without that field would share it")
    return t.TupleType(parts, name, annotation._fields, defaults, annotation)


def enum_type(annotation: Any) -> t.EnumType:
    """An enum by its members; aliases are none. Refuses: values that are not all ints, all floats or all strings."""
    values = [type_of(member.value) for member in annotation]
    if not values:
        raise ValueError(f"No enum values defined for: '{annotation}'")
    one = t.unify_all([value or t.AnyType() for value in values])
    if one is None:
        odd = next(i for i, value in enumerate(values) if value != values[0])
        raise RuntimeError(f"Could not unify type list of the values of enum '{annotation.__name__}': value {odd} is"
                           f" of type {values[odd]}, those before it of type {values[0]}")
    if not isinstance(one, (t.IntType, t.FloatType, t.StringType)):
        raise RuntimeError(f"Cannot create Enum with value type '{one}': only int, float and string are supported")
    return t.EnumType(qualified_name(annotation), one, tuple((m.name, m.value) for m in annotation), annotation)


def qualified_name(obj: Any) -> str:
    """What a Python class or function is called in scripts: `__torch__.module.Name`."""
    from ..._jit_internal import _qualified_name

    module = getattr(obj, "__module__", "__main__") or "__main__"
    if module == "__main__":
        return f"__torch__.{obj.__name__}"
    if module.startswith(("rushlight.script.functional.", "torch.script.functional.")):
        return f"__torch__.torch.nn.functional.{obj.__name__}"
    if module.partition(".")[0] == "rushlight":      # ours go by PyTorch's names, in archives too
        return f"__torch__.torch{module[len('rushlight'):]}.{obj.__name__}"
    return _qualified_name(obj)


def object_of(tree: ast.expr, lookup: Callable[[str], Any] | None) -> Any:
    """The object that an annotation's syntax names: names, attributes and subscripts, nothing that computes."""
    if isinstance(tree, ast.Constant):
        return tree.value if tree.value is not Ellipsis else Ellipsis
    if isinstance(tree, ast.Name):
        return _named(tree.id, lookup)
    if isinstance(tree, ast.Attribute):
        return getattr(object_of(tree.value, lookup), tree.attr)
    if isinstance(tree, ast.Tuple):
        return tuple(object_of(item, lookup) for item in tree.elts)
    if isinstance(tree, ast.Subscript):
        inside = object_of(tree.slice, lookup)
        return object_of(tree.value, lookup)[inside]
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
        return typing.Union[object_of(tree.left, lookup), object_of(tree.right, lookup)]  # noqa: UP007
    raise CompileError(f"an annotation cannot be {ast.unparse(tree)!r}")


_WORDS = {"Tensor": _C.Tensor, "List": list, "Dict": dict, "Tuple": tuple, "Optional": typing.Optional,
          "Union": typing.Union, "Any": typing.Any, "int": int, "float": float, "complex": complex, "bool": bool,
          "str": str, "None": None, "NoneType": None, "Device": _C.device, "number": t.NumberType()}


def _named(name: str, lookup: Callable[[str], Any] | None) -> Any:
    found = lookup(name) if lookup else NOT_FOUND
    if found is NOT_FOUND:
        if name not in _WORDS:
            raise CompileError(f"Unknown type name '{name}'")
        return _WORDS[name]
    return found
