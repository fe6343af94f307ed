"""Iterators from outside whose members are plain values: drawn from while a frame is captured, and again when it runs.

Enters: an iterator of a built-in kind. A copy of it is drawn to the end, so that nothing outside moves. Leaves: an
iterator over what it has left, which a guard compares, and how often the frame drew, to do the same behind the graph.
Iterators on the stack of a frame that goes on behind a break are left alone: loops would be compiled for each round.
Refuses: iterators over tensors and objects, and those that share what they draw from.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from .sources import Local, Source

_FLAT = (type(iter([])), type(iter(())), type(iter(range(0))), type(iter(range(1 << 70))), type(iter("")),
         type(reversed([])))
_NESTED = (enumerate, zip)
MOST = 256      # members


def leaves(iterator: Any) -> list[Any]:
    """What an iterator draws from in the end: itself, or those inside."""
    if type(iterator) in _FLAT:
        return [iterator]
    if type(iterator) not in _NESTED:
        raise TypeError(f"{type(iterator).__name__} is not known to be copied")
    return [leaf for part in iterator.__reduce__()[1] if isinstance(part, Iterator) for leaf in leaves(part)]


def copied(iterator: Any) -> Any:
    """An iterator of its own at the same place."""
    function, args, *state = iterator.__reduce__()
    if type(iterator) in _NESTED:
        return function(*[copied(part) if isinstance(part, Iterator) else part for part in args])
    result = function(*args)
    if state and state[0] is not None:
        result.__setstate__(state[0])
    return result


def remaining(iterator: Any) -> list[Any] | None:
    """The members that an iterator has left; None where that cannot be seen, or they are too many."""
    try:
        inner = leaves(iterator)
        if len({id(one) for one in inner}) != len(inner) or sum(map(operator.length_hint, inner)) > MOST:
            return None
        return list(copied(iterator))
    except TypeError:
        return None


def may_be_drawn(source: Source) -> bool:
    """Whether an iterator is one that the program was given."""
    return not (isinstance(source, Local) and source.name.startswith("<stack"))


def drawn(twin: Any, count: int) -> tuple[int, bool]:
    """How many of `count` members were drawn, and whether the end was met."""
    left = remaining(twin)
    assert left is not None, "iterators: a copy is of the same kind as the iterator"
    return count - len(left), any(len(leaf.__reduce__()) == 2 for leaf in leaves(twin))


def advance(iterator: Any, count: int, is_done: bool) -> None:
    """Draw as often as the frame did."""
    for _ in range(count):
        next(iterator)
    if is_done:
        next(iterator, None)


def containers(iterator: Any) -> list[Any]:
    """The lists, strings and ranges that an iterator goes through."""
    return [leaf.__reduce__()[1][0] for leaf in leaves(iterator)]


def are_apart(*values: Any) -> bool:
    """Whether no two of some iterators draw from one, and none goes through one of some lists."""
    drawing = [one for one in values if not isinstance(one, list)]
    found = [id(leaf) for one in drawing for leaf in leaves(one)]
    lists = {id(one) for one in values if isinstance(one, list)}
    return len(set(found)) == len(found) and not any(id(c) in lists for one in drawing for c in containers(one))
