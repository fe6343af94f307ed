"""Quantized dtypes whose elements share bytes: quint4x2 (two to a byte) and quint2x4 (four).

Enters: integers, one in each element. Leaves: tensors of the sizes users see over memory that holds several elements in
a byte, the first in the lowest bits; and back. Refuses views that do not begin with a byte: `views.py` asks.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ... import _C
from ...op import ops

PER_BYTE = {_C.quint4x2: 2, _C.quint2x4: 4}


def byte_count(size: Any, dtype: Any) -> int:
    """How many bytes a tensor of this size has: its last dim begins with a byte, as far as memory is concerned."""
    each = PER_BYTE[dtype]
    return -(-size[-1] // each) * prod(size[:-1]) if size else 1


def packed(integers: Any, dtype: Any, quantizer: Any, size: Any = None, device: Any = None) -> Any:
    """A tensor of `dtype` that holds these integers; none yet, if they are None."""
    size = tuple(integers.shape if integers is not None else size)
    memory = ops["zeros"](byte_count(size, dtype), dtype=_C.uint8, device=device)
    if integers is not None and integers.numel():
        each = PER_BYTE[dtype]
        flat = integers.contiguous().reshape(-1)
        bits = 8 // each
        used = -(-flat.numel() // each)
        whole = ops["zeros"](used * each, dtype=_C.uint8)
        whole[: flat.numel()].copy_(flat)
        parts = whole.view(used, each)
        total = parts[:, 0]
        for k in range(1, each):
            total = total | (parts[:, k] << (bits * k))
        memory[:used].copy_(total)
    strides = [prod(size[dim + 1 :]) for dim in range(len(size))]
    result = _C.alias(memory, size, strides, 0, dtype)
    result._quantizer = quantizer
    return result


def memory_of(t: Any) -> Any:
    """The bytes that hold the elements of a tensor, which begins with its storage."""
    return _C.alias(t, (-(-t.numel() // PER_BYTE[t.dtype]),), (1,), 0, _C.uint8)


def unpacked(t: Any) -> Any:
    """The integers of a tensor whose elements share bytes, one in each element."""
    each = PER_BYTE[t.dtype]
    bits = 8 // each
    data = memory_of(t)
    parts = [(data >> (bits * k)) & ((1 << bits) - 1) for k in range(each)]
    return ops["stack"](parts, 1).reshape(-1)[: t.numel()].reshape(tuple(t.shape))
