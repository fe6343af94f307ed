"""What tests are written with: comparing values that should agree, and making tensors to feed in.

Enters: anything tensor-like, or a description of a tensor. Leaves: nothing when the values agree and an AssertionError
that says where and by how much when they do not; or a tensor of random numbers, PyTorch's for PyTorch's seed.
"""

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
