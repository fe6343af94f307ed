"""Singular and eigenvalues by Jacobi's rotations, and the exponential of matrices by squaring.

Each step of a loop rotates two columns of every matrix of the batch; a dozen rounds over all pairs are more than enough
for 64 bits. Vectors may differ from LAPACK's in their signs, as those of any two libraries do. Refuses: complex
matrices.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from ... import _C
from ..._higher_order_ops.while_loop import while_loop
from ...op import ops
from ...tensors.interop import tensor
from .factorizations import qr
from .table import body, column, element, positions, repeated

ROUNDS = 12


def _pairs(n: int, like: Any) -> tuple[Any, Any]:
    found = list(itertools.combinations(range(n), 2)) or [(0, 0)]
    return [tensor([p[i] for p in found], device=like.device) for i in (0, 1)]


def _rotated(a: Any, j: Any, p: Any, q: Any, c: Any, s: Any) -> Any:
    """Columns p and q turned: c p - s q and s p + c q."""
    x, y = column(a, p).unsqueeze(-1), column(a, q).unsqueeze(-1)
    c, s = c.unsqueeze(-1), s.unsqueeze(-1)
    return ops["where"](j == p, c * x - s * y, ops["where"](j == q, s * x + c * y, a))


def _angle(a: Any, b: Any, both: Any) -> tuple[Any, Any]:
    """Cosine and sine of the turn that makes [[a, both], [both, b]] diagonal."""
    none = both == 0
    ratio = (b - a) / (2 * ops["where"](none, 1.0, both))
    turn = ops["where"](ratio < 0, -1.0, 1.0) / (ratio.abs() + (ratio * ratio + 1).sqrt())
    turn = ops["where"](none, 0.0, turn)
    c = (turn * turn + 1).rsqrt()
    return c, c * turn


@body("_linalg_svd")
def svd(A: Any, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None) -> tuple[Any, ...]:
    if A.dtype.is_complex:
        raise NotImplementedError("singular values of complex matrices")
    if A.shape[-2] < A.shape[-1]:
        u, s, vh = svd(A.mT, full_matrices, compute_uv)
        return vh.mT, s, u.mT
    if not A.numel():
        return _of_nothing(A, full_matrices)
    n, j = A.shape[-1], positions(A.shape[-1], A)
    first, second = _pairs(n, A)
    count = first.shape[0]

    def step(k: Any, a: Any, v: Any) -> list[Any]:
        p, q = (element(t, k % count) for t in (first, second))
        x, y = column(a, p), column(a, q)
        c, s = _angle((x * x).sum(-1, True), (y * y).sum(-1, True), (x * y).sum(-1, True))
        return [_rotated(a, j, p, q, c, s), _rotated(v, j, p, q, c, s)]

    one = ops["eye"](n, dtype=A.dtype, device=A.device).expand((*A.shape[:-2], n, n)).clone()
    turned, v = repeated(ROUNDS * count if n > 1 else 0, step, A.clone(), one)
    sizes, order = (turned * turned).sum(-2).sqrt().sort(-1, True)
    turned = turned.gather(-1, order.unsqueeze(-2).expand(turned.shape))
    v = v.gather(-1, order.unsqueeze(-2).expand(v.shape))
    # Columns that are orthogonal already, completed to a basis: vectors of singular value 0 too.
    u, upper = qr(turned, "complete" if full_matrices else "reduced")
    signs = ops["where"](upper.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(A.dtype)
    if full_matrices and A.shape[-2] > n:
        rest = ops["ones"]([*A.shape[:-2], A.shape[-2] - n], dtype=A.dtype, device=A.device)
        signs = ops["cat"]([signs, rest], -1)
    return u * signs.unsqueeze(-2), sizes, v.mT


def _of_nothing(A: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    """Of matrices without elements: a basis, no values, no vectors."""
    lead, m, n = list(A.shape[:-2]), A.shape[-2], A.shape[-1]
    u = ops["eye"](m, m if full_matrices else n, dtype=A.dtype, device=A.device)
    s, vh = (ops["zeros"]([*lead, *size], dtype=A.dtype, device=A.device) for size in ([n], [n, n]))
    return u.expand([*lead, *u.shape]).clone(), s, vh


@body("_linalg_eigh")
def eigh(A: Any, UPLO: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    if A.dtype.is_complex:
        raise NotImplementedError("eigenvalues of complex matrices")
    if not A.numel():
        return ops["zeros"](list(A.shape[:-1]), dtype=A.dtype, device=A.device), A.clone()
    n, j = A.shape[-1], positions(A.shape[-1], A)
    a = A.tril() + A.tril(-1).mT if UPLO == "L" else A.triu() + A.triu(1).mT
    first, second = _pairs(n, A)
    count = first.shape[0]

    def step(k: Any, a: Any, v: Any) -> list[Any]:
        p, q = (element(t, k % count) for t in (first, second))
        x, y = column(a, p), column(a, q)
        c, s = _angle(element(x, p), element(y, q), element(y, p))
        turned = _rotated(_rotated(a, j, p, q, c, s).mT, j, p, q, c, s)
        return [turned, _rotated(v, j, p, q, c, s)]

    one = ops["eye"](n, dtype=A.dtype, device=A.device).expand(A.shape).clone()
    turned, v = repeated(ROUNDS * count if n > 1 else 0, step, a, one)
    values, order = turned.diagonal(0, -2, -1).sort(-1)
    return values, v.gather(-1, order.unsqueeze(-2).expand(v.shape))


@body("linalg_matrix_exp")
def matrix_exp(A: Any) -> Any:
    """exp(A) = exp(A / 2^s)^(2^s), by Taylor's polynomial for what is small, and s squarings."""
    if A.dtype.is_complex:
        raise NotImplementedError("the exponential of complex matrices")
    if not A.numel():
        return A.clone()
    wide = A.to(_C.float32) if A.dtype.itemsize < 4 else A
    norm = wide.abs().sum(-2).amax(-1)
    counts = (norm * 2).clamp(min=1.0).log2().ceil()
    small = wide * (-counts).exp2().unsqueeze(-1).unsqueeze(-1)
    one = ops["eye"](A.shape[-1], dtype=wide.dtype, device=A.device).expand(A.shape)
    degree = 16 if wide.dtype is _C.float64 else 9
    result = one + small * (1 / degree)
    for k in range(degree - 1, 0, -1):
        result = one + (small @ result) * (1 / k)
    assert math.factorial(degree) > 2**16, "the rest of the series is beyond the last digit"

    def goes_on(k: Any, result: Any) -> Any:
        return (k < counts.amax()).reshape(())

    def square(k: Any, result: Any) -> list[Any]:
        unfinished = (k < counts).unsqueeze(-1).unsqueeze(-1)
        return [k + 1, ops["where"](unfinished, result @ result, result)]

    start = ops["zeros"]([], dtype=wide.dtype, device=A.device)
    return while_loop(goes_on, square, (start, result.clone()))[1].to(A.dtype)
