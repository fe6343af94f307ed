"""Every type that the device claims: copies, casts, arithmetic at its limits, reductions, order, places and products.

Enters: a device. Leaves: a case for each type and family of ops. Whole numbers and booleans are compared exactly, sums
of whole numbers in floating types too; what is rounded once (casts, sums and products of two numbers) by its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import rushlight as rl

from .against import against_host
from .case import Case, Chip, case
from .expect import name as type_name, same
from .generated import of_text
from .samples import values

BETWEEN = (rl.float32, rl.int64)       # casts from and to these with --quick; else between all


def cases(chip: Chip) -> Iterator[Case]:
    """Each family over each type."""
    for dtype in chip.dtypes:
        for family, statements in FAMILIES.items():
            lines = list(statements(dtype, chip))
            if lines:
                yield of_text("dtypes", f"{type_name(dtype)}: {family}", lines)


def is_whole(dtype: rl.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not rl.bool


def small(dtype: rl.dtype, *shape: int, seed: int = 0) -> str:
    """Small whole numbers of a type, as text: exact in all of them."""
    sizes, low = ", ".join(map(str, shape)), 0 if dtype is rl.uint8 else -4
    return f"whole({sizes}, low={low}, high=5, seed={seed}, dtype={dtype_text(dtype)})"


def dtype_text(dtype: rl.dtype) -> str:
    return f"rl.{type_name(dtype)}"


def limits(dtype: rl.dtype) -> Sequence[str]:
    """The special numbers of a type, as text."""
    text = dtype_text(dtype)
    return (f"edges({text})", f"extremes({text})") if dtype.is_floating_point else (f"edges({text})",)


def check(call: str, *inputs: str, letters: str = "a", options: str = ", exact=True") -> str:
    """A comparison with the host, as text."""
    return f"against_host(device, lambda {letters}: {call}, {', '.join(inputs)}{options})"


def some(chip: Chip, first: str, further: str) -> str:
    """A tuple of calls, as text; the further ones are left out with --quick."""
    return f"({first})" if chip.quick else f"({first.rstrip(',')}, {further})"


# Families: statements over a type
# -------------------------------------------------------------------------------------------


def copies(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """There and back, dense and strided, every special number."""
    for numbers in (f"values(7, 13, dtype={dtype_text(dtype)})", *limits(dtype)):
        yield check("a", numbers)
        yield check("a.clone()", numbers)
    yield check("a.t().contiguous()", f"values(7, 13, dtype={dtype_text(dtype)})")
    yield check("a[:, ::2].contiguous()", f"values(7, 13, dtype={dtype_text(dtype)})")
    yield check("rl.cat([a, a], 1)", f"values(7, 13, dtype={dtype_text(dtype)})")


def casts(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """To other types: small numbers to all of them, special ones where the other type has them."""
    for other in chip.dtypes if not chip.quick else [one for one in BETWEEN if one in chip.dtypes]:
        for start, end in {(dtype, other), (other, dtype)}:
            if start is end:
                continue
            yield check(f"a.to({dtype_text(end)})", small(start, 5, 7))
            if end.is_floating_point and (start.is_floating_point or is_whole(start)):
                yield check(f"a.to({dtype_text(end)})", *limits(start)[:1])
            if end is rl.bool or (is_whole(start) and is_whole(end)):
                yield check(f"a.to({dtype_text(end)})", *limits(start)[:1])
    if rl.float32 in chip.dtypes and dtype in (rl.float16, rl.bfloat16):
        yield "x = extremes(rl.float32)"
        yield f"ties = 1 + (rl.arange(64) - 32) * rl.finfo({dtype_text(dtype)}).eps / 4"
        for numbers in ("x", "ties", "ties * 1e4", "ties * -3e38"):
            yield check(f"a.to({dtype_text(dtype)})", numbers)


def arithmetic(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Sums and products, by pairs of special numbers too: whole numbers wrap around, others are rounded once."""
    if dtype is rl.bool:
        truths = "edges(rl.bool)[:, None]", "edges(rl.bool)"
        yield check("(a & b, a | b, a ^ b, ~a, a + b, a * b)", *truths, letters="a, b")
        return
    pairs = [(f"values(5, 7, dtype={dtype_text(dtype)})", f"values(7, seed=1, dtype={dtype_text(dtype)})")]
    pairs += [(f"{numbers}[:, None]", numbers) for numbers in limits(dtype)]
    options = "" if dtype.is_complex else ", exact=True"
    for pair in pairs:
        yield check(some(chip, "a + b, a * b", "a - b"), *pair, letters="a, b", options=options)
    if dtype.is_complex:
        yield check("(a / b, a.conj() * b, a.abs())", *pairs[0], letters="a, b", options="")
    elif dtype.is_floating_point:
        yield check(some(chip, "-a, a / 4", "a.abs(), a.floor()"), *limits(dtype)[:1])
    else:
        yield check(some(chip, "a.abs(), a & 6", "~a, a | 9, a ^ 5"), *limits(dtype))
        divisors = f"whole(5, 7, low=1, high=7, dtype={dtype_text(dtype)})"
        yield check("(a[:5, None] // b[0], a[:5, None] % b[0])", *limits(dtype), divisors, letters="a, b")
        yield check(some(chip, "a << 2,", "a >> 1"), small(rl.uint8, 5, 7).replace("rl.uint8", dtype_text(dtype)))


def comparisons(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Every special number with every other, largest and smallest."""
    ordered = not dtype.is_complex
    call = some(chip, "a == b, a < b", "a != b, a <= b, a > b, a >= b") if ordered else "(a == b, a != b)"
    for numbers in limits(dtype):
        yield check(call, f"{numbers}[:, None]", numbers, letters="a, b")
        yield check("rl.where(a == b, a, b)", f"{numbers}[:, None]", numbers, letters="a, b")
        if ordered:
            yield check("(rl.maximum(a, b), rl.minimum(a, b))", f"{numbers}[:, None]", numbers, letters="a, b",
                        options=", rtol=0, atol=0")


def reductions(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Sums of whole numbers, extremes and their places."""
    yield check(some(chip, "a.sum(), a.sum(1)", "a.sum(0)"), small(dtype, 7, 13))
    if dtype.is_complex:
        return
    if dtype is rl.bool:
        yield check("(a.any(1), a.all(0), a.any(), a.amax(1))", small(dtype, 7, 13))
        return
    yield check(some(chip, "a.amax(1),", "a.amin(0), a.any(1), a.all()"), small(dtype, 7, 13))
    yield check("(a.amax(0), a.amin(0))", f"{limits(dtype)[-1]}")
    yield check(some(chip, "a.argmax(1),", "a.cumsum(1)"), small(dtype, 7, 13))


def order(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Sorted rows."""
    if not dtype.is_complex:
        yield check("a.sort(1).values", f"values(5, 33, dtype={dtype_text(dtype)}, low=-90, high=90)")


def places(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Picked and put by number; filled; where a mask says so."""
    if rl.int64 not in chip.dtypes:
        return
    numbers, index = f"values(7, 5, dtype={dtype_text(dtype)})", "whole(4, high=7)"
    yield check(some(chip, "a[b],", "a.index_select(0, b), a.gather(0, b[:, None])"), numbers, index, letters="a, b")
    yield check("a.index_fill(0, b, 1)", numbers, index, letters="a, b")
    yield check("(rl.ones_like(a), rl.zeros_like(a))", numbers)


def products(dtype: rl.dtype, chip: Chip) -> Iterator[str]:
    """Matrix products of small whole numbers: exact in every type."""
    if dtype is not rl.bool:
        yield check("a @ b", small(dtype, 5, 13), small(dtype, 13, 7, seed=1), letters="a, b")
        yield check("a @ b[:, 0]", small(dtype, 5, 13), small(dtype, 13, 7, seed=1), letters="a, b")


FAMILIES: dict[str, Callable[[rl.dtype, Chip], Iterator[str]]] = {
    "copies": copies, "casts": casts, "arithmetic": arithmetic, "comparisons": comparisons, "reductions": reductions,
    "order": order, "places": places, "products": products,
}


# Types that meet
# ------------------------------------------------------------------------------------------------------------


@case(needs=("float32", "int64", "bool"))
def types_that_meet(chip: Chip) -> None:
    """The type of a result where operands differ, numbers of Python and tensors of one number included."""
    whole, part, mask = rl.arange(-3, 4), values(7), rl.arange(7) % 2 == 0
    against_host(chip.device, lambda a, b, c: (a + b, a * c, b - a, c + b, a + 1.5, b * True), whole, part, mask)
    against_host(chip.device, lambda a: a * rl.tensor(2.5) + rl.tensor(1), whole)


@case(needs=("int64",))
def sums_of_64_bits(chip: Chip) -> None:
    """Whole numbers that a double cannot hold."""
    x = rl.tensor([2**62, 2**53 + 1, -(2**62) + 3, 2**31, -1])
    against_host(chip.device, lambda a: (a.sum(), a.cumsum(0), a + 1, a * 3, a.max(), a.sort().values), x, exact=True)


@case(needs=("int32", "int64"))
def sums_are_wider(chip: Chip) -> None:
    """Whole numbers of 32 bits and fewer are summed in 64."""
    x = rl.full((9,), 2**31 - 1, dtype=rl.int32)
    same(x.to(chip.device).sum(), x.sum(), exact=True)
    same(x.to(chip.device).sum(), rl.tensor(9 * (2**31 - 1)), exact=True)


@case(needs=("float16", "float32"))
def halves_add_up_in_floats(chip: Chip) -> None:
    """A sum of 5,000 ones of 16 bits is 5,000: partial sums are kept in 32."""
    x = rl.ones(5_000, dtype=rl.float16)
    against_host(chip.device, lambda a: (a.sum(), a.reshape(2, 2500).sum(1), a.mean()), x, exact=True)
    against_host(chip.device, lambda a: a.reshape(2, 2500) @ a.reshape(2500, 2), x, exact=True)


@case(needs=("float64",))
def doubles_are_doubles(chip: Chip) -> None:
    """Results of 64 bits keep what 32 would lose."""
    x = 1 + values(101, dtype=rl.float64, low=1e-12, high=1e-9)
    against_host(chip.device, lambda a: (a - 1, a * a - 1, a.log(), a.exp(), a.sqrt(), a.sin()), x, rtol=1e-14, atol=0)
    against_host(chip.device, lambda a: (a - 1).sum(), x, rtol=1e-6, atol=0)
