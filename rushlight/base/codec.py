"""Values as data: the one way in which what is kept on disk says constants, and whatever upper rooms add to them.

Enters: a value. Leaves: what JSON holds: numbers, texts and None as they are, anything else as a list of the name of
its kind and its parts, described likewise; and the other way round, the value. A kind is a rule that takes values apart
and one that puts parts together again; a codec that extends another knows the other's kinds too, and its own kinds may
be parts of those. Nothing that is read is run: parts only ever reach the rules of kinds that were added here. Refuses
(`NotKept`): values, and names, of no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from .. import _C
from . import shape
from .disk_cache import NotKept

PLAIN = (bool, int, float, str, type(None))      # what JSON holds as it is


class Codec:
    """Kinds of values. `extended`: the codec whose kinds it has besides its own."""

    def __init__(self, extended: Codec | None = None) -> None:
        self.exact: dict[type, Callable[[Any], tuple]] = {} if extended is None else dict(extended.exact)
        self.derived: dict[type, Callable[[Any], tuple]] = {} if extended is None else dict(extended.derived)
        self.makers: dict[str, Callable[..., Any]] = {} if extended is None else dict(extended.makers)

    def add(self, kind: type, name: str, parts: Callable[[Any], Iterable[Any]], made: Callable[..., Any],
            derived: bool = False) -> None:
        """A kind of its own: `made(*parts(x))` is x again. `derived`: classes made from it count."""
        (self.derived if derived else self.exact)[kind] = lambda x: (name, *parts(x))
        self.makers[name] = made

    def described(self, x: Any) -> Any:
        """A value as JSON holds it."""
        kind = type(x)
        if kind in PLAIN:
            return x
        rule = self.exact.get(kind) or next((self.derived[k] for k in kind.__mro__ if k in self.derived), None)
        if rule is None:
            raise NotKept(f"it holds a {kind.__name__} ({x!r:.60})")
        name, *parts = rule(x)
        return [name, *map(self.described, parts)]

    def restored(self, data: Any) -> Any:
        """The value that `described` gave this for."""
        if type(data) is not list:
            return data
        name, *parts = data
        if name not in self.makers:
            raise NotKept(f"there is no kind {name!r:.60}")
        return self.makers[name](*map(self.restored, parts))


def member(module: Any, qualified: str) -> Any:
    """What a module, or a class in it, has under a name with dots; None where there is nothing."""
    for part in qualified.split("."):
        module = getattr(module, part, None)
    return module


def _listed(kind: type) -> Callable[..., Any]:
    return lambda *parts: kind(parts)


def _named(x: Any) -> tuple[str]:
    return (str(x).rpartition(".")[2],)


def _device(name: str) -> _C.device:
    try:
        return _C.device(name)
    except RuntimeError as error:      # of a package that this process has not loaded
        raise NotKept(f"there is no device {name} here") from error


_DTYPES = {_named(d)[0]: d for d in vars(_C).values() if isinstance(d, _C.dtype)}
_SHAPES = {x.name: x for x in vars(shape).values() if isinstance(x, (shape.layout, shape.memory_format))}

CONSTANTS = Codec()
_kind: type
for _kind in (tuple, list, set, frozenset):
    CONSTANTS.add(_kind, _kind.__name__, iter, _listed(_kind))
for _kind in (slice, range):
    CONSTANTS.add(_kind, _kind.__name__, lambda x: (x.start, x.stop, x.step), _kind)
for _kind in (shape.layout, shape.memory_format):
    CONSTANTS.add(_kind, "shape", _named, _SHAPES.__getitem__)
CONSTANTS.add(dict, "dict", lambda x: chain.from_iterable(x.items()),
              lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)))
CONSTANTS.add(complex, "complex", lambda x: (x.real, x.imag), complex)
CONSTANTS.add(bytes, "bytes", lambda x: (x.hex(),), bytes.fromhex)
CONSTANTS.add(type(...), "...", lambda x: (), lambda: ...)
CONSTANTS.add(_C.dtype, "dtype", _named, _DTYPES.__getitem__)
CONSTANTS.add(_C.device, "device", lambda x: (str(x),), _device)
