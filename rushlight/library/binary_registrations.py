"""What binary extensions register while they are loaded.

Enters: what their initializers say, through the native part. Leaves: ops and kernels in `library`'s tables, once all is
said: definitions and kernels come in no order. Refuses, by taking all of it back: schemas that are none, and
registrations that were made before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..aten.tags import Tag
from ..dispatch import table
from ..dispatch.keys import parse_key
from ..op import ops
from .abi_types import spelling
from .definition import registered
from .registration import Library, waiting

loading: list[Loading] = []      # by now, the innermost last
kept: list[Any] = []             # what was loaded, and what it registered


class Implementation(NamedTuple):
    """A kernel that a library has for an op."""

    library: BinaryLibrary
    name: str              # with its namespace
    overload: str
    address: int
    version: int


class Loading:
    """What a library registered while it was loaded: made real when that is done, or not at all."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.definitions: list[tuple[BinaryLibrary, str, tuple[int, ...]]] = []
        self.implementations: list[Implementation] = []
        self.made: list[Library] = []
        self.waiting: list[tuple[str, Callable[[], None]]] = []

    def commit(self) -> None:
        """Definitions first: initializers run in no order that means anything."""
        for library, schema, tags in self.definitions:
            made = self.keep(Library(library.space, "FRAGMENT"), library)
            made.define(schema, tags=tuple(Tag(number) for number in tags))
        for one in self.implementations:
            if one.name in ops:
                self.implement(one)
            else:      # an op of Python's that is yet to be defined
                later = lambda one=one: self.implement(one)  # noqa: E731
                waiting.setdefault(one.name, []).append(later)
                self.waiting.append((one.name, later))

    def keep(self, made: Library, library: BinaryLibrary) -> Library:
        made.place = library.place
        self.made.append(made)
        return made

    def implement(self, one: Implementation) -> None:
        key = known_key(one.library.key)
        if key is None:
            return
        made = self.keep(Library(one.library.space, "IMPL"), one.library)
        made.impl(one.name, kernel_of(one), key if isinstance(key, str) else key.name)

    def undo(self) -> None:
        for name, later in self.waiting:
            waiting.get(name, [later]).remove(later)
        for made in reversed(self.made):
            made._destroy()


def known_key(key: str | None) -> Any:
    """The key a kernel is for; None for devices that can never be here."""
    try:
        return parse_key(key or "CompositeImplicitAutograd")
    except RuntimeError:
        return None


class BinaryLibrary:
    """`STABLE_TORCH_LIBRARY` and its like, as the library runs them: the native part calls the methods."""

    def __init__(self, kind: str, space: str, key: str | None, place: str) -> None:
        self.kind, self.space, self.key, self.place = kind, space, key, place

    def define(self, schema: str, tags: tuple[int, ...]) -> None:
        _collect(lambda to: to.definitions.append((self, schema, tags)))

    def implement(self, name: str, address: int, version: int) -> None:
        short, _, overload = name.rpartition("::")[2].partition(".")
        full = table.qualified(self.space, short)
        _collect(lambda to: to.implementations.append(Implementation(self, full, overload, address, version)))

    def set_python_module(self, module: str, context: str) -> None:
        """Where the fakes of its ops are: programs import that themselves."""


def open_library(kind: str, space: str, key: str | None, file: str, line: int) -> BinaryLibrary:
    """A library that registers something says so."""
    return BinaryLibrary(kind, space, key, f"{loading[-1].path if loading else 'a library'} ({file}:{line})")


def _collect(add: Callable[[Loading], None]) -> None:
    """Note a registration. Where nobody loads a library through us, it is made at once; initializers have nobody to
    tell what went wrong, and would end the process."""
    if loading:
        return add(loading[-1])
    single = Loading("a library")
    add(single)
    try:
        single.commit()
    except Exception as error:
        single.undo()
        print(f"rushlight: a library that was not loaded by ops.load_library registered what cannot be: {error}",
              file=sys.stderr)
    kept.append(single)
    return None


def kernel_of(one: Implementation) -> Any:
    """The kernel as Python calls it."""
    definition = registered.get(one.name)
    spec = definition.spec if definition is not None else ops[one.name].overload_list[0].definition.spec
    arguments = "".join(spelling(p.type, one.name) for p in spec.params)
    results = "".join(spelling(r, one.name) for r in spec.returns)
    written = sum(1 << i for i, p in enumerate(spec.params) if p.mutated)

    def bind(*args: Any, **named: Any) -> tuple:
        filled = list(args)
        for p in spec.params[len(args) :]:
            if p.name not in named and p.required:
                raise TypeError(f"{one.name}: missing argument {p.name!r}. Signature: {spec.text}")
            filled.append(named.pop(p.name, None if p.required else p.default))
        if named:
            raise TypeError(f"{one.name}: got unexpected arguments {sorted(named)}. Signature: {spec.text}")
        return tuple(filled)

    from .. import _stable  # noqa: PLC0415 - there once an extension asks for it

    return _stable.kernel(one.address, one.name, arguments, results, written, bind)
