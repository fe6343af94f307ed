"""The interpreter of `with_random_state` levels: what draws is given the state of the generator and gives the next.

Enters: a call. Leaves: its result; an op that draws becomes `_random_step`, which depends on nothing but its arguments,
and the level goes on from the state it left. A write of random numbers is that, and a copy into its target. Calls with
a generator of their own keep it. Refuses: draws that a derivative would have to go through (rrelu of a tensor that
requires grad), and devices with generators of their own.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...devices import handlers
from ...op.registry import find_op, is_differentiated_body
from ...rules import levels
from ...rules.levels import RandomStateLevel


def interpret(level: RandomStateLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """One call at such a level."""
    definition = overload.definition
    if definition.batch != "random":
        if is_differentiated_body(overload):      # what it is made of may draw
            return overload.run(*args)
        return levels.below(level, overload.call, *args)
    if definition.is_composite:
        return overload.run(*args)
    if any(isinstance(a, _C.Generator) for a in args):
        return levels.below(level, overload.call, *args)
    check(overload, args, tensors)
    tensors, rest = parted(args)
    name = f"{definition.spec.name}.{definition.spec.overload}" if definition.spec.overload else definition.spec.name
    *results, level.state = levels.below(level, find_op("_random_step"), level.state, tensors, name, rest)
    if overload.inplace:
        return levels.below(level, args[0].copy_, results[0])
    return results[0] if len(definition.spec.returns) <= 1 else tuple(results)


def check(overload: Any, args: tuple, tensors: list[Any]) -> None:
    """Refuse what would give other numbers or no gradient."""
    places = {t.device.type for t in tensors} | {_C.device(a).type for a in args if isinstance(a, (_C.device, str))}
    for place in places - {"cpu", "meta"}:
        if handlers[place].own(f"random_{overload.definition.spec.name}") is not None or place == "cuda":
            raise NotImplementedError(
                f"with_random_state: {overload.name} on {place} draws from a generator of that device, and the state is"
                " one of the CPU's. Draw on the CPU and move the numbers."
            )
    if overload.records and not overload.inplace and _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NotImplementedError(
            f"with_random_state: {overload.name} has a derivative, which the form with a state has not. Differentiate"
            " inside (func.grad), or detach its argument."
        )


def parted(args: tuple) -> tuple[list[Any], tuple]:
    """The tensors among bound arguments, and the rest with their numbers in their place, as `("tensor", k)`."""
    tensors: list[Any] = []

    def place(a: Any) -> Any:
        if isinstance(a, _C.Tensor):
            tensors.append(a)
            return ("tensor", len(tensors) - 1)
        return a

    return tensors, tuple([place(a) for a in args])


levels.interpreters["random_state"] = interpret
