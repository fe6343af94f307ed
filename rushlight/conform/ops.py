"""Ops against the host: every pointwise op and a call or more of the others, sizes, layouts and special values.

Enters: a device. Leaves: a case for each op (its layouts in memory, then its special values), for sizes at which loops
end, for large tensors, and for products of every length. Numbers that must be exact are compared by their bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import rushlight as rl

from .against import against_host
from .case import Case, Chip, case
from .expect import same
from .generated import of_sample, of_text, options
from .samples import INTEGERS, Sample, extremes, listed, pointwise, values, whole

UNSPECIAL = ("zeta", "polygamma", "airy_ai", "float_power")     # whose answers there are nobody's to promise
SINGLE = ("abs", "add", "mul", "div", "exp", "eq", "maximum", "bitwise_and")   # met by single numbers with --quick too
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 63, 64, 65, 67, 127, 128, 129, 255, 256, 257, 1021)
INNER = (1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 64, 67, 100, 127, 129, 250, 256, 257, 333, 499, 512, 769, 1000)


def cases(chip: Chip) -> Iterator[Case]:
    """The samples of all ops, and what is asked of many sizes."""
    for sample in pointwise():
        layouts = "ARRAYS" if chip.quick and sample.name not in SINGLE else "LAYOUTS"
        inputs = ", ".join(sample.inputs)
        yield of_sample("ops", sample.name, sample, [
            f"against_host(device, call, {inputs}, layouts={layouts}{options(sample)})"
        ])
        if sample.name not in UNSPECIAL:
            yield of_sample("ops", f"{sample.name} of special values", sample, list(specials(sample)))
    for sample in listed():
        inputs = ", ".join(sample.inputs)
        yield of_sample("ops", sample.name, sample, [f"against_host(device, call, {inputs}{options(sample)})"])
    for size in SIZES:
        yield of_text("ops", f"{size} elements", list(of_size(size)), needs=("float32",))
    for inner in INNER:
        yield of_text("ops", f"products of {inner}", list(products(inner, chip.quick)), needs=("float32",))


def specials(sample: Sample) -> Iterator[str]:
    """Statements that meet every special number with every other."""
    kinds = ["edges()"]
    if sample.name in INTEGERS:
        kinds = ["edges(rl.int64)"] if "shift" not in sample.name else ["whole(9, low=0, high=60)"]
    elif sample.options:
        kinds.append("extremes()")
    for kind in kinds:
        inputs = ", ".join(kind if number % 2 else f"{kind}[:, None]" for number in range(len(sample.inputs)))
        yield f"against_host(device, call, {inputs}{options(sample)})"


def of_size(size: int) -> Iterator[str]:
    """Statements over rows, columns and vectors of so many elements; all of their sums are exact."""
    yield f"x, y = (whole({size}, low=-8, high=9, seed=s, dtype=rl.float32) for s in (0, 1))"
    yield f"rows, columns = (whole(*s, low=-8, high=9, dtype=rl.float32) for s in ((3, {size}), ({size}, 3)))"
    yield "against_host(device, lambda a, b: a * b + a, x, y, exact=True)"
    yield "against_host(device, lambda a: a.sum(), x, exact=True)"
    yield "against_host(device, lambda a: (a.sum(1), a.sum(0), a.amax(1)), rows, exact=True)"
    yield "against_host(device, lambda a: (a.sum(0), a.cumsum(0)), columns, exact=True)"
    yield "against_host(device, lambda a: (a.t().contiguous(), a.flip(1)), rows, exact=True)"
    yield "against_host(device, lambda a: a.softmax(1), rows)"


def products(inner: int, quick: bool) -> Iterator[str]:
    """Statements that multiply matrices whose products are exact: whole numbers, the sums under 2 to the 24th."""
    for rows, columns in ((17, 19),) if quick else ((17, 19), (1, 1), (64, 64), (130, 70), (5, 257)):
        yield f"a = whole({rows}, {inner}, low=-4, high=5, dtype=rl.float32)"
        yield f"b = whole({inner}, {columns}, low=-4, high=5, seed=1, dtype=rl.float32)"
        yield "against_host(device, lambda a, b: a @ b, a, b, exact=True)"
        yield "against_host(device, lambda a, b: F.linear(a, b.t().contiguous()), a, b, exact=True)"
        yield "against_host(device, lambda a, b: a @ b[:, 0], a, b, exact=True)"


# Large ones
# -----------------------------------------------------------------------------------------------------------------


@case(needs=("float32",))
def over_64_kib(chip: Chip) -> None:
    """Pointwise, a sum and copies of 100,003 elements, some of them every third."""
    x, y = (whole(100_003, low=-8, high=9, seed=seed, dtype=rl.float32) for seed in (0, 1))
    against_host(chip.device, lambda a, b: a * b + a, x, y, exact=True)
    against_host(chip.device, lambda a: (a.sum(), a.amax(), a.argmax()), x, exact=True)
    against_host(chip.device, lambda a, b: a[::3] - b[::3], x, y, exact=True)


@case(needs=("float32",))
def over_8_mib(chip: Chip) -> None:
    """The same of over two million."""
    x = whole((1 << 21) + 5, low=-8, high=9, dtype=rl.float32)
    against_host(chip.device, lambda a: a * 2 + 1, x, exact=True)
    against_host(chip.device, lambda a: a.sum(), x, exact=True)


@case(needs=("float32",))
def over_65536_rows(chip: Chip) -> None:
    """65,539 rows of 3: more than a grid's or a 16-bit counter's limit."""
    x, row = whole(65_539, 3, low=-8, high=9, dtype=rl.float32), whole(3, low=-8, high=9, seed=1, dtype=rl.float32)
    against_host(chip.device, lambda a, b: a + b, x, row, exact=True)
    against_host(chip.device, lambda a: (a.sum(1), a.sum(0), a.argmax(1)), x, exact=True)
    against_host(chip.device, lambda a: a.softmax(1), x)
    against_host(chip.device, lambda a: a.t().contiguous(), x, exact=True)


@case(needs=("float32",))
def over_65536_columns(chip: Chip) -> None:
    """3 rows of 65,539."""
    x = whole(3, 65_539, low=-8, high=9, dtype=rl.float32)
    against_host(chip.device, lambda a: (a.sum(1), a.sum(0), a.amax(1)), x, exact=True)
    against_host(chip.device, lambda a: a.t() + 1, x, exact=True)


@case(needs=("float32", "int64"))
def picks_among_65539_rows(chip: Chip) -> None:
    """Rows behind the 65,536th, by number."""
    x, places = whole(65_539, 3, dtype=rl.float32), rl.tensor([0, 65_535, 65_536, 65_538, 1])
    against_host(chip.device, lambda a, b: (a[b], a.index_select(0, b)), x, places, exact=True)


@case(needs=("float32",))
def over_65536_products(chip: Chip) -> None:
    """A batch of 65,539 small products."""
    a, b = whole(65_539, 2, 3, low=-4, high=5, dtype=rl.float32), whole(65_539, 3, 1, low=-4, high=5, dtype=rl.float32)
    against_host(chip.device, lambda a, b: a @ b, a, b, exact=True)


@case(needs=("float32",))
def many_dims(chip: Chip) -> None:
    """Seven dims, permuted, and one of them stretched."""
    x = values(2, 3, 1, 2, 3, 2, 3)
    against_host(chip.device, lambda a: a.permute(6, 2, 4, 0, 5, 1, 3) * 2, x, exact=True)
    against_host(chip.device, lambda a: a.expand(2, 3, 5, 2, 3, 2, 3) + a, x, exact=True)
    against_host(chip.device, lambda a: a.sum((1, 3, 5)), x)


# Special numbers
# ------------------------------------------------------------------------------------------------------------


@case(needs=("float32",))
def subnormals_survive(chip: Chip) -> None:
    """Numbers below the smallest normal one: copied, added, halved, compared, cast up."""
    x = extremes()
    against_host(chip.device, lambda a: (a.clone(), a + 0, a * 1, a / 1, -a, a.abs()), x, exact=True)
    against_host(chip.device, lambda a: (a > 0, a == 0, a.sign()), x, exact=True)
    same((x.to(chip.device) * 0.5).cpu(), x * 0.5, exact=True)


@case(needs=("float32",))
def nan_in_extremes(chip: Chip) -> None:
    """One NaN among numbers: the largest is NaN, and its place is found, wherever it lies."""
    for place in (0, 1, 63, 64, 99, 100):
        x = values(2, 101)
        x[1, place] = float("nan")
        against_host(chip.device, lambda a: (a.amax(1), a.amin(1), a.max(1), a.argmax(1), a.argmin(1)), x, exact=True)


@case(needs=("float32",))
def nan_is_sorted_last(chip: Chip) -> None:
    """Sorting rows with NaN, infinities and both zeros."""
    x = rl.tensor([[1.0, float("nan"), -float("inf"), 2.0, float("inf"), -1.0, float("nan")]])
    against_host(chip.device, lambda a: (a.sort(1).values, a.sort(1, descending=True).values, a.topk(3).values), x)


@case(needs=("float32",))
def infinities_in_rows(chip: Chip) -> None:
    """Rows for softmax with infinities, and with nothing else."""
    inf = float("inf")
    x = rl.tensor([[1.0, -inf, 2.0], [-inf, -inf, -inf], [inf, 1.0, 0.0], [88.0, 89.0, 90.0], [1e30, 0.0, -1e30]])
    against_host(chip.device, lambda a: (a.softmax(1), a.log_softmax(1), a.logsumexp(1), a.sum(1), a.mean(1)), x)


@case(needs=("float32",))
def negative_zero_survives(chip: Chip) -> None:
    """The sign of a zero, through copies, selections and signs."""
    x = rl.tensor([0.0, -0.0, 1.0, -1.0])
    against_host(
        chip.device, lambda a: (a.clone(), a * 1, -a, a.abs(), a.copysign(-a), rl.where(a == 0, a, -a), a.signbit()),
        x, exact=True,
    )
    against_host(chip.device, lambda a: 1 / a, x, exact=True)
