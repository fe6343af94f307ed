"""`torch.nn.functional` in the language of scripts.

In Python the functions of that namespace are ops, which have no source. Here are their bodies for programs that are
compiled: they run on the same ops, and go by PyTorch's names (`__torch__.torch.nn.functional.relu`), as archives do.
`script_of` finds the body of an op; what has none here is a builtin of the language (`conv2d`, `linear`, `gelu`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base import late
from ...base.late import import_module
from ...base.tables import rows

_FILES = ("activations", "attention", "losses", "norms", "pooling", "sampling")


@functools.cache
def _by_name() -> dict[str, Callable]:
    """The bodies of all files."""
    return {name: held for file in _FILES for name, held in vars(import_module(f"{__name__}.{file}")).items()
            if inspect.isfunction(held) and held.__module__.startswith(__name__) and not name.startswith("_")}


@functools.cache
def _by_identity() -> dict[int, Callable]:
    """Bodies by the identity of the function that programs name."""
    public = late.provided("package").nn.functional
    return {id(getattr(public, name)): held for name, held in _by_name().items() if hasattr(public, name)}


def script_of(obj: Any) -> Callable | None:
    """The body of a function of the namespace; None for anything else."""
    return _by_identity().get(id(obj))


def script_named(name: str) -> Callable | None:
    """As above, by name."""
    return _by_name().get(name)


@functools.cache
def _layers() -> dict[str, type]:
    """Classes with the scripts of layers, by name."""
    return {name: held for file in ("layers", "sequences") for name, held in
            vars(import_module(f"{__name__}.{file}")).items() if inspect.isclass(held) and
            held.__module__.startswith(__name__)}


class Row(NamedTuple):
    """What layers.txt says of a layer."""

    constants: tuple[str, ...]
    is_annotated: bool


@functools.cache
def _rows() -> dict[str, Row]:
    found = {}
    for row in rows(__file__, "layers"):
        name, _, constants = row.partition(":")
        found[name.rstrip("*")] = Row(tuple(constants.split()), name.endswith("*"))
    return found


def row_of(python_class: type) -> Row | None:
    """The row of a layer of `nn`; None for others."""
    return _rows().get(python_class.__name__) if is_layer(python_class) else None


def constants_of(python_class: type) -> tuple[str, ...]:
    """The names that a module's class says are constants: its own, or those of the layer it inherits from."""
    for owner in python_class.__mro__:
        row = row_of(owner)
        if row is not None:
            return row.constants
        if "__constants__" in vars(owner):
            return tuple(vars(owner)["__constants__"])
    return ()


def is_layer(python_class: type) -> bool:
    """Whether a class is one of `nn`'s own."""
    return python_class.__module__.startswith(("rushlight.nn.modules", "torch.nn.modules"))


@functools.cache
def layer_of(python_class: type) -> type | None:
    """The class that holds the scripts of a layer of `nn`; None for others, subclasses among them."""
    return _layers().get(python_class.__name__) if is_layer(python_class) else None


def method_of(python_class: type, name: str) -> Any | None:
    """A method of a module's class as it is compiled: a layer's script where it has one, else Python's own."""
    for owner in python_class.__mro__:
        layer = layer_of(owner)
        if layer is not None and name in vars(layer):
            return vars(layer)[name]
        if name in vars(owner):
            return getattr(python_class, name)
    return None
