"""with_random_state: a function of the random generator's state.

Enters: a function that draws random numbers from the default generator (dropout, rand, normal_, ...). Leaves: one that
is given the generator's state first and returns the state it leaves behind its result. The generator itself is
neither asked nor moved, so calls with equal arguments give equal results; traced, every draw is a `_random_step` from
one state to the next. Together with `functionalize` that is a program of pure functions. Refuses: see
dispatch/levels/random_state.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from ..rules import levels
from ..rules.levels import RandomStateLevel


def with_random_state(func: Callable) -> Callable:
    """`func` as a function of the default generator's state: `wrapped(state, *args) -> (result, next_state)`.

    `state` is a uint8 tensor, as `rushlight.get_rng_state()` returns it. The result is what `func(*args)` would return
    after `rushlight.set_rng_state(state)`, and `next_state` what `get_rng_state()` would then be.
    """

    @functools.wraps(func, updated=())
    def wrapped(state: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if not isinstance(state, _C.Tensor) or state.dtype is not _C.uint8 or state.ndim != 1:
            raise TypeError(
                "with_random_state: the first argument must be the generator's state, a 1-D uint8 tensor as"
                f" get_rng_state() returns it, got {type(state).__name__}"
                + (f" of dtype {state.dtype.name}, shape {list(state.shape)}" if isinstance(state, _C.Tensor) else "")
            )
        level = RandomStateLevel(state)
        with levels.opened(level):
            result = func(*args, **kwargs)
        return result, level.state

    return wrapped
