"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Sequence
from typing import Any, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool


from rushlight import Tensor, device as _device, dtype as _dtype
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def published(namespace: Any) -> Any: ...
def vector_norm(x: Tensor, ord: Number = 2, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
