"""Sorting and selecting on devices that load kernels written for blocks of threads (codegen/nvptx/sort.py,
nvptx/select.py).

Enters: what radix_device.py works out about a sort. Leaves: the launches between the records' keys and the results: one
where a row fits a block's shared memory, else for each eight bits counting, sums of counts, and dealing out. Few
records of a long row are selected first: digit by digit the last one that is wanted is found, then those up to it are
collected.
"""

from __future__ import annotations

from ...codegen.nvptx import select
from ...codegen.nvptx.sort import CHUNK, DIGIT_BITS, DIGITS, KERNELS, THREADS
from ...codegen.nvptx.written import WARP, WARPS
from ...codegen.schedule.forms.launch import Launch, Temp

MOST_ITEMS = {8: 16, 16: 16, 32: 16, 64: 8}      # records that a thread takes, by the bits of a key
FEW_COUNTS = 4 * CHUNK                           # that one block sums up
MOST_SHORT, MOST_FOUND = 512, 32                 # records of a row, and those wanted of it, that a warp looks for
BLOCKS = 1056                                    # that keep a unit busy
TILE = 4 * select.STEP                           # keys that are worth a block
FEW = 8                                          # rows that are this many times longer than what is wanted of them


def launch(name: str, form: tuple[int, ...], operands: tuple[int, ...], params: tuple[int, ...], extent: int) -> Launch:
    return Launch(("written sort", name, *form), lambda: KERNELS[name](*form), operands, params, extent, 1)


def sort_steps(
    bits: int, number: int, length: int, first: int, numbered: bool = False
) -> tuple[list[Launch], list[Temp], int]:
    """The launches that put `number` rows of `length` records in order, the temporaries behind operand `first`, of
    which the first two are keys and positions, and the operand that has the positions in order. Positions are those in
    a row, or where records are `numbered` what the temporary says."""
    total, key = number * length, f"u{bits}"
    keys, places = Temp(key, (total,)), Temp("u32", (total,))
    most = MOST_ITEMS[bits]
    if length <= most * THREADS:
        items = next(n for n in (1, 2, 4, 8, 16) if n * THREADS >= length)
        return [launch("row", (bits, items), (first, first + 1), (length, bits), number)], [keys, places], first + 1
    tiles = -(-length // (most * THREADS))
    counts = number * DIGITS * tiles
    chunks = -(-counts // CHUNK)
    temps = [keys, places, keys, places, Temp("u32", (counts,)), Temp("u32", (chunks,))]
    counted, sums = first + 4, first + 5
    launches, now = [], first
    for digit in range(0, bits, DIGIT_BITS):
        given, there = (length, tiles, digit), first + 2 if now == first else first
        launches.append(launch("count", (bits, most), (now, counted), given, number * tiles))
        if counts <= FEW_COUNTS:
            launches.append(launch("spine", (), (counted,), (counts,), 1))
        else:
            launches += [
                launch("sums", (), (counted, sums), (counts,), chunks), launch("spine", (), (sums,), (chunks,), 1),
                launch("before", (), (sums, counted), (counts,), chunks),
            ]
        used = (now, now + 1, counted, there, there + 1)
        form = (bits, most) if numbered or digit else (bits, most, True)
        launches.append(launch("deal", form, used, given, number * tiles))
        now = there
    return launches, temps, now + 1


def has_keys(bits: int, length: int) -> bool:
    """Whether the operand before that with the positions has the keys in order."""
    return length > MOST_ITEMS[bits] * THREADS


def are_few(bits: int, length: int, count: int) -> bool:
    """Whether a warp finds the records of a row one after the other."""
    return bits <= 32 and length <= MOST_SHORT and count <= MOST_FOUND and count * 2 <= length


def few_steps(bits: int, number: int, length: int, count: int, first: int) -> tuple[list[Launch], list[Temp], int]:
    """As `sort_steps`, but only the first `count` of each row are in order."""
    items = next(n for n in (1, 2, 4, 8, 16) if n * WARP >= length)
    step = Launch(("written few", bits, items), lambda: select.finding_few(bits, items), (first, first + 1),
                  (length, number, count), -(-number // WARPS), 1)
    return [step], [Temp(f"u{bits}", (number * length,)), Temp("u32", (number * length,))], first + 1


def is_selected(bits: int, length: int, count: int) -> bool:
    """Whether `count` records of a row are selected before they are sorted."""
    return has_keys(bits, length) and count * FEW <= length


def select_steps(bits: int, number: int, length: int, count: int, first: int) -> tuple[list[Launch], list[Temp], int]:
    """The launches that put the first `count` records of each of `number` rows in order. The temporaries behind operand
    `first`: the keys, the rows' records (zero at first), what blocks tally, the places in the row of those selected,
    then those of `sort_steps`. The operand that has the numbers among those selected, in order."""
    tiles = min(-(-length // TILE), -(-BLOCKS // number))
    portion = -(-length // (tiles * select.STEP)) * select.STEP
    tiles = -(-length // portion)
    given, blocks = (length, tiles, portion), number * tiles
    keys, records, tallies, places, sorted_keys = range(first, first + 5)

    def step(name: str, operands: tuple[int, ...], params: tuple[int, ...], extent: int) -> Launch:
        return Launch(("written select", name, bits), lambda: select.KERNELS[name](bits), operands, params, extent, 1)

    launches = []
    for digit, width in select.passes(bits):
        taken = (*given, digit, digit + width, (1 << width) - 1)
        launches.append(step("count", (keys, records), taken, blocks))
        wanted = 0 if launches[1:] else count
        launches.append(step("choose", (records,), (width, wanted), number))
    launches.append(step("tally", (keys, records, tallies), given, blocks))
    collected = (keys, records, tallies, sorted_keys, sorted_keys + 1, places)
    launches.append(step("collect", collected, (*given, count), blocks))
    sorting, temps, ordered = sort_steps(bits, number, count, sorted_keys, numbered=True)
    own = [Temp(f"u{bits}", (number * length,)), Temp("u32", (number * select.RECORD,)),
           Temp("u64", (blocks * select.TALLIES,)), Temp("u32", (number * count,))]
    return [*launches, *sorting], [*own, *temps], ordered


__all__ = ["are_few", "few_steps", "has_keys", "is_selected", "select_steps", "sort_steps"]
