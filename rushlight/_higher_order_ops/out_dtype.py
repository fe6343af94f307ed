"""`out_dtype(op, dtype, *args)`: an op computed in a wider type than its arguments', `int8 @ int8 -> int32`.

Enters: an overload of the few ops it is for, the type of the result, and the op's arguments. Leaves: one tensor. The
arguments are promoted together with the result's type first, so nothing overflows; two int8 matrices for int32 are
`_int_mm`. Refuses: other ops, and what is not an overload. While a graph is recorded, the ops it consists of are.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor
from ..aten.namespaces import namespace
from ..aten.overloads import AtenOverload
from ..base.promotion import promote_types
from ..op import ops
from ..utils import _pytree as pytree
from . import core

ALLOWED = ("linear.default", "mm.default", "conv2d.default", "convolution.default", "mul.Tensor", "mul.Scalar",
           "div.Tensor", "div.Scalar")


def _is_allowed(op: Any) -> bool:
    space = namespace("aten")
    return any(op == getattr(getattr(space, name), label) for name, _, label in (row.partition(".") for row in ALLOWED))


class OutDtype(core.HigherOrderOp):
    """out_dtype(op, dtype, *args)"""

    name = "out_dtype"

    def __call__(self, *arguments: Any) -> Any:
        op, output_dtype, *args = arguments
        if not isinstance(op, (_C.Overload, AtenOverload)):
            raise ValueError(f"out_dtype: expected an overload of an op first, got {type(op).__name__}")
        if not _is_allowed(op):
            raise ValueError(f"out_dtype: expected one of {', '.join(ALLOWED)}, got {op}")
        kinds = [t.dtype for t in core.tensors_in(tuple(args))]
        if op == namespace("aten").mm.default and output_dtype is _C.int32 and kinds == [_C.int8, _C.int8]:
            return ops["_int_mm"](*args)
        wide = output_dtype
        for kind in kinds:
            wide = promote_types(wide, kind)
        return op(*pytree.tree_map(lambda t: t.to(wide) if isinstance(t, Tensor) else t, tuple(args))).to(output_dtype)


out_dtype = core.register(OutDtype())
