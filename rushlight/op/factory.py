"""Factories: ops that make tensors from sizes and values rather than from tensors.

Enters: a definition with `fill` naming the value of every element. Leaves: plans with one fresh output and the
kernels that fill it, replayed by the core. Refuses: layouts and pinned memory this core does not have.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..base.bits import BITS
from ..base.promotion import default_dtype
from ..base.settings import must_fill_memory
from ..base.shape import holds
from ..codegen.schedule.forms.launch import Schedule
from ..devices import default_device, find
from ..loops import expr
from ..loops.lowered import Lowered
from ..loops.nest import pointwise_nest
from .definition import KIND_PLANNED, OpDefinition
from .extern import Spec
from .indexed import contiguous_strides
from .numbers import filled
from .pack import as_step, compile_for, lowered_steps, packed
from .registry import find_op
from .step import Step

ROW = 32768   # elements a fill kernel writes per row: rows are what threads share

_fill_kernels: dict[tuple[str, str], Any] = {}


OPTIONS = (
    "*, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool requires_grad=False"
)


def check_options(name: str, layout: Any, pin_memory: Any) -> None:
    """Refuse what this core does not have, by name."""
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise RuntimeError(f"{name}: layout {layout} is not supported; only strided tensors can be made here")
    if pin_memory and not find("cuda"):
        raise RuntimeError(f"{name}: pin_memory=True needs a CUDA device, and none is available")


def fresh(like: Any, shape: Any, strides: Any, dtype: Any, device: Any) -> Any:
    """Memory for a result of an op on `like`: as an op of its own where `like` is more than a plain tensor, so that
    whoever stands behind it (a mode, a subclass, a fake tensor) makes it."""
    if not like._keys & ~BITS:
        return _C.empty(shape, strides, dtype, device)
    if hasattr(like, "_fresh"):
        return like._fresh(shape, strides, dtype, device)
    if strides is None:
        return find_op("empty")(shape, dtype=dtype, device=device)
    return find_op("empty_strided")(shape, strides, dtype=dtype, device=device)


def scalar_bytes(value: Any, dtype: Any) -> bytes:
    """The bytes of one element."""
    return _C.number_bytes(value, dtype)


def device_or_default(device: Any) -> Any:
    """The device that was asked for; where none was, the one that new tensors are made on."""
    return default_device() if device is None else device


def fill_steps(target: int, value: Any, dtype: Any, numel: int, device: Any) -> list[Step]:
    """Steps that write `value` to every element of slot `target`."""
    if device.type == "meta" or _C.records(device) or not numel:
        return []
    key = (dtype.code, device.type)
    kernel = _fill_kernels.get(key)
    if kernel is None and device.type != "meta":
        result = compile_for(device, pointwise_nest("fill", [dtype.code], [dtype.code], [expr.arg(0, dtype.code)]))
        kernel = _fill_kernels[key] = as_step(result)
    constants, size = scalar_bytes(value, dtype).ljust(16, b"\0"), dtype.itemsize
    rows, rest = divmod(numel, ROW)
    steps = []
    if rows:
        steps.append(
            Step(kernel, [(-1, 0), target], [ROW, 0, size, 0, ROW * size], rows, 1 if rows < 8 else 2, -1, constants)
        )
    if rest:
        steps.append(Step(kernel, [(-1, 0), (target, rows * ROW * size)], [rest, 0, size, 0, 0], 1, 1, -1, constants))
    return steps


def marker(dtype: Any) -> Any:
    """What fills memory nobody wrote to where determinism is asked for: NaN, True or the largest integer."""
    if dtype.is_floating_point or dtype.is_complex:
        return math.nan
    return True if dtype is _C.bool else 2 ** (8 * dtype.itemsize - dtype.is_signed) - 1


def marking_steps(spec: Spec, device: Any) -> list[Step]:
    """Steps that fill fresh memory, if that is asked for."""
    if not must_fill_memory() or 0 in spec.shape:
        return []
    strides = contiguous_strides(spec.shape) if spec.strides is None else spec.strides
    span = 1 + sum([(n - 1) * s for n, s in zip(spec.shape, strides, strict=True)])
    return fill_steps(0, marker(spec.dtype), spec.dtype, span, device)


class Factory(OpDefinition):
    """A definition that makes a tensor; the last five parameters are PyTorch's tensor options."""

    kind = KIND_PLANNED
    method = False
    differentiable = False
    options: ClassVar[int] = 5
    takes_out_dtype = True

    def shape(self, *args: Any) -> tuple[int, ...]:
        """Sizes of the result."""
        return tuple(args[0])

    def dtype(self, *args: Any) -> Any:
        """The dtype when none is given."""
        return default_dtype()

    def value(self, *args: Any) -> Any:
        """The number every element gets."""
        raise NotImplementedError

    def split(self, args: tuple) -> tuple[tuple, Any, Any, bool]:
        """Own arguments, dtype, device, requires_grad."""
        own, (dtype, layout, device, pin_memory, requires_grad) = args[: -self.options], args[-self.options :]
        check_options(self.name, layout, pin_memory)
        return (
            own,
            dtype or self.dtype(*own),
            _C.device(device) if device is not None else default_device(),
            requires_grad,
        )

    def plan(self, args: tuple) -> Any:
        if not self.is_planned(args):
            return None
        own, dtype, device, requires_grad = self.split(args)
        if args[self.pin_place]:       # pinned memory is no plan's
            return None
        if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(
                f"{self.name}: requires_grad=True needs a floating point or complex dtype, got {dtype.name}"
            )
        spec, content = self.spec_and_content(own, dtype, device)
        slots: list[tuple] = [("new", spec.dtype, spec.shape, spec.strides, -1, 0)]
        plan = _C.Plan(0, device, slots, self.filling(spec, content, device, slots))
        plan.requires_grad = requires_grad
        return plan

    def spec_and_content(self, own: tuple, dtype: Any, device: Any) -> tuple[Spec, Any]:
        """The result and what fills it: a number, a Lowered, a Schedule, a function that is given it, or None for
        memory as it was.

        What a kernel is given is asked for on devices with data only: on others sizes alone count."""
        shape = self.shape(*own)
        check_sizes(self.name, shape)
        return Spec(shape, dtype), filled(self.name, self.value(*own), dtype, shape)

    def filling(self, spec: Spec, content: Any, device: Any, slots: list[tuple]) -> list[Step]:
        """The steps that fill the result."""
        if device.type == "meta" or _C.records(device):      # a recording device is told of the call itself
            return []
        if content is None:
            return marking_steps(spec, device)
        if isinstance(content, Lowered):
            return lowered_steps(content, device, self.kernels, slots)
        if isinstance(content, Schedule):
            return packed(content, device, self.kernels, slots, [])
        if callable(content):
            return [Step(content, [0], [], 1, 1, -1)]
        numel = 1
        for s in spec.shape:
            numel *= s
        return fill_steps(0, content, spec.dtype, numel, device)

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, *args: Any) -> Any:
        if not args[self.pin_place]:
            return self.plan(args)()
        result = self.plan((*args[: self.pin_place], False, *args[self.pin_place + 1 :]))()
        return result.detach().pin_memory().requires_grad_(result.requires_grad)

    @cached_property
    def pin_place(self) -> int:
        """Which argument says whether memory is pinned."""
        return [p.name for p in self.spec.params].index("pin_memory")


def check_sizes(name: str, shape: tuple[int, ...]) -> None:
    """Sizes must not be negative, and their product must be countable."""
    if math.prod(shape) >= 2**63:
        raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(shape)}")
    for s in shape:
        if not holds(s >= 0):
            raise RuntimeError(f"{name}: expected sizes of at least 0, got negative dimension {s}: {list(shape)}")
