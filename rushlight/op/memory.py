"""Results that memory cannot hold, refused before anything of their size is worked out.

Enters: the sizes, dtype and device of a result. Leaves: nothing, or the error that its allocation would raise. For ops
that make tables or intermediate tensors as long as the result before they ask for its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C

SMALL = 1 << 24   # elements: fewer are not worth asking for


def check_memory(sizes: Sequence[int], dtype: Any, device: Any) -> None:
    """Raise where a tensor of these sizes cannot be allocated."""
    count = 1
    for size in sizes:
        if not isinstance(size, (int, _C.Extent)):   # a symbolic size: nothing will be allocated
            return
        count *= size
    if count > SMALL and device.type != "meta":
        _C.empty(tuple(sizes), None, dtype, device)
