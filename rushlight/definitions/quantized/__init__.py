"""Quantized tensors: integers in memory, and a quantizer that says which numbers they stand for.

`container.py` holds how a tensor is put together and how calls reach its rules; `create.py` makes quantized tensors
from numbers and numbers from them. Arithmetic is done on the integers and the quantizer's numbers, by definitions that
know nothing of quantized tensors: one kernel for each op.
"""

from . import activations, assign, create, dynamic, norms, order, pools  # noqa: F401 - they register their rules
from .container import call, call_out

__all__ = ["call", "call_out"]
