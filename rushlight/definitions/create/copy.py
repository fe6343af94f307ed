"""Copies and casts: clone, copy_, to, contiguous, fill_ and the one-word casts."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format as MemoryFormat,
    preserve_format,
    reaches,
)
from ...loops.lowered import Memory, Piece
from ...op import Composite, Loops, Meta, Pointwise, Promote, find_op
from ...op.extern import recorded_transfer
from ...op.factory import fresh
from ...op.layout import Layout, channels_last_strides, prefers_channels_last, strides_like
from ...op.unchanged import ALWAYS, AS_STORED, BY_STRIDES, FALSE, OWN
from ...op.view import elements
from ...rules import batching
from ...rules.levels import behind

AS_IT_IS = {"other": OWN, "device": OWN, "dtype": OWN, "copy": FALSE, "memory_format": BY_STRIDES}
LARGE = 4096   # elements from which on a copy's layout is worth a plan of its own
LONG_ROW = 512 # elements from which on rows are copied as well by the kernel for any layout


class _Move(Pointwise):
    """What copies share: elements pass through in their own type, and any dtype may go to any other."""

    promote = Promote.KEEP
    inplace = False
    out = False

    def operand_compute(self, i, compute, own):
        return own

    def refuse_dtype(self, common):
        """Every type can be moved."""


class _Overwrite(_Move):
    """Ops whose result has the first operand's type and none of its values: in place, it is not even read."""

    inplace = True

    def operand_indices(self, args):
        return [1] if self.is_inplace else [0, 1]

    def common_dtype(self, args, operands):
        return args[0].dtype

    def output_dtype(self, common, args, k, value):
        return args[0].dtype


class Clone(_Move):
    """A copy with memory of its own."""

    schema = "clone(Tensor input, *, memory_format? memory_format=None) -> Tensor"
    replays = True
    layout = Layout.INPUT

    def expr(self, s, x, memory_format):
        return x

    def vjp(self, s, g):
        return {"input": g}

    def passes_gradient(self, index: int) -> bool:
        return True

    def is_planned(self, args):
        return args[1] in (None, preserve_format)   # the order of the input, so that both are walked as they lie

    def run(self, input, memory_format):
        strides = strides_for(input, memory_format)
        if strides is None or reaches(input.numel(), LARGE):
            in_long_rows = strides is None and input.stride()[-1:] == (1,) and reaches(input.shape[-1], LONG_ROW)
            if not in_long_rows or not reaches(input.numel(), LARGE):
                return find_op("_laid_out")(input, strides)
        return fresh(input, input.shape, strides, input.dtype, input.device).copy_(input)


class LaidOut(Loops):
    """A copy with the given strides, row-major by default: large copies are planned for their exact layout."""

    schema = "_laid_out(Tensor input, int[]? strides=None) -> Tensor"
    function = method = False
    out = False
    differentiable = False

    def lower(self, args):
        input, strides = args
        sizes, dims = tuple(input.shape), tuple(range(input.ndim))
        whole = Piece(0, (0,) * input.ndim, sizes, tuple(input.stride()))
        result = elements("laid_out", Memory("input", input.dtype.code, sizes, tuple(input.stride()), dims))
        return result.but(pieces=(whole,), layout=None if strides is None else tuple(strides))


def strides_for(t: Any, memory_format: Any) -> tuple[int, ...] | None:
    """Strides of a fresh tensor shaped like `t` in a memory format; None for row-major."""
    check_format(memory_format)
    if memory_format is contiguous_format:
        return None
    if memory_format in (channels_last, channels_last_3d):
        want = 4 if memory_format is channels_last else 5
        if t.ndim != want:
            raise RuntimeError(f"required rank {want} tensor to use {memory_format} format, got shape {list(t.shape)}")
        return channels_last_strides(t.shape)
    return strides_like(t)


class Copy(_Overwrite):
    """The elements of `src`, broadcast and converted, written over `input`."""

    schema = "copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor"
    function = False
    only_inplace = True

    def expr(self, s, input, src, non_blocking):
        return src

    def vjp(self, s, g):
        return {"input": s.const(0, g.dtype), "src": g}

    def is_planned(self, args):
        return args[0].device == args[1].device

    def run(self, input, src, non_blocking):
        """Between devices: a dense block of bytes travels, conversion and layout happen on one side."""
        if "meta" in (src.device.type, input.device.type):
            if input.is_meta:
                return input
            raise NotImplementedError("Cannot copy out of meta tensor: it has no data")
        dense = src.expand(input.shape).to(input.dtype).contiguous().resolve_conj().resolve_neg()
        lands_here = input._is_contiguous() and not input.is_conj() and not input.is_neg()
        landing = input if lands_here else _C.empty(input.shape, None, input.dtype, input.device)
        transfer(landing, dense, non_blocking and dense.data_ptr() == src.data_ptr())
        if landing is not input:
            input.copy_(landing)
        return input


class CopyNumber(_Overwrite):
    """A number written over every element, as `fill_` does."""

    schema = "copy.number(Tensor input, Scalar src, bool non_blocking=False) -> Tensor"
    function = False
    only_inplace = True

    def expr(self, s, input, src, non_blocking):
        return src

    def vjp(self, s, g):
        return {"input": s.const(0, g.dtype)}


def transfer(target: Any, source: Any, non_blocking: bool = False) -> None:
    """Bytes of a contiguous tensor to a contiguous tensor of the same type on another device; `non_blocking`: between
    pinned memory and a device, without waiting."""
    if recorded_transfer(target, source):
        return
    if not _C.move_bytes(target, source, non_blocking):   # from one kind of device to another
        host = _C.empty(source.shape, None, source.dtype, None)
        transfer(host, source)
        transfer(target, host)


class Fill(_Overwrite):
    """Every element set to one value."""

    schema = "fill(Tensor input, Tensor|Scalar value) -> Tensor"
    by_value = "value"
    checked = ("value",)
    fills = True
    upcast = False

    def number_code(self, value, compute):
        return compute  # the type that is written: nothing is left to convert in the loop

    def expr(self, s, input, value):
        return value

    def vjp(self, s, g):
        return {"input": s.const(0, g.dtype), "value": g}

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """A value for each example is written along the examples."""
        input, value = args
        if not isinstance(value, _C.Tensor) or behind(value, level) is None:
            return batching.pointwise(level, overload, args)
        batching.check_target(overload, args, level)
        target = batching.expanded(input, level)
        target = target if overload.inplace else find_op("empty_like")(target)
        target.copy_(batching.align(batching.front(value, level), input.ndim))
        return input if overload.inplace else batching.wrapped(target, level)

    def check(self, value):
        if isinstance(value, _C.Tensor) and value.ndim:
            raise RuntimeError(
                f"fill_: expected a number or a 0-dimensional value, got a tensor with {value.ndim} dimensions."
            )


class Zero(_Move):
    """Every element set to zero."""

    schema = "zero(Tensor input) -> Tensor"
    inplace = only_inplace = True

    def expr(self, s, input):
        return s.const(0, input.dtype)

    def vjp(self, s, g):
        return {"input": s.const(0, g.dtype)}


class To(_Move):
    """`input` itself if it already has the dtype, else a converted copy."""

    schema = (
        "to(Tensor input, dtype dtype, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None)"
        " -> Tensor"
    )
    function = False
    layout = Layout.INPUT
    unchanged = AS_IT_IS

    def expr(self, s, x, dtype, non_blocking, copy, memory_format):
        return x

    def vjp(self, s, g):
        return {"input": g}

    def output_dtype(self, common, args, k, value):
        return args[1]

    def returns_itself(self, args):
        input, dtype, _, copy, memory_format = args
        return memory_format in (None, preserve_format) and input.dtype is dtype and not copy

    def is_planned(self, args):
        return args[1] is not None and args[4] in (None, preserve_format)

    def run(self, input, dtype, non_blocking, copy, memory_format):
        dtype = dtype or input.dtype
        if memory_format in (None, preserve_format) and input.dtype is dtype and not copy:
            return input
        if input.dtype is dtype and not copy and has_format(input, memory_format, by_strides=True):
            return input
        return fresh(input, input.shape, strides_for(input, memory_format), dtype, input.device).copy_(input)


def check_format(memory_format: Any) -> None:
    """TypeError for what is no memory format."""
    if memory_format is not None and not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"argument 'memory_format' must be memory_format, not {type(memory_format).__name__}")


def has_format(t: Any, memory_format: Any, by_strides: bool = False) -> bool:
    """Whether a tensor already is laid out as asked; by its strides alone, which every tensor that is not channels last
    satisfies for the contiguous format, as `to` judges."""
    check_format(memory_format)
    if memory_format in (None, preserve_format):
        return True
    if memory_format is contiguous_format:
        return not (t.ndim in (4, 5) and prefers_channels_last(t)) if by_strides else t._is_contiguous()
    wanted = 4 if memory_format is channels_last else 5
    if t.ndim != wanted:
        raise RuntimeError(
            f"required rank {wanted} tensor to use {memory_format.name} format, got shape {list(t.shape)}"
        )
    return prefers_channels_last(t) if by_strides else t._is_channels_last()


class ToDevice(Composite):
    """`input` on a device, and with a dtype, copied only where needed."""

    schema = (
        (
            "to.device(Tensor input, device device, dtype? dtype=None, bool non_blocking=False, bool copy=False, *,"
            " memory_format? memory_format=None) -> Tensor"
        ),
        (
            "to.other(Tensor input, Tensor other, bool non_blocking=False, bool copy=False, *, memory_format?"
            " memory_format=None) -> Tensor"
        ),
        (
            "to.keywords(Tensor input, *, device? device=None, dtype? dtype=None, bool non_blocking=False, bool"
            " copy=False, memory_format? memory_format=None) -> Tensor"
        ),
    )
    function = False
    out = False
    unchanged = AS_IT_IS

    def compute(self, input, *rest):
        if self.spec.overload == "other":
            other, non_blocking, copy, memory_format = rest
            device, dtype = other.device, other.dtype
        else:
            device, dtype, non_blocking, copy, memory_format = rest
        target = input.device if device is None else resolve_device(device)
        dtype = dtype or input.dtype
        if target == input.device:
            return input.to(dtype, non_blocking, copy, memory_format=memory_format)
        return find_op("_move_to_device")(input, target, dtype, memory_format, non_blocking)


def resolve_device(device: Any) -> Any:
    """A device object with the index tensors on it report."""
    return _C.empty((0,), None, _C.uint8, device).device


class MoveToDevice(Composite):
    """A copy on another device."""

    schema = (
        "_move_to_device(Tensor input, device device, dtype dtype, memory_format? memory_format=None, bool"
        " non_blocking=False) -> Tensor"
    )
    function = method = False
    out = False

    def compute(self, input, device, dtype, memory_format, non_blocking):
        return fresh(input, input.shape, strides_for(input, memory_format), dtype, device).copy_(input, non_blocking)

    def vjp(self, g, input: Meta):
        return {"input": g.to(input.device, input.dtype)}


class Contiguous(Composite):
    """`input` itself if it is laid out as asked, else a copy that is."""

    schema = "contiguous(Tensor input, *, memory_format? memory_format=None) -> Tensor"
    replays = True
    function = False
    out = False
    unchanged = {"memory_format": AS_STORED}

    def compute(self, input, memory_format):
        if memory_format is None and input._is_contiguous():
            return input
        if memory_format is preserve_format:
            if input._is_contiguous():
                return input
            raise RuntimeError("contiguous: expected a memory format, got preserve_format, which names none")
        wanted = memory_format or contiguous_format
        return input if has_format(input, wanted) else input.clone(memory_format=wanted)


def _cast(name: str, dtype: Any) -> type:
    def compute(self, input, memory_format):
        if memory_format is None and input.dtype is dtype:
            return input
        return input.to(dtype, memory_format=memory_format)

    return type(name.title(), (Composite,), {
        "schema": f"{name}(Tensor input, memory_format? memory_format=None) -> Tensor", "function": False, "out": False,
        "compute": compute, "__doc__": f"`input` as {dtype.name}.", "__module__": __name__,
        "unchanged": {ALWAYS: dtype, "memory_format": BY_STRIDES},
    })


for _name, _dtype in {
    "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "int": _C.int32,
    "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool, "chalf": _C.complex32,
    "cfloat": _C.complex64, "cdouble": _C.complex128,
}.items():
    _cast(_name, _dtype)


class TypeAs(Composite):
    """`input` with the dtype (and device) of `other`."""

    schema = "type_as(Tensor input, Tensor other) -> Tensor"
    function = False
    out = False
    unchanged = {"other": OWN}

    def compute(self, input, other):
        if input.device == other.device:
            return input.to(other.dtype)
        return input.to(other.device, other.dtype)


class Cpu(Composite):
    """`input` in host memory."""

    schema = "cpu(Tensor input, memory_format? memory_format=None) -> Tensor"
    function = False
    out = False
    unchanged = {ALWAYS: _C.device("cpu")}

    def compute(self, input, memory_format):
        return input if input.device.type == "cpu" else input.to("cpu", memory_format=memory_format)
