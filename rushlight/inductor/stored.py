"""Compiled graphs as data: what a later process needs to run one without compiling it.

Enters: a `Compiled` for tensors in the CPU's memory, or the plans for many sizes of a `Sized`. Leaves: its
`Description` as JSON holds it, with kernels named by their digests; and the other way round, a `Compiled`, or plans.
Functions of this package that steps call, or raise errors with, are named (described.py), and looked up when they are
first called. Refuses (`NotKept`): tensors that a graph holds, functions of the program's own, library routines by their
addresses, other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from ..aot import settings as aot_settings
from ..aot.runtime import boxed
from ..base import logs
from ..base.codec import CONSTANTS, Codec
from ..base.disk_cache import NotKept
from ..base.show import shown_words
from ..codegen.stored import cache
from ..op.step import Step
from ..planners.products import blas
from . import settings
from .compiled import Compiled, Description, PlanParts
from .sized import Member, Sized

_SILENT = frozenset(("recompiles", "breaks", "cache"))      # words that compiling graphs has nothing to say to
NUMBERS = Codec(CONSTANTS)      # of plans; those that are computed for each call are registers


class Keeper:
    """Names and keeps what the inductor makes under certain options."""

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        self.options = dict(options or {})

    def identity(self) -> Any:
        """What of the compiler's own decides what it makes."""
        with settings.applied(self.options):
            found = settings.current()
        if not found["cache_graphs"]:
            raise NotKept("the setting cache_graphs is off")
        if found["debug_folder"] or shown_words() - _SILENT or logs.is_followed():
            raise NotKept("compilation is to be shown (debug_folder, RUSHLIGHT_SHOW, TORCH_LOGS)")
        return found, aot_settings.activation_memory_budget

    def described(self, function: Callable) -> Any:
        found = getattr(function, "compiled", None)
        if isinstance(found, (Sized, StoredSized)):
            return {"plans": [_member(plan) for plan in found.plans]}
        if type(found) is not Compiled:
            raise NotKept("its plan is made when it is called, or for another device")
        return described(found.description)

    def when_ready(self, function: Callable, write: Callable[[], None]) -> None:
        """Call `write` now, or for plans that are made when they are first called, then."""
        found = getattr(function, "compiled", None)
        if isinstance(found, Sized):
            found.on_plan = write
        else:
            write()

    def restored(self, data: Any, again: Callable[[], Callable] | None = None) -> Callable | None:
        """The function. `again` makes it anew, for sizes that no plan holds for."""
        if "plans" in data:
            plans = [_restored_member(plan) for plan in data["plans"]]
            return None if None in plans or again is None else boxed(StoredSized(plans, again))
        result = restored(data)
        return None if result is None else boxed(Compiled(result))

    def described_value(self, value: Any) -> Any:
        return _held().described(value)

    def restored_value(self, data: Any) -> Any:
        return _held().restored(data)


def _held() -> Codec:
    from .described import HELD  # noqa: PLC0415 - most plans call no functions

    return HELD


# --- plans for many sizes ---------------------------------------------------------------------------------------------


class StoredSized:
    """Plans of another process for many sizes of a graph. Called as `Sized` is."""

    def __init__(self, plans: list[Member], again: Callable[[], Callable]) -> None:
        self.plans, self.again = plans, again
        self.own: Callable | None = None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        for plan in self.plans:
            result = plan(inputs)
            if result is NotImplemented:      # a kernel found a bad index: another plan says which
                break
            if result is not None:
                return result
        if self.own is None:
            self.own = self.again()
            found = getattr(self.own, "compiled", None)
            if isinstance(found, Sized):      # what is kept from now on is kept with these
                found.plans[:] = self.plans
        return self.own(list(inputs))

    @property
    def calls(self) -> tuple[str, ...]:
        """Ops that run in Python, in the first plan."""
        return self.plans[0].compiled.calls if self.plans else ()


def _member(plan: Member) -> Any:
    return {
        "plan": described(plan.compiled.description), "which": plan.inputs, "numbers": plan.numbers,
        "others": [(k, _held().described(x)) for k, _, x in plan.others], "program": plan.program,
    }


def _restored_member(data: Any) -> Member | None:
    found = restored(data["plan"])
    others = [(k, _held().restored(x)) for k, x in data["others"]]
    return None if found is None else Member(Compiled(found), data["which"], data["numbers"], others, data["program"])


def _never(code: int) -> None:
    """In the place of what names an error: plans for many sizes leave that to one for the sizes of the call."""


# --- plans ------------------------------------------------------------------------------------------------------------


class _Kernels:
    """The kernels of a plan, each once."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.named: list[list[str]] = []

    def place(self, address: int) -> Any:
        if address not in self.places:
            result = cache.digest_of(address)
            if result is None:
                code = blas.code_of(address)
                if code is None and address == _drawing():
                    return ["draw", ""]
                if code is None:
                    raise NotKept("a step calls a routine of a library")
                return ["blas", code]
            self.places[address] = len(self.named)
            self.named.append([cache.name_of(address), result.hex()])
        return self.places[address]


def described(description: Description) -> dict[str, Any]:
    """A compiled graph as JSON holds it."""
    if description.device.type != "cpu":
        raise NotKept(f"it runs on {description.device}")
    if description.constants:
        raise NotKept("the graph holds tensors")
    kernels = _Kernels()
    labels = {text: k for k, text in enumerate(dict.fromkeys(description.labels))}
    return {
        "main": _parts(description.main, kernels),
        "before": None if description.before is None else _parts(description.before, kernels),
        "kernels": kernels.named,
        "outputs": [k if type(k) is int else [_output(k[0])] for k in description.outputs],
        "used": description.used, "calls": description.calls, "writes": description.writes,
        "static": description.static, "taken": description.taken, "updated": description.updated,
        "labels": list(labels), "label_of": [labels[text] for text in description.labels],
    }


def _output(x: Any) -> Any:
    return (NUMBERS if isinstance(x, _C.Extent) else _held()).described(x)


def _restored_output(x: Any) -> Any:
    return (NUMBERS if type(x) is list and x[0] == "register" else _held()).restored(x)


def _register(number: int) -> _C.Extent:
    result = _C.Extent()
    result.register = number
    return result


NUMBERS.add(_C.Extent, "register", lambda x: (x.register,), _register, derived=True)


def _parts(parts: PlanParts, kernels: _Kernels) -> list[Any]:
    slots = [[kind, *_numbers((dtype,)), _numbers(sizes), strides and _numbers(strides), source, *_numbers((offset,))]
             for kind, dtype, sizes, strides, source, offset in parts.slots]
    return [parts.num_inputs, slots, [_step(step, kernels) for step in parts.steps]]


def _numbers(numbers: Sequence[Any]) -> list[Any]:
    return [*map(NUMBERS.described, numbers)]


def _step(step: Step, kernels: _Kernels) -> list[Any]:
    if isinstance(step.kernel, tuple):
        raise NotKept("a step runs on another device")
    own = kernels.place(step.kernel) if isinstance(step.kernel, int) else ["call", _held().described(step.kernel)]
    places = [_numbers(o) if isinstance(o, tuple) else o for o in step.operands]
    numbers = _numbers(step.params), *_numbers((step.extent, step.grain, step.error))
    on_error = None if step.on_error is None else _described_error(step.on_error)
    return [own, places, *numbers, step.constants.hex(), on_error]


def _described_error(function: Callable) -> Any:
    """What names an error. Those of plans for many sizes hold their sizes, and are not asked (`_never`)."""
    try:
        return _held().described(function)
    except NotKept:
        if not any(isinstance(c.cell_contents, _C.Extent) or _holds_sizes(c.cell_contents)
                   for c in getattr(function, "__closure__", None) or ()):
            raise
        return _held().described(_never)


def _holds_sizes(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and any(isinstance(n, _C.Extent) for n in x)


def restored(data: dict[str, Any]) -> Description | None:
    """The compiled graph; None where one of its kernels is not on disk any more."""
    kernels = [cache.stored_kernel(bytes.fromhex(digest), name) for name, digest in data["kernels"]]
    if None in kernels:
        return None
    labels = data["labels"]
    return Description(
        _C.device("cpu"),
        _restored_parts(data["main"], kernels),
        tuple([k if type(k) is int else (_restored_output(k[0]),) for k in data["outputs"]]),
        tuple(data["used"]),
        (),
        tuple(data["calls"]),
        tuple([labels[k] for k in data["label_of"]]),
        data["writes"],
        None if data["before"] is None else _restored_parts(data["before"], kernels),
        tuple(data["static"]),
        tuple(data["taken"]),
        tuple(data["updated"]),
    )


def _restored_parts(data: list[Any], kernels: Sequence[Any]) -> PlanParts:
    num_inputs, slots, steps = data
    found = tuple([(kind, NUMBERS.restored(dtype), _restored_numbers(sizes), strides and _restored_numbers(strides),
                    source, NUMBERS.restored(offset)) for kind, dtype, sizes, strides, source, offset in slots])
    return PlanParts(num_inputs, found, tuple([_restored_step(step, kernels) for step in steps]))


def _restored_numbers(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([n if type(n) is int else NUMBERS.restored(n) for n in numbers])


def _restored_step(step: list[Any], kernels: Sequence[Any]) -> Step:
    kernel, operands, params, extent, grain, error, constants, on_error = step
    own = kernels[kernel] if type(kernel) is int else _restored_kernel(*kernel)
    places = [_restored_numbers(o) if type(o) is list else o for o in operands]
    numbers = list(_restored_numbers(params)), *_restored_numbers((extent, grain, error))
    return Step(own, places, *numbers, bytes.fromhex(constants), on_error and later(on_error))


def _restored_kernel(kind: str, what: Any) -> Any:
    if kind == "draw":
        return _drawing()
    return blas.kernels()[what] if kind == "blas" else later(what)


def _drawing() -> int:
    """The kernel of steps that draw random numbers (drawing.py)."""
    return _C.drawing_step("uniform", "f32")[0]


def later(data: Any) -> Callable:
    """A function that is looked up when it is first called: the modules of most are needed for nothing else."""
    found: list[Callable] = []

    def call(*args: Any) -> Any:
        if not found:
            found.append(_held().restored(data))
        return found[0](*args)

    return call
