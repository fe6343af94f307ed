"""Errors: an index out of range, a division by zero, devices that do not fit together, and that work goes on after.

A kernel cannot raise: it writes down what it met, and that is raised where the host waits. So each case looks at the
result, which is where a program sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl

from .case import Case, Chip, case
from .expect import same
from .family import family

Call = Callable[[Any, Any], Any]

# Calls of (table of 5 x 4, index): each reads or writes row `index[...]`.
INDEXED: dict[str, Call] = {
    "index_select": lambda t, at: t.index_select(0, at),
    "gather": lambda t, at: t.gather(0, at.reshape(-1, 1).expand(-1, 4).contiguous()),
    "take": lambda t, at: t[:, 0].contiguous().take(at),
    "indexing": lambda t, at: t[at],
    "embedding": lambda t, at: rl.nn.functional.embedding(at, t),
    "scatter": lambda t, at: t.scatter(0, at.reshape(-1, 1), 1.0),
    "index_add": lambda t, at: t.index_add(0, at, rl.ones(at.numel(), 4, device=t.device)),
    "index_put": lambda t, at: t.index_put((at,), rl.zeros(at.numel(), 4, device=t.device)),
    "index_fill": lambda t, at: t.index_fill(0, at, 2.0),
}

DIVISIONS: dict[str, Call] = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": rl.fmod,
    "div_trunc": lambda a, b: rl.div(a, b, rounding_mode="trunc"),
    "div_floor": lambda a, b: rl.div(a, b, rounding_mode="floor"),
}


def table(device: Any) -> rl.Tensor:
    """Five rows of four numbers."""
    return rl.arange(20.0).reshape(5, 4).to(device)


def raised(call: Callable[[], Any], what: str) -> Exception:
    """What a call raises, or reading its result."""
    try:
        call().cpu()
    except Exception as error:
        return error
    raise AssertionError(f"{what} was not refused")


def still_works(chip: Chip, what: str) -> None:
    """Refuse a device on which plain work fails after an error."""
    x = rl.arange(1000.0)
    same(x.to(chip.device) * 2 + 1, x * 2 + 1, exact=True, what=f"plain arithmetic after {what}")
    at = rl.tensor([4, 0, 2])
    same(table(chip.device).index_select(0, at.to(chip.device)), table("cpu").index_select(0, at), exact=True,
         what=f"rows that exist, selected after {what}")


def an_index_out_of_range_is_refused(chip: Chip, name: str, index: int) -> None:
    call = INDEXED[name]
    at = rl.tensor([0, index, 1])
    what = f"{name} with index {index} of 5 rows"
    error = raised(lambda: call(table(chip.device), at.to(chip.device)), what)
    assert isinstance(error, (IndexError, RuntimeError)), f"{what}: expected an IndexError, got {error!r}"
    assert str(index) in str(error), f"{what}: the message does not name the index: {error}"
    still_works(chip, what)


def the_last_index_is_taken(chip: Chip, name: str) -> None:
    call = INDEXED[name]
    for rows in ([4], [0], [4, 0, 3], [2, 4, 4] if name in ("index_select", "gather", "take", "indexing") else [1]):
        at = rl.tensor(rows)
        same(call(table(chip.device), at.to(chip.device)), call(table("cpu"), at), exact=True, what=f"{name} of {rows}")


def a_division_by_zero_is_refused(chip: Chip, name: str, kind: str) -> None:
    call, dtype = DIVISIONS[name], getattr(rl, kind)
    a, b = rl.arange(1, 101, dtype=dtype), rl.ones(100, dtype=dtype)
    same(call(a.to(chip.device), b.to(chip.device)), call(a, b), exact=True, what=f"{name} by ones")
    b[67] = 0
    error = raised(lambda: call(a.to(chip.device), b.to(chip.device)), f"{name} of {kind} by a zero")
    assert isinstance(error, (RuntimeError, ZeroDivisionError)), f"{name} by a zero raised {error!r}"
    assert "ero" in str(error) or "0" in str(error), f"{name} by a zero: the message does not say so: {error}"
    still_works(chip, f"{name} by a zero")


@case()
def an_error_is_told_once(chip: Chip) -> None:
    raised(lambda: table(chip.device).index_select(0, rl.tensor([7], device=chip.device)), "index 7 of 5")
    for k in range(3):
        same(table(chip.device) + k, table("cpu") + k, exact=True, what=f"addition {k} after an error")


@case()
def the_first_of_two_errors_is_told(chip: Chip) -> None:
    t, bad, worse = table(chip.device), rl.tensor([6], device=chip.device), rl.tensor([8], device=chip.device)

    def both() -> rl.Tensor:
        first = t.index_select(0, bad)
        second = t.index_select(0, worse)
        return first + second

    error = raised(both, "two indices out of range")
    assert "6" in str(error), f"the first error, index 6, is not the one that is told: {error}"
    still_works(chip, "two errors")


@case()
def an_error_far_down_a_long_index_is_found(chip: Chip) -> None:
    for n, place in ((1000, 999), (70_000, 69_999), (70_000, 0), (70_000, 65_536)):
        at = rl.arange(n) % 5
        at[place] = 7
        what = f"index 7 at {place} of {n}"
        error = raised(lambda at=at: table(chip.device).index_select(0, at.to(chip.device)), what)
        assert isinstance(error, (IndexError, RuntimeError)), f"{what} raised {error!r}"
    still_works(chip, "an error far down a long index")


@case()
def an_index_is_not_cut_to_32_bits(chip: Chip) -> None:
    for index in (2**32, 2**32 + 1, -(2**32), 2**40 + 2):
        what = f"index_select of row {index}"
        raised(lambda index=index: table(chip.device).index_select(0, rl.tensor([index]).to(chip.device)), what)
    still_works(chip, "indices beyond 32 bits")


@case()
def many_checks_do_not_hide_a_failing_one(chip: Chip) -> None:
    t, good = table(chip.device), rl.tensor([1, 2], device=chip.device)
    bad = rl.tensor([4, 8], device=chip.device)

    def many() -> rl.Tensor:
        for k in range(1200):
            result = t.index_select(0, bad if k == 700 else good)
        return result

    error = raised(many, "the failing one of 1200 checks")
    assert "8" in str(error), f"the message does not name index 8: {error}"
    for _ in range(1200):      # as many as there is room for
        result = t.index_select(0, good)
    same(result, table("cpu")[1:3], exact=True, what="a lookup after 1200 others")
    still_works(chip, "one failing check of 1200")


@case()
def nothing_else_is_written_by_a_refused_index(chip: Chip) -> None:
    before, after = rl.full((64,), 7.0, device=chip.device), rl.full((64,), 9.0, device=chip.device)
    t = rl.zeros(5, 4, device=chip.device)
    try:
        t.index_put_((rl.tensor([1, 5000, -9], device=chip.device),), rl.ones(3, 4, device=chip.device))
        t.cpu()
    except (IndexError, RuntimeError):
        pass
    same(before, rl.full((64,), 7.0), exact=True, what="a tensor made before a refused write")
    same(after, rl.full((64,), 9.0), exact=True, what="another tensor made before a refused write")


@case()
def an_error_in_the_backward_pass_is_told(chip: Chip) -> None:
    weights = rl.ones(5, 3, device=chip.device, requires_grad=True)
    at = rl.tensor([1, 6], device=chip.device)

    def train() -> rl.Tensor:
        rl.nn.functional.embedding(at, weights).sum().backward()
        return weights.grad

    raised(train, "an embedding of row 6 of 5, trained")
    still_works(chip, "an error while training")


@case()
def a_class_out_of_range_is_refused(chip: Chip) -> None:
    logits, target = rl.ones(3, 4, device=chip.device), rl.tensor([0, 4, 1], device=chip.device)
    error = raised(lambda: rl.nn.functional.cross_entropy(logits, target), "class 4 of 4")
    assert isinstance(error, (IndexError, RuntimeError)), f"class 4 of 4 raised {error!r}"
    still_works(chip, "a class out of range")


@case()
def a_division_by_the_number_0_is_refused(chip: Chip) -> None:
    x = rl.arange(5, device=chip.device)
    for name in ("floor_divide", "remainder"):
        raised(lambda name=name: getattr(rl, name)(x, 0), f"{name} by the number 0")
    still_works(chip, "a division by the number 0")


@case()
def floats_are_divided_by_zero(chip: Chip) -> None:
    a, b = rl.tensor([1.0, -1.0, 0.0, 5.0]), rl.tensor([0.0, 0.0, 0.0, -0.0])
    same(a.to(chip.device) / b.to(chip.device), a / b, exact=True, what="division of floats by zero")


# What does not fit together
# ---------------------------------------------------------------------------------------------------------------------

MIXED: dict[str, Call] = {
    "add": lambda a, b: a + b,
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: rl.cat([a, b]),
    "where": lambda a, b: rl.where(a > 0, a, b),
    "add_": lambda a, b: a.add_(b),
    "linear": lambda a, b: rl.nn.functional.linear(a, b),
}


def refused_mixture(chip: Chip, name: str, one: str, other: str) -> None:
    """A call with operands of two devices raises, and both work on."""
    x, y = rl.ones(3, 3, device=one), rl.ones(3, 3, device=other)
    what = f"{name} of tensors on {one} and {other}"
    error = raised(lambda: MIXED[name](x, y), what)
    assert isinstance(error, RuntimeError), f"{what}: expected RuntimeError, got {error!r}"
    assert "device" in str(error), f"{what}: the message names no device: {error}"
    same(x + 1, rl.full((3, 3), 2.0), exact=True, what=f"the tensor on {one} after that")
    same(y + 1, rl.full((3, 3), 2.0), exact=True, what=f"the tensor on {other} after that")


def the_host_and_the_device_are_not_mixed(chip: Chip, name: str) -> None:
    refused_mixture(chip, name, chip.name, "cpu")


def two_units_are_not_mixed(chip: Chip, name: str) -> None:
    refused_mixture(chip, name, f"{chip.name}:0", f"{chip.name}:1")


@case(needs=("handler",))
def a_number_of_the_host_meets_the_device(chip: Chip) -> None:
    x = rl.arange(10.0, device=chip.device)
    same(x * rl.tensor(3.0), rl.arange(10.0) * 3, exact=True, what="a tensor times a number without dims of the host")


@case(needs=("handler",))
def a_unit_that_is_not_there_is_refused(chip: Chip) -> None:
    for unit in (chip.units, chip.units + 5):
        raised(lambda unit=unit: rl.ones(3, device=f"{chip.name}:{unit}"), f"unit {unit} of {chip.units}")
    still_works(chip, "a unit that is not there")


@case()
def sizes_that_do_not_fit_are_refused(chip: Chip) -> None:
    x = rl.ones(3, 4, device=chip.device)
    for what, call in (
        ("3 x 4 plus 5", lambda: x + rl.ones(5, device=chip.device)),
        ("3 x 4 times 3 x 4", lambda: x @ x),
        ("12 elements as 5 x 2", lambda: x.reshape(5, 2)),
        ("a sum over dim 2 of 2", lambda: x.sum(2)),
    ):
        error = raised(call, what)
        assert isinstance(error, (RuntimeError, IndexError)), f"{what} raised {error!r}"
    still_works(chip, "sizes that do not fit")


@case()
def an_error_of_the_program_leaves_the_device_whole(chip: Chip) -> None:
    for k in range(5):
        x = rl.full((1000,), float(k), device=chip.device)
        try:
            x.add_(1)
            raise ValueError("of the program's own")
        except ValueError:
            same(x, rl.full((1000,), k + 1.0), exact=True, what="a tensor after an error of the program's own")


def cases(chip: Chip) -> Iterator[Case]:
    """Every call that looks something up, every division, every mixture."""
    wrong = {f"{name}, {index}": (name, index) for name in INDEXED for index in ((7,) if chip.quick else (7, 123_456))}
    yield from family(an_index_out_of_range_is_refused, wrong)
    below = {f"{name}, -8": (name, -8) for name in ("index_select", "gather", "take", "indexing", "index_put")}
    yield from family(an_index_out_of_range_is_refused, below)
    yield from family(the_last_index_is_taken, {name: (name,) for name in INDEXED})
    kinds = [kind for kind in ("int64", "int32", "uint8") if getattr(rl, kind) in chip.dtypes]
    divisions = {f"{name}, {kind}": (name, kind) for name in DIVISIONS for kind in kinds}
    yield from family(a_division_by_zero_is_refused, divisions)
    mixed = {name: (name,) for name in MIXED}
    yield from family(the_host_and_the_device_are_not_mixed, mixed, needs=("handler",))
    yield from family(two_units_are_not_mixed, mixed, needs=("two units",))
