"""Kernels of the CUDA device: nests as the core launches them, one variant for each class of geometry,
made when a launch first needs it.

Enters: a nest. Leaves: the address of a kernel of the core's (csrc/cuda/device.h),
which asks `variant` here for the functions behind it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ... import _C, codegen
from ...base.digest import digest
from ...base.show import show, shown_words
from ...codegen.nvptx.columns import WARPS, column_form
from ...codegen.nvptx.held import Held, held_form
from ...codegen.nvptx.lower import POINTS, ROWS, THREADS, WARP, bounded, shared_by_block, sharing
from ...codegen.nvptx.many import CHUNK, most_rows
from ...codegen.nvptx.points import PointClass, vector_length
from ...codegen.nvptx.vectors import accesses, coefficient, definitions, peel_form, vector_form
from ...codegen.nvptx.written import Written
from ...codegen.text.primitives import SIZE
from ...loops.expr import const
from ...loops.nest import Nest, Reduce, Store
from . import cubins
from .driver import Driver, entry_name

FORMS = {POINTS: 0, ROWS: 1}
MOST_THREADS = 512
NARROW_THREADS = 256 # for which there are registers, however many a thread has: 255 at most
ONCE_THREADS = 128   # where rows are gone through once: smaller blocks fill a unit better
MOST_WORKERS = 8     # threads in which the driver compiles
MANY = 4             # the form of kernels over a table of tensors
PEELED = 2           # the variant of rows that start anywhere
NARROW = 1 << 10     # the variant of a key for blocks of no more than NARROW_THREADS
HELD = 8             # from here on, rows kept in registers: whether exactly, whether by one warp, by how many vectors
ZERO = const(0, "i64")


class Variants:
    """What the core asks a kernel for: variants, each made from a text when it is first launched, or begun before."""

    driver: Driver
    nest: Nest

    def identity(self) -> bytes:
        """What the texts of all variants are made of."""
        return self.nest.digest()

    def entry(self) -> str:
        """The name of the function in them."""
        return self.nest.name

    def source(self, key: int) -> tuple[Callable[[], str], int, int]:
        """(what gives the PTX, elements of a row a thread takes at once, points or vectors it takes) of a class of
        geometry. The PTX is LLVM's work, which another thread may do."""
        raise NotImplementedError

    def variant(self, unit: int, key: int) -> tuple[int, int, int, str]:
        """(function, the numbers of `source`, and what it is called)."""
        place = self.place(unit, key)
        function, *numbers = self.asked(unit, key, place, at_once)
        try:
            return function.result(), *numbers, self.entry()
        except Exception:
            _asked.pop(place, None)
            raise

    def begin(self, unit: int, key: int) -> None:
        """Have a variant compiled by another thread, which LLVM and the driver can do while Python goes on."""
        self.asked(unit, key, self.place(unit, key), workers().submit)

    def place(self, unit: int, key: int) -> tuple[int, bytes]:
        """What names a variant: kernels of the same nest share its function, and its file."""
        name = digest(type(self).__name__.encode() + self.identity())
        return unit, cubins.key_of(name, key, self.driver.architecture(unit), self.driver.identity())

    def asked(self, unit: int, key: int, place: tuple[int, bytes], run: Callable) -> tuple[Future, int, int]:
        """A variant, begun by `run` where nobody asked for it before."""
        found = _asked.get(place)
        if found is None:
            call, first, second = self.prepared(unit, key, place[1])
            found = _asked[place] = run(call), first, second
        return found

    def prepared(self, unit: int, key: int, stored: bytes) -> tuple[Callable[[], int], int, int]:
        """What makes the function, and the numbers of `source`: machine code of an earlier process where there is some,
        otherwise a text that is compiled, and kept."""
        found = cubins.read(stored)
        if found is not None:
            try:
                image, *numbers = found
                function = self.driver.function(image, self.entry(), unit)
                return lambda: function, numbers[0], numbers[1]
            except RuntimeError:    # of a driver that calls itself the same
                pass
        ptx, first, second = self.source(key)
        return lambda: self.compiled(self.driver.started(ptx()), unit, stored, (first, second)), first, second

    def compiled(self, ptx: str, unit: int, stored: bytes, numbers: Sequence[int]) -> int:
        """The function of a text."""
        cubin = self.driver.cubin(ptx, unit)
        if cubin is None:
            return self.driver.function(ptx.encode() + b"\0", entry_name(ptx), unit)
        function = self.driver.function(cubin, entry_name(ptx), unit)
        cubins.write(stored, cubin, *numbers)
        return function


_asked: dict[tuple[int, bytes], tuple[Future, int, int]] = {}     # variants, by what names them


def at_once(call: Callable[[], int]) -> Future:
    """What a call returns, as threads give it."""
    done: Future = Future()
    done.set_result(call())
    return done


@functools.cache
def workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix="cuda kernels")


def ptx_shown(name: str, text: str, threads: int) -> str:
    """PTX of LLVM IR for blocks of up to so many threads, both shown to those who asked."""
    words, text = shown_words(), bounded(text, name, threads)
    if "llvm" in words:
        show("llvm", name, text)
    ptx = codegen.ptx_of(text)
    if "asm" in words:
        show("asm", name, ptx)
    return ptx


class Kernel(Variants):
    """One nest; the core holds it and asks for variants of it."""

    def __init__(self, nest: Nest, driver: Driver) -> None:
        if not re.fullmatch(r"\w+", nest.name):
            nest = Nest(re.sub(r"\W", "_", nest.name), nest.operands, nest.params, nest.loop, nest.point)
        self.nest, self.driver = nest, driver
        self.form = sharing(nest)
        loops = shared_by_block(nest.loop.body) if self.form == ROWS else ()
        self.vectors: tuple[int, tuple[int, ...]] = vector_form(nest, loops) if loops else (1, ())
        self.peels = bool(loops) and peel_form(nest, loops)
        self.holds = held_form(nest, loops) if loops else 0
        self.columns: frozenset[int] = frozenset()     # operands that go in vectors of columns
        if self.form == THREADS:
            width, sizes, self.columns = column_form(nest)
            self.vectors = width, sizes

    def source(self, key: int) -> tuple[Callable[[], str], int, int]:
        words = shown_words()
        if "loops" in words:
            show("loops", self.nest.name, str(self.nest))
        elements = times = 1
        threads = self.threads_of(key)
        if self.form == POINTS:
            text, times = codegen.points_llvm(self.nest, self.point_class(key))
        elif self.form == THREADS and key:
            text, elements = codegen.columns_llvm(self.nest, bool(key & NARROW)), self.vectors[0]
        elif key & HELD:
            text = codegen.held_llvm(self.nest, Held((key & ~NARROW) >> 4, bool(key & 1), bool(key & 2)))
        else:
            key &= ~NARROW
            text = codegen.rows_llvm(self.nest, in_vectors=bool(key), peels=key == PEELED)
            elements = self.vectors[0] if key else 1
        return functools.partial(ptx_shown, self.nest.name, text, threads), elements, times

    def most_threads(self) -> int:
        """Threads of the largest block of rows."""
        once = self.form == ROWS and len(shared_by_block(self.nest.loop.body)) == 1
        return ONCE_THREADS if once else MOST_THREADS

    def threads_of(self, key: int) -> int:
        """Threads of the largest block that a variant is launched with (csrc/cuda_device.cpp)."""
        if self.form == ROWS:
            is_warp = key & HELD and key & 2
            return WARP if is_warp else min(self.most_threads(), NARROW_THREADS if key & NARROW else MOST_THREADS)
        return WARP * WARPS if self.form == THREADS and key and not key & NARROW else NARROW_THREADS

    def point_class(self, key: int) -> PointClass:
        """What the core's key of a pointwise launch says."""
        kinds = tuple([key >> 6 + 2 * k & 3 for k in range(len(self.nest.operands))])
        return PointClass(key & 15, kinds, bool(key & 32), bool(key & 16))

    def moving(self) -> set[int]:
        """Operands that are read or written in vectors; of a pointwise kernel, all."""
        if self.form == THREADS:
            return set(self.columns)
        if self.form != ROWS:
            return set(range(len(self.nest.operands)))
        known = definitions(self.nest.loop.body)
        return {
            operand
            for s in shared_by_block(self.nest.loop.body)
            for operand, index in accesses(s, [one for one in s.body if isinstance(one, Store)])
            if coefficient(index, s.var, known)
        }

    def row_param(self) -> int:
        """Which parameter says how long a row (or a column) is; -1 where none does."""
        params = self.nest.params
        if self.form == THREADS and "per_chunk" not in params:
            stops = [s.stop for s in self.nest.loop.body if isinstance(s, Reduce)] if self.columns else []
            return next((params.index(v.attr) for v in stops if v.op == "var" and v.attr in params), -1)
        for s in shared_by_block(self.nest.loop.body) if self.form == ROWS else ():
            if s.start is ZERO and s.stop.op == "var" and s.stop.attr in params:
                return params.index(s.stop.attr)
        return params.index("per_chunk") if "per_chunk" in params else -1


class ManyKernel(Variants):
    """A nest over a table of tensors."""

    def __init__(self, nest: Nest, driver: Driver) -> None:
        self.nest, self.driver = nest, driver

    def source(self, key: int) -> tuple[Callable[[], str], int, int]:
        """As `Kernel.source`; the key says whether all tensors start where vectors may."""
        text = codegen.many_llvm(self.nest, bool(key))
        return functools.partial(ptx_shown, self.nest.name, text, NARROW_THREADS), 1, 1


def load_many(nest: Nest, driver: Driver) -> int:
    """The core's kernel of such a nest."""
    sizes = [SIZE[o.code] for o in nest.operands]
    kernel, rows = ManyKernel(nest, driver), most_rows(len(sizes))
    return _C.cuda_kernel(kernel, MANY, CHUNK, sizes, rows, (), NARROW_THREADS, False, 0)


class WrittenKernel(Variants):
    """A kernel written as PTX."""

    def __init__(self, written: Written, driver: Driver) -> None:
        self.written, self.driver = written, driver

    def identity(self) -> bytes:
        return self.written.text().encode()

    def entry(self) -> str:
        return entry_name(self.written.text())

    def source(self, key: int) -> tuple[Callable[[], str], int, int]:
        ptx = self.written.text()
        if "asm" in shown_words():
            show("asm", self.written.name, ptx)
        return lambda: ptx, 1, 1


def load_written(written: Written, driver: Driver) -> tuple[int, WrittenKernel]:
    """The core's kernel of a written one: a block for each iteration."""
    kernel = WrittenKernel(written, driver)
    sizes = [0] * written.pointers
    return _C.cuda_kernel(kernel, FORMS[ROWS], 1, sizes, -1, (), written.threads, False, 0), kernel


def load(nest: Nest, driver: Driver) -> tuple[int, Kernel]:
    """The core's kernel of a nest, and what makes its variants."""
    kernel = Kernel(nest, driver)
    form = FORMS.get(kernel.form, 2)
    moving = kernel.moving()
    sizes = [SIZE[o.code] if k in moving else 0 for k, o in enumerate(kernel.nest.operands)]
    vector = vector_length(kernel.nest) if kernel.form == POINTS else kernel.vectors[0]
    rows = (kernel.row_param(), kernel.vectors[1], kernel.most_threads(), kernel.peels, kernel.holds)
    result = (kernel, form, vector, sizes, *rows)
    return _C.cuda_kernel(*result), kernel
