"""Whether any or all elements are true."""

from __future__ import annotations

from rushlight import _C
from rushlight.loops.expr import bitcast
from rushlight.op.pointwise import compute_code
from rushlight.op.reduction import Reduction, Types


class Any_(Reduction):
    """True where some element is non-zero (NaN counts)."""

    schema = (
        "any(Tensor input) -> Tensor",
        "any(Tensor input, int dim, bool keepdim=False) -> Tensor",
        "any(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    )
    differentiable = False
    reduce_none_if_empty = True

    def types(self, input, dtype, *args):
        return Types(
            input.dtype.code, compute_code(input.dtype.code), (_C.uint8 if input.dtype is _C.uint8 else _C.bool,)
        )

    def init(self, s, code):
        return (s.const(False, "b1"),)

    def step(self, s, acc, x, index):
        return (acc[0] | s.to_bool(x),)

    def merge(self, s, a, b):
        return (a[0] | b[0],)


class All(Reduction):
    """True where no element is zero."""

    schema = (
        "all(Tensor input) -> Tensor",
        "all(Tensor input, int dim, bool keepdim=False) -> Tensor",
        "all(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
    )
    differentiable = False
    reduce_none_if_empty = True
    types = Any_.types

    def init(self, s, code):
        return (s.const(True, "b1"),)

    def step(self, s, acc, x, index):
        return (acc[0] & s.to_bool(x),)

    def merge(self, s, a, b):
        return (a[0] & b[0],)


class HashTensor(Reduction):
    """The bits of the elements, as 64-bit numbers, combined by exclusive or."""

    schema = "hash_tensor(Tensor input, int[] dim=[], *, bool keepdim=False, int mode=0) -> Tensor"
    differentiable = False
    has_identity = False   # of nothing PyTorch refuses a hash
    refuse = ("complex",)

    def check(self, input, dim, keepdim, mode):
        super().check(input)
        if mode != 0:
            raise RuntimeError(f"Unknown hash_tensor mode: {mode}")

    def types(self, input, dtype, *args):
        wide = "f64" if input.dtype.is_floating_point else "i64"
        return Types(wide, wide, (_C.uint64,))

    def init(self, s, code):
        return (s.const(0, "u64"),)

    def step(self, s, acc, x, index):
        return (acc[0] ^ bitcast(x, "u64"),)

    def merge(self, s, a, b):
        return (a[0] ^ b[0],)
