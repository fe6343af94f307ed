"""Copies: all directions and sizes, strided, overlapping, between units, and while kernels are queued.

Bytes are compared, never only sums: each holds where it came from, so that one out of its place is seen.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import rushlight as rl

from .case import Case, Chip, case
from .expect import same
from .family import family

KIB, MIB = 1 << 10, 1 << 20
BYTES = (
    0, 1, 3, 4, 7, 63, 64, 65, 511, 513, 4095, 4097, 65_535, 65_536, 65_537, 131_073, MIB - 1, MIB, MIB + 1,
    3 * MIB + 5, 9 * MIB + 3,
)


@functools.cache
def longest() -> rl.Tensor:
    """Bytes on the host, no two stretches of them alike."""
    at = rl.arange(BYTES[-1] + 100, dtype=rl.int32)
    return (at * 131 + at // 251 * 7 + at // 65_521 * 3).to(rl.uint8)


def pattern(n: int, first: int = 0) -> rl.Tensor:
    """The first `n` of them, or those from another one on."""
    return longest()[first : first + n]


def moved(got: rl.Tensor, want: rl.Tensor, what: str) -> None:
    """Refuse bytes that are not those of the host, and say where they go wrong."""
    got = got.cpu()
    if not rl.equal(got, want):
        same(got, want, exact=True, what=what)


def to_the_device_and_back(chip: Chip, n: int) -> None:
    moved(pattern(n).to(chip.device), pattern(n), f"{n} bytes, to the device and back,")


def within_the_device(chip: Chip, n: int) -> None:
    x = pattern(n).to(chip.device)
    y = rl.zeros(n + 8, dtype=rl.uint8, device=chip.device)
    y[4 : 4 + n].copy_(x)
    want = rl.zeros(n + 8, dtype=rl.uint8)
    want[4 : 4 + n] = pattern(n)
    moved(y, want, f"{n} bytes copied within the device, between zeros,")
    moved(x.clone(), pattern(n), f"a clone of {n} bytes")


def kept_while_growing(chip: Chip, n: int) -> None:
    x = pattern(n).to(chip.device, copy=True)
    x.resize_(2 * n + 10)
    moved(x[:n], pattern(n), f"{n} bytes of a tensor that was made larger")


def from_the_middle(chip: Chip, n: int) -> None:
    x = pattern(n + 13).to(chip.device)
    moved(x[5 : 5 + n], pattern(n, 5), f"{n} bytes from the sixth on")
    y = rl.zeros(n + 13, dtype=rl.uint8, device=chip.device)
    y[7 : 7 + n].copy_(pattern(n))
    want = rl.zeros(n + 13, dtype=rl.uint8)
    want[7 : 7 + n] = pattern(n)
    moved(y, want, f"{n} bytes written from the eighth on")


def between_units(chip: Chip, n: int) -> None:
    for source, target in ((0, 1), (1, 0)):
        x = pattern(n).to(f"{chip.name}:{source}")
        y = x.to(f"{chip.name}:{target}")
        assert y.device.index == target, f"a copy to unit {target} is on {y.device}"
        moved(y, pattern(n), f"{n} bytes from unit {source} to unit {target}")
        moved(x, pattern(n), f"{n} bytes of unit {source} after they were copied to unit {target}")


def every_type_keeps_its_bits(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    n = 16 * 257
    bits = pattern(n).remainder(2) if dtype is rl.bool else pattern(n)
    x = bits.view(dtype) if dtype is not rl.bool else bits.to(rl.bool)
    moved(x.to(chip.device).cpu().view(rl.uint8), x.view(rl.uint8), f"bytes of {name} there and back")
    moved(x.to(chip.device).clone().cpu().view(rl.uint8), x.view(rl.uint8), f"bytes of {name} cloned there")


# Strides
# ---------------------------------------------------------------------------------------------------------------------


def every_order_of_dims(chip: Chip, order: tuple[int, ...]) -> None:
    x = rl.arange(5 * 7 * 11 * 3, dtype=rl.int32).reshape(5, 7, 11, 3)
    there = x.to(chip.device)
    want = x.permute(order)
    same(there.permute(order), want, exact=True, what=f"permute{order} copied to the host")
    same(there.permute(order).contiguous(), want, exact=True, what=f"permute{order} made dense")
    same(x.permute(order).to(chip.device), want, exact=True, what=f"permute{order} of the host, copied to the device")
    target = rl.zeros(5, 7, 11, 3, dtype=rl.int32, device=chip.device)
    target.permute(order).copy_(want)
    same(target, x, exact=True, what=f"a tensor written through permute{order}")


VIEWS = {
    "every_second": lambda x: x[:, ::2],
    "every_second_row": lambda x: x[::2],
    "inner_box": lambda x: x[3:-4, 5:-2],
    "last_column": lambda x: x[:, -1],
    "diagonal": lambda x: x.diagonal(),
    "transposed": lambda x: x.t(),
    "every_third_transposed": lambda x: x.t()[::3, 1::2],
    "one_row_many_times": lambda x: x[2:3].expand(9, x.shape[1]),
    "one_column_many_times": lambda x: x[:, 2:3].expand(-1, 6),
    "windows": lambda x: x.reshape(-1).unfold(0, 5, 2),
    "overlapping_rows": lambda x: x.reshape(-1).as_strided((20, 13), (3, 1), 7),
    "hankel": lambda x: x.reshape(-1).as_strided((17, 17), (1, 1)),
}


def views_read_what_they_show(chip: Chip, name: str) -> None:
    view = VIEWS[name]
    for dtype in (rl.int32, rl.uint8, rl.float32):
        x = rl.arange(37 * 29).remainder(251).to(dtype).reshape(37, 29)
        there = x.to(chip.device)
        same(view(there), view(x), exact=True, what=f"{name}, copied to the host")
        same(view(there).clone(), view(x), exact=True, what=f"{name}, cloned")
        dense = rl.empty(view(x).shape, dtype=dtype, device=chip.device)
        same(dense.copy_(view(there)), view(x), exact=True, what=f"{name}, copied to a dense tensor")


def views_write_what_they_show(chip: Chip, name: str) -> None:
    view = VIEWS[name]
    x = rl.zeros(37, 29, dtype=rl.int32)
    there = x.to(chip.device)
    values = rl.arange(1, view(x).numel() + 1, dtype=rl.int32).reshape(view(x).shape)
    view(x).copy_(values)
    view(there).copy_(values.to(chip.device))
    same(there, x, exact=True, what=f"a tensor written through {name} from the device")
    there.zero_()
    view(there).copy_(values)
    same(there, x, exact=True, what=f"a tensor written through {name} from the host")


@case()
def strided_to_strided(chip: Chip) -> None:
    x = rl.arange(64 * 48, dtype=rl.int32).reshape(64, 48)
    want = rl.zeros(48, 128, dtype=rl.int32)
    there = want.to(chip.device)
    want[:, 1::2].copy_(x.t())
    there[:, 1::2].copy_(x.to(chip.device).t())
    same(there, want, exact=True, what="a transposed tensor copied into every second column")


@case()
def strided_host_memory_is_filled(chip: Chip) -> None:
    x = rl.arange(1000, dtype=rl.int32).reshape(20, 50)
    want = rl.zeros(50, 40, dtype=rl.int32)
    got = want.clone()
    want[:, ::2].copy_(x.t())
    got[:, ::2].copy_(x.to(chip.device).t())
    same(got, want, exact=True, what="every second column of a tensor of the host, filled from the device")


@case()
def strides_of_gibibytes_do_not_matter_for_one_row(chip: Chip) -> None:
    x = rl.arange(24.0)
    for stride in (2**29, 2**31, 2**33, 2**40):
        view = x.to(chip.device).as_strided((1, 24), (stride, 1))
        same(view + 1, x.reshape(1, 24) + 1, exact=True, what=f"a row with a stride of {stride} to the next one")


@case()
def copies_over_themselves_are_refused_or_right(chip: Chip) -> None:
    x = rl.arange(1000, dtype=rl.int32, device=chip.device)
    try:
        x[1:].copy_(x[:-1])
    except RuntimeError:
        pass
    else:
        same(x[1:], rl.arange(999, dtype=rl.int32), exact=True, what="a tensor moved by one over itself")
    y = rl.arange(1000, dtype=rl.int32, device=chip.device)
    y[1:] = y[:-1].clone()
    want = rl.cat([rl.zeros(1, dtype=rl.int32), rl.arange(999, dtype=rl.int32)])
    same(y, want, exact=True, what="a tensor moved by one over itself, through a clone")
    same(y.copy_(y), want, exact=True, what="a tensor copied to itself")


@case()
def rolled_and_flipped(chip: Chip) -> None:
    for n in (5, 1000, 70_001):
        x = rl.arange(n, dtype=rl.int32)
        same(x.to(chip.device).flip(0), x.flip(0), exact=True, what=f"{n} elements backwards")
        same(x.to(chip.device).roll(3), x.roll(3), exact=True, what=f"{n} elements rolled by 3")


@case()
def parts_joined_and_cut(chip: Chip) -> None:
    parts = [rl.arange(n, dtype=rl.int32) + 1000 * n for n in (1, 0, 17, 300, 65_537, 2)]
    joined = rl.cat([part.to(chip.device) for part in parts])
    same(joined, rl.cat(parts), exact=True, what="tensors joined by cat")
    for got, want in zip(joined.split([part.numel() for part in parts]), parts, strict=True):
        same(got, want, exact=True, what=f"{want.numel()} elements cut by split")
    rows = [part[:17].to(chip.device) for part in parts if part.numel() >= 17]
    same(rl.stack(rows, 1), rl.stack([row.cpu() for row in rows], 1), exact=True, what="columns joined by stack")


@case()
def types_change_on_the_way(chip: Chip) -> None:
    x = rl.arange(-300, 300)
    for dtype in (d for d in (rl.int32, rl.int16, rl.float32, rl.float16, rl.bool) if d in chip.dtypes):
        same(x.to(chip.device, dtype), x.to(dtype), exact=True, what=f"int64 to the device as {dtype}")
        same(x.to(chip.device).to("cpu", dtype), x.to(dtype), exact=True, what=f"int64 to the host as {dtype}")
        target = rl.zeros(600, dtype=dtype, device=chip.device)
        same(target.copy_(x), x.to(dtype), exact=True, what=f"int64 of the host copied into {dtype}")


@case()
def single_elements_are_read_and_written(chip: Chip) -> None:
    x = rl.arange(70_000, dtype=rl.int64).to(chip.device)
    for k in (0, 1, 255, 4097, 65_535, 65_536, 69_999):
        assert int(x[k]) == k, f"element {k} is {int(x[k])}"
        x[k] = -k
        assert x[k].item() == -k, f"element {k} is {x[k].item()} after -{k} was written"
    assert x[254].item() == 254 and x[256].item() == 256, "writing one element changed its neighbours"


@case()
def numbers_without_dims_and_empty_tensors(chip: Chip) -> None:
    same(rl.tensor(3.5).to(chip.device), rl.tensor(3.5), exact=True, what="a number without dims")
    for shape in ((0,), (0, 3), (2, 0, 4)):
        x = rl.zeros(shape).to(chip.device)
        assert x.cpu().shape == shape and x.clone().shape == shape, f"an empty tensor of sizes {shape} changed them"


# While kernels are queued
# ---------------------------------------------------------------------------------------------------------------------


def busy(chip: Chip, x: rl.Tensor, count: int = 12) -> None:
    """Queue `count` kernels that each add one to all of a large tensor."""
    for _ in range(count):
        x.add_(1)


@case()
def the_host_sees_what_was_queued_before(chip: Chip) -> None:
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=chip.device)
    for k in range(1, 6):
        busy(chip, x)
        want = rl.full((MIB // 2,), 12 * k, dtype=rl.int32)
        same(x, want, exact=True, what=f"a tensor after {12 * k} queued kernels")


@case()
def the_device_keeps_what_was_copied_while_it_was_busy(chip: Chip) -> None:
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=chip.device)
    kept = []
    for k in range(6):
        busy(chip, x, 5)
        kept.append((x.clone(), 5 * (k + 1)))
        x.mul_(1)
    for clone, want in kept:
        same(clone, rl.full((MIB // 2,), want, dtype=rl.int32), exact=True, what=f"a clone after {want} queued kernels")


@case()
def the_host_may_change_what_it_copied(chip: Chip) -> None:
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=chip.device)
    for k in range(1, 5):
        busy(chip, x)
        source = rl.full((100_000,), k, dtype=rl.int32)
        there = source.to(chip.device, copy=True)
        source.fill_(-1)
        same(there, rl.full((100_000,), k, dtype=rl.int32), exact=True, what="a tensor whose source changed after")
        small = rl.full((3,), k, dtype=rl.int32)
        there[:3].copy_(small)
        small.fill_(-1)
        same(there[:4], rl.full((4,), k, dtype=rl.int32), exact=True, what="three elements whose source changed after")


@case()
def a_write_waits_for_the_kernels_before_it(chip: Chip) -> None:
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=chip.device)
    for k in range(4):
        busy(chip, x)
        x[:1000].copy_(rl.full((1000,), -k, dtype=rl.int32))
        want = rl.full((1000,), -k, dtype=rl.int32)
        same(x[:1000], want, exact=True, what="what the host wrote behind queued kernels")
        x.zero_()


@case()
def copies_without_waiting_are_done_when_waited_for(chip: Chip) -> None:
    source = rl.arange(MIB // 2, dtype=rl.int32)
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=chip.device)
    busy(chip, x)
    x.copy_(source, non_blocking=True)
    x.add_(1)
    target = rl.zeros(MIB // 2, dtype=rl.int32)
    target.copy_(x, non_blocking=True)
    x[:1].cpu()      # waits for all that is queued before
    same(target, source + 1, exact=True, what="a copy without waiting, there and back")


@case(needs=("two units",))
def units_wait_for_each_other(chip: Chip) -> None:
    first, second = f"{chip.name}:0", f"{chip.name}:1"
    x = rl.zeros(MIB // 2, dtype=rl.int32, device=first)
    for k in range(1, 5):
        busy(chip, x)
        y = x.to(second)
        x.add_(100)      # after the copy
        want = rl.full((MIB // 2,), 12, dtype=rl.int32)
        same(y.add_(1).sub_(1), want, exact=True, what=f"round {k}: a tensor of unit 1, copied while unit 0 was busy")
        same(x, want + 100, exact=True, what=f"round {k}: the tensor of unit 0 it was copied from")
        x.zero_()


@case(needs=("two units",))
def strided_between_units(chip: Chip) -> None:
    x = rl.arange(60 * 41, dtype=rl.int32).reshape(60, 41)
    there = x.to(f"{chip.name}:0")
    same(there.t().to(f"{chip.name}:1"), x.t(), exact=True, what="a transposed tensor moved to unit 1")
    same(there[::3, 5:].to(f"{chip.name}:1"), x[::3, 5:], exact=True, what="a part of a tensor moved to unit 1")
    target = rl.zeros(41, 120, dtype=rl.int32, device=f"{chip.name}:1")
    want = rl.zeros(41, 120, dtype=rl.int32)
    target[:, ::2].copy_(there.t())
    want[:, ::2].copy_(x.t())
    same(target, want, exact=True, what="every second column of a tensor of unit 1, filled from unit 0")


@case(needs=("two units",))
def units_do_not_write_to_each_other(chip: Chip) -> None:
    kept = [rl.full((5000,), unit + 1, dtype=rl.int32, device=f"{chip.name}:{unit}") for unit in range(chip.units)]
    for unit in range(chip.units):
        other = kept[unit].to(f"{chip.name}:{(unit + 1) % chip.units}")
        other.fill_(-1)
        rl.full((5000,), 99, dtype=rl.int32, device=f"{chip.name}:{unit}").to(other.device)
    for unit, x in enumerate(kept):
        same(x, rl.full((5000,), unit + 1, dtype=rl.int32), exact=True, what=f"a tensor of unit {unit} nobody wrote to")


def cases(chip: Chip) -> Iterator[Case]:
    """All sizes in all directions, all orders of dims, all views, all types."""
    sizes = {f"{n} bytes": (n,) for n in BYTES}
    yield from family(to_the_device_and_back, sizes)
    yield from family(within_the_device, sizes)
    yield from family(from_the_middle, sizes)
    yield from family(kept_while_growing, {f"{n} bytes": (n,) for n in (64, 65_537, MIB + 1, 3 * MIB + 5)})
    yield from family(between_units, sizes, needs=("two units",))
    orders = list(itertools.permutations(range(4)))
    orders = orders[:: 3 if chip.quick else 1]
    yield from family(every_order_of_dims, {"".join(map(str, order)): (order,) for order in orders})
    yield from family(views_read_what_they_show, {name: (name,) for name in VIEWS})
    overlapping = ("one_row_many_times", "one_column_many_times", "windows", "overlapping_rows", "hankel")
    written = [name for name in VIEWS if name not in overlapping]
    yield from family(views_write_what_they_show, {name: (name,) for name in written})
    names = [str(dtype).rpartition(".")[2] for dtype in chip.dtypes]
    yield from family(every_type_keeps_its_bits, {name: (name,) for name in names})
