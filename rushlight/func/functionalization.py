"""functionalize: a function without visible writes.

Enters: a function that may write to tensors in place and look at them through views. Leaves: a function with the same
results and the same effect on its arguments: what it writes it writes to copies, and arguments that changed are updated at
the end. With remove="mutations_and_views" results never share memory with arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from ..utils._pytree import tree_map_only

MUTATIONS, BOTH = "mutations", "mutations_and_views"


def functionalize(func: Callable, *, remove: str = MUTATIONS) -> Callable:
    """`func` with its in-place ops kept away from its arguments while it runs."""
    if remove not in (MUTATIONS, BOTH):
        raise RuntimeError(f"functionalize(f, remove='{MUTATIONS}'): valid options are '{MUTATIONS}' and '{BOTH}', got remove={remove!r}.")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        copies: dict[int, tuple[Any, Any, int]] = {}

        def copied(t: Any) -> Any:
            if id(t) not in copies:
                result = t.clone()
                copies[id(t)] = (t, result, result._version)
            return copies[id(t)][1]

        result = func(*tree_map_only(_C.Tensor, copied, args), **tree_map_only(_C.Tensor, copied, kwargs))
        originals = {}
        for original, copy, version in copies.values():
            if copy._version != version:
                original.copy_(copy)
            originals[id(copy)] = original
        if remove == BOTH:
            return tree_map_only(_C.Tensor, lambda t: originals[id(t)] if id(t) in originals else t.clone() if t._is_view() else t, result)
        return tree_map_only(_C.Tensor, lambda t: originals.get(id(t), t), result)

    return wrapped
