"""Products of matrices."""

from __future__ import annotations

from typing import Any

from .... import _C, ops
from ..table import rule
from .elementwise import aligned

aten = ops.aten
BYTES = (_C.uint8, _C.int8)


@rule("MatMul")
def matmul(x: Any, y: Any) -> Any:
    return aten.matmul(x, y)


@rule("Gemm", since=7)
def gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0    # noqa: N803
         ) -> Any:
    if a.dtype.is_floating_point and alpha == 1.0 and beta == 1.0 and not transA and transB and (
            c is None or (c.ndim == 1 and isinstance(c.shape[0], int) and c.shape[0] == b.shape[0])):
        return aten.linear(a, b, c)
    a = aten.t(a) if transA else a
    b = aten.t(b) if transB else b
    found = aten.matmul(a, b)
    if alpha != 1.0:
        found = aten.mul(found, alpha).to(a.dtype)
    if c is None:
        return found
    return aten.add(found, c if beta == 1.0 else aten.mul(c, beta).to(c.dtype))


@rule("Gemm", since=1)
def gemm_1(a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0,    # noqa: N803
           transB: int = 0) -> Any:    # noqa: N803
    return gemm(a, b, aligned(a, c, None, broadcast), alpha=alpha, beta=beta, transA=transA, transB=transB)


@rule("Einsum", since=12)
def einsum(*operands: Any, equation: str) -> Any:
    return aten.einsum(equation.replace(" ", ""), list(operands))


@rule("Det", since=11)
def determinant(x: Any) -> Any:
    return aten.linalg_det(x)


def _suits(a: Any, b: Any, a_zero: Any, b_zero: Any) -> bool:
    """Whether the kernels of bytes take a product: weights of one matrix, rows with one zero point."""
    is_bytes = a.dtype in BYTES and b.dtype in BYTES
    has_one = a_zero is None or (a_zero.ndim < 2 and a_zero.numel() == 1)
    return is_bytes and has_one and a.ndim > 0 and b.ndim == 2 and (b_zero is None or b_zero.ndim < 2)


@rule("MatMulInteger", since=10, closed=True, gives=lambda numbers, settings: 6)
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    if _suits(a, b, a_zero, b_zero):
        return aten._integer_mm(a, b, a_zero, b_zero)
    a, b = a.to(_C.int32), b.to(_C.int32)
    if a_zero is not None:
        zero = a_zero.to(_C.int32)
        a = aten.sub(a, aten.unsqueeze(zero, -1) if zero.ndim == 1 and zero.shape[0] > 1 else zero)
    if b_zero is not None:
        b = aten.sub(b, b_zero.to(_C.int32))
    return aten.matmul(a, b)
