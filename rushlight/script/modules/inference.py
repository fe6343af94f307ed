"""The type of a Python value that nobody annotated.

Enters: a value, an attribute of a module most often. Leaves: its type. Refuses with `NoType`, which says why: empty
containers, containers of several types, objects that scripts do not have.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...nn import Module
from .. import types as t
from ..classes import Object
from ..constants import as_number, type_of
from ..frontend.annotations import try_type


class NoType(Exception):
    """Why a value has none."""


def inferred(value: Any) -> t.Type:
    """The type a value has."""
    if isinstance(value, _C.Tensor):
        return t.TENSOR
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, dict):
        return _dict(value)
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, enum.Enum):
        found = try_type(type(value))
    elif isinstance(value, Object):
        found = value.type
    elif isinstance(value, Module):
        raise NoType("a torch.nn.Module is no value that has a type by itself")
    else:
        found = t.IntType() if as_number(value) is not None else type_of(value) or try_type(type(value))
    if found is None:
        raise NoType(f"a value of type {type(value).__name__} has no type in compiled programs, which hold tensors,"
                     " numbers, strings, and tuples, lists and dicts of them")
    return found


def _tuple(value: tuple) -> t.Type:
    if hasattr(value, "_fields"):
        found = try_type(type(value))
        if found is not None:
            return found
    return t.TupleType([inferred(item) for item in value])


def _dict(value: dict) -> t.Type:
    if not value:
        raise NoType("Dictionary inputs must have entries")
    key = _one([inferred(item) for item in value], "the keys of a dict must be of consistent type")
    held = _one([inferred(item) for item in value.values()],
                "the values of a dict must be of consistent type")
    try:
        return t.DictType(key, held)
    except RuntimeError as error:
        raise NoType(str(error)) from None


def _list(value: list) -> t.Type:
    if not value:
        raise NoType("List trace inputs must have elements")
    return t.ListType(_one([inferred(item) for item in value], "the elements of a list must be of consistent type"))


def _one(types: Sequence[t.Type], complaint: str) -> t.Type:
    """The type of all."""
    found = t.unify_all([t.plain(type) for type in types])
    if found is None:
        other = next(type for type in types if type != types[0])
        raise NoType(f"{complaint}. Found {types[0]} and {other}")
    return found
