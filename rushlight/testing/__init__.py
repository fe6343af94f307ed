"""What tests are written with: comparing values that should agree, making tensors to feed in, checking printed text.

Enters: anything tensor-like, or a description of a tensor, or a text. Leaves: nothing when all is as expected, and an
error that says where and by how much when it is not; or a tensor of random numbers, PyTorch's for PyTorch's seed.
"""

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from ._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
