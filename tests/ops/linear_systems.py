"""Systems of equations to solve, and how far a solution is from one."""

from __future__ import annotations

import itertools

import rushlight as rl


def sample(batch: tuple[int, ...], n: int, count: int, kind: str) -> tuple[rl.Tensor, rl.Tensor]:
    """Matrices near one, and right sides."""
    rl.manual_seed(n + count)
    dtype = getattr(rl, kind)
    near_one = rl.randn(*batch, n, n, dtype=dtype) / (4 * n**0.5) + rl.eye(n, dtype=dtype)
    return near_one, rl.randn(*batch, n, count, dtype=dtype)


def distance(a: rl.Tensor, b: rl.Tensor) -> float:
    """How far a is from b, as a share of its largest element."""
    return ((a - b).abs().max() / b.abs().max()).item()


def check_triangular(a: rl.Tensor, b: rl.Tensor, bound: float) -> None:
    """Every kind of triangle of `a` solves for right sides `b`."""
    for upper, left, unit, across in itertools.product((False, True), repeat=4):
        matrix, right = (a.mT if across else a), (b if left else b.mT.contiguous())
        triangle = matrix.triu() if upper else matrix.tril()
        if unit:
            ones = rl.eye(a.shape[-1], dtype=a.dtype)
            triangle = triangle - rl.diag_embed(triangle.diagonal(dim1=-2, dim2=-1)) + ones
        x = rl.linalg.solve_triangular(matrix, right, upper=upper, left=left, unitriangular=unit)
        assert distance(triangle @ x if left else x @ triangle, right) < bound, (upper, left, unit, across)
