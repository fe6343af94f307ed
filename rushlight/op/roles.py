"""Which ops the core calls by itself: the tape adds gradients, copies them and makes them fit; elements are read.

Enters: nothing. Leaves: a table in the core (csrc/roles.h), so that no op is named there. A name is a method of the
tensor, whose class may have its own; a function is for what is no method.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import _C
from .._C import Tensor
from .registry import find_op


def _real_part(x: Tensor) -> Tensor:
    return x.real


def _complex_as_pairs(x: Tensor) -> Tensor:
    return find_op("view_as_real")(x)


def _pairs_as_complex(x: Tensor) -> Tensor:
    return find_op("view_as_complex")(x)


ROLES: dict[str, str | Callable[[Tensor], Tensor]] = {
    "sum": "add",
    "add into": "add_",
    "reduce": "sum",
    "copy": "clone",
    "copy into": "copy_",
    "clear": "zero_",
    "fill": "fill_",
    "detach": "detach",
    "convert": "to",
    "to host": "cpu",
    "reshape": "view",
    "strided": "as_strided",
    "new strided": "new_empty_strided",
    "real part": _real_part,
    "complex as pairs": _complex_as_pairs,
    "pairs as complex": _pairs_as_complex,
    "rows": "unbind",
    "element": "item",
    "conjugated": "_conj",
    "negated": "_neg_view",
}  # in the order of csrc/roles.h

_C.set_roles(*ROLES.values())
