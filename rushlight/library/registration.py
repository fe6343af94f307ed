"""Libraries: registrations of ops and kernels in a namespace, which end with the object that holds them.

Enters: schemas, and functions for dispatch keys. Leaves: ops and kernels, registered. Refuses: redefinition, unknown
keys, kernels for ops that are not defined.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import no_grad
from ..devices import private_use
from ..dispatch import table
from ..dispatch.keys import BACKENDS, DispatchKey, parse_key
from ..op import ops
from ..op.schema import parse
from .definition import CustomOp, file_op, forget


def split_name(qualname: str) -> tuple[str, str]:
    """The namespace and the name of `namespace::name`; an overload is left off."""
    space, colons, name = qualname.partition("::")
    if not colons or not space or not name:
        raise ValueError(f"expected a name like 'namespace::name', got {qualname!r}")
    return space, name.partition(".")[0]


places: dict[Any, str] = {}      # what was defined, or implemented for a key -> file and line
# Kernels of binary extensions for ops that nobody defined yet: libraries may say the two in any order.
waiting: dict[str, list[Callable[[], None]]] = {}


def _caller() -> str:
    """File and line of the program's call into this module."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Registrations in a namespace; they end when the object is destroyed (or `_destroy` is called).

    kind: "DEF" to define ops of a new namespace, "FRAGMENT" to add to one, "IMPL" to implement existing ops.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library kind: {kind!r}; expected 'DEF', 'FRAGMENT' or 'IMPL'")
        if kind == "DEF" and ns in ("prim", "prims"):
            raise ValueError(f"Library: the namespace {ns} is reserved. Choose another.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self.place: str | None = None      # where registrations are said to be made, if not where they are
        self._defined: list[str] = []
        self._implemented: list[tuple[str, Any]] = []
        self._fallbacks: list[Any] = []
        self._private: list[tuple[str, Any]] = []
        self._finalizer = weakref.finalize(
            self, _undo, self._defined, self._implemented, self._fallbacks, self._private)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define `name(Type arg, ...) -> Type` in this namespace; returns the name."""
        if self.kind == "IMPL":
            raise RuntimeError("define: an IMPL library can only implement ops; use DEF or FRAGMENT")
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        parsed = parse(_named_first(schema))
        name = f"{self.ns}::{parsed.name}"
        if name in ops:
            first = f", at {places[name]}" if name in places else ""
            raise RuntimeError(f"define: {name} has already been registered{first}. Now again at"
                               f" {self.place or _caller()}")
        definition = CustomOp(parsed, name)
        definition.tags = tuple(tags) if isinstance(tags, Sequence) else (tags,)
        file_op(definition)
        places[name] = self.place or _caller()
        self._defined.append(name)
        for register in waiting.pop(name, ()):
            register()
        return parsed.name

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Implement an op for a key (the library's own if none is given)."""
        if not callable(fn):
            raise TypeError(f"impl: expected a callable, got {type(fn).__name__}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = (
            op_name
            if isinstance(op_name, str)
            else str(getattr(op_name, "_opname", getattr(op_name, "__name__", op_name)))
        )
        short, _, label = name.rpartition("::")[2].partition(".")
        full = table.qualified(self.ns, short)
        parsed = parse_key(key)
        if parsed in table.PRIVATE_KEYS and self.ns == "aten":
            self._implement_privately(op_name, f"{short}.{label or 'default'}", fn, parsed, with_keyset, allow_override)
            if private_use.state.is_used:
                return
        if full not in ops:
            raise RuntimeError(f"impl: {self.ns}::{short} is not defined. Define it first with Library.define.")
        if (full, parsed) in table.kernels and not allow_override:
            first = f" (registered at {places[full, parsed]})" if (full, parsed) in places else ""
            raise RuntimeError(
                f"impl: {short} of namespace {self.ns} has a Python kernel for the dispatch key {key} already{first}."
                " Pass allow_override=True to replace it."
            )
        places[full, parsed] = self.place or _caller()
        table.register(full, parsed, fn, with_keyset)
        self._implemented.append((full, parsed))

    def _implement_privately(self, op: Any, name: str, fn: Callable, key: Any, keyset: bool, override: bool) -> None:
        """A kernel of one of ATen's overloads for PyTorch's device of others."""
        if not isinstance(op, str):
            name = f"{op._opname}.{op._overloadname}"
        if (name, key) in self._private and not override:
            raise RuntimeError(
                f"impl: aten::{name} has a Python kernel of this library for the dispatch key {key.name} already. Pass"
                " allow_override=True to replace it."
            )
        table.register_private(name, key, fn, keyset)
        self._private.append((name, key))

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Handle every op that has no implementation for a key."""
        key = parse_key(dispatch_key or self.dispatch_key)
        if self.ns != "_":
            raise RuntimeError(
                "Fallbacks can only be registered using a library fragment on the global namespace '_', but it is"
                f" {self.ns}"
            )
        if key in table.fallbacks:
            raise RuntimeError(
                f"Tried to register multiple backend fallbacks for the same dispatch key {key}: it has one already")
        table.fallbacks[key] = fn
        if with_keyset:
            table.with_keyset.add(("_", key))
        self._fallbacks.append(key)

    def _destroy(self) -> None:
        self._finalizer()


def _undo(defined: list[str], implemented: list[tuple[str, Any]], fallback_keys: list[Any],
          private: list[tuple[str, Any]]) -> None:
    for name, key in private:
        table.unregister_private(name, key)
    for name, key in implemented:
        table.unregister(name, key)
        places.pop((name, key), None)
    for name in defined:
        forget(name)
        places.pop(name, None)
    for key in fallback_keys:
        table.fallbacks.pop(key, None)
        table.with_keyset.discard(("_", key))


def _named_first(schema: str) -> str:
    return schema if "->" in schema else schema + " -> ()"


_default_libraries: dict[str, Library] = {}


def default_library(ns: str) -> Library:
    """The library that holds registrations made without one; it lives as long as the process."""
    return _default_libraries.setdefault(ns, Library(ns, "FRAGMENT"))


def define(qualname: str, schema: str | None = None, *, lib: Library | None = None, tags: Sequence[Any] = ()) -> None:
    """define("ns::name", "(Tensor x) -> Tensor")."""
    space, name = split_name(qualname)
    if schema is None:
        raise TypeError("define: expected a schema such as '(Tensor x) -> Tensor'")
    (lib or default_library(space)).define(name + schema, tags=tags)


def impl(qualname: str, types: str | Sequence[str], func: Callable | None = None, *, lib: Library | None = None) -> Any:
    """Implement an op for device types (or "default" for all); usable as a decorator. An older form takes a library
    first: `impl(lib, name, key)`."""
    if isinstance(qualname, Library):
        return _impl_in(qualname, types, func or "")
    space, name = split_name(qualname)
    label = qualname.rpartition("::")[2].partition(".")[2]

    def register(fn: Callable) -> Callable:
        for kind in (types,) if isinstance(types, str) else types:
            key = "CompositeExplicitAutograd" if kind == "default" else kind
            (lib or default_library(space)).impl(f"{name}.{label}" if label else name, fn,
                                                 key if key in DispatchKey.__members__ else kind)
        return fn

    return register if func is None else register(func)


def _impl_in(lib: Library, name: Any, key: Any) -> Callable:
    def register(fn: Callable) -> Callable:
        lib.impl(name, fn, key)
        return fn

    return register


class Kernel:
    """What runs for an op under a key; it stays what it is when another is registered."""

    def __init__(self, name: str, key: Any, function: Callable) -> None:
        self.name, self.op_handle, self.key, self._function = name, ops[name], key, function

    def call_boxed(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Call it; `keyset` goes to kernels that were registered to be told."""
        if (self.name, self.key) in table.with_keyset:
            return self._function(keyset, *args, **kwargs)
        return self._function(*args, **kwargs)

    __call__ = call_boxed

    def __repr__(self) -> str:
        return f"<Kernel of {self.name} under {self.key if isinstance(self.key, str) else self.key.name}>"


def get_kernel(op: Any, dispatch_key: Any) -> Kernel:
    """What runs for an op under a key: the function registered there, or our own kernels of a backend."""
    try:
        key = parse_key(dispatch_key) if isinstance(dispatch_key, str) else dispatch_key
    except RuntimeError:
        raise ValueError(f"Invalid dispatch key: {dispatch_key}. Give one of DispatchKey, or a device") from None
    full = op if isinstance(op, str) else getattr(op, "_qualname", None) or getattr(op, "name", op)
    full = full() if callable(full) else full
    space, name = split_name(full) if "::" in full else ("aten", full.partition(".")[0])
    name = table.qualified(space, name)
    if name not in ops:
        raise RuntimeError(f"operator {full} does not exist")
    found = table.find(name, key)
    if found is None and key in BACKENDS.values() and not name.count("::"):
        found = _own_kernel(name, key)
    if found is None or found is table.FALLTHROUGH:
        raise RuntimeError(f"get_kernel: no kernel is registered for {full} under {dispatch_key}")
    return Kernel(name, key, found)


def _own_kernel(name: str, key: Any) -> Callable:
    """An op of ours on one backend, below autograd."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with no_grad():
            return ops[name](*args, **kwargs)

    return kernel
