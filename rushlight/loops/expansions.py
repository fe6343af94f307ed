"""The table of named functions and what they mean in primitives; the files of `math/` fill it, and its `expand` reads
it."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.loops.expr import Value

EXPANSIONS: dict[str, Callable[..., Value]] = {}
COMPLEX_EXPANSIONS: dict[str, Callable[..., Value]] = {}


def expansion(name: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers the decorated function as the meaning of `name` for f32 and f64."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        assert name not in EXPANSIONS, f"{name} is expanded twice"
        EXPANSIONS[name] = function
        return function

    return register


def complex_expansion(name: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers the decorated function as the meaning of `name` for c64 and c128."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        assert name not in COMPLEX_EXPANSIONS, f"complex {name} is expanded twice"
        COMPLEX_EXPANSIONS[name] = function
        return function

    return register
