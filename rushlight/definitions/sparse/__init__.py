"""Sparse tensors: index tensors and a values tensor behind one Tensor.

`container.py` holds the class and how calls reach its rules; `construct.py`, `convert.py`, `elementwise.py`,
`products.py` and `reduce.py` the rules. Everything is written with ops on the parts, so that derivatives of any order
pass through two ops alone: taking the values out of a sparse tensor, and putting values into a pattern.
"""

from . import construct, convert, elementwise, methods, products, reduce  # noqa: F401 - they register their rules
from .container import SparseTensor

__all__ = ["SparseTensor"]
