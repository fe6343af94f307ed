"""Triangular factorisations: Cholesky, LU and LDL, with what is made directly from them."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import reaches
from rushlight.loops import expr
from rushlight.loops.nest import Assign, For, Local, Nest, Store, operands, rows
from rushlight.loops.vocabulary import Scalars
from rushlight.op import Composite, find_op, result_type
from rushlight.op.pointwise import check_devices
from rushlight.planners.factors import panels as factor_panels
from rushlight.planners.factors.lapack import LENGTH, REAL, WORK, Block, Lapack, Program, kernel_for, place
from rushlight.rules.levels import readable

from ...op.step import Step
from .arguments import (
    broadcast_batches,
    check_float,
    check_matrix,
    check_same_dtype,
    check_square,
    eye_like,
    first,
    real_dtype,
    recording,
)

TURNED = 32        # the size from which a copy without exchanging rows and columns is worth a view
EXPANDABLE = 16    # the size up to which an adjugate is worth expanding as a polynomial


# --- Cholesky ---------------------------------------------------------------------------------------------------------


def not_positive(status: int) -> str:
    return f"the input is not positive-definite (the leading minor of order {status} is not)."


class _Cholesky(Lapack):
    """A = L L^H; with `upper` the other factor, L^H."""

    method = False
    namespace = "linalg"

    def label(self) -> str:
        return "linalg.cholesky"

    def check(self, A, upper=False, check_errors=False):
        check_square(self.label(), A)
        check_float(self.label(), A)

    def factor(self, p: Program, A: Any, upper: bool) -> tuple[Block, Block]:
        n, code = A.shape[-1], A.dtype.code
        a, result = p.input(0, A), p.output(A.dtype, n, n)
        info = p.temporary(_C.int64)
        p.copy(a, result, *((0, None) if upper else (None, 0)))
        factor_panels.cholesky(p, code, result, upper, info)
        return result, info

    def vjp(self, g, upper, result):
        g, L = first(g), first(result)
        if g is None:
            return {}
        return {"A": cholesky_gradient(g, L, upper)}


def cholesky_gradient(g: Any, L: Any, upper: bool) -> Any:
    """Gradient of a symmetric input, from that of its factor."""
    if upper:
        g, L = g.mH, L.mH
    phi = (L.mH @ g).tril()
    phi = phi + phi.tril(-1).mH
    if phi.is_complex():   # the diagonal of L is real whatever the input
        diagonal = find_op("real")(phi.diagonal(0, -2, -1))
        phi = phi.tril(-1) + phi.triu(1) + diagonal.to(phi.dtype).diag_embed(0, -2, -1)
    solve = find_op("linalg_solve_triangular")
    half = solve(L.mH, phi, upper=True)
    return solve(L, half, upper=False, left=False) * 0.5


class CholeskyEx(_Cholesky):
    """Cholesky factors, and per matrix the order of the first minor that is not positive-definite, or 0."""

    schema = "linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"

    def program(self, p, A, upper, check_errors):
        _, info = self.factor(p, A, upper)
        p.status(p.output(_C.int32), info, "linalg.cholesky_ex" if check_errors else None, not_positive)


class LinalgCholesky(_Cholesky):
    """Cholesky factors of positive-definite matrices."""

    schema = "linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor"

    def program(self, p, A, upper):
        _, info = self.factor(p, A, upper)
        p.status(None, info, self.label(), not_positive)


class Cholesky(_Cholesky):
    """Cholesky factors of positive-definite matrices."""

    schema = "cholesky(Tensor input, bool upper=False) -> Tensor"
    namespace = None
    method = True

    def label(self):
        return "cholesky"

    def program(self, p, input, upper):
        _, info = self.factor(p, input, upper)
        p.status(None, info, "cholesky", not_positive)

    def vjp(self, g, upper, result):
        return {"input": cholesky_gradient(g, result, upper)}


class CholeskyInverse(Lapack):
    """The inverse of a matrix given by its Cholesky factor."""

    schema = "cholesky_inverse(Tensor input, bool upper=False) -> Tensor"

    def check(self, input, upper):
        check_square("cholesky_inverse", input)
        check_float("cholesky_inverse", input)

    def program(self, p, input, upper):
        n, code = input.shape[-1], input.dtype.code
        half, result = p.temporary(input.dtype, n, n), p.output(input.dtype, n, n)
        info = p.temporary(_C.int64)
        p.copy(p.input(0, input), half)
        p.call("potri", code, "U" if upper else "L", n, half, half.lead, info, work=n * n * n)
        p.mirror(half, result, upper)
        p.status(None, info, "cholesky_inverse", lambda k: f"the input is singular: diagonal element {k} is zero.")

    def vjp(self, g, input, upper, result):
        both = -(result @ (g + g.mH) @ result)
        return {"input": input @ both if upper else both @ input}   # for all of a triangular input, as PyTorch has it


# --- LU ---------------------------------------------------------------------------------------------------------------


def singular_factor(status: int) -> str:
    return (
        f"U[{status},{status}] is zero, so lu_solve would divide by zero. linalg.lu and linalg.lu_factor_ex return the"
        " factors all the same"
    )


def check_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: pivot=False needs another device than the CPU. Leave pivot=True.")


def factor_lu(
    p: Program, A: Any, kind: str = "output", source: Block | None = None
) -> tuple[Block, Block, Block, Block]:
    """Steps that factor: LU, pivots as LAPACK's integers, pivots as int32, and the status."""
    m, n = A.shape[-2], A.shape[-1]
    k = min(m, n)
    lu, pivots = getattr(p, kind)(A.dtype, m, n), getattr(p, kind)(_C.int32, k)
    wide, info = p.temporary(_C.int64, k), p.temporary(_C.int64)
    p.copy(p.input(0, A) if source is None else source, lu)
    factor_panels.factor(p, A.dtype.code, lu, wide, info)
    p.copy(wide, pivots)
    return lu, wide, pivots, info


class _LuFactor(Lapack):
    """Row-pivoted LU in packed form."""

    method = False
    namespace = "linalg"

    def check(self, A, pivot, *rest):
        check_matrix(f"linalg.{self.spec.name[7:]}", A)
        check_float(f"linalg.{self.spec.name[7:]}", A)
        if not A.is_meta:
            check_pivoting(f"linalg.{self.spec.name[7:]}", pivot)

    def vjp(self, g, A, result):
        if g[0] is None:
            return {}
        m, n = A.shape[-2], A.shape[-1]
        k = min(m, n)
        P, L, U = find_op("lu_unpack")(result[0], result[1])
        # The packed form holds L without its diagonal and U with it.
        return {"A": lu_gradient(g[0].narrow(-1, 0, k).tril(-1), g[0].narrow(-2, 0, k).triu(), P, L, U)}


def lu_gradient(gL: Any, gU: Any, P: Any, L: Any, U: Any) -> Any:
    """Gradient of A = P L U. The part of A beyond the square one is a plain triangular solve away."""
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    solve, cat = find_op("linalg_solve_triangular"), find_op("cat")
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    lower, upper = L1.mH @ gL.narrow(-2, 0, k), gU.narrow(-1, 0, k) @ U1.mH
    if n > k:
        lower = lower - gU.narrow(-1, k, n - k) @ U.narrow(-1, k, n - k).mH
    if m > k:
        upper = upper - L.narrow(-2, k, m - k).mH @ gL.narrow(-2, k, m - k)
    inner = lower.tril(-1) + upper.triu()
    gA = solve(U1.mH, inner, upper=False, left=False)
    gA = solve(L1.mH, gA, upper=True, unitriangular=True)
    if m > k:
        below = solve(U1.mH, gL.narrow(-2, k, m - k), upper=False, left=False)
        gA = cat([gA, below], -2)
    if n > k:
        beside = solve(L1.mH, gU.narrow(-1, k, n - k), upper=True, unitriangular=True)
        gA = cat([gA, beside], -1)
    return P @ gA


class LuFactorEx(_LuFactor):
    """LU factors packed in one matrix, row exchanges, and per matrix the first zero of U's diagonal, or 0."""

    schema = (
        "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots,"
        " Tensor info)"
    )

    def program(self, p, A, pivot, check_errors):
        *_, info = factor_lu(p, A)
        p.status(p.output(_C.int32), info, "linalg.lu_factor_ex" if check_errors else None, singular_factor)


class LuFactor(_LuFactor):
    """LU factors packed in one matrix, and row exchanges."""

    schema = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)"

    def program(self, p, A, pivot):
        *_, info = factor_lu(p, A)
        p.status(None, info, "linalg.lu_factor", singular_factor)


class LuWithInfo(Composite):
    """What Tensor.lu and rushlight.lu call: lu_factor_ex, which may raise."""

    schema = (
        "_lu_with_info(Tensor input, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor"
        " info)"
    )
    method = False
    out = False

    def compute(self, input, pivot, check_errors):
        result = find_op("linalg_lu_factor_ex")(input, pivot=pivot, check_errors=check_errors)
        return result_type(self.spec.name, self.spec.return_names)(result)


class Lu(Composite):
    """LU factors and row exchanges; with `get_infos` also the status instead of an error."""

    schema = "lu(Tensor A, bool pivot=True, bool get_infos=False, any out=None) -> (Tensor LU, Tensor pivots)"
    out = False

    def compute(self, A, pivot, get_infos, out):
        result = find_op("_lu_with_info")(A, pivot, not get_infos)
        result = result if get_infos else tuple(result[:2])
        if out is None:
            return result
        if len(out) != len(result):
            raise TypeError(f"lu: expected a tuple of {len(result)} elements for out, got {len(out)}")
        for target, source in zip(out, result, strict=True):
            target.resize_(source.shape).copy_(source)
        return out


class LuUnpack(Composite):
    """P, L and U from the packed form and the row exchanges; parts not asked for are empty."""

    schema = (
        "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P,"
        " Tensor L, Tensor U)"
    )
    method = False

    def compute(self, LU_data, LU_pivots, unpack_data, unpack_pivots):
        if LU_pivots.dtype is not _C.int32:
            raise RuntimeError(
                "lu_unpack: expected contiguous LU_pivots of dtype int32, as linalg.lu_factor returns them"
            )
        check_devices("lu_unpack", (LU_data, LU_pivots))
        check_matrix("lu_unpack", LU_data, "LU_data")
        empty = LU_data.new_empty((0,))
        P = permutation(LU_pivots, LU_data) if unpack_pivots else empty
        if not unpack_data:
            return result_type("lu_unpack", self.spec.return_names)((P, empty, empty))
        k = min(LU_data.shape[-2:])
        L = LU_data.narrow(-1, 0, k).tril(-1) + find_op("eye")(
            LU_data.shape[-2], k, dtype=LU_data.dtype, device=LU_data.device
        )
        U = LU_data.narrow(-2, 0, k).triu()
        return result_type("lu_unpack", self.spec.return_names)((P, L.contiguous(), U.contiguous()))


class Exchanged(Lapack):
    """The row order that a sequence of exchanges ends with: exchange k swaps rows k and pivots[k] - 1."""

    schema = "_row_order(Tensor pivots, int rows) -> Tensor"
    function = False
    method = False
    out = False
    differentiable = False
    batched = ((0, 1),)

    def program(self, p, pivots, rows):
        if pivots.shape[-1] > rows:
            raise RuntimeError(
                f"lu_unpack: expected at most a pivot for each of the {rows} rows of LU_data, got {pivots.shape[-1]}."
                " Pass what linalg.lu_factor returns."
            )
        target, source = p.output(_C.int64, rows), p.temporary(_C.int64, pivots.shape[-1])
        p.exchanges(p.input(0, pivots, core=1), source, rows, "lu_unpack")
        if p.count and p.device.type != "meta":
            kernel = kernel_for(p.device, exchange_nest)
            p.steps.append(
                Step(
                    kernel,
                    [place(source), place(target)],
                    [source.rows, rows, source.batch, source.row],
                    p.count,
                    max(1, 8192 // max(1, rows)),
                    -1,
                )
            )


def exchange_nest() -> Nest:
    """order starts as 0..n-1; rows k and pivots[k] - 1 change places, k = 0, 1, ..."""
    i, k, r = expr.var("i"), expr.var("k"), expr.var("r")
    zero, one = expr.const(0, "i64"), expr.const(1, "i64")
    base = i * expr.var("n")
    fill = For("r", zero, expr.var("n"), (Store(1, base + r, r),))
    other = expr.load(0, i * expr.var("pb") + k * expr.var("pr"), "i64") - one
    j, here, there = expr.var("j"), expr.var("here"), expr.var("there")
    swap = For("k", zero, expr.var("count"), (
        Local("j", other), Local("here", expr.load(1, base + k, "i64")), Local("there", expr.load(1, base + j, "i64")),
        Store(1, base + k, there), Store(1, base + j, here),
    ))
    return Nest("row_order", operands(["i64"], ["i64"]), ("count", "n", "pb", "pr"), rows(fill, swap))


def permutation(pivots: Any, like: Any) -> Any:
    """The permutation matrices P of A = P L U."""
    m = like.shape[-2]
    order = find_op("_row_order")(pivots, m)
    # Row order[k] of A is row k of L U: P has its ones at (order[k], k).
    spots = order.unsqueeze(-2) == find_op("arange")(m, device=pivots.device).unsqueeze(-1)
    return spots.to(like.dtype)


class LinalgLu(Composite):
    """Permutation, lower and upper factors of A = P L U."""

    schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"
    namespace = "linalg"
    method = False

    def compute(self, A, pivot):
        check_matrix("linalg.lu", A)
        check_float("linalg.lu", A)
        if not A.is_meta:
            check_pivoting("linalg.lu", pivot)
        return result_type("linalg_lu", self.spec.return_names)(lu_parts(A))

    def vjp(self, g, result):
        P, L, U = result
        if g[1] is None and g[2] is None:
            return {}
        gL = L.new_zeros(L.shape) if g[1] is None else g[1]
        gU = U.new_zeros(U.shape) if g[2] is None else g[2]
        return {"A": lu_gradient(gL, gU, P, L, U)}


def lu_parts(A: Any) -> tuple[Any, Any, Any]:
    LU, pivots, _ = find_op("linalg_lu_factor_ex")(A)
    return tuple(find_op("lu_unpack")(LU, pivots))


# --- determinants -----------------------------------------------------------------------------------------------------


class DetLu(Lapack):
    """The determinant, with the factorisation it came from."""

    schema = "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"
    method = False
    function = False

    def check(self, A):
        check_square("linalg.det", A)
        check_float("linalg.det", A)

    def program(self, p, A):
        det = p.output(A.dtype)
        lu, wide, _, _ = factor_lu(p, A)
        if p.count and p.device.type != "meta":
            kernel = kernel_for(p.device, det_nest, A.dtype.code)
            n = A.shape[-1]
            p.steps.append(
                Step(
                    kernel,
                    [place(lu), place(wide), place(det)],
                    [n, lu.batch, lu.lead, wide.batch],
                    p.count,
                    max(1, 8192 // max(1, n)),
                    -1,
                )
            )

    def vjp(self, g, A, result):
        if g[0] is None:
            return {}
        return {"A": det_gradient(g[0], A, *result)}


def det_nest(code: str) -> Nest:
    """Products of U's diagonal, with a sign per row exchange."""
    i, k = expr.var("i"), expr.var("k")
    zero, one = expr.const(0, "i64"), expr.const(1, "i64")
    total = expr.var("total", code)
    entry = expr.load(0, i * expr.var("ab") + k * expr.var("lead") + k, code)
    kept = expr.eq(expr.load(1, i * expr.var("pb") + k, "i64"), k + one)
    step = Assign("total", total * expr.select(kept, entry, expr.neg(entry)))
    start = Local("total", expr.cast(one, code))
    return Nest(
        "det",
        operands([code, "i64"], [code]),
        ("n", "ab", "lead", "pb"),
        rows(start, For("k", zero, expr.var("n"), (step,)), Store(2, i, total)),
    )


def slogdet_nest(code: str) -> Nest:
    """Products of the signs of U's diagonal, with one per row exchange, and sums of its logarithms."""
    s, part = Scalars(), REAL.get(code, code)
    i, k = expr.var("i"), expr.var("k")
    zero, one = expr.const(0, "i64"), expr.const(1, "i64")
    sign, log = expr.var("sign", code), expr.var("log", part)
    entry = expr.load(0, i * expr.var("ab") + k * expr.var("lead") + k, code)
    kept = expr.eq(expr.load(1, i * expr.var("pb") + k, "i64"), k + one)
    turn = s.sgn(entry)
    steps = (Assign("sign", sign * expr.select(kept, turn, expr.neg(turn))), Assign("log", log + s.log(s.abs(entry))))
    start = (Local("sign", expr.cast(one, code)), Local("log", expr.const(0, part)))
    body = rows(*start, For("k", zero, expr.var("n"), steps), Store(2, i, sign), Store(3, i, log))
    return Nest("slogdet", operands([code, "i64"], [code, part]), ("n", "ab", "lead", "pb"), body)


def det_gradient(g: Any, A: Any, det: Any, LU: Any, pivots: Any) -> Any:
    """g * conj(det) * A^-H; where A is singular, by the cofactors that its singular vectors give."""
    scale = (g * det.conj()).unsqueeze(-1).unsqueeze(-1)
    n = A.shape[-1]
    if not n:
        return A.new_zeros(A.shape)
    if readable(A) and (LU.detach().diagonal(0, -2, -1).abs().amin(-1) == 0).any().item():
        return (adjugate(A).mH if recording() and n <= EXPANDABLE else cofactors(A)) * g.unsqueeze(-1).unsqueeze(-1)
    eye = eye_like(A, n).expand(A.shape)
    if recording():
        return find_op("linalg_solve")(A.mH, eye * scale)
    return find_op("linalg_lu_solve")(LU, pivots, eye * scale, adjoint=True)


def adjugate(A: Any) -> Any:
    """det(A) A^-1 as the polynomial in A that it is (Faddeev and LeVerrier), smooth at singular matrices;
    for small ones."""
    n = A.shape[-1]
    eye = eye_like(A, n)
    total = eye.expand(A.shape)
    for k in range(1, n):
        product = A @ total
        total = product - (product.diagonal(0, -2, -1).sum(-1) / k).unsqueeze(-1).unsqueeze(-1) * eye
    return total if n % 2 else -total


def cofactors(A: Any) -> Any:
    """conj(det(A) A^-1)^T, from the singular values, of which any may be 0: products that leave one out."""
    U, S, Vh = find_op("linalg_svd")(A)
    n = S.shape[-1]
    cumulated = []
    for k in range(n):
        others = [S.select(-1, j) for j in range(n) if j != k]
        product = others[0] if others else S.new_ones(S.shape[:-1])
        for x in others[1:]:
            product = product * x
        cumulated.append(product)
    left_out = find_op("stack")(cumulated, -1).to(A.dtype)
    phase = find_op("linalg_det")(U) * find_op("linalg_det")(Vh)
    return ((U * left_out.unsqueeze(-2)) @ Vh) * phase.conj().unsqueeze(-1).unsqueeze(-1)


def by_columns(A: Any) -> Any:
    """A, or where its rows are runs of memory its transpose, which has the same determinant and whose columns LAPACK
    reads as they lie."""
    return A.mT if A.ndim >= 2 and reaches(A.shape[-1], TURNED) and A.is_contiguous() else A


class LinalgDet(Composite):
    """Determinants of square matrices."""

    schema = "linalg_det(Tensor A) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, A):
        return find_op("_linalg_det")(by_columns(A))[0]


class Det(Composite):
    """Determinants of square matrices."""

    schema = "det(Tensor input) -> Tensor"

    def compute(self, input):
        return find_op("_linalg_det")(by_columns(input))[0]


class SlogdetLu(Lapack):
    """Sign and logarithm of the absolute determinant, with the factorisation they came from."""

    schema = "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"
    method = False
    function = False

    def check(self, A):
        check_square("linalg.slogdet", A)
        check_float("linalg.slogdet", A)

    def program(self, p, A):
        sign, log = p.output(A.dtype), p.output(real_dtype(A.dtype))
        lu, wide, _, _ = factor_lu(p, A)
        if p.count and p.device.type != "meta":
            kernel = kernel_for(p.device, slogdet_nest, A.dtype.code)
            places = [place(b) for b in (lu, wide, sign, log)]
            p.steps.append(
                Step(
                    kernel,
                    places,
                    [A.shape[-1], lu.batch, lu.lead, wide.batch],
                    p.count,
                    max(1, 4096 // max(1, A.shape[-1])),
                    -1,
                )
            )

    def vjp(self, g, A, result):
        sign, _, LU, pivots = result
        if g[0] is None and g[1] is None:
            return {}
        if not A.is_complex():
            if g[1] is None:
                return {"A": A.new_zeros(A.shape)}
            weight = g[1]
        else:
            weight = 0 if g[1] is None else g[1].to(A.dtype)
            if g[0] is not None:
                turn = find_op("imag")(g[0].conj() * sign)
                weight = weight - find_op("complex")(turn.new_zeros(turn.shape), turn)
        eye = eye_like(A, A.shape[-1]) * weight.unsqueeze(-1).unsqueeze(-1)
        if recording():
            return {"A": find_op("linalg_solve")(A.mH, eye)}
        return {"A": find_op("linalg_lu_solve")(LU, pivots, eye, adjoint=True)}


class LinalgSlogdet(Composite):
    """Sign and logarithm of the absolute value of determinants."""

    schema = "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)"
    namespace = "linalg"
    method = False

    def compute(self, A):
        return result_type("linalg_slogdet", self.spec.return_names)(find_op("_linalg_slogdet")(by_columns(A))[:2])


class Slogdet(Composite):
    """Sign and logarithm of the absolute value of determinants."""

    schema = "slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)"

    def compute(self, input):
        return result_type("slogdet", self.spec.return_names)(find_op("_linalg_slogdet")(by_columns(input))[:2])


class Logdet(Composite):
    """Logarithms of determinants; NaN where a real one is negative."""

    schema = "logdet(Tensor input) -> Tensor"
    out = False

    def compute(self, input):
        check_square("logdet", input)
        check_float("logdet", input)
        sign, logabsdet = find_op("linalg_slogdet")(input)
        if input.is_complex():
            return sign.log() + logabsdet
        return find_op("where")(sign == -1, float("nan"), logabsdet)


# --- LDL --------------------------------------------------------------------------------------------------------------


def zero_block(status: int) -> str:
    return (
        f"The factorization produced a zero on the diagonal of D at position {status}, and solving with it would divide"
        " by zero."
    )


class _Ldl(Lapack):
    """A = L D L^T (or L D L^H), D of 1x1 and 2x2 blocks, packed."""

    method = False
    namespace = "linalg"

    def check(self, A, hermitian, *rest):
        check_square("linalg.ldl_factor_ex", A)
        check_float("linalg.ldl_factor_ex", A)

    def factor(self, p: Program, A: Any, hermitian: bool) -> Block:
        n, code = A.shape[-1], A.dtype.code
        ld, pivots = p.output(A.dtype, n, n), p.output(_C.int32, n)
        wide, info = p.temporary(_C.int64, n), p.temporary(_C.int64)
        p.copy(p.input(0, A), ld, None, 0)
        routine = "hetrf" if hermitian and A.dtype.is_complex else "sytrf"
        p.call(routine, code, "L", n, ld, ld.lead, wide, WORK, LENGTH, info, work=n * n * n // 3)
        p.copy(wide, pivots)
        return info


class LdlFactorEx(_Ldl):
    """LDL factors of symmetric or Hermitian matrices in packed form, pivots, status."""

    schema = (
        "linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots,"
        " Tensor info)"
    )
    differentiable = False

    def program(self, p, A, hermitian, check_errors):
        info = self.factor(p, A, hermitian)
        p.status(p.output(_C.int32), info, "linalg.ldl_factor_ex" if check_errors else None, zero_block)


class LdlFactor(_Ldl):
    """LDL factors of symmetric or Hermitian matrices in packed form, and pivots."""

    schema = "linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)"
    differentiable = False

    def program(self, p, A, hermitian):
        info = self.factor(p, A, hermitian)
        p.status(None, info, "linalg.ldl_factor", zero_block)


class LdlSolveSame(Lapack):
    """ldl_solve for operands of one batch shape."""

    schema = "_linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor"
    function = False
    method = False
    differentiable = False
    batched = ((0, 2), (1, 1), (2, 2))

    def program(self, p, LD, pivots, B, hermitian):
        n, k, code = B.shape[-2], B.shape[-1], B.dtype.code
        result = p.output(B.dtype, n, k)
        ld, wide, info = p.temporary(B.dtype, n, n), p.temporary(_C.int64, n), p.temporary(_C.int64)
        p.copy(p.input(0, LD), ld)
        p.exchanges(p.input(1, pivots, core=1), wide, n, "linalg.ldl_solve", signed=True)
        p.copy(p.input(2, B), result)
        routine = "hetrs" if hermitian and B.dtype.is_complex else "sytrs"
        p.call(routine, code, "L", n, k, ld, ld.lead, wide, result, result.lead, info, work=n * n * k)


class LdlSolve(Composite):
    """Solutions X of A X = B from the LDL factors of A."""

    schema = "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"
    namespace = "linalg"
    method = False

    def compute(self, LD, pivots, B, hermitian):
        name = "linalg.ldl_solve"
        check_square(name, LD, "LD")
        check_float(name, LD)
        check_same_dtype(name, LD, B, ("LD", "B"))
        if B.ndim < 2:
            raise RuntimeError(f"{name}: expected B with at least 2 dimensions, got {B.ndim}")
        if tuple(pivots.shape) != tuple(LD.shape[:-1]):
            raise RuntimeError(f"{name}: expected pivots of the shape LD.shape[:-1], got {list(pivots.shape)}")
        if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype is _C.bool:
            raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.name}")
        if B.shape[-2] != LD.shape[-1]:
            raise RuntimeError(f"{name}: Incompatible shapes of LD and B: {list(LD.shape)} and {list(B.shape)}")
        LD, B = broadcast_batches(name, LD, B)
        pivots = pivots.to(_C.int32).expand(LD.shape[:-1])
        return find_op("_linalg_ldl_solve")(LD, pivots, B, hermitian)
