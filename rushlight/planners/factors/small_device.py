"""Small matrices on a device that factors a batch of them by one launch.

Enters: an op's name and its arguments, and the device's function

    run(what, count, numbers, tensors, strided) -> bool          (devices/cuda/small_factors.py)

Leaves: the op's results, laid out as its program lays them. Refuses, by None: other ops, types and sizes, and matrices
with a status that the op raises for: its program, which has the words, finds it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C

MOST, MOST_OF_QR = 32, 128
Run = Callable[..., bool]


def columns(like: Any, m: int, n: int, row_major: bool = False) -> tuple[Any, Any]:
    """New matrices, column-major unless said, and the same with one batch dim."""
    batch = tuple(like.shape[:-2])
    inner = (n, 1) if row_major else (1, m)
    strides, reach = [], m * n
    for size in reversed(batch):
        strides.append(reach)
        reach *= size
    made = _C.empty((*batch, m, n), (*reversed(strides), *inner), like.dtype, like.device)
    return made, _C.alias(made, (math.prod(batch), m, n), (m * n, *inner), 0, like.dtype)


def flat(t: Any) -> Any:
    return t.reshape(-1, *t.shape[-2:])


def one_each(like: Any, dtype: Any, *sizes: int) -> Any:
    return _C.empty((*like.shape[:-2], *sizes), None, dtype, like.device)


class Factored:
    """P A = L U of a batch, and what was solved with it; `done` is False where the device did not."""

    def __init__(self, run: Run, A: Any, exchanges: bool = True, solves: int = 0, B: Any = None,
                 answer: tuple[Any, Any] | None = None, turned: bool = False) -> None:
        """`solves`: 1 for right sides `B`, 2 for those of the identity; `answer` as `columns` makes it."""
        n, count = A.shape[-1], math.prod(A.shape[:-2])
        self.lu, lu = columns(A, n, n)
        self.pivots, self.info = one_each(A, _C.int32, n), one_each(A, _C.int32)
        self.determinant = one_each(A, A.dtype)
        given, out = flat(A), lu if answer is None else answer[1]
        sides = given if B is None else flat(B)
        if turned:      # X A = B is A^T X^T = B^T, of which the factors of A know the answer
            sides, out = sides.transpose(1, 2), out.transpose(1, 2)
        numbers = [n, out.shape[2], int(exchanges), solves, int(turned)]
        tensors = [given, sides, lu, self.pivots, self.info, out, self.determinant]
        self.done = run("lu", count, numbers, tensors, (0, 1, 2, 5))

    def is_singular(self) -> bool:
        return bool(self.info.any().item())


def inverse(run: Run, raises: bool, A: Any) -> tuple | None:
    answer = columns(A, A.shape[-1], A.shape[-1])
    found = Factored(run, A, solves=2, answer=answer)
    return None if not found.done or (raises and found.is_singular()) else (answer[0], found.info)


def inverse_alone(run: Run, A: Any) -> tuple | None:
    found = inverse(run, True, A)
    return None if found is None else found[:1]


def lu_factor(run: Run, raises: bool, A: Any, pivot: bool) -> tuple | None:
    found = Factored(run, A, pivot)
    bad = not found.done or (raises and found.is_singular())
    return None if bad else (found.lu, found.pivots, found.info)


def lu_factor_alone(run: Run, A: Any, pivot: bool) -> tuple | None:
    found = lu_factor(run, True, A, pivot)
    return None if found is None else found[:2]


def solve(run: Run, A: Any, B: Any, left: bool, label: str | None) -> tuple | None:
    n, k = A.shape[-1], B.shape[-1] if left else B.shape[-2]
    answer = columns(A, n, k) if left else columns(A, k, n, row_major=True)
    found = Factored(run, A, solves=1, B=B, answer=answer, turned=not left)
    bad = not found.done or (label is not None and found.is_singular())
    return None if bad else (answer[0], found.lu, found.pivots, found.info)


def determinant(run: Run, A: Any) -> tuple | None:
    found = Factored(run, A)
    return (found.determinant, found.lu, found.pivots) if found.done else None


def cholesky(run: Run, raises: bool, A: Any, upper: bool) -> tuple | None:
    n, info = A.shape[-1], one_each(A, _C.int32)
    result, out = columns(A, n, n)
    if not run("cholesky", math.prod(A.shape[:-2]), [n, int(upper)], [flat(A), out, info], (0, 1)):
        return None
    return None if raises and info.any().item() else (result, info)


def cholesky_alone(run: Run, A: Any, upper: bool) -> tuple | None:
    found = cholesky(run, True, A, upper)
    return None if found is None else found[:1]


def triangular(run: Run, A: Any, B: Any, upper: bool, left: bool, unit: bool) -> tuple | None:
    result, out = columns(B, B.shape[-2], B.shape[-1])
    a, b = flat(A), flat(B)
    if not left:
        a, b, out, upper = a.transpose(1, 2), b.transpose(1, 2), out.transpose(1, 2), not upper
    numbers = [A.shape[-1], b.shape[2], int(upper), int(unit)]
    return (result,) if run("triangular", a.shape[0], numbers, [a, b, out], (0, 1, 2)) else None


def qr(run: Run, A: Any, mode: str) -> tuple | None:
    (m, n), count = A.shape[-2:], math.prod(A.shape[:-2])
    size = m if mode == "complete" else min(m, n)
    q, flat_q = columns(A, m, size)
    r, flat_r = columns(A, size, n)
    tensors = [flat(A), flat_q, flat_r, one_each(A, A.dtype, n, m)]
    if not run("qr", count, [m, n, size, int(mode != "r")], tensors, (0, 1, 2)):
        return None
    return (_C.empty((0,), None, A.dtype, A.device) if mode == "r" else q), r


FORMS: dict[str, Callable[..., tuple | None]] = {
    "linalg_inv": inverse_alone, "inverse": inverse_alone, "linalg_lu_factor": lu_factor_alone,
    "linalg_inv_ex": lambda run, A, check: inverse(run, check, A),
    "linalg_lu_factor_ex": lambda run, A, pivot, check: lu_factor(run, check, A, pivot),
    "_linalg_solve_same": solve, "_linalg_det": determinant,
    "linalg_cholesky": cholesky_alone, "cholesky": cholesky_alone,
    "linalg_cholesky_ex": lambda run, A, upper, check: cholesky(run, check, A, upper),
    "_solve_triangular_same": triangular, "linalg_qr": qr,
}


def attempt(run: Run | None, name: str, args: tuple) -> tuple | None:
    """The op's results; None where others compute them."""
    if run is None or name not in FORMS:
        return None
    A = args[0]
    sizes, most = A.shape[-2:], MOST_OF_QR if name == "linalg_qr" else MOST
    fits = A.dtype.code in ("f32", "f64") and 0 < max(sizes) <= most
    fits = fits and (name == "linalg_qr" or sizes[0] == sizes[1])
    whole = all(a.numel() and not a.is_conj() for a in args if isinstance(a, _C.Tensor))
    return FORMS[name](run, *args) if fits and whole else None
