"""Transforms of dense rows of moderate length as one plan: no Python runs between their kernels.

Enters: a tensor, dims, a kind ("forward", "inverse", "half", "whole", "real") and scales. Leaves: a schedule, with the
tables of roots inside; None for what `definitions/spectral/rows.py` computes op by op: other layouts, long rows.

Fewer rows than a register has lanes would leave lanes idle, so a row of them is cut in two factors, whose columns fill
the lanes; real ones by steps of half the work (real.py). A row with a large prime factor is
convolved with a chirp (Bluestein), by transforms of a length that suits. Otherwise real rows of even length are
transformed as pairs, of odd length as complex ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp, grain_of
from ...codegen.text.targets import second_cache
from ...op.pack import BY_CODE
from . import transform as fourier
from .butterflies import fits, times_nest
from .rows import (
    ALONG,
    FEW,
    LONGEST_OF_FEW_LANES,
    chirp_tensors,
    fits_lanes,
    halves,
    in_one_kernel,
    lanes_step,
    pair_roots,
    pair_turns,
    pairs_step,
    planned_in_two,
    real_in_one_kernel,
    roots,
    rows_share,
    rows_step,
    to_complex,
    turns_behind_roots,
    turns_table,
)
from .tables import convolution_length, smooth

LONGEST_TABLE = 8192     # points of rows whose tables a plan carries
MANY_LANES = 4           # from which on a kernel that has a lane for each row takes too long for one row
MOST_BLOCKS = 64         # of images; each is launches of its own
INPUT, RESULT = 0, 1


def direct_launch(
    input: Any, dim: Sequence[int], kind: str, scales: Sequence[float], size: int = 0
) -> Schedule | None:
    """The kernels for all of `dim`, scaled by `scales`, whose last gets `size` points from half a spectrum ("real");
    None where there are none in one plan."""
    last = input.ndim - 1
    if not input.ndim or not len(dim) or not input._is_contiguous() or input.device.type != "cpu":
        return None
    shape = [int(n) if d in dim else n for d, n in enumerate(input.shape)]      # tables are made for one length
    size = int(size)
    scaled = list(zip(dim, scales, strict=True))
    order: list[tuple[int, str, float]]
    if kind in ("forward", "inverse"):
        order = [(d, kind, scale) for d, scale in reversed(scaled)]
    elif dim[-1] != last:
        return None
    elif kind == "real":
        order = [*((d, "inverse", scale) for d, scale in scaled[:-1]), (last, kind, scales[-1])]
    else:
        order = [(last, kind, scales[-1]), *((d, "forward", scale) for d, scale in reversed(scaled[:-1]))]
    code, outer = to_complex(input.dtype).code, min(dim)
    images = math.prod(shape[:outer])
    each = images_at_once(images, math.prod(shape[outer:]), len(order), code)
    steps = Steps(code, input.numel() // shape[-1] // (images // each), size)
    block = [each, *shape[outer:]]
    if not steps.chain(block, [(d - outer + 1, way, scale) for d, way, scale in order]):
        return None
    if kind == "real":
        block[-1] = size
    given = each * math.prod(shape[outer:]) * input.dtype.itemsize
    result = math.prod(block) * (input.dtype.to_real() if kind == "real" else BY_CODE[code]).itemsize
    return steps.schedule(images // each, given, result)


def images_at_once(images: int, points: int, dims: int, code: str) -> int:
    """How many of the images are transformed over all dims before the next ones are: what lies between two dims then
    stays in the second-level cache. A number that divides theirs, so that blocks are alike."""
    size = points * BY_CODE[code].itemsize
    held = max(second_cache() // (2 * size), 1)
    if dims == 1 or size > 2 * second_cache() or images <= held:
        return images
    each = max(k for k in range(1, held + 1) if images % k == 0)
    return each if images // each <= MOST_BLOCKS else images


def bytes_of(table: Any) -> bytes:
    """A table, which has memory of its own, as a plan carries it; without numpy, which takes 0.1 s to import."""
    return bytes(memoryview(table.untyped_storage())[: table.nbytes])


class Steps:
    """Kernels one after another and the memory between them, for `count` rows of a complex type. Half spectra become
    rows of `points`."""

    def __init__(self, code: str, count: int, points: int) -> None:
        self.code, self.count, self.points = code, count, points
        self.launches: list[Launch] = []
        self.temps: list[Temp] = []

    def schedule(self, blocks: int, given: int, result: int) -> Schedule:
        """The launches, once for each block of so many bytes of the input and of the result, which share their
        temporaries."""
        launches = []
        for block in range(blocks):
            moved: dict[int, int | tuple[int, int]] = {}
            if block:
                moved = {INPUT: (INPUT, block * given), RESULT: (RESULT, block * result)}
            for launch in self.launches:
                operands = tuple(moved.get(k, k) if isinstance(k, int) else k for k in launch.operands)
                launches.append(launch.but(operands=operands) if block else launch)
        return Schedule(tuple(launches), tuple(self.temps))

    def room(self, temp: Temp) -> int:
        """The operand number of a new temporary."""
        self.temps.append(temp)
        return RESULT + len(self.temps)

    def numbers(self, n: int) -> int:
        """The same of rows of `n` complex numbers."""
        return self.room(Temp(self.code, (self.count, n)))

    def chain(self, shape: list[int], order: Sequence[tuple[int, str, float]]) -> bool:
        """Dim after dim, each from one buffer into the next, of which there are two; False where some dim is not for a
        plan."""
        buffers: list[int] = []
        source, last = INPUT, len(shape) - 1
        for k, (d, kind, scale) in enumerate(order):
            width = shape[d]
            if kind in ("half", "whole"):
                shape[d] = width // 2 + 1 if kind == "half" else width
            target = RESULT
            if k < len(order) - 1:
                if k < 2:
                    buffers.append(self.room(Temp(self.code, tuple(shape))))
                target = buffers[k % 2]
            if d == last:
                done = self.rows(source, target, kind, width, scale)
            else:
                done = self.columns(source, target, shape, d, scale, kind == "inverse")
            if not done:
                return False
            source = target
        return True

    def rows(self, source: int, target: int, kind: str, width: int, scale: float) -> bool:
        """The last dim, whose rows are `width` numbers long."""
        if kind in ("forward", "inverse"):
            return self.complex_rows(source, target, kind, width, scale)
        n = self.points if kind == "real" else width
        if n % 2 == 0 and fits(n // 2) and n // 2 <= ALONG and not rows_share(n // 2, self.count, self.code):
            return self.along(source, target, n // 2, scale, kind)
        parts = halves(n, self.code, True) if planned_in_two(n, self.code) else None
        if real_in_one_kernel(n, self.count, self.code) and (parts is None or self.fills()):
            turns = pair_turns(n // 2, self.code).tobytes()
            self.by_lanes(kind, n // 2, (), source, target, scale, kind == "real", turns, given=width)
            return True
        if n % 2 and parts is None and in_one_kernel(n, self.count, self.code) and not self.is_few(n):
            self.by_lanes(f"odd_{kind}", n, (), source, target, scale, kind == "real", given=width)
            return True
        in_lanes = n % 2 == 0 and in_one_kernel(n // 2, self.count, self.code)     # then a plan has the tables anyway
        if parts is not None and not (in_lanes and self.fills()):
            return self.real_in_two(source, target, parts, kind, scale)
        if n > 2 * (LONGEST_OF_FEW_LANES if in_lanes else LONGEST_TABLE):
            return False
        if n % 2 == 0:
            return self.real_pairs(source, target, n // 2, kind, scale)
        return kind != "real" and self.real_rows(source, target, n, kind, scale)

    def fills(self) -> bool:
        """Whether few lanes stay idle: cutting rows in two takes about 1.4 times as long as full lanes."""
        block = fourier.lanes(self.code)
        return 10 * self.count >= 7 * -(-self.count // block) * block

    def is_few(self, n: int) -> bool:
        """Whether rows leave most lanes idle and have no two factors whose columns would fill them: a chirp of a length
        that has takes less time."""
        idle = fourier.lanes(self.code) >= max(MANY_LANES, 4 * self.count)
        if not idle or n < FEW or fits(n) or halves(n, self.code) is not None:
            return False
        m = convolution_length(n)
        return m <= LONGEST_TABLE and ((fits(m) and m <= ALONG) or halves(m, self.code) is not None)

    def complex_rows(self, source: int, target: int, kind: str, n: int, scale: float) -> bool:
        """The same for complex numbers."""
        suits = in_one_kernel(n, self.count, self.code) and (n < FEW or 2 * self.count >= fourier.lanes(self.code))
        if suits and (not fits(n) or rows_share(n, self.count, self.code)):
            self.by_lanes("rows", n, (), source, target, scale, kind == "inverse")
            return True
        return n <= 2 * LONGEST_TABLE and self.transform(source, target, n, scale, kind == "inverse")

    def columns(self, source: int, target: int, shape: Sequence[int], d: int, scale: float, inverse: bool) -> bool:
        """Another dim than the last."""
        n, inner = shape[d], math.prod(shape[d + 1 :])
        if not fits_lanes(n) or inner < fourier.lanes(self.code):
            return False
        places = (math.prod(shape[:d]), inner, n * inner, inner, n * inner, inner)
        self.by_lanes("columns", n, places, source, target, scale, inverse)
        return True

    # --- complex rows -------------------------------------------------------------------------------------------------

    def transform(self, source: int, target: int, n: int, scale: float, inverse: bool) -> bool:
        """Rows of `n` points; False where no kernels suit."""
        if fits(n) and n <= ALONG and not rows_share(n, self.count, self.code):
            return self.along(source, target, n, scale, "inverse" if inverse else "forward")
        suits = in_one_kernel(n, self.count, self.code)
        fills = 2 * self.count >= fourier.lanes(self.code)     # lanes with rows; two halves are two passes over memory
        if n >= FEW and not (suits and fills) and (parts := halves(n, self.code)) is not None:
            self.in_two(source, target, parts, scale, inverse)
        elif suits and not self.is_few(n):
            self.by_lanes("rows", n, (), source, target, scale, inverse)
        elif fills and in_one_kernel(convolution_length(n), self.count, self.code):
            self.by_lanes("chirp", n, (), source, target, scale, inverse, given=n)
        else:
            return self.chirp(source, target, n, scale, inverse)
        return True

    def along(self, source: int, target: int, n: int, scale: float, kind: str) -> bool:
        """A power of two or another length that `fits`, with vectors along each row."""
        first, table = RESULT + len(self.temps) + 1, bytes_of(roots(n, kind, BY_CODE[self.code]))
        launch, rooms = rows_step(
            self.code, n, kind, self.count, scale, (source, target, first, first + 1), table
        )
        self.temps += rooms
        self.launches.append(launch)
        return True

    def in_two(self, source: int, target: int, parts: tuple[int, int], scale: float, inverse: bool) -> None:
        """Two factors: columns of the first, turned, then columns of the second."""
        n1, n2 = parts
        n, between = n1 * n2, self.numbers(n1 * n2)
        turns = bytes_of(turns_table(n1, n2, self.code))
        self.by_lanes("rotated", n1, (self.count, n2, n, n2, n, n2), source, between, 1.0, inverse, turns)
        self.by_lanes("across", n2, (self.count, n1, n, n2, n, n1), between, target, scale, inverse)

    def by_lanes(
        self, kind: str, n: int, places: tuple[int, ...], source: int, target: int, scale: float, inverse: bool,
        turns: bytes | None = None, given: int = 0,
    ) -> None:
        numbers = (source, target, RESULT + len(self.temps) + 1)
        launch, room = lanes_step(self.code, kind, n, (self.count, given), places, scale, inverse, numbers, turns)
        self.temps.append(room)
        self.launches.append(launch)

    def chirp(
        self, source: int, target: int, n: int, scale: float, inverse: bool, is_real: bool = False,
        kept: int | None = None,
    ) -> bool:
        """Rows of any length, real ones too; `kept` says how many points of the result are wanted."""
        m = convolution_length(n)
        if m > 3 * LONGEST_TABLE:
            return False
        factors, spectrum = map(bytes_of, chirp_tensors(n, m, inverse, BY_CODE[self.code]))
        wide, changed, product, back = (self.numbers(m) for _ in range(4))
        self.times(source, wide, n, n, m, factors, is_real)
        if not self.transform(wide, changed, m, 1.0, False):
            return False
        self.times(changed, product, m, m, m, spectrum)
        self.transform(product, back, m, scale / m, True)
        kept = n if kept is None else kept
        self.times(back, target, kept, m, kept, factors)
        return True

    def times(
        self, source: int, target: int, n: int, given: int, wide: int, table: bytes, is_real: bool = False
    ) -> None:
        """Rows times a table (b"": as they are): `n` of the `given` points that rows have, zeros up to `wide`."""
        key = (self.code, "times" if table else "copies", is_real)
        numbers = (source, (-1, 0), target) if table else (source, target)
        nest = functools.partial(times_nest, self.code, is_real, bool(table))
        self.launches.append(
            Launch(key, nest, numbers, (n, given, wide), self.count, grain_of(wide), constants=table)
        )

    # --- real rows ----------------------------------------------------------------------------------------------------

    def real_pairs(self, source: int, target: int, n: int, kind: str, scale: float) -> bool:
        """2n real numbers as `n` pairs, which are complex numbers."""
        table = bytes_of(pair_roots(n, kind, BY_CODE[self.code]))
        between = self.numbers(n)
        if kind == "real":
            self.launches.append(pairs_step(self.code, n, kind, self.count, 1.0, (source, between), table))
            return self.transform(between, target, n, scale, True)
        done = self.transform(source, between, n, 1.0, False)
        self.launches.append(pairs_step(self.code, n, kind, self.count, scale, (between, target), table))
        return done

    def real_in_two(self, source: int, target: int, parts: tuple[int, int], kind: str, scale: float) -> bool:
        """Two factors of a row of real numbers (real.py)."""
        n1, n2 = parts
        n, bins, few = n1 * n2, n1 * n2 // 2 + 1, n1 // 2 + 1
        between = self.numbers(few * n2)
        if kind == "real":
            turns = turns_behind_roots(n2, (n2, few), n, self.code).tobytes()
            places = (self.count, few, bins, n1, few * n2, few)
            self.by_lanes("unmirrored", n2, places, source, between, 1.0, True, turns)
            places = (self.count, n2, few * n2, 0, n, n2)
            self.by_lanes("unfolded", n1, places, between, target, scale, True, given=few)
            return True
        turns = turns_behind_roots(n1, (few, n2), n, self.code).tobytes()
        self.by_lanes("folded", n1, (self.count, n2, n, n2, few * n2, n2), source, between, 1.0, False, turns)
        places = (self.count, few, few * n2, 0, bins if kind == "half" else n, n1)
        self.by_lanes("mirrored" if kind == "half" else "mirrored_all", n2, places, between, target, scale, False)
        return True

    def real_rows(self, source: int, target: int, n: int, kind: str, scale: float) -> bool:
        """An odd number of points: complex ones, of whose spectrum half is kept, or all."""
        kept = n // 2 + 1 if kind == "half" else n
        if not smooth(n) or self.is_few(n):
            return self.chirp(source, target, n, scale, False, is_real=True, kept=kept)
        wide = self.numbers(n)
        self.times(source, wide, n, n, n, b"", is_real=True)
        if kind == "whole":
            return self.transform(wide, target, n, scale, False)
        changed = self.numbers(n)
        done = self.transform(wide, changed, n, scale, False)
        self.times(changed, target, kept, n, kept, b"")
        return done
