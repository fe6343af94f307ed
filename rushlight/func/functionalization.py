"""functionalize: a function without writes.

Enters: a function that may write to tensors in place and look at them through views. Leaves: a function with the same
results and the same effect on its arguments, whose ops write nothing: traced, it is a graph of functional ops, with one
`copy_` at the end for each argument that changed. With remove="mutations_and_views" views are copies too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from ..rules import levels
from ..rules.levels import FunctionalizeLevel
from ..utils._pytree import tree_map_only

MUTATIONS, BOTH = "mutations", "mutations_and_views"


def functionalize(func: Callable, *, remove: str = MUTATIONS) -> Callable:
    """`func` with its writes, and if asked its views, turned into ops with results of their own."""
    if remove not in (MUTATIONS, BOTH):
        raise RuntimeError(
            f"functionalize(f, remove='{MUTATIONS}'): valid options are '{MUTATIONS}' and '{BOTH}', got"
            f" remove={remove!r}."
        )

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = FunctionalizeLevel(removes_views=remove == BOTH)
        inside: dict[int, tuple[Any, Any]] = {}      # arguments, by what stands for them

        def taken_in(t: Any) -> Any:
            if id(t) not in inside:
                inside[id(t)] = (t, levels.functional(level, t))
            return inside[id(t)][1]

        with levels.opened(level):
            result = func(*tree_map_only(_C.Tensor, taken_in, args), **tree_map_only(_C.Tensor, taken_in, kwargs))
            result = tree_map_only(_C.Tensor, lambda t: brought_out(level, t), result)
        return finished(list(inside.values()), result)

    return wrapped


def brought_out(level: FunctionalizeLevel, t: Any) -> Any:
    """A result: its value, or where it is an argument itself, what stands for that."""
    from ..dispatch.levels.functionalize import current  # noqa: PLC0415 - loaded by the first call at such a level

    w = levels.behind(t, level)
    return t if w is None or (not w.views and w.memory.writes == 0) else current(level, t)


def finished(inside: list[tuple[Any, Any]], result: Any) -> Any:
    """The result outside, after arguments that were written to have got their new values."""
    originals = {}
    for original, answer in inside:
        w = answer._wrapped
        originals[id(answer)] = original
        originals[id(w.memory.value)] = original
        if w.memory.writes:
            original.copy_(w.memory.value)
    return tree_map_only(_C.Tensor, lambda t: originals.get(id(t), levels.alive(t)), result)
