"""Functions and classes of a program by what they say: how one process knows again what another one looked into.

Enters: a function, class or module that capture met. Leaves: text that is the same in every process in which it has the
same name and the same code, down to the defaults; and the code objects that this text vouches for. Classes of this
package and of Python's own library are known by their names alone (whoever keeps something adds their versions), as
long as nobody put functions of his own into them. Refuses (`NotKept`): objects that have no such text.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from ... import _C
from ...base.digest import digest
from ...base.disk_cache import NotKept
from ...op.stored import op_name

_ROOT = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
# of a class: what says nothing about what its objects do
_SILENT = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__",
                     "__static_attributes__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__",
                     "_abc_impl"))


class Fingerprints:
    """Texts of one look at a program, each made once."""

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()      # what the texts vouch for
        self._known: dict[int, tuple[Any, str]] = {}

    def of(self, x: Any) -> str:
        """The text of an object."""
        found = self._known.get(id(x))
        if found is None:
            self._known[id(x)] = x, "itself"      # classes refer to themselves
            try:
                found = x, self._made(x)
            except BaseException:
                del self._known[id(x)]
                raise
            self._known[id(x)] = found
        return found[1]

    def _made(self, x: Any) -> str:
        kind = type(x)
        if kind in _PLAIN:
            return f"{kind.__name__} {x!r}"
        if isinstance(x, type):
            return self.of_class(x)
        if kind is types.FunctionType:
            return self.of_function(x)
        if kind is types.CodeType:
            return self.of_code(x)
        if kind is types.ModuleType:
            if sys.modules.get(x.__name__) is x:
                return f"module {x.__name__}"
        elif kind is types.BuiltinFunctionType:
            if getattr(sys.modules.get(x.__module__ or ""), x.__name__, None) is x:
                return f"built-in {x.__module__}.{x.__name__}"
        elif isinstance(x, _C.Op):
            return f"op {op_name(x)}"
        elif kind is tuple or kind is list:
            return f"{kind.__name__} ({', '.join([self.of(v) for v in x])})"
        elif kind in (property, staticmethod, classmethod):
            parts = (x.fget, x.fset, x.fdel) if kind is property else (x.__func__,)
            return f"{kind.__name__} {' '.join([self.of(part) for part in parts])}"
        elif isinstance(x, (_C.dtype, _C.device)):
            return str(x)
        raise NotKept(f"it depends on {x!r:.60}, which no other process can know")

    def of_code(self, code: types.CodeType) -> str:
        self.codes.add(code)
        parts = (code.co_name, code.co_qualname, code.co_flags, code.co_argcount, code.co_posonlyargcount,
                 code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
                 code.co_exceptiontable, [self._constant(c) for c in code.co_consts])
        return f"code {digest(repr(parts).encode() + code.co_code).hex()}"

    def _constant(self, x: Any) -> str:
        """A constant of a code object; sets have no order."""
        if isinstance(x, frozenset):
            return f"frozenset {sorted(map(self._constant, x))}"
        if type(x) is tuple:
            return f"tuple {[self._constant(v) for v in x]}"
        return self.of_code(x) if isinstance(x, types.CodeType) else f"{type(x).__name__} {x!r}"

    def of_function(self, f: types.FunctionType) -> str:
        """Code, defaults and marks; what its cells and globals hold is for guards to say."""
        by_name = sorted((f.__kwdefaults__ or {}).items())
        parts = [f.__module__, f.__qualname__, f.__globals__.get("__name__"), self.of(f.__code__),
                 *[self._default(v) for v in f.__defaults__ or ()],
                 *[f"{k}={self._default(v)}" for k, v in by_name],
                 *[f"{k}: {self._default(v)}" for k, v in sorted(f.__dict__.items())]]
        return f"function {digest(repr(parts).encode()).hex()} {f.__qualname__}"

    def _default(self, value: Any) -> str:
        """Defaults are guarded where they are used: here it is enough that they can be told apart roughly."""
        kind = type(value)
        return f"{kind.__name__} {value!r}" if kind in _PLAIN else f"a {kind.__module__}.{kind.__qualname__}"

    def of_class(self, kind: type) -> str:
        named = f"class {kind.__module__}.{kind.__qualname__}"
        if not kind.__flags__ & 512:      # made in C
            return named
        parts = []
        for one in kind.__mro__:
            if not one.__flags__ & 512:
                parts.append(f"{one.__module__}.{one.__qualname__}")
            elif is_settled(one.__module__):
                check_untouched(one)
                parts.append(f"{one.__module__}.{one.__qualname__}")
            else:
                parts += [f"{one.__module__}.{one.__qualname__}", *self._members(one)]
        return f"{named} {digest(repr(parts).encode()).hex()}"

    def _members(self, kind: type) -> list[str]:
        """Functions by their code; of other things guards say what they are where they are read."""
        found = []
        for name, value in sorted(vars(kind).items()):
            if name not in _SILENT:
                held = type(value)
                is_code = held in (types.FunctionType, property, staticmethod, classmethod)
                found.append(f"{name}: {self.of(value) if is_code else f'{held.__module__}.{held.__qualname__}'}")
        return found


def is_settled(module: str | None) -> bool:
    """Whether a module is this package's or of Python's own library."""
    root = (module or "").partition(".")[0]
    return root == _ROOT or (root in sys.stdlib_module_names and root != "__main__")


def check_untouched(kind: type) -> None:
    """Refuses a class of the package, or the library, with functions that a program put into it."""
    for name, value in vars(kind).items():
        if type(value) is types.FunctionType and not is_settled(value.__globals__.get("__name__")):
            if value.__globals__.get("__name__") is not None:      # made by the library: named tuples, dataclasses
                raise NotKept(f"{kind.__qualname__}.{name} is the program's")
