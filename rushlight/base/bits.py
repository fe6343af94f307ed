"""Bits of tensors whose elements are not what their memory holds: `conj()` and `_neg_view` set them and copy nothing.

Enters: nothing. Leaves: the two bits, as `Tensor._keys` has them (enum Key in csrc/types.h). Views carry them on; loops
over elements read and write through them; other ops get the elements in memory of their own (csrc/bits.cpp).
"""

from __future__ import annotations

CONJUGATE = 1 << 9
NEGATIVE = 1 << 10
BITS = CONJUGATE | NEGATIVE
