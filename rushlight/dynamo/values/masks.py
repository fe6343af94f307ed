"""Masks as indices, where they need no reads: `x[mask] = 0.0`, and masks without dimensions.

Enters: a tensor, a tensor of bools as its only index, and maybe a value. Leaves: the same in ops whose results have
sizes that are known, or that one mask of one dimension decides.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...fake import FakeTensor
from ..record.hidden import names_in
from ..record.machine import Machine
from .attributes import MISSING


def is_mask(owner: Any, key: Any) -> bool:
    """Whether rules for masks hold: both are plain tensors, with sizes that no elements decide."""
    return type(key) is FakeTensor and key.dtype is _C.bool and type(owner) is FakeTensor and not names_in((owner, key))


def get(m: Machine, owner: Tensor, mask: Tensor) -> Any:
    """owner[mask]: all of it in a new dimension, or nothing; MISSING where a mask has dimensions."""
    if mask.ndim:
        return MISSING
    return m.get_item(m.native(Tensor.unsqueeze, (owner, 0)), m.native(Tensor.unsqueeze, (mask, 0)))


def put(m: Machine, owner: Tensor, mask: Tensor, value: Any) -> bool:
    """owner[mask] = value; whether it was done."""
    is_number = type(value) in (int, bool) or (type(value) is float and owner.dtype.is_floating_point)
    if is_number and tuple(mask.shape) == tuple(owner.shape[:mask.ndim]):
        rest = owner.ndim - mask.ndim
        if rest and mask.ndim:
            mask = m.native(Tensor.reshape, (mask, (*mask.shape, *(1,) * rest)))
        m.native(Tensor.masked_fill_, (owner, mask, value))
        return True
    if mask.ndim:
        return False
    m.set_item(m.native(Tensor.unsqueeze, (owner, 0)), m.native(Tensor.unsqueeze, (mask, 0)), value)
    return True
