"""Planning the product of a matrix in CSR parts and a dense one: a row of the result per item.

Enters: a type and sizes. Leaves: a schedule over row starts, columns, values and the dense matrix, the result, and a
number that says what is wrong: 1 where a column is outside the dense matrix, 2 where a row is outside the values.
"""

from __future__ import annotations

from ..codegen.schedule.forms.launch import Launch, Schedule, Temp, grain_of
from ..loops.expr import and_, cast, const, ge, le, load, lt, var
from ..loops.nest import Check, For, Local, Nest, Store, operands, rows

ZERO, ONE = const(0, "i64"), const(1, "i64")


def product_nest(code: str) -> Nest:
    """out[i, :] = sum of values[k] * dense[col[k], :] over the elements k of row i."""
    i, j, k, n = var("i"), var("j"), var("k"), var("n")
    at = i * n + j
    inside = Check(and_(ge(var("c"), ZERO), lt(var("c"), var("inner"))), 5, ONE)
    step = For(
        "j", ZERO, n, (Store(4, at, load(4, at, code) + var("v", code) * load(3, var("c") * n + j, code)),), vector=True
    )
    each = For(
        "k", var("first"), var("last"), (Local("c", load(1, k, "i64")), inside, Local("v", load(2, k, code)), step)
    )
    clear = For(
        "z",
        ZERO,
        n,
        (Store(4, i * n + var("z"), cast(const(0.0, "f32") if code[0] != "i" else ZERO, code)),),
        vector=True,
    )
    held = Check(and_(ge(var("first"), ZERO), le(var("last"), var("nnz"))), 5, const(2, "i64"))
    body = rows(clear, Local("first", load(0, i, "i64")), Local("last", load(0, i + ONE, "i64")), held, each)
    return Nest("csr_product", operands(["i64", "i64", code, code], [code], ["i64"]), ("n", "nnz", "inner"), body)


def product_schedule(code: str, count: int, nnz: int, inner: int, n: int) -> Schedule:
    """`count` rows with `nnz` values in all, times [inner, n]."""
    grain = grain_of(n * max(1, nnz // count))
    launch = Launch((code,), lambda: product_nest(code), tuple(range(6)), (n, nnz, inner), count, grain, 5)
    return Schedule((launch,), (Temp("i64", (1,)),))
