"""Contractions: sums of products, as matrix products and their kin are.

Enters: two reads, and which ranges they run along. Leaves: a `Lowered` that adds up the products of their elements:

    matmul     ranges (batch, i, j, k)     left read at (batch, i, k), right at (batch, j, k)     k is folded

A contraction is a fold like any other, so whatever knows folds can run it and join other ops with it (inline.py):
what makes an operand (a cast, a scale, a mask) is computed where it is read, and pointwise ops over the result (a
bias, an activation, a residual, another type) where a sum is stored. Besides the product, its folding gives both
`factors` apart, which schedulers that have tiles lay out for them (codegen/schedule/cpu/contraction.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .expr import Value, cast, const, fma
from .lowered import HERE, Accumulators, At, Fold, Folding, Lowered, Memory, Number, compute_code, folding_of

if TYPE_CHECKING:
    from .vocabulary import Scalars


class Adding(Fold):
    """Sums, long ones in blocks."""

    blocked = True

    def init(self, s: Scalars, code: str) -> Accumulators:
        return (const(0.0 if code[0] in "fc" else 0, code),)

    def merge(self, s: Scalars, a: Accumulators, b: Accumulators) -> Accumulators:
        return (a[0] + b[0],)


ADDING = Adding()


def multiply_add(x: Value, y: Value, acc: Value) -> Value:
    """acc + x * y, fused where the type allows."""
    return fma(x, y, acc) if acc.dtype in ("f32", "f64") else acc + x * y


def contraction(
    name: str,
    left: Memory,
    right: Memory,
    ranges: Sequence[int],
    reduced: frozenset[int],
    layout: tuple[int, ...] | None = None,
    out: str | None = None,
) -> Lowered:
    """The sums over `reduced` ranges of the products of both reads' elements, of type `out`: the left read's unless
    told. `layout` holds the results' strides where they are not row-major."""
    compute = compute_code(out or left.code)

    def factors(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        return cast(sources[0].read(at), compute), cast(sources[1].read(at), compute)

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        x, y = factors(at, sources)
        return (x * y,)

    shape = tuple([n for d, n in enumerate(ranges) if d not in reduced])
    key = ("contraction", left.code, right.code, out, len(ranges), reduced)
    return Lowered(
        name, key, tuple(ranges), shape, (out or left.code,), (left, right), body,
        folding=Folding(ADDING, compute, reduced, factors=factors), layout=layout,
    )


def with_addend(product: Lowered, addend: Memory | None, alpha: complex = 1, beta: complex = 1) -> Lowered:
    """alpha * product + beta * addend, rounded once; the addend runs along the ranges that are not folded.
    Without one it is the product, scaled."""
    folding = folding_of(product)
    compute, before = folding.compute, len(product.reads)
    present = addend is not None
    scales = [(0, "alpha", alpha)] * (alpha != 1) + [(1, "beta", beta)] * (present and beta != 1)
    reads = (*product.reads, *((addend,) if present else ()), *[Number(name, compute, v) for _, name, v in scales])

    def epilogue(sources: Sequence[Any], sums: Sequence[Value]) -> Sequence[Value]:
        terms = [sums[0], *([cast(sources[before].read(HERE), compute)] if present else [])]
        for (which, _, _), number in zip(scales, sources[before + present :], strict=True):
            terms[which] = terms[which] * number.read(HERE)
        return (terms[0] + terms[1] if present else terms[0],)

    return product.but(
        name=f"{product.name}_addend", key=("with_addend", product.key, present, tuple([s[:2] for s in scales])),
        reads=reads, folding=folding.but(epilogue=epilogue, after=int(present)),
    )


Operand = tuple[str, Sequence[int], Sequence[int]]      # a name, sizes, strides


def lowered_matmul(name: str, left: Operand, right: Operand, code: str, out: str | None = None) -> Lowered:
    """left @ right for operands of any number of dims above 0: ranges are those of the broadcast batch, rows, columns
    and, folded, what both have in common."""
    a_sizes, b_sizes = left[1], right[1]
    has_rows, has_columns = len(a_sizes) > 1, len(b_sizes) > 1
    own = [sizes[:-2] for sizes in (a_sizes, b_sizes)]
    rank = max(len(own[0]), len(own[1]))
    batch: list[int] = []
    dims: list[list[int | None]] = [[], []]
    for d in range(rank):
        places = [d - rank + len(sizes) for sizes in own]
        here = [sizes[p] if p >= 0 else 1 for sizes, p in zip(own, places, strict=True)]
        batch.append(here[1] if here[0] == 1 else here[0])
        for side, p, n in zip(dims, places, here, strict=True):
            side.append(None if p < 0 or (n == 1 and batch[-1] != 1) else p)
    a, b = len(a_sizes), len(b_sizes)
    for present, size, pair in (
        (has_rows, a_sizes[a - 2] if has_rows else 1, (a - 2, None)),
        (has_columns, b_sizes[-1], (None, b - 1)),
        (True, a_sizes[-1], (a - 1, b - 2 if has_columns else 0)),
    ):
        if present:
            batch.append(size)
            dims[0].append(pair[0])
            dims[1].append(pair[1])
    first, second = (
        Memory(n, code, tuple(s), tuple(t), tuple(d)) for (n, s, t), d in zip((left, right), dims, strict=True)
    )
    return contraction(name, first, second, batch, frozenset((len(batch) - 1,)), out=out)


__all__ = ["ADDING", "Adding", "contraction", "lowered_matmul", "multiply_add", "with_addend"]
