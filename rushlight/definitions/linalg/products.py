"""Products and functions of matrices that need no factorisation: powers, exponentials, Kronecker and cross products."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op, wrap_dim
from rushlight.rules.levels import shape_is_enough

from ...base.tracebacks import users_level
from .arguments import check_square, eye_like, real_dtype

DEGREE, STEP = 16, 4            # of the Taylor polynomial, and of the powers it is grouped by
# Norms up to which the polynomial is exact to rounding: theta^17 / 17! below half an ulp.
REACH = {_C.float32: 2.0, _C.float64: 0.75}


class MatrixPower(Composite):
    """A multiplied with itself n times; negative powers are of the inverse."""

    schema = "linalg_matrix_power(Tensor A, int n) -> Tensor"
    replays = True
    namespace = "linalg"
    method = False

    def compute(self, A, n):
        check_square("linalg.matrix_power", A)
        if n == 0:
            return A.fill(0) + eye_like(A, A.shape[-1])   # a function of A, if a constant one
        if n < 0:
            A, n = find_op("linalg_inv")(A), -n
        if n == 1:
            return A.clone()
        result = None
        while n:
            if n & 1:
                result = A if result is None else result @ A
            n >>= 1
            if n:
                A = A @ A
        return result


class RootMatrixPower(Composite):
    """linalg.matrix_power by its older name."""

    schema = "matrix_power(Tensor input, int n) -> Tensor"

    def compute(self, input, n):
        return find_op("linalg_matrix_power")(input, n)


class MatrixExp(Composite):
    """The exponential of square matrices."""

    schema = "linalg_matrix_exp(Tensor A) -> Tensor"
    namespace = "linalg"
    method = False
    out = False
    batch = "leading"

    def compute(self, A):
        check_square("linalg.matrix_exp", A)
        if not (A.dtype.is_floating_point or A.dtype.is_complex):
            raise RuntimeError(f"linalg.matrix_exp: expected a floating point or complex dtype, got {A.dtype.name}")
        if A.dtype in (_C.float16, _C.bfloat16):
            return exponential(A.to(_C.float32)).to(A.dtype)
        return exponential(A)

    def vjp(self, g, A):
        # exp of [[X, G], [0, X]] has the derivative of exp at X towards G in its corner; the adjoint's X is A^H.
        n, X = A.shape[-1], A.mH
        cat = find_op("cat")
        whole = cat([cat([X, g], -1), cat([X.new_zeros(X.shape), X], -1)], -2)
        return {"A": find_op("linalg_matrix_exp")(whole).narrow(-2, 0, n).narrow(-1, n, n)}


def exponential(A: Any) -> Any:
    """exp(A) = exp(A / 2^s)^(2^s), each matrix with its own s, by a Taylor polynomial grouped by powers of A."""
    n = A.shape[-1]
    if not A.numel():
        return A.clone()
    halvings = 0
    if not shape_is_enough("linalg.matrix_exp", A):
        norms = A.abs().sum(-2).amax(-1)
        reach = REACH[real_dtype(A.dtype)]
        counts = (norms / reach).clamp(min=1.0).log2().ceil()
        counts = counts.masked_fill(~norms.isfinite(), 0.0)
        halvings = int(counts.amax().item())
    if halvings:
        A = A * (-counts).exp2().unsqueeze(-1).unsqueeze(-1)
    powers = [eye_like(A, n), A]
    for _ in range(2, STEP + 1):
        powers.append(powers[-1] @ A)
    result = None
    for block in reversed(range(DEGREE // STEP)):
        terms = STEP + 1 if result is None else STEP
        part = sum(
            (powers[k] * (1 / math.factorial(block * STEP + k)) for k in range(1, terms)),
            powers[0] * (1 / math.factorial(block * STEP)),
        )
        result = part if result is None else part + result @ powers[STEP]
    for k in range(halvings):
        squared = result @ result
        result = squared if A.ndim == 2 else find_op("where")((counts > k).unsqueeze(-1).unsqueeze(-1), squared, result)
    return result


class RootMatrixExp(Composite):
    """linalg.matrix_exp by its older name."""

    schema = "matrix_exp(Tensor input) -> Tensor"
    out = False

    def compute(self, input):
        return find_op("linalg_matrix_exp")(input)


SHORT_ROW = 256      # elements of a row up to which writing it costs less than starting it


class Kron(Composite):
    """Every product of an element of one with the whole other, laid out as blocks."""

    schema = "kron(Tensor input, Tensor other) -> Tensor"
    replays = True

    def compute(self, input, other):
        count = max(input.ndim, other.ndim)
        left = [1] * (count - input.ndim) + list(input.shape)
        right = [1] * (count - other.ndim) + list(other.shape)
        sizes = [x * y for x, y in zip(left, right, strict=True)]
        if count and 1 < right[-1] < SHORT_ROW and len(sizes) > 1:      # the last dim of both as one long row
            pair = (left[-1], right[-1])
            a = input.unsqueeze(-1).expand((*input.shape, pair[1])).flatten(-2) if input.ndim else input
            b = other.unsqueeze(-2).expand((*other.shape[:-1], *pair)).flatten(-2)
            left, right = [*left[:-1], sizes[-1]], [*right[:-1], 1]
            a = a.reshape([s for size in left for s in (size, 1)])
            b = b.reshape([*[s for size in right[:-1] for s in (1, size)], sizes[-1], 1])
            return (a * b).reshape(sizes)
        a = input.reshape([s for size in left for s in (size, 1)])
        b = other.reshape([s for size in right for s in (1, size)])
        return (a * b).reshape(sizes)


class LinalgCross(Composite):
    """Cross products of vectors of three elements along `dim`."""

    schema = "linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, input, other, dim):
        if input.ndim != other.ndim:
            raise RuntimeError(f"linalg.cross: expected one number of dimensions, got {input.ndim} and {other.ndim}.")
        at = wrap_dim("linalg.cross", dim, input.ndim)
        if not input.ndim or input.shape[at] != 3 or other.shape[at] != 3:
            sizes = (input.shape[at], other.shape[at]) if input.ndim else ("a scalar", "a scalar")
            raise RuntimeError(
                f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}"
            )
        a, b = input.unbind(at), other.unbind(at)
        return find_op("stack")([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], at)


class Cross(Composite):
    """Cross products along `dim`, by default the first dim of size 3."""

    schema = "cross(Tensor input, Tensor other, int? dim=None) -> Tensor"
    replays = True

    def is_planned(self, args):
        return args[2] is not None      # without it every call warns

    def compute(self, input, other, dim):
        if dim is None:
            warnings.warn(
                "torch.cross without dim is deprecated: pass it, or use torch.linalg.cross.",
                UserWarning,
                stacklevel=users_level(),
            )
            dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
            if dim is None:
                raise RuntimeError(f"cross: no dimension of size 3 in input of shape {list(input.shape)}")
        return find_op("linalg_cross")(input, other, dim=dim)


class Vecdot(Composite):
    """Sums of conj(x) * y along `dim`."""

    schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, x, y, dim):
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise RuntimeError(f"linalg.vecdot: expected a floating point or complex dtype, got {x.dtype.name}")
        if x.dtype is not y.dtype:
            raise RuntimeError(f"linalg.vecdot: expected x and y of one dtype, got {x.dtype.name} and {y.dtype.name}")
        return (x.conj() * y).sum(dim)


class Vander(Composite):
    """Powers 0 to N - 1 of every element, along a new last dim."""

    schema = "linalg_vander(Tensor x, *, int? N=None) -> Tensor"
    namespace = "linalg"
    method = False
    out = False

    def compute(self, x, N):
        if x.dtype is _C.bool:
            raise RuntimeError("linalg.vander: bool tensors are not supported")
        if x.ndim == 0:
            x = x.unsqueeze(0)
        count = N if N is not None else x.shape[-1]
        if count <= 1:
            raise RuntimeError(f"linalg.vander: N must be greater than 1, got {count}.")
        repeated = x.unsqueeze(-1).expand((*x.shape, count - 1))
        powers = repeated.cumprod(-1)
        ones = powers.new_ones((*x.shape, 1))
        return find_op("cat")([ones, powers], -1)


class LinalgDiagonal(Composite):
    """Diagonals of the last two dims, as a view."""

    schema = "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)"
    namespace = "linalg"
    method = False
    out = False

    def compute(self, A, offset, dim1, dim2):
        return A.diagonal(offset, dim1, dim2)


class LinalgMatmul(Composite):
    """matmul, under the name it has in linalg."""

    schema = "linalg_matmul(Tensor input, Tensor other) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, input, other):
        return find_op("matmul")(input, other)
