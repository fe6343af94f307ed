"""Which builtin of the language a Python function is.

Enters: a Python object. Leaves: `aten::add`, `prim::max` or the name of a special form; None for anything else.
"""

from __future__ import annotations

import builtins
import functools
import math
import warnings
from typing import Any

from ...base import late
from ..schemas import is_builtin

_PYTHON = {
    "abs": "prim::abs", "max": "prim::max", "min": "prim::min", "round": "aten::round", "len": "aten::len",
    "sum": "aten::sum", "sorted": "aten::sorted", "ord": "aten::ord", "chr": "aten::chr", "hex": "aten::hex",
    "bin": "aten::bin", "oct": "aten::oct", "divmod": "aten::divmod", "any": "aten::any", "all": "aten::all",
    "hash": "aten::hash", "id": "prim::id", "pow": "aten::pow",
}
_SPECIAL = {
    "print": "print", "isinstance": "isinstance", "hasattr": "hasattr", "getattr": "getattr", "range": "range",
    "enumerate": "enumerate", "zip": "zip", "list": "list", "dict": "dict", "tuple": "tuple",
    "int": "int", "float": "float", "bool": "bool", "str": "str", "complex": "complex", "super": "super",
}
_NOT_OF_NUMBERS = ("prod", "dist", "comb", "perm", "hypot", "sumprod", "isclose")      # of `math`, not of the language
_MATH = {"fabs": "aten::fabs", "pow": "aten::pow", "mod": "aten::mathremainder", "remainder": "aten::mathremainder"}


@functools.cache
def _by_identity() -> dict[int, str]:
    """Builtins by the identity of the Python function."""
    torch = late.provided("package")
    found: dict[int, str] = {}

    def add(obj: Any, name: str) -> None:
        if obj is not None and is_builtin(name):
            found.setdefault(id(obj), name)

    # A name is asked for only if it may be a builtin: many others import a room when they are looked at.
    for prefix, module in (("", torch), ("linalg_", torch.linalg), ("fft_", torch.fft), ("special_", torch.special)):
        for name in dir(module):
            if not name.startswith("__") and is_builtin(f"aten::{prefix}{name}"):
                add(getattr(module, name, None), f"aten::{prefix}{name}")
    for name, known in _PYTHON.items():
        found[id(getattr(builtins, name))] = known
    for name in dir(math):
        if callable(getattr(math, name)) and name not in _NOT_OF_NUMBERS:
            add(getattr(math, name), _MATH.get(name, f"aten::{name}"))
    for obj, known in ((torch.autograd.grad, "aten::grad"), (torch.autograd.backward, "aten::backward"),
                       (warnings.warn, "aten::warn")):
        found[id(obj)] = known
    functional = torch.nn.functional
    for name in filter(lambda name: is_builtin(f"aten::{name}"), dir(functional)):
        obj = getattr(functional, name, None)
        if type(obj).__module__.endswith("_C") or type(obj).__name__ in ("Op", "builtin_function_or_method"):
            add(obj, f"aten::{name}")
    return found


@functools.cache
def _specials() -> dict[int, str]:
    torch = late.provided("package")
    found = {id(getattr(builtins, name)): known for name, known in _SPECIAL.items()}
    jit = torch.jit
    for name in ("annotate", "isinstance", "is_scripting", "is_tracing", "fork", "wait", "_unwrap_optional"):
        found[id(getattr(jit, name))] = {"isinstance": "isinstance"}.get(name, name)
    found[id(torch.tensor)] = "tensor"
    found[id(torch._assert)] = "_assert"
    return found


def builtin_of(obj: Any) -> str | None:
    """The builtin that a Python object is."""
    try:
        return _by_identity().get(id(obj))
    except TypeError:
        return None


def special_of(obj: Any) -> str | None:
    """The form of its own that a Python object is."""
    return _specials().get(id(obj))
