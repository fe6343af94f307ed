"""From calls to one function of tensors: the program that an engine compiles.

Enters: calls in order, the values that storages held before them, and which storages are wanted. Leaves: `Program`: a
function of flat inputs and numbers that makes the same calls again, and returns what the wanted storages hold. Writes
and views stay what they are: the trace of the program makes a functional graph of them, as it does for `compile`.
Refuses: storages that nothing was ever written to.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import _C
from ..base.bits import CONJUGATE, NEGATIVE
from ..op import find_op
from . import views
from .tape import Call, Host, Number, Seen, tensors_in

CONSTANT_NUMBERS = frozenset(("pow", "pow_", "float_power", "round", "round_"))
"""Ops whose kernels depend on the number itself."""


def written(call: Call) -> list[Seen]:
    """The tensors that a call writes to, arguments and results."""
    params = call.overload.definition.spec.params
    found = list(tensors_in([a for p, a in zip(params, call.args, strict=True) if p.mutated]))
    return [*found, *tensors_in((call.results,))]


def needed(calls: Sequence[Call], wanted: set[int]) -> tuple[list[Call], set[int]]:
    """The calls that the wanted storages come from, and the storages those read."""
    used, kept = set(wanted), []
    for call in reversed(calls):
        if any(t.number in used for t in written(call)):
            kept.append(call)
            used.update(t.number for t in call.seen())
    kept.reverse()
    return kept, used


class Program:
    """Calls as a function of what they need. `inputs`: numbers of the storages that are given, in order;
    `objects`: places of tensors of the host and of numbers that are given behind them."""

    def __init__(self, calls: Sequence[Call], homes: Sequence[int], wanted: Sequence[int], objects: Sequence[Any],
                 ends: bool = False) -> None:
        """`homes`: of each storage twice its bytes, and one more where it held a value before. `ends`: what the
        storages that are computed anew held before is needed by nobody afterwards."""
        held = {n for n, home in enumerate(homes) if home & 1}
        self.counts = Counter(call.overload.name.removesuffix("_") for call in calls)
        self.calls, used = needed(calls, set(wanted))
        changed = {t.number for call in self.calls for t in written(call)}
        self.shapes: dict[int, Seen] = {}      # how storages are seen as a whole, where somebody does so
        for call in self.calls:
            for t in call.seen():
                if t.number not in self.shapes and is_whole(t, homes[t.number] >> 1):
                    self.shapes[t.number] = t
        self.outputs = tuple(n for n in wanted if n in changed)
        self.inputs = tuple(sorted(n for n in used if n in held))
        self.replaced = frozenset(self.inputs) & frozenset(self.outputs) if ends else frozenset()
        self.hosts = tuple(a.place for call in self.calls for a in call.args if isinstance(a, Host))
        # Copies from another lazy device come as what that one has written down: it computes them first.
        self.away = frozenset(call.args[1].place for call in self.calls
                              if call.overload.name == "copy_" and isinstance(call.args[1], Host))
        self.numbers = tuple(place for call in self.calls for place in lifted(call, objects))
        self.baked = tuple(sorted(set(_numbers(self.calls)) - set(self.numbers)))
        self.objects = list(objects)

    def arguments(self, objects: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """What `run` takes, from what was written down this time."""
        return [
            *[values[n] for n in self.inputs],
            *[objects[p].cpu() if p in self.away and _C.records(objects[p].device) else objects[p] for p in self.hosts],
            *([_C.from_data([objects[place] for place in self.numbers], _C.float64)] if self.numbers else ()),
        ]

    def run(self, given: Sequence[Any]) -> list[Any]:
        """The outputs from inputs as flat tensors, tensors of the host, and one tensor of all numbers."""
        return [flat(t) for t in self._run(given, None)]

    def attempt(self, given: Sequence[Any]) -> list[Any]:
        """The same call by call; None for outputs that come from a call which fails."""
        return [None if t is None else flat(t) for t in self._run(given, set())]

    def _run(self, given: Sequence[Any], broken: set[int] | None) -> list[Any]:
        """`broken`: storages that hold nothing sensible; None: a call that fails ends it."""
        storages: dict[int, Any] = {}
        for number, value in zip(self.inputs, given, strict=False):
            seen = self.shapes.get(number)
            shown = value if seen is None or value.dtype is seen.dtype else value.view(seen.dtype)
            storages[number] = shown if seen is None else views.seen(shown, seen.sizes, seen.strides, 0)
        own = set(self.inputs)       # must not be written to: somebody else may hold them
        rest = list(given[len(self.inputs) :])
        objects = list(self.objects)
        packed = rest.pop() if self.numbers else None
        numbers = [packed.select(0, k) for k in range(len(self.numbers))]
        for place, value in zip((*self.hosts, *self.numbers), (*rest, *numbers), strict=True):
            objects[place] = value
        for call in self.calls:
            for t in written(call):
                if t.number in own:
                    own.discard(t.number)
                    storages[t.number] = storages[t.number].clone()
            if broken is None:
                self.repeat(call, storages, objects)
                continue
            try:
                if any(t.number in broken for t in tensors_in(call.args)):
                    raise RuntimeError("made of what failed before")
                self.repeat(call, storages, objects)
            except (RuntimeError, IndexError, ValueError):
                broken.update(t.number for t in written(call))
        return [None if broken and n in broken else storages[n] for n in self.outputs]

    def repeat(self, call: Call, storages: dict[int, Any], objects: list[Any]) -> None:
        """One call, on what the storages hold now."""

        def value(a: Any) -> Any:
            if isinstance(a, Seen):
                return self.look(storages, a)
            if isinstance(a, (Number, Host)):
                return objects[a.place]
            return [value(x) for x in a] if isinstance(a, list) else a

        args = [value(a) for a in call.args]
        if call.overload.name != "_update_rows":
            args = [_weak(x, call) if isinstance(a, Number) and isinstance(x, _C.Tensor) else x
                    for a, x in zip(call.args, args, strict=True)]
        results = call.overload(*_as_written(call.overload, args)[0], **_as_written(call.overload, args)[1])
        for t, r in zip(tensors_in((call.results,)), _tensors(results), strict=True):
            if t.number not in storages:
                storages[t.number] = r
            elif not call.overload.inplace and not any(t.number == a.number for a in tensors_in(call.args)):
                self.look(storages, t).copy_(r)

    def look(self, storages: dict[int, Any], t: Seen) -> Any:
        """A tensor that sees a storage as `t` does."""
        base = storages.get(t.number)
        if base is None:      # nothing was written to it yet
            like = self.shapes.get(t.number) or t._replace(sizes=(extent(t),), strides=(1,))
            base = storages[t.number] = find_op("empty_strided")(like.sizes, like.strides, dtype=like.dtype)
        if base.dtype is not t.dtype:
            base = flat(base).view(t.dtype)
        seen = views.seen(base, t.sizes, t.strides, t.offset)
        if t.bits & CONJUGATE:
            seen = seen.conj()
        return seen._neg_view() if t.bits & NEGATIVE else seen


def extent(t: Seen) -> int:
    """How many elements a storage has at least that is seen so."""
    return t.offset + 1 + sum((n - 1) * s for n, s in zip(t.sizes, t.strides, strict=True)) if 0 not in t.sizes else 0


def is_whole(t: Seen, nbytes: int) -> bool:
    """Whether every element of a storage is seen once."""
    if t.offset or t.bits:
        return False
    return math.prod(t.sizes) * t.dtype.itemsize == nbytes == extent(t) * t.dtype.itemsize


def _weak(number: Any, call: Call) -> Any:
    """A number that is a tensor, of a type that decides no result's. Halves compute with more than their own digits:
    beside them it keeps them all."""
    beside = [t for t in tensors_in(call.args) if t.dtype.is_floating_point or t.dtype.is_complex]
    if any(t.sizes for t in beside):
        return number.to(beside[0].dtype) if beside[0].dtype in (_C.float32, _C.float64) else number
    made = [t.dtype for t in (*beside, *tensors_in((call.results,))) if t.dtype.is_floating_point]
    return number.to(made[0]) if made else number


def _as_written(overload: Any, args: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    params = overload.definition.spec.params
    host = _C.device("cpu")      # whatever device was named, or stood for none: programs run on the host
    places = [host if p.type.lower().startswith("device") else a for p, a in zip(params, args, strict=True)]
    positional = [a for p, a in zip(params, places, strict=True) if not p.keyword_only]
    return positional, {p.name: a for p, a in zip(params, places, strict=True) if p.keyword_only}


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, _C.Tensor):
        return [value]
    return [t for x in value for t in _tensors(x)] if isinstance(value, (list, tuple)) else []


def flat(t: Any) -> Any:
    """All that a storage holds, in the order of memory."""
    whole = views.in_order(t)
    if whole is not None:
        return whole
    count = t.untyped_storage().nbytes() // t.element_size()
    return find_op("as_strided")(t, (count,), (1,), 0)


def _numbers(calls: Sequence[Call]) -> list[int]:
    def inside(a: Any) -> list[int]:
        if isinstance(a, Number):
            return [a.place]
        return [p for x in a for p in inside(x)] if isinstance(a, list) else []

    return [p for call in calls for a in call.args for p in inside(a)]


def lifted(call: Call, objects: Sequence[Any]) -> list[int]:
    """Places of the numbers of a call that may be given as tensors instead: other numbers are the same graph then."""
    definition = call.overload.definition
    if definition.name in CONSTANT_NUMBERS:
        return []
    params = definition.spec.params
    if definition.name == "_update_rows":      # a step's numbers: rates that schedulers change, corrections that grow
        return [a.place for a in call.args[3]]
    if definition.name.startswith("lerp") and any(t.dtype.itemsize == 2 for t in tensors_in(call.args)):
        return []      # wants one type of all its tensors
    kinds = (float, int) if any(t.dtype.is_floating_point for t in tensors_in(call.args)) else (float,)
    return [
        a.place for p, a in zip(params, call.args, strict=True)
        if isinstance(a, Number) and "Tensor|Scalar" in p.type and type(objects[a.place]) in kinds
    ]
