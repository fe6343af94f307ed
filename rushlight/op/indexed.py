"""Indexed ops: every output element is computed from elements at computed places (gather), or every input element is
combined into a computed place (scatter).

Enters: a definition with `meta` and either `loops(at, ...)`, the value of output element `at`, or `writes(at, out,
...)`, the place and value each loop position writes. Tensor arguments arrive as `Elements`: `x[indices]` is a load.
Leaves: one kernel per combination of types, ranks and baked arguments; sizes, strides and numbers named in `runtime`
are run-time parameters. Refuses: indices out of range. A check stands before every computed access, so memory outside a
tensor is never touched; the first bad index found raises IndexError with the op, the index and the size.

Scatter loops that may meet in one element (`serial`) run in order on one thread; the others are divided among
threads. So results never depend on the number of threads, repeated indices included.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..base.shape import or_one
from ..codegen.schedule.cpu.pieces import copy_launch
from ..codegen.schedule.forms.launch import Schedule, number_bits, number_names
from ..codegen.schedule.forms.pieces import joined_axes
from ..loops.expr import Value
from ..loops.lowered import (  # noqa: F401 - definitions take theirs from here
    ONE,
    ZERO,
    At,
    Elements,
    Lowered,
    Memory,
    NotLowerable,
    Number,
    Scatter,
    decode_error,
    number_value,
)
from ..loops.record import Record
from .definition import KIND_PLANNED, OpDefinition
from .extern import Spec
from .layout import strides_in
from .numbers import fitting
from .pack import lowered_steps, packed
from .pointwise import check_devices, device_of, scalars
from .results import result_type

FULL, PARTIAL = 1, 2     # Tensor._overlap: the same elements, some of them


class Bound(Record):
    """The arguments of one call as a body takes them: `reads`, and where they go among the rest."""

    reads: tuple             # tensors and run-time numbers, in order
    tensors: tuple           # the tensors, flattened
    args: tuple              # the arguments; `Hole`s where reads are
    key: tuple

    def filled(self, sources: Sequence[Any]) -> list[Any]:
        """The arguments as the body sees them: Elements for tensors, Values for run-time numbers."""
        return [[seen(x, sources) for x in a] if isinstance(a, Holes) else seen(a, sources) for a in self.args]


class Hole(Record):
    """Where read `number` goes."""

    number: int


class Holes(list):
    """A list argument with tensors in it."""


def seen(a: Any, sources: Sequence[Any]) -> Any:
    """An argument as a body sees it."""
    if not isinstance(a, Hole):
        return a
    source = sources[a.number]
    return getattr(source, "value", source)


class Indexed(OpDefinition):
    """A definition in gather form: `meta` gives the output, `loops` one element of it."""

    kind = KIND_PLANNED
    runtime: ClassVar[tuple[str, ...]] = ()     # int and number parameters the kernel takes at run time
    elements: ClassVar[tuple[str, ...]] = ()    # those that become elements of the first tensor's type, and must fit it

    def meta(self, *args: Any) -> Spec:
        """The output's spec; raises for arguments the op refuses."""
        raise NotImplementedError

    def loops(self, at: At, *args: Any) -> Value:
        """The value of output element `at`."""
        raise NotImplementedError

    def prepare(self, args: tuple) -> tuple | None:
        """Arguments in the form the kernel takes, or None to run in Python."""
        return args

    def index_error(self, index: int, dim: int, args: tuple) -> Exception:
        """The exception for an index out of range."""
        t = args[0]
        size = t.shape[dim] if dim < t.ndim else 1
        return IndexError(f"{self.name}: index {index} is out of bounds for dimension {dim} with size {size}")

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def planned(self, args: tuple) -> tuple | None:
        """The arguments as `prepare` leaves them, all on one device; None where a call has no plan."""
        if not self.is_planned(args):
            return None
        check_devices(self.name, tuple(flatten(args)))
        return self.fitted(self.prepare(args))

    def fitted(self, prepared: tuple | None) -> tuple | None:
        """The arguments with numbers as the first tensor's type holds them; raises for those it does not."""
        if prepared is None or not self.elements:
            return prepared
        return tuple([
            fitting(self.name, a, prepared[0].dtype) if p.name in self.elements else a
            for p, a in zip(self.spec.params, prepared, strict=True)
        ])

    def plan(self, args: tuple) -> Any:
        prepared = self.planned(args)
        if prepared is None:
            return None
        spec = self.meta(*prepared)
        device = device_of(args)
        slots: list[tuple] = [("new", spec.dtype, spec.shape, spec.strides, 0, 0)]
        if device.type == "meta":     # before anything asks how the arguments are laid out
            return _C.Plan(sum(isinstance(a, _C.Tensor) for a in flatten(prepared)), device, slots, [])
        lowered = self.lowered(prepared, spec)
        steps = lowered_steps(lowered, device, self.kernels, slots)
        is_checked = any(step.error >= 0 for step in steps)
        return _C.Plan(
            len(lowered.memories), device, slots, steps, True, None, lowered.on_error if is_checked else None
        )

    def lower(self, args: tuple) -> Lowered:
        prepared = self.fitted(self.prepare(args))
        if prepared is None:
            raise NotLowerable(f"{self.name}: these arguments are handled in Python")
        return self.lowered(prepared, self.meta(*prepared))

    def lowered(self, prepared: tuple, spec: Spec) -> Lowered:
        """The gather form of a call."""
        bound = bind(self, prepared)

        def body(at: At, sources: Sequence[Any]) -> tuple[Value]:
            return (self.loops(at, *bound.filled(sources)),)

        shape = tuple(spec.shape)
        return Lowered(
            self.spec.name,
            (self, bound.key),
            shape,
            shape,
            (spec.dtype.code,),
            bound.reads,
            body,
            aligned=False,
            on_error=self.raiser(prepared),
            layout=spec.strides,
        )

    def raiser(self, args: tuple) -> Any:
        shapes = tuple([_without_data(a) for a in args])

        def on_error(code: int) -> None:
            raise self.index_error(*decode_error(code), shapes)

        return on_error


class _Shape:
    """What an error message needs of a tensor; keeps no data alive."""

    def __init__(self, t: Any) -> None:
        self.shape, self.dtype, self.ndim = tuple(t.shape), t.dtype, t.ndim


def _without_data(a: Any) -> Any:
    """An argument as error messages see it: plans are kept, and must keep no tensor of the caller's alive."""
    if isinstance(a, _C.Tensor):
        return _Shape(a)
    return [_without_data(x) for x in a] if isinstance(a, (list, tuple)) else a


def flatten(args: Any) -> list:
    """Tensors among the arguments, lists opened."""
    found = []
    for a in args:
        if isinstance(a, _C.Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found.extend([t for t in a if isinstance(t, _C.Tensor)])
    return found


def bind(definition: Any, args: tuple) -> Bound:
    """Arguments as reads, and the rest, which bodies are specialised to."""
    reads: list[Any] = []
    tensors: list[Any] = []
    seen_: list[Any] = []
    key: list[Any] = []

    def memory(t: Any, name: str) -> Hole:
        reads.append(Memory(name, t.dtype.code, tuple(t.shape), t.stride()))
        tensors.append(t)
        return Hole(len(reads) - 1)

    for p, a in zip(definition.spec.params, args, strict=True):
        if isinstance(a, _C.Tensor):
            seen_.append(memory(a, p.name))
        elif isinstance(a, (list, tuple)) and any(isinstance(t, _C.Tensor) for t in a):
            key.append(tuple([t is None for t in a]))
            seen_.append(Holes([None if t is None else memory(t, f"{p.name}{k}") for k, t in enumerate(a)]))
        elif p.name in definition.runtime and a is not None:
            seen_.append(Hole(len(reads)))
            reads.append(Number(p.name, number_value(p.name, a).dtype, a))
        else:
            seen_.append(a)
            key.append(tuple(a) if isinstance(a, list) else a)
    return Bound(tuple(reads), tuple(tensors), tuple(seen_), tuple(key))


def number(name: str, value: Any, params: list[str], values: list[int]) -> Value:
    """A Python number as run-time parameters: integers as they are, floats by their bits."""
    params += number_names(name, value)
    values += number_bits(value)
    return number_value(name, value)


# --- scatter ----------------------------------------------------------------------------------------------------------


class Scattered(Indexed):
    """A definition in scatter form: starts from a copy of the first argument, or from it (in-place), and writes."""

    needs_dims: ClassVar[bool] = False   # a target without dims runs as one with one dim

    def space(self, *args: Any) -> tuple[int, ...]:
        """Sizes of the loops."""
        raise NotImplementedError

    def serial(self, *args: Any) -> frozenset[int]:
        """Loops whose positions may write the same element; they run in order."""
        raise NotImplementedError

    def writes(self, at: At, out: Elements, *args: Any) -> tuple[tuple[Value, ...], Value]:
        """(output position, value to combine there) for loop position `at`."""
        raise NotImplementedError

    def combine(self, s: Any, old: Value, new: Value, *args: Any) -> Value:
        """What the element becomes; by default the new value."""
        return new

    def meta(self, input: Any, *args: Any) -> Spec:
        return Spec(tuple(input.shape), input.dtype, strides_in(self.layout, input))

    def check(self, *args: Any) -> None:
        """Raise for arguments the op refuses."""

    def plan(self, args: tuple) -> Any:
        prepared = self.planned(args)
        if prepared is None:
            return None
        self.check(*prepared)
        target = prepared[0]
        device = device_of(args)
        bound = bind(self, prepared)
        inputs = len(bound.tensors)
        if self.is_inplace:
            if target._overlaps_itself():
                raise RuntimeError(
                    f"{self.name}: several elements of the written-to tensor refer to a single "
                    "memory location. Write to tensor.clone()."
                )
            read = [t for t in flatten(args[1:]) if shares_memory(target, t)]
            refuse_shared(self.name, target, read)
            if read:
                return None
            slots: list[tuple] = [("arg", None, (), None, 0, 0)]
        else:
            slots = [("new", target.dtype, tuple(target.shape), strides_in(self.layout, target), 0, 0)]
        space = self.space(*prepared)
        if device.type == "meta":
            return _C.Plan(inputs, device, slots, [])
        steps = [] if self.is_inplace else copy_steps(device, target, 0, (inputs, 0), strides_in(self.layout, target))
        steps += lowered_steps(self.scattered(bound, prepared, space), device, self.kernels, slots)
        return _C.Plan(inputs, device, slots, steps, True, None, self.raiser(prepared))

    def lower(self, args: tuple) -> Lowered:
        prepared = self.prepare(args)
        if prepared is None:
            raise NotLowerable(f"{self.name}: these arguments are handled in Python")
        self.check(*prepared)
        return self.scattered(bind(self, prepared), prepared, self.space(*prepared))

    def scattered(self, bound: Bound, args: tuple, space: tuple[int, ...]) -> Lowered:
        """The scatter form of a call, into a tensor that holds the first argument already."""
        target = args[0]
        strides = target.stride() if self.is_inplace else strides_in(self.layout, target)
        if strides is None:
            strides = contiguous_strides(target.shape)
        memory = Memory("out", target.dtype.code, tuple(target.shape), tuple(strides))

        def writes(at: At, out: Elements, sources: Sequence[Any]) -> tuple:
            return self.writes(at, out, *bound.filled(sources))

        def combine(old: Value, new: Value, sources: Sequence[Any]) -> Value:
            return self.combine(scalars, old, new, *bound.filled(sources))

        scatter = Scatter(memory, self.serial(*args), writes, combine)
        return Lowered(
            self.spec.name, (self, bound.key), tuple(space), memory.sizes, (memory.code,), bound.reads, None,
            aligned=False, scatter=scatter, on_error=self.raiser(args),
        )

    def run(self, *args: Any) -> Any:
        """An argument shares memory with the tensor written: it is copied first."""
        copied = (args[0], *[_apart(args[0], a) for a in args[1:]])
        return self.plan(copied)(*flatten(copied))


def refuse_shared(name: str, target: Any, read: Sequence[Any]) -> None:
    """Refuse arguments known to have elements among those that are written;
    what they would hold meanwhile is anybody's guess."""
    if any(target._overlap(t) in (FULL, PARTIAL) for t in read):
        raise RuntimeError(
            f"{name}: unsupported operation: an argument has elements in the memory that the operation writes. clone()"
            " that argument first."
        )


def _apart(target: Any, a: Any) -> Any:
    """An argument, lists opened, that looks at no memory of `target`."""
    if isinstance(a, (list, tuple)):
        return tuple([_apart(target, x) for x in a])
    return a.clone() if isinstance(a, _C.Tensor) and shares_memory(target, a) else a


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two tensors look at the same storage."""
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= or_one(n)
    return tuple(reversed(strides))


# --- copies -----------------------------------------------------------------------------------------------------------

_copy_kernels: dict[tuple, Any] = {}


def copy_steps(device: Any, source: Any, slot: int, target: tuple[int, int], strides: Sequence[int] | None) -> list:
    """Steps that copy tensor `source` (in `slot`) to `target`, a (slot, byte offset), laid out with `strides`:
    what a plan does besides its op."""
    sizes, code = source.shape, source.dtype.code
    if any(n == 0 for n in sizes):
        return []
    axes = joined_axes(
        zip(sizes, source.stride(), contiguous_strides(sizes) if strides is None else strides, strict=True)
    )
    return packed(
        Schedule((copy_launch(code, code, axes, (slot, target), device.type == "cpu"),)), device, _copy_kernels, [], []
    )


def named(definition: Any, parts: Sequence[Any]) -> Any:
    """Several results as the op returns them."""
    names = definition.spec.return_names
    return result_type(definition.spec.name, names)(tuple(parts)) if names else tuple(parts)
