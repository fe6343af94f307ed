"""Compiled graphs as data: what a later process needs to run one without compiling it.

Enters: a `Compiled` for tensors of fixed sizes in the CPU's memory. Leaves: its `Description` as JSON holds it, with
kernels named by their digests; and the other way round, a `Compiled`. Functions of this package that steps call, or
raise errors with, are named (described.py), and looked up when they are first called. Refuses (`NotKept`): tensors that
a graph holds, functions of the program's own, library routines by their addresses, other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from ..aot.runtime import boxed
from ..base import late
from ..base.show import shown_words
from ..codegen import cache
from ..codegen.stored_graphs import NotKept
from ..op import blas
from . import settings
from .compiled import Compiled, Description, PlanParts

_SILENT = frozenset(("recompiles", "breaks", "cache"))      # words that compiling graphs has nothing to say to
_NUMBERS = (bool, int, float)


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
        if found["debug_folder"] or shown_words() - _SILENT:
            raise NotKept("compilation is to be shown (debug_folder, RUSHLIGHT_SHOW)")
        return found, late.provided("functorch settings").activation_memory_budget

    def described(self, function: Callable) -> Any:
        description = getattr(function, "compiled", None)
        if type(description) is not Compiled:
            raise NotKept("its plan is made when it is called, or for another device")
        return described(description.description)

    def restored(self, data: Any) -> Callable | None:
        result = restored(data)
        return None if result is None else boxed(Compiled(result))

    def described_value(self, value: Any) -> Any:
        return _named_functions().described(value)

    def restored_value(self, data: Any) -> Any:
        return _named_functions().restored(data)


def _named_functions() -> Any:
    from . import described as found  # noqa: PLC0415 - most plans call none

    return found


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
        "outputs": [k if type(k) is int else [_value(k[0])] for k in description.outputs],
        "used": description.used, "calls": description.calls, "writes": description.writes,
        "static": description.static, "taken": description.taken,
        "labels": list(labels), "label_of": [labels[text] for text in description.labels],
    }  # fmt: skip


def _value(x: Any) -> Any:
    return _named_functions().described(x)


def _parts(parts: PlanParts, kernels: _Kernels) -> list[Any]:
    name = _named_functions().dtype_name
    slots = [(kind, name(dtype), _numbers(sizes), strides and _numbers(strides), source, offset)
             for kind, dtype, sizes, strides, source, offset in parts.slots]  # fmt: skip
    return [parts.num_inputs, slots, [_step(step, kernels) for step in parts.steps]]


def _numbers(numbers: Sequence[Any]) -> list[Any]:
    if not all(type(n) in _NUMBERS for n in numbers):
        raise NotKept("a size stands for many")
    return list(numbers)


def _step(step: tuple, kernels: _Kernels) -> list[Any]:
    kernel, operands, params, extent, grain, error, *rest = step
    constants, on_error = (*rest, b"", None)[:2] if rest else (b"", None)
    if isinstance(kernel, tuple):
        raise NotKept("a step runs on another device")
    own = kernels.place(kernel) if isinstance(kernel, int) else ["call", _value(kernel)]
    for o in operands:
        _numbers(o if isinstance(o, tuple) else (o,))
    return [own, operands, _numbers(params), *_numbers((extent, grain, error)), constants.hex(),
            None if on_error is None else _value(on_error)]  # fmt: skip


def restored(data: dict[str, Any]) -> Description | None:
    """The compiled graph; None where one of its kernels is not on disk any more."""
    kernels = [cache.stored_kernel(bytes.fromhex(digest), name) for name, digest in data["kernels"]]
    if None in kernels:
        return None
    labels = data["labels"]
    return Description(
        _C.device("cpu"),
        _restored_parts(data["main"], kernels),
        tuple([k if type(k) is int else (_named_functions().restored(k[0]),) for k in data["outputs"]]),
        tuple(data["used"]),
        (),
        tuple(data["calls"]),
        tuple([labels[k] for k in data["label_of"]]),
        data["writes"],
        None if data["before"] is None else _restored_parts(data["before"], kernels),
        tuple(data["static"]),
        tuple(data["taken"]),
    )


def _restored_parts(data: list[Any], kernels: Sequence[Any]) -> PlanParts:
    num_inputs, slots, steps = data
    found = tuple([(kind, getattr(_C, dtype), tuple(sizes), strides and tuple(strides), source, offset)
                   for kind, dtype, sizes, strides, source, offset in slots])  # fmt: skip
    return PlanParts(num_inputs, found, tuple([_restored_step(step, kernels) for step in steps]))


def _restored_step(step: list[Any], kernels: Sequence[Any]) -> tuple:
    kernel, operands, params, extent, grain, error, constants, on_error = step
    own = kernels[kernel] if type(kernel) is int else _restored_kernel(*kernel)
    places = [tuple(o) if type(o) is list else o for o in operands]
    return own, places, params, extent, grain, error, bytes.fromhex(constants), on_error and later(on_error)


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
            found.append(_named_functions().restored(data))
        return found[0](*args)

    return call
