"""Tuning by measuring: the fastest of the ways there are to compute a convolution of certain sizes.

Enters: a definition, its arguments, and the plan that rules of thumb give. Leaves: the plan that took the least time
here, on memory of the arguments' layouts. Packing of weights that stay the same does not count: it is done once. What
was found is kept on disk, by layouts, processor, threads and version; what cannot be read there is measured again.
Refuses nothing: other ops, other devices and sizes that vary have nothing to choose from.
"""

from __future__ import annotations

import json
from typing import Any

from .. import _C
from ..base import disk_cache, logs
from ..base.digest import digest
from ..codegen.schedule.forms.wishes import NONE, Wishes
from ..codegen.stored.cache import source_identity
from ..codegen.text.targets import host_identity
from ..op.pack import packers
from ..planners.convolutions import convolve
from .values import Value

TURNS = 3                # of each candidate; the fastest counts
GAIN = 0.95              # of the time that the rules' choice takes, at most, or it is kept

_known: dict[str, Any] = {}


def kept_plan(definition: Any, stands: tuple, wishes: Wishes = NONE) -> Any:
    """The definition's plan for tensors of these layouts, with what it was made of; None where it has none. Wishes are
    for library ops: others have one way to be computed."""
    before = _C.keep_parts(True)
    try:
        plan = definition.plan(stands) if wishes == NONE else definition.plan(stands, wishes)
    finally:
        _C.keep_parts(before)
    return plan if isinstance(plan, _C.Plan) and plan.parts is not None else None


def can_be_tuned(definition: Any, args: tuple, device: Any) -> bool:
    """Whether there is something to choose from."""
    values = [a for a in args if isinstance(a, Value)]
    return definition.name == "convolution" and device.type == "cpu" and not any(v.varies for v in values)


def fastest(definition: Any, args: tuple, stands: tuple, plan: Any, wishes: Wishes) -> Any:
    """The plan in the form that is known, or found, to be the fastest."""
    name = key(definition, args)
    if name not in _known:
        found = read(name)
        if found is None:
            found = measured(definition, args, stands, plan, wishes)
            disk_cache.write(name, json.dumps(found).encode())
        if (log := logs.artifact("autotuning")) is not None:
            log.debug("%s of %s: %s is the fastest (nanoseconds: %s)", definition.name,
                      [list(a.sizes) for a in args if isinstance(a, Value)], found["form"] or "the rules' own choice",
                      found.get("nanoseconds"))
        _known[name] = found["form"]
    form = _known[name]
    if form is None:
        return plan
    return kept_plan(definition, stands, wishes.but(form=form)) or plan


def known_form(definition: Any, args: tuple) -> Any:
    """The form that was found to be the fastest; None where that is the rules' own, or nobody looked."""
    return _known.get(key(definition, args))


def key(definition: Any, args: tuple) -> str:
    """A name for the question: what is computed, of what, and on what."""
    shown = [(a.sizes, a.strides, str(a.dtype), a.buffer.is_static) if isinstance(a, Value) else a for a in args]
    text = repr((definition.name, shown, _C.get_num_threads(), source_identity(), host_identity()))
    return f"tuned-{digest(text.encode()).hex()}"


def read(name: str) -> dict[str, Any] | None:
    """What an earlier process found; None where there is nothing, or not what would have been written."""
    data = disk_cache.read(name)
    try:
        found = None if data is None else json.loads(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or "form" not in found:
        return None
    return found if found["form"] is None or found["form"] in convolve.forms() else None


def measured(definition: Any, args: tuple, stands: tuple, plan: Any, wishes: Wishes) -> dict[str, Any]:
    """The form that takes the least time; None: the rules' own choice."""
    tensors = [t for t in stands if isinstance(t, _C.Tensor)]
    for t in tensors:
        t.fill_(0.5)
    static = {k for k, a in enumerate([a for a in args if isinstance(a, Value)]) if a.buffer.is_static}
    candidates: dict[Any, Any] = {None: plan}
    for form in convolve.forms():
        result = kept_plan(definition, stands, wishes.but(form=form))
        if result is not None:
            candidates[form] = result
    times = {form: taken(result, tensors, static) for form, result in candidates.items()}
    if (log := logs.artifact("benchmarking")) is not None:
        for form, nanoseconds in times.items():
            log.debug("%s, %s: %d ns, the least of %d runs", definition.name, form or "the rules' own choice",
                      nanoseconds, TURNS)
    best = min(times, key=times.__getitem__)
    best = best if times[best] < GAIN * times[None] else None
    return {"form": best, "nanoseconds": {str(form): t for form, t in times.items()}}


def taken(plan: Any, tensors: list[Any], static: set[int]) -> int:
    """Nanoseconds of a run, without the steps that pack what stays the same."""
    steps = plan.parts[0]
    counts = [
        not (s.kernel in packers and all(_number(o) in static or _number(o) < 0 for o in s.operands[:-1]))
        for s in steps
    ]

    def run() -> int:
        return sum(t for t, is_counted in zip(plan.timed(*tensors)[1], counts, strict=True) if is_counted)

    return min(run() for _ in range(TURNS))


def _number(operand: Any) -> int:
    return operand[0] if isinstance(operand, tuple) else operand
