"""QR and the Householder reflectors it is made of."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op, result_type
from rushlight.planners.factors import reflections
from rushlight.planners.factors.lapack import LENGTH, WORK, Block, Lapack, Program

from ...base.tracebacks import users_level
from .arguments import check_float, check_matrix, check_same_dtype


def generator(dtype: Any, what: str) -> str:
    """Name of the routine that makes (`g`) or applies (`m`) Q, which complex types call unitary."""
    return ("un" if dtype.is_complex else "or") + what + "qr"


def factor(p: Program, A: Any, a: Block, tau: Block) -> reflections.Panels | None:
    """R above the diagonal of `a`, the reflectors below; them in panels, if that is how they were made."""
    m, n = A.shape[-2], A.shape[-1]
    p.copy(p.input(0, A), a)
    if reflections.suits(p, A.dtype.code, min(m, n)):
        return reflections.factor(p, A.dtype.code, a, min(m, n), tau)
    if m and n:
        p.call("geqrf", A.dtype.code, m, n, a, a.lead, tau, WORK, LENGTH, p.temporary(_C.int64), work=m * n * min(m, n))
    return None


class Geqrf(Lapack):
    """QR as LAPACK leaves it: R and reflectors in one matrix, and the reflectors' scales."""

    schema = "geqrf(Tensor input) -> (Tensor a, Tensor tau)"

    def check(self, input):
        check_matrix("torch.geqrf", input, "input")
        check_float("torch.geqrf", input)

    def program(self, p, input):
        a, tau = p.output(input.dtype, *input.shape[-2:]), p.output(input.dtype, min(input.shape[-2:]))
        factor(p, input, a, tau)

    def vjp(self, g):
        raise NotImplementedError("the derivative for 'geqrf' is not implemented. Use linalg.qr.")


class LinalgQr(Lapack):
    """A = Q R with orthonormal columns in Q; `mode` is reduced, complete, or r for R alone."""

    schema = "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)"
    namespace = "linalg"
    method = False

    def check(self, A, mode):
        check_matrix("linalg.qr", A)
        check_float("linalg.qr", A)
        if mode not in ("reduced", "complete", "r"):
            raise RuntimeError(f"qr: expected mode 'reduced', 'complete' or 'r', got mode '{mode}'")

    def program(self, p, A, mode):
        m, n = A.shape[-2], A.shape[-1]
        k = min(m, n)
        size = m if mode == "complete" else k
        q = p.empty(A.dtype) if mode == "r" else p.output(A.dtype, m, size)
        r = p.output(A.dtype, size, n)
        a, tau = p.temporary(A.dtype, m, n), p.temporary(A.dtype, k)
        made = factor(p, A, a, tau)
        p.copy(a.top(size), r, 0, None)
        if q is None:
            return
        if made is not None:
            reflections.form(p, A.dtype.code, made, q)
            return
        if not k:
            p.identity(q)
            return
        p.copy(a.left(k), q.left(k))
        p.call(
            generator(A.dtype, "g"),
            A.dtype.code,
            m,
            size,
            k,
            q,
            q.lead,
            tau,
            WORK,
            LENGTH,
            p.temporary(_C.int64),
            work=m * size * k,
        )

    def vjp(self, g, A, mode, result):
        m, n = A.shape[-2], A.shape[-1]
        if mode == "r":
            raise RuntimeError("linalg.qr: mode='r' computes no Q, which the derivative needs. Use mode='reduced'")
        if mode == "complete" and m > n:
            raise RuntimeError(
                f"linalg.qr: mode='complete' has no derivative where rows outnumber columns ({m} > {n}). Use"
                " mode='reduced'."
            )
        return {"A": qr_gradient(g[0], g[1], *result)}


def qr_gradient(gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    """Gradient of A = Q R. Columns of A beyond the square ones are Q^H times them in R."""
    if gQ is None and gR is None:
        return None
    m, n = Q.shape[-2], R.shape[-1]
    if n > m:
        R1, R2 = R.narrow(-1, 0, m), R.narrow(-1, m, n - m)
        if gR is None:
            beside = R2.new_zeros((*R2.shape[:-2], m, n - m))
            return find_op("cat")([qr_gradient(gQ, None, Q, R1), beside], -1)
        g2 = gR.narrow(-1, m, n - m)
        through = (Q @ R2) @ g2.mH
        return find_op("cat")(
            [qr_gradient(through if gQ is None else gQ + through, gR.narrow(-1, 0, m), Q, R1), Q @ g2], -1
        )
    inner = None if gR is None else gR @ R.mH
    if gQ is not None:
        projected = Q.mH @ gQ
        inner = -projected if inner is None else inner - projected
    inner = inner.triu()
    both = Q @ (inner.triu(1) + inner.triu(1).mH + real_diagonal(inner))
    total = both if gQ is None else both + gQ
    return find_op("linalg_solve_triangular")(R.mH, total, upper=False, left=False)


def real_diagonal(x: Any) -> Any:
    """The real part of the diagonal, as diagonal matrices."""
    diagonal = x.diagonal(0, -2, -1)
    if x.is_complex():
        diagonal = find_op("real")(diagonal).to(x.dtype)
    return diagonal.diag_embed(0, -2, -1)


class Qr(Composite):
    """The older form of linalg.qr."""

    schema = "qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)"

    def compute(self, input, some):
        warnings.warn(
            "torch.qr is deprecated: torch.linalg.qr has mode='reduced' for some=True, mode='complete' for some=False",
            UserWarning,
            stacklevel=users_level(),
        )
        check_matrix("qr", input, "input")
        Q, R = find_op("linalg_qr")(input, "reduced" if some else "complete")
        return result_type("qr", self.spec.return_names)((Q, R))


# --- reflectors -------------------------------------------------------------------------------------------------------


class HouseholderProduct(Lapack):
    """The first columns of the product of Householder reflectors, given as geqrf gives them."""

    schema = "linalg_householder_product(Tensor A, Tensor tau) -> Tensor"
    namespace = "linalg"
    method = False
    batched = ((0, 2), (1, 1))

    def check(self, A, tau):
        check_reflectors("torch.linalg.householder_product", A, tau)

    def program(self, p, A, tau):
        m, n, k = A.shape[-2], A.shape[-1], tau.shape[-1]
        q, scales = p.output(A.dtype, m, n), p.temporary(A.dtype, k)
        p.copy(p.input(1, tau, core=1), scales)
        if reflections.suits(p, A.dtype.code, k):
            reflections.form(p, A.dtype.code, reflections.given(p, A.dtype.code, p.input(0, A), scales), q)
            return
        p.copy(p.input(0, A), q)
        if not m or not n:
            return
        p.call(
            generator(A.dtype, "g"),
            A.dtype.code,
            m,
            n,
            k,
            q,
            q.lead,
            scales,
            WORK,
            LENGTH,
            p.temporary(_C.int64),
            work=m * n * max(k, 1),
        )

    def vjp(self, g, A, tau):
        start = find_op("eye")(A.shape[-2], A.shape[-1], dtype=A.dtype, device=A.device)
        gA, gtau, _ = reflection_gradient(g, A, tau, start.expand(A.shape))
        return {"A": gA, "tau": gtau}


class Orgqr(Composite):
    """householder_product by its LAPACK name."""

    schema = "orgqr(Tensor input, Tensor tau) -> Tensor"

    def compute(self, input, tau):
        return find_op("linalg_householder_product")(input, tau)


def check_reflectors(name: str, A: Any, tau: Any) -> None:
    """Shapes and dtypes of reflectors and their scales."""
    check_matrix(name, A, "input")
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"{name}: expected at least as many rows as columns in input, got {A.shape[-2]} and {A.shape[-1]}"
        )
    if not tau.ndim or A.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: expected at most as many elements in tau as input has columns, got {list(tau.shape)} for"
            f" {A.shape[-1]}"
        )
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(f"{name}: tau has one dimension less than input: expected {A.ndim - 1}, got {tau.ndim}")
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(
            f"{name}: expected the batch dimensions of input, {list(A.shape[:-2])}, in tau, got {list(tau.shape[:-1])}"
        )
    check_float(name, A)
    if tau.dtype is not A.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype.name} does not match input dtype {A.dtype.name}")


def reflector(A: Any, k: int) -> Any:
    """The k-th reflector's vector as a column: zeros, a one at k, and what `A` holds below."""
    m = A.shape[-2]
    below = A.narrow(-1, k, 1).narrow(-2, k + 1, m - k - 1)
    one = below.new_ones((*A.shape[:-2], 1, 1))
    return find_op("cat")([A.new_zeros((*A.shape[:-2], k, 1)), one, below], -2)


def reflection_gradient(g: Any, A: Any, tau: Any, start: Any) -> tuple[Any, Any, Any]:
    """Gradients of H_1 H_2 ... H_k start, where H_i = I - tau_i v_i v_i^H, for `A` (holding v), tau and start."""
    m, count = A.shape[-2], tau.shape[-1]
    vectors = [reflector(A, i) for i in range(count)]
    scales = [tau.narrow(-1, i, 1).unsqueeze(-1) for i in range(count)]
    after = [start]                    # after[i] is what H_i is applied to, from the last
    for v, t in zip(reversed(vectors), reversed(scales), strict=True):
        after.append(after[-1] - t * (v @ (v.mH @ after[-1])))
    columns, taus = [], []
    for i, (v, t) in enumerate(zip(vectors, scales, strict=True)):
        x = after[count - 1 - i]
        xv, gv = x.mH @ v, g.mH @ v        # H_i's own gradient is g x^H
        taus.append(-(gv.mH @ xv).squeeze(-1))
        whole = -(t.conj() * (g @ xv)) - t * (x @ gv)
        columns.append(
            find_op("cat")([whole.new_zeros((*whole.shape[:-2], i + 1, 1)), whole.narrow(-2, i + 1, m - i - 1)], -2)
        )
        g = g - t.conj() * (v @ (v.mH @ g))
    if A.shape[-1] > count:
        columns.append(A.new_zeros((*A.shape[:-1], A.shape[-1] - count)))
    cat = find_op("cat")
    return cat(columns, -1) if columns else A.new_zeros(A.shape), cat(taus, -1) if taus else tau.new_zeros(tau.shape), g


class Ormqr(Lapack):
    """`other` multiplied by the whole Q of reflectors given as geqrf gives them."""

    schema = "ormqr(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor"
    batched = ((0, 2), (1, 1), (2, 2))

    def check(self, input, tau, other, left, transpose):
        check_matrix("torch.ormqr", input, "input")
        check_matrix("torch.ormqr", other, "other")
        side = -2 if left else -1
        if other.shape[side] < tau.shape[-1]:
            raise RuntimeError(
                f"ormqr: expected other.shape[{side}] of at least tau.shape[-1], got {other.shape[side]} and"
                f" {tau.shape[-1]}"
            )
        if other.shape[side] != input.shape[-2]:
            raise RuntimeError(
                f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2], got {other.shape[side]} and"
                f" {input.shape[-2]}"
            )
        if tau.shape[-1] > input.shape[-1]:
            raise RuntimeError(
                f"ormqr: expected tau.shape[-1] up to the columns of input, input.shape[-1] = {input.shape[-1]}, got"
                f" {tau.shape[-1]}"
            )
        if input.ndim - tau.ndim != 1:
            raise RuntimeError(
                f"ormqr: tau has one dimension less than input: expected {input.ndim - 1}, got {tau.ndim}"
            )
        if input.ndim != other.ndim:
            raise RuntimeError(f"ormqr: other has as many dimensions as input: expected {input.ndim}, got {other.ndim}")
        if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]) or tuple(other.shape[:-2]) != tuple(input.shape[:-2]):
            raise RuntimeError(
                f"ormqr: expected the batch dimensions of input, {list(input.shape[:-2])}, in tau and other, got"
                f" {list(tau.shape[:-1])} and {list(other.shape[:-2])}"
            )
        check_float("torch.ormqr", input)
        check_same_dtype("torch.ormqr", input, tau, ("input", "tau"))
        check_same_dtype("torch.ormqr", input, other, ("input", "other"))

    def program(self, p, input, tau, other, left, transpose):
        m, n, k = other.shape[-2], other.shape[-1], tau.shape[-1]
        result = p.output(input.dtype, m, n)
        scales = p.temporary(input.dtype, k)
        p.copy(p.input(1, tau, core=1), scales)
        p.copy(p.input(2, other), result)
        if not (m and n and k):
            return
        if reflections.suits(p, input.dtype.code, k):
            code = input.dtype.code
            made = reflections.given(p, code, p.input(0, input), scales)
            reflections.apply(p, code, made, result, left, transpose)
            return
        a = p.temporary(input.dtype, *input.shape[-2:])
        p.copy(p.input(0, input), a)
        form = "N" if not transpose else "C" if input.dtype.is_complex else "T"
        p.call(generator(input.dtype, "m"), input.dtype.code, "L" if left else "R", form, m, n, k, a, a.lead, scales,
               result, result.lead, WORK, LENGTH, p.temporary(_C.int64), work=m * n * k)

    def vjp(self, g, input, tau, other, left, transpose):
        if not (input.requires_grad or tau.requires_grad):
            return {"other": find_op("ormqr")(input, tau, g, left, not transpose)}
        # Q C, and (C Q)^H = Q^H C^H. Q^H C = Y is C = Q Y for unitary Q only,
        # so its reflectors are walked the other way.
        x, gx, transposed = (other, g, transpose) if left else (other.mH, g.mH, not transpose)
        if transposed:
            gA, gtau, gx = adjoint_gradient(gx, input, tau, x)
        else:
            gA, gtau, gx = reflection_gradient(gx, input, tau, x)
        return {"input": gA, "tau": gtau, "other": gx if left else gx.mH}


def adjoint_gradient(g: Any, A: Any, tau: Any, start: Any) -> tuple[Any, Any, Any]:
    """Gradients of H_k^H ... H_1^H start: the same walk with the order and the scales turned around."""
    m, count = A.shape[-2], tau.shape[-1]
    vectors = [reflector(A, i) for i in range(count)]
    scales = [tau.narrow(-1, i, 1).unsqueeze(-1) for i in range(count)]
    before = [start]                   # before[i] is what H_i^H is applied to
    for v, t in zip(vectors, scales, strict=True):
        before.append(before[-1] - t.conj() * (v @ (v.mH @ before[-1])))
    columns, taus = [], []
    for i in reversed(range(count)):
        v, t, x = vectors[i], scales[i], before[i]
        xv, gv = x.mH @ v, g.mH @ v
        taus.append(-(xv.mH @ gv).squeeze(-1))
        whole = -(t * (g @ xv)) - t.conj() * (x @ gv)
        columns.append(
            find_op("cat")([whole.new_zeros((*whole.shape[:-2], i + 1, 1)), whole.narrow(-2, i + 1, m - i - 1)], -2)
        )
        g = g - t * (v @ (v.mH @ g))
    columns.reverse()
    taus.reverse()
    if A.shape[-1] > count:
        columns.append(A.new_zeros((*A.shape[:-1], A.shape[-1] - count)))
    cat = find_op("cat")
    return cat(columns, -1) if columns else A.new_zeros(A.shape), cat(taus, -1) if taus else tau.new_zeros(tau.shape), g
