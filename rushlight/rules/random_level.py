"""Drawing random numbers under function transforms: what the samplers do with tensors that belong to a level.

Enters: a tensor to overwrite and a function that fills a plain one. Leaves: the numbers written behind every level,
once for all examples of a vmap (`randomness="same"`) or anew for each (`"different"`). Refuses:
drawing under `"error"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .levels import Batch, Dual, RandomStateLevel, VmapLevel, state


def random_error(name: str) -> None:
    """Raise for a random op in a vmap that was not told what randomness means."""
    raise RuntimeError(
        f"vmap: {name} is a random operation, and this vmap runs with randomness='error'. Pass randomness='same' (one"
        " draw for all examples) or randomness='different' (a draw for each) to vmap, or draw outside of it."
    )


def draws_are_ops() -> bool:
    """Whether bodies must draw by ops, because what draws is given the state of the generator."""
    return any(isinstance(level, RandomStateLevel) for level in state.stack)


def draw_into(name: str, out: Any, fill: Callable[[Any], Any]) -> Any:
    """fill(tensor) for the tensor behind all levels of `out`."""
    for level in state.stack:
        if isinstance(level, VmapLevel) and level.randomness == "error":
            random_error(name)
        if isinstance(level, RandomStateLevel):
            raise NotImplementedError(
                f"with_random_state: {name} draws where no op can be given the state, as in a vmap inside. Transform"
                " the whole with vmap instead, or draw outside of it."
            )
    _draw(out, fill)
    return out


def _draw(out: Any, fill: Callable[[Any], Any]) -> None:
    w = out._wrapped
    if w is None:
        fill(out)
    elif isinstance(w, Batch) and w.level.randomness == "same":
        first = w.value.select(w.dim, 0).clone()
        _draw(first, fill)
        w.value.copy_(first.unsqueeze(w.dim))
    else:
        _draw(w.value, fill)
        if isinstance(w, Dual) and w.tangent is not None:
            w.tangent.zero_()
