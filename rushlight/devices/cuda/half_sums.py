"""Sums of half types in the order in which PyTorch's kernels add for `multinomial`: there every sum is rounded to the
half type, so the order decides which category a number falls into.

Enters: rows of weights. Leaves: shares of one and their running sums. Threads of a block take a row's elements by
turns, warps fold by halves; running sums go by doubled stretches (Sklansky's), or for a single row by threads that
add a stretch each, whose sums warps then scan.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor

WARP, MOST_THREADS = 32, 1024
AT_ONCE = 4                      # sums that a thread of a reduction has under way
SCAN_LOG, LEAST_LOG = 9, 4       # threads of a block that scans rows, as powers of two: all, and the fewest for a row
STRETCH, SCANNERS = 30, 128      # elements of a thread, and threads of a tile, where there is one row


def shares_and_ends(weights: Tensor) -> tuple[Any, Any]:
    """Each row's weights as shares of one, and their running sums."""
    weights = weights.contiguous()
    shares = weights / total(weights)
    return shares, (scan_one_row if weights.shape[0] == 1 else scan_rows)(shares)


def filled(rows: Tensor, length: int) -> Any:
    """Rows with zeros behind them."""
    longer = rows.new_zeros((rows.shape[0], length))
    longer.narrow(1, 0, rows.shape[1]).copy_(rows)
    return longer


def total(rows: Tensor) -> Any:
    """The sum of each row, as a column."""
    count, columns = rows.shape
    threads = min(MOST_THREADS, -(-columns // WARP) * WARP)
    turns = -(-columns // threads)
    parts = filled(rows, turns * threads).reshape(count, turns, threads)
    sums = parts.select(1, 0)
    for turn in range(1, turns):
        sums = sums + parts.select(1, turn)
    warps = folded(sums.reshape(count, threads // WARP, WARP))
    return folded(filled(warps, WARP)).unsqueeze(1)


def folded(lanes: Tensor) -> Any:
    """The sum of the last dim, 32 long, by halves."""
    half = WARP // 2
    while half:
        lanes = lanes.narrow(-1, 0, half) + lanes.narrow(-1, half, half)
        half //= 2
    return lanes.squeeze(-1)


def row_sum(rows: Tensor) -> Any:
    """The sum of the last dim, of up to 128, as PyTorch's reductions of short rows add: lanes take elements by turns,
    each in four sums, and the halves of the lanes meet."""
    count = rows.shape[-1]
    wide = rows.float() if rows.itemsize == 2 else rows
    width = min(WARP, 1 << max(count, 1).bit_length() - 1)
    flat = filled(wide.reshape(-1, count), width * AT_ONCE).reshape(-1, AT_ONCE, width)
    lanes = flat.select(1, 0)
    for k in range(1, AT_ONCE):
        lanes = lanes + flat.select(1, k)
    while width > 1:
        width //= 2
        lanes = lanes.narrow(1, 0, width) + lanes.narrow(1, width, width)
    return lanes.reshape(*rows.shape[:-1], 1).to(rows.dtype)


def power_of(count: int) -> int:
    """The power of two that is no less."""
    return max(count - 1, 0).bit_length()


def scan_rows(rows: Tensor) -> Any:
    """Running sums of several rows: tiles of a power of two, scanned by stretches that double."""
    count, columns = rows.shape
    log = (SCAN_LOG + power_of(columns) - power_of(count)) // 2
    tile = 2 << min(max(LEAST_LOG, log), SCAN_LOG)
    tiles = -(-columns // tile)
    parts = filled(rows, tiles * tile).reshape(count, tiles, tile)
    for at in range(tiles):
        part = parts.select(1, at)
        if at:
            first = part.narrow(1, 0, 1)
            first.copy_(first + parts.select(1, at - 1).narrow(1, tile - 1, 1))
        stretch = 1
        while stretch < tile:
            pairs = part.reshape(count, tile // (2 * stretch), 2, stretch)
            low, high = pairs.select(2, 0), pairs.select(2, 1)
            high.copy_(high + low.narrow(-1, stretch - 1, 1))
            part.copy_(pairs.reshape(count, tile))
            stretch *= 2
    return parts.reshape(count, tiles * tile).narrow(1, 0, columns).contiguous()


def scan_one_row(rows: Tensor) -> Any:
    """Running sums of one row: a stretch for each thread, warps that scan the threads' sums, and warps one by one."""
    columns, tile = rows.shape[1], STRETCH * SCANNERS
    tiles = -(-columns // tile)
    parts = filled(rows, tiles * tile).reshape(tiles, SCANNERS, STRETCH)
    before, found = None, []
    for at in range(tiles):
        part = parts.select(0, at)
        sums = part.narrow(1, 0, 1)
        for k in range(1, STRETCH):
            sums = sums + part.narrow(1, k, 1)
        lanes = scanned_lanes(sums.reshape(SCANNERS // WARP, WARP))
        found.append(continued(part, lanes, before))
        before = found[-1].reshape(-1).narrow(0, tile - 1, 1)
    joined = found[0].new_empty((tiles, SCANNERS * STRETCH))
    for at, part in enumerate(found):
        joined.select(0, at).copy_(part.reshape(-1))
    return joined.reshape(1, tiles * tile).narrow(1, 0, columns).contiguous()


def scanned_lanes(lanes: Tensor) -> Any:
    """Inclusive sums within each warp, by distances that double."""
    distance = 1
    while distance < WARP:
        moved = lanes.clone()
        moved.narrow(1, distance, WARP - distance).copy_(
            lanes.narrow(1, distance, WARP - distance) + lanes.narrow(1, 0, WARP - distance)
        )
        lanes = moved
        distance *= 2
    return lanes


def continued(part: Tensor, lanes: Tensor, before: Any) -> Any:
    """Each thread's elements behind what the threads before it, and the tiles before, add up to."""
    warps = lanes.shape[0]
    starts = lanes.new_zeros(lanes.shape)
    starts.narrow(1, 1, WARP - 1).copy_(lanes.narrow(1, 0, WARP - 1))
    reached = before
    for w in range(warps):
        if reached is not None:
            starts.select(0, w).copy_(starts.select(0, w) + reached)
        end = lanes.select(0, w).narrow(0, WARP - 1, 1)
        reached = end if reached is None else reached + end
    sums = starts.reshape(warps * WARP)
    out = part.new_empty(part.shape)
    for k in range(part.shape[1]):
        sums = sums + part.select(1, k)
        out.select(1, k).copy_(sums)
    return out
