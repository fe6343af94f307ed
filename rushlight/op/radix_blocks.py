"""Sorting on devices that load kernels written for blocks of threads (codegen/nvptx_sort.py): eight bits at a time.

Enters: what radix_device.py works out about a sort. Leaves: the launches between the records' keys and the results: one
where a row fits a block's shared memory, else for each digit counting, sums of counts, and dealing out.
"""

from __future__ import annotations

from ..codegen.nvptx_sort import CHUNK, DIGIT_BITS, DIGITS, KERNELS, THREADS
from ..codegen.schedule.launch import Launch, Temp

MOST_ITEMS = {8: 16, 16: 16, 32: 16, 64: 8}      # records that a thread takes, by the bits of a key
FEW_COUNTS = 4 * CHUNK                           # that one block sums up


def launch(name: str, form: tuple[int, ...], operands: tuple[int, ...], params: tuple[int, ...], extent: int) -> Launch:
    return Launch(("written sort", name, *form), lambda: KERNELS[name](*form), operands, params, extent, 1)


def sort_steps(bits: int, number: int, length: int, first: int) -> tuple[list[Launch], list[Temp], int]:
    """The launches that put `number` rows of `length` records in order, the temporaries behind operand `first`, of
    which the first two are keys and positions as they come, and the operand that has the positions in order."""
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
            ]  # fmt: skip
        used = (now, now + 1, counted, there, there + 1)
        launches.append(launch("deal", (bits, most), used, given, number * tiles))
        now = there
    return launches, temps, now + 1


__all__ = ["sort_steps"]
