"""Operands that kernels lay out for others: packed once, where they stay the same.

Enters: the steps of an op's own plan, and which of its inputs are static. Leaves: the steps without those that pack
(`op.pack.packers`) what was packed before: weights by the plan that runs when they change, right operands of several
products by the first of them.

The packed copy lies in a temporary of the plan, from the first byte that is packed to the first that other steps use
for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..op.extents import Extent
from ..op.pack import packers
from ..op.step import Step
from .values import Buffer, named

Places = list[tuple[int, int]]


def unpacked(emitter: Any, steps: Sequence[Step], places: Places, inputs: Sequence[Buffer], own: set[int]
             ) -> list[Step]:
    """The steps that are left; `places` gets those of packed copies. `own` are the temporaries of the plan: its results
    are temporary too, but others know where they are."""
    left = list(steps)
    for target in dict.fromkeys([split(s.operands[-1])[0] for s in steps if packs_operand(s)]):
        if target in own:
            left = without(emitter, target, left, places, inputs)
    return left


def packs_operand(step: Step) -> bool:
    """Whether a step lays an operand out for another one; kernels of other devices, which need no hash, never do."""
    return isinstance(step.kernel, int) and step.kernel in packers


def without(emitter: Any, target: int, steps: list[Step], places: Places, inputs: Sequence[Buffer]) -> list[Step]:
    """The steps with what is packed into one temporary found elsewhere."""
    packs = [s for s in steps if packs_operand(s) and split(s.operands[-1])[0] == target]
    others = [s for s in steps if not (packs_operand(s) and split(s.operands[-1])[0] == target)]
    used = [split(o)[1] for s in others for o in s.operands if split(o)[0] == target]
    if any(isinstance(n, Extent) for s in packs for n in (*s.params, s.extent, split(s.operands[-1])[1])) or any(
        isinstance(n, Extent) for n in (*used, *emitter.sizes_of(places[target][0]))
    ):
        return shared(emitter, target, steps, packs, places)
    last = max([split(s.operands[-1])[1] for s in packs])
    end = min([start for start in used if start > last], default=None)
    written = [split(s.operands[-1]) for s in others]
    is_written = any(slot == target and (end is None or start < end) for slot, start in written)
    if is_written or not all(is_static(o, inputs) for s in packs for o in s.operands[:-1]):
        return shared(emitter, target, steps, packs, places)
    places.append(packed_once(emitter, packs, places, target, end))

    def found(operand: Any) -> Any:
        number, start = split(operand)
        return (len(places) - 1, start) if number == target and (end is None or start < end) else operand

    return [s._replace(operands=[found(o) for o in s.operands]) for s in others]


def is_static(operand: Any, inputs: Sequence[Buffer]) -> bool:
    """Whether an operand is the same from call to call: constants of the step are."""
    number = split(operand)[0]
    return number < 0 or (number < len(inputs) and inputs[number].is_static)


def shared(emitter: Any, target: int, steps: list[Step], packs: list[Step], places: Places) -> list[Step]:
    """The steps without those of an operand that an earlier product packed."""
    if len(packs) != 1 or isinstance(packs[0].operands[-1], tuple):
        return steps
    (step,) = packs
    key = (step.kernel, named([moved(o, places) for o in step.operands[:-1]]), named(step.params), step.constants)
    if key in emitter.packed:
        places[target] = emitter.packed[key]
        return [s for s in steps if s is not step]
    emitter.packed[key] = places[target]
    return steps


def packed_once(emitter: Any, packs: list[Step], places: Places, target: int, end: int | None) -> tuple[int, int]:
    """Weights packed by the prepared plan; where this one finds them."""
    _, dtype, sizes, *_ = emitter.slots[places[target][0] - emitter.num_inputs]
    own = [[emitter.before(moved(o, places)) for o in s.operands[:-1]] for s in packs]
    key = ("once", *[
        (s.kernel, named(o), named(split(s.operands[-1])[1]), named(s.params), s.constants)
        for s, o in zip(packs, own, strict=True)
    ])
    if key not in emitter.packed:
        other = emitter.preparing()
        slot = other.slot("new", dtype, sizes if end is None else (end // dtype.itemsize,))
        for s, operands in zip(packs, own, strict=True):
            start = split(s.operands[-1])[1]
            other.steps.append(s._replace(operands=[*operands, (slot, start) if start else slot]))
            other.labels.append("packing")
        emitter.packed[key] = emitter.take(slot), 0
    return emitter.packed[key]


def split(operand: Any) -> tuple[int, Any]:
    """The number of an operand, and the bytes before its first element."""
    return operand if isinstance(operand, tuple) else (operand, 0)


def moved(operand: Any, places: Sequence[tuple[int, int]]) -> Any:
    """An operand of a part's step as the whole numbers it."""
    number, offset = split(operand)
    if number < 0:
        return operand
    slot, start = places[number]
    return (slot, start + offset) if start or offset else slot
