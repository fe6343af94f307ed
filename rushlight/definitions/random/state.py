"""Random ops as functions of the generator's state.

Enters: a state (a uint8 tensor, as `get_rng_state` returns it), the name of an op that draws, and its arguments.
Leaves: its results, and the state that drawing them leads to; the default generator stays where it was, and nothing is
written.
`func.with_random_state` turns programs into these. Refuses: names of ops that do not draw.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import OpDefinition, find_op


class RandomStep(OpDefinition):
    """The results of a random op for the state of a generator, and the state after it.

    `rest` are the op's bound arguments; `("tensor", k)` stands for number k of `tensors`.
    """

    schema = "_random_step(Tensor state, Tensor[] tensors, str op, any rest) -> Tensor[]"
    function = method = out = differentiable = False

    def run(self, state: Any, tensors: Any, op: str, rest: tuple) -> list[Any]:
        overload = drawing(op)
        args = [tensors[a[1]] if is_place(a) else a for a in rest]
        if overload.inplace:
            args[0] = args[0].detach().clone()
        if state.is_meta:      # sizes alone are asked for: nothing may be drawn
            names = [p.name for p in overload.definition.spec.params]
            if "device" in names:
                args[names.index("device")] = state.device
            return [*listed(overload.call(*args)), state.clone()]
        generator = _C.default_generator
        before = generator.get_state()
        try:
            generator.set_state(state)
            results = listed(overload.call(*args))
            after = generator.get_state()
        finally:
            generator.set_state(before)
        return [*results, after]


def is_place(a: Any) -> bool:
    """Whether an argument stands for one of the tensors; graphs may have made a list of the pair."""
    return isinstance(a, (tuple, list)) and len(a) == 2 and a[0] == "tensor"


def listed(result: Any) -> list[Any]:
    """One result or several, as a list."""
    return [result] if isinstance(result, _C.Tensor) else list(result)


def drawing(name: str) -> Any:
    """The overload that a schema's name means."""
    base, _, kind = name.partition(".")
    for overload in find_op(base).overload_list:
        if overload.definition.spec.overload == kind and overload.definition.batch == "random":
            return overload
    raise RuntimeError(f"_random_step: no random op is called {name}")
