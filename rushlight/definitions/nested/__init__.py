"""Nested tensors: a batch of tensors that differ in one size, as one tensor of values and the places where each begins.

`container.py` holds the class and how calls reach its rules; `pointwise.py`, `base/shape.py`, `reduce.py` and
`products.py` the rules. As with sparse tensors, rules are written with ops on the values,
which is where the tape sees them.
"""

from . import pointwise, products, reduce, shape  # noqa: F401 - they register their rules
from .container import NestedTensor

__all__ = ["NestedTensor"]
