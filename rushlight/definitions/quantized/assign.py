"""Writing into quantized tensors, and taking elements out of them by index.

Enters: quantized tensors, with numbers or other quantized tensors to write. Leaves: the same tensors, written; or new
ones that are quantized as the first. Numbers are quantized on their way in. A quantized tensor that is copied brings
its quantizer with it. Refuses: numbers into memory that does not lie row by row, tensors quantized per channel where an
element may change its channel, quantized tensors into plain ones.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.quantizers import PerChannelFloat, PerTensor
from ...base.shape import contiguous_format, preserve_format
from ...op import ops
from .container import ints, is_quantized, like, put, qparams, rule
from .create import SHIFTED, dense, empty, to_ints


def one_scale(t: Any, name: str) -> Any:
    """`t`, which must be quantized per tensor."""
    qparams(t, name)
    return t


# --- copies -----------------------------------------------------------------------------------------------------------


@rule("copy_")
def copy_(target: Any, source: Any, non_blocking: bool = False) -> Any:
    if not is_quantized(target):
        raise RuntimeError(f"copy_: a quantized tensor cannot be copied into one of {target.dtype}. Use dequantize().")
    if is_quantized(source):
        if source.dtype is not target.dtype or source._quantizer.scheme is not target._quantizer.scheme:
            raise RuntimeError(
                f"copy_: quantized tensors must have one dtype and scheme, got {source.dtype} of"
                f" {source._quantizer.scheme} for {target.dtype} of {target._quantizer.scheme}"
            )
        ints(target).copy_(ints(source))
        target._quantizer = source._quantizer
        return target
    write_numbers("copy_", target, source)
    return target


def write_numbers(name: str, target: Any, source: Any) -> None:
    """Quantize a tensor of numbers into another's memory."""
    if source.dtype is not _C.float32:
        raise RuntimeError(f"{name}: expected float32 to quantize, got {source.dtype}")
    if source.shape != target.shape:
        raise RuntimeError(f"{name}: expected numbers of {list(target.shape)}, got {list(source.shape)}")
    if not (target.is_contiguous() and source.is_contiguous()):
        raise RuntimeError(f"{name}: numbers can be quantized into and from memory that lies row by row alone")
    if isinstance(target._quantizer, PerChannelFloat):
        raise RuntimeError(f"{name}: not implemented for {target._quantizer.scheme}")
    ints(target).copy_(to_ints(source, target.dtype, target._quantizer))


@rule("fill_")
def fill_(t: Any, value: Any) -> Any:
    if isinstance(value, _C.Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_: expected a tensor of no dims, got one of {value.ndim}")
        value = value.item()
    if isinstance(t._quantizer, PerTensor):
        integers = ints(t)
        if dense(integers) is not integers:
            raise RuntimeError("fill_: quantized tensors are filled row by row or channels last alone")
        integers.fill_(to_ints(_C.from_data(float(value), _C.float32, t.device), t.dtype, t._quantizer))
        return t
    write_numbers("fill_", t, ops["full"](tuple(t.shape), float(value), dtype=_C.float32, device=t.device))
    return t


@rule("full_like")
def full_like(t: Any, fill_value: Any, *options: Any) -> Any:
    return fill_(empty_like(t, *options), fill_value)


@rule("ones_like")
def ones_like(t: Any, *options: Any) -> Any:
    return fill_(empty_like(t, *options), 1.0)


@rule("empty_like")
def empty_like(
    t: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Any:
    if dtype not in (None, t.dtype):
        raise RuntimeError(f"empty_like: a quantized tensor is like one of its own dtype, {t.dtype}, got {dtype}")
    if memory_format in (None, preserve_format):
        found = dense(ints(t))
        return put(ops["empty_like"](found, device=device), t.dtype, t._quantizer)
    return empty("empty_like", t.shape, t.dtype, device or t.device, memory_format, t._quantizer)


@rule("contiguous")
def contiguous(t: Any, memory_format: Any = None) -> Any:
    if t.is_contiguous(memory_format=memory_format or contiguous_format):
        return t
    return like(t, ints(t).contiguous(memory_format=memory_format or contiguous_format))


@rule("to")
def to(t: Any, *args: Any) -> Any:
    """The forms of `to` name a dtype, a device and a dtype, or another tensor; then come the same three."""
    *wanted, _non_blocking, copy, memory_format = args
    dtypes = [w.dtype if isinstance(w, _C.Tensor) else w for w in wanted if isinstance(w, (_C.Tensor, _C.dtype))]
    if not is_quantized(t) or dtypes not in ([], [t.dtype]):
        raise RuntimeError(f"to: a tensor of {t.dtype} cannot become one of {dtypes[0]}. Quantize or dequantize() it.")
    for device in wanted:
        if not isinstance(device, (_C.Tensor, _C.dtype, type(None))) and _C.device(device).type != t.device.type:
            raise NotImplementedError(f"to: quantized tensors live in host memory, got the device {device}")
    if copy:
        return t.clone(memory_format=memory_format)
    return t if memory_format in (None, preserve_format) else contiguous(t, memory_format)


# --- numbers at places ------------------------------------------------------------------------------------------------


def integer_for(t: Any, value: Any, name: str) -> Any:
    """What a number is as an element of `t`, in a tensor of no dims."""
    value = value.item() if isinstance(value, _C.Tensor) else value
    number = _C.from_data(float(value), _C.float32, t.device)
    return to_ints(number, t.dtype, one_scale(t, name)._quantizer, SHIFTED)


@rule("masked_fill_")
def masked_fill_(t: Any, mask: Any, value: Any) -> Any:
    ints(t).masked_fill_(mask, integer_for(t, value, "masked_fill_"))
    return t


@rule("masked_fill")
def masked_fill(t: Any, mask: Any, value: Any) -> Any:
    return like(t, ints(t).masked_fill(mask, integer_for(t, value, "masked_fill")))


@rule("index_put_", "_index_put_impl_")
def index_put_(t: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    if accumulate:
        raise RuntimeError("index_put_: accumulate is not implemented for quantized tensors")
    if is_quantized(values):
        raise RuntimeError("index_put_: expected numbers to write into a quantized tensor, got a quantized one")
    numbers = values.to(_C.float32)
    integers = to_ints(numbers, t.dtype, one_scale(t, "index_put_")._quantizer, SHIFTED)
    ops["index_put_"](ints(t), indices, integers)
    return t


@rule("index_put")
def index_put(t: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    return index_put_(t.clone(), indices, values, accumulate)


# --- elements by index ------------------------------------------------------------------------------------------------


@rule("index")
def index(t: Any, indices: Any) -> Any:
    result = ops["index"](ints(one_scale(t, "index")), indices)
    return like(t, result.contiguous())


@rule("index_select")
def index_select(t: Any, dim: int, index: Any) -> Any:
    return like(t, ints(one_scale(t, "index_select")).index_select(dim, index))


@rule("flip")
def flip(t: Any, dims: Any) -> Any:
    return like(t, ints(one_scale(t, "flip")).flip(dims).contiguous())


# --- joins ------------------------------------------------------------------------------------------------------------


@rule("cat")
def cat(tensors: Any, dim: int = 0) -> Any:
    first = tensors[0]
    check_joined("cat", tensors)
    return put(ops["cat"]([as_integers_of(t, first) for t in tensors], dim), first.dtype, first._quantizer)


@rule("cat.out")
def cat_out(tensors: Any, dim: int, out: Any) -> Any:
    check_joined("cat", [out, *tensors])
    result = ops["cat"]([as_integers_of(t, out) for t in tensors], dim)
    if result.shape != out.shape:
        raise RuntimeError(f"cat: expected out to be of {list(result.shape)}, got {list(out.shape)}")
    ints(out).copy_(result)
    return out


@rule("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    check_joined("stack", tensors)
    return cat([t.unsqueeze(dim) for t in tensors], dim)


def check_joined(name: str, tensors: Any) -> None:
    """Raise for tensors that cannot lie side by side in one."""
    for t in tensors:
        if not is_quantized(t) or not is_quantized(tensors[0]):
            raise NotImplementedError(f"{name}: quantized tensors are joined with quantized ones. Use dequantize().")
        one_scale(t, name)
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(f"{name}: expected tensors of one dtype, got {tensors[0].dtype} and {t.dtype}")


def as_integers_of(t: Any, other: Any) -> Any:
    """The integers of `t` as they would be with the scale and zero point of `other`."""
    mine, its = t._quantizer, other._quantizer
    if isinstance(mine, PerTensor) and (mine.scale, mine.zero_point) == (its.scale, its.zero_point):
        return ints(t)
    return to_ints(t.dequantize(), other.dtype, its)
