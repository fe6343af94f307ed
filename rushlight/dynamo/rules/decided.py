"""Truths that a few whole numbers decide, given as tensors of one element: a sampling rate, a mode, a number of things.

Enters: a condition of the captured graph (`marks.decided`). Leaves: its truth for the numbers that were given, guarded
by them, so that one of two ways is captured and the other is not there; or the condition as it came, where it hangs on
more than such numbers, or where they turned out to vary: then a graph for each would have no end.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...fake import FakeTensor
from ...fx.node import Node, map_arg
from ..record import marks
from ..record.machine import Machine
from ..record.recorder import without_modes
from ..values.guards import Kind, Predicate
from .natives import special

MOST_NODES = 32       # between the numbers and the condition
MOST_VALUES = 4       # of one condition's numbers, before they are taken to vary
_values: weakref.WeakKeyDictionary[Any, set[tuple]] = weakref.WeakKeyDictionary()


@special(marks.decided)
def _decided(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    (condition,) = args
    nodes = _before(m, condition)
    if not nodes:
        return condition
    given = {n: _given(m, n) for n in nodes if n.op == "placeholder"}
    if any(twin is None for twin in given.values()):
        return condition
    numbers = {n: twin.real.item() for n, twin in given.items() if twin is not None}
    caller = m.frames[-2 if len(m.frames) > 1 else -1].code
    seen = _values.setdefault(caller, set())
    seen.add(tuple(numbers.values()))
    if len(seen) > MOST_VALUES:
        return condition
    found: dict[Node, Any] = {n: twin.real for n, twin in given.items() if twin is not None}
    try:
        with without_modes(), no_grad():
            for n in nodes:
                if n.op != "placeholder":
                    found[n] = n.target(*map_arg(n.args, found.__getitem__), **map_arg(n.kwargs, found.__getitem__))
    except Exception:      # noqa: BLE001 - the program itself will meet it
        return condition
    for n, twin in given.items():
        m.outside.guard(Kind.PREDICATE, twin.source, Predicate(_Element(numbers[n]), f"its element is {numbers[n]}"))
    return bool(found[nodes[-1]])


def _before(m: Machine, condition: Any) -> list[Node]:
    """What a condition is computed by, in order; nothing where that is not known, or much."""
    last = m.recorder.nodes.get(id(condition))
    if last is None or type(condition) is not FakeTensor or condition.numel() != 1:
        return []
    pending, found = [last], {last}
    while pending:
        for n in pending.pop().all_input_nodes:
            if n not in found:
                found.add(n)
                pending.append(n)
    if len(found) > MOST_NODES or any(n.op not in ("placeholder", "call_function") for n in found):
        return []
    written = m.recorder.memory_written()
    values = [n.meta.get("example_value") for n in found]
    if any(type(v) is not FakeTensor or Tensor.untyped_storage(v)._cdata in written for v in values):
        return []
    return sorted(found)


def _given(m: Machine, n: Node) -> Any:
    """The whole number that the program was given for a placeholder: what stands for it, and where it comes from."""
    twin = m.twin_of(n.meta["example_value"])
    real = None if twin is None else twin.real
    if type(real) is not Tensor or real.device.type != "cpu" or real.numel() != 1:
        return None
    return None if real.dtype.is_floating_point or real.dtype.is_complex else twin


class _Element:
    """Whether the only element of a tensor is what it was."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __call__(self, t: Any) -> bool:
        return t.numel() == 1 and t.item() == self.value
