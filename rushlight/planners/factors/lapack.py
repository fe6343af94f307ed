"""Planning LAPACK calls: batches of column-major matrices, one routine after another, replayed by the core.

Enters: definitions deriving from `Lapack`, whose `program` lists copies and calls over a `Program`. Leaves: plans. A
routine is named by its LAPACK name without the type letter; workspaces are sized by asking the routine once per plan.
Batches are shared between threads, each matrix on one; a single large matrix may use the library's own threads.
Refuses: dtypes other than the four LAPACK knows. Batches without one stride are made dense first, and other devices'
tensors are computed on the host.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import late
from ...base.linalg_error import LinAlgError
from ...base.shape import reaches
from ...codegen.library import transpose
from ...devices import handlers
from ...loops import expr
from ...loops.expr import Value
from ...loops.nest import Assign, Check, For, Local, Nest, Statement, Store, operands, rows
from ...loops.record import Record
from ...op.definition import KIND_PLANNED
from ...op.extents import Extent, Untraceable
from ...op.extern import Extern, on_other_device
from ...op.pack import as_step, compile_for
from ...op.pointwise import check_devices, device_of
from ...op.results import result_type
from ...op.step import Step
from ..products import blas
from . import small_device

LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
SIZES = {"f32": 4, "f64": 8, "c64": 8, "c128": 16, "i32": 4, "i64": 8}
REAL = {"c64": "f32", "c128": "f64"}
OPERAND, IMMEDIATE, SCRATCH, VALUE, STRIP, AFFINE = range(6)
SHARE = 1 << 16                 # multiply-adds worth a chunk of a batch
WIDE = 1 << 21                  # multiply-adds from which one matrix is worth the library's threads
BLOCK = 16                      # columns copied together, so that rows are read a cache line at a time
INFO_BIAS = 1 << 31             # keeps negative statuses apart from the matrix number in an error code

_kernels: dict[tuple, Any] = {}
_routines: dict[str, int] = {}


class Work:
    """A routine's workspace (`WORK`) and its length (`LENGTH`), as large as the routine asks for."""


WORK, LENGTH = Work(), Work()


class Lacking(Exception):
    """A device has no such routine."""


class Scratch(Record):
    """Uninitialised memory for one call."""

    bytes: int


class Number(Record):
    """A number passed by reference, of the routine's own type or its real part's."""

    value: complex
    real: bool = False


class Strip(Record):
    """The size of strip i, where a whole of `total` is cut into strips of `size`."""

    size: int
    total: int


class Affine(Record):
    """start + i * step, for strip i."""

    start: int
    step: int


class Block(Record):
    """The matrices of a batch inside a slot; strides and offset in elements."""

    slot: int
    code: str
    rows: int
    cols: int
    row: int
    col: int
    batch: int
    offset: int = 0

    @property
    def t(self) -> Block:
        """The transposes."""
        return self.but(rows=self.cols, cols=self.rows, row=self.col, col=self.row)

    @property
    def lead(self) -> int:
        """The leading dimension, of column-major blocks."""
        return max(self.col, self.rows, 1)

    def at(self, row: int, col: int, rows: int, cols: int) -> Block:
        """The block of these sizes from there."""
        return self.but(offset=self.offset + row * self.row + col * self.col, rows=rows, cols=cols)

    def every(self, step: int) -> Block:
        """The same matrix for strip 0, `step` elements further on for each next one."""
        return self.but(batch=step)

    def top(self, count: int) -> Block:
        """The first `count` rows."""
        return self.but(rows=count)

    def left(self, count: int) -> Block:
        """The first `count` columns."""
        return self.but(cols=count)


def numel(sizes: tuple[int, ...]) -> int:
    """Product of sizes."""
    return math.prod(sizes)


def column_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense batch of column-major matrices."""
    *batch, m, n = sizes
    strides, step = [], max(m, 1) * max(n, 1)
    for size in reversed(batch):
        strides.append(step)
        step *= max(size, 1)
    return (*reversed(strides), 1, max(m, 1))


def one_stride(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The one stride that walks these dims in order, or None."""
    if 0 in sizes:
        return 0
    reach = None
    first = 0
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if reach is None:
            first = stride
        elif stride != reach:
            return None
        reach = stride * size
    return first


class Program:
    """Slots and steps of one plan over a batch of matrices."""

    shares = True      # whether one large matrix is cut into panels that threads share

    def __init__(self, device: Any, inputs: int, batch: tuple[int, ...]) -> None:
        self.device = device
        self.inputs = inputs
        self.batch = tuple(batch)
        self.count = numel(self.batch)
        self.slots: list[tuple] = []
        self.steps: list[Step] = []
        self.on_error: Callable | None = None

    def input(self, index: int, t: Any, core: int = 2) -> Block:
        """Input tensor `index` as matrices (or, with core=1, as one column per batch)."""
        sizes, strides = tuple(t.shape), tuple(t.stride())
        outer = len(sizes) - core
        batch = one_stride(sizes[:outer], strides[:outer])
        assert batch is not None, "batches without one stride are made dense before a program is written"
        if core == 2:
            return Block(index, t.dtype.code, sizes[-2], sizes[-1], strides[-2], strides[-1], batch)
        return Block(index, t.dtype.code, sizes[-1], 1, strides[-1], max(sizes[-1], 1), batch)

    def _slot(self, kind: str, dtype: Any, sizes: tuple[int, ...], row_major: bool = False) -> Block:
        shape = (*self.batch, *sizes)
        strides = column_major(shape) if len(sizes) == 2 and not row_major else None
        self.slots.append((kind, dtype, shape, strides, -1, 0))
        m, n = (*sizes, 1, 1)[:2]
        row, col = (max(n, 1), 1) if row_major else (1, max(m, 1))
        return Block(self.inputs + len(self.slots) - 1, dtype.code, m, n, row, col, max(m, 1) * max(n, 1))

    def output(self, dtype: Any, *sizes: int, row_major: bool = False) -> Block:
        """A result: matrices (column-major unless said), vectors, or one number per matrix of the batch."""
        return self._slot("new", dtype, sizes, row_major)

    def temporary(self, dtype: Any, *sizes: int, row_major: bool = False) -> Block:
        """The same, dropped after the call."""
        return self._slot("temp", dtype, sizes, row_major)

    def empty(self, dtype: Any) -> None:
        """A result of no elements, for parts that were not asked for."""
        self.slots.append(("new", dtype, (0,), None, -1, 0))

    def copy(self, source: Block, target: Block, low: int | None = None, high: int | None = None) -> None:
        """Copy, with conversion; where column - row is outside [low, high] write 0."""
        if not self.count * target.rows * target.cols or self.device.type == "meta":
            return
        if target.row > target.col:   # walk along the target's memory
            source, target, low, high = (
                source.t,
                target.t,
                None if high is None else -high,
                None if low is None else -low,
            )
        band = low is not None or high is not None
        if self.is_turned(source, target):
            self.turn(source, target)
            if band:
                self.clear(target, low, high)
            return
        blocked = source.row != 1 and target.cols > 1 and not band
        params = [target.rows, target.cols, source.batch, source.row, source.col, target.batch, target.row, target.col]
        if band:
            params += [-(1 << 40) if low is None else low, 1 << 40 if high is None else high]
        grain = max(1, 32768 // (target.rows * target.cols))
        kernel = kernel_for(self.device, copy_nest, source.code, target.code, band, blocked)
        self.steps.append(Step(kernel, [place(source), place(target)], params, self.count, grain, -1))

    def is_turned(self, source: Block, target: Block) -> bool:
        """Whether rows become columns of the same type, enough of them to exchange them in registers."""
        plain = source.code == target.code and SIZES[target.code] <= 8 and self.device.type == "cpu"
        turned = plain and source.col == 1 and target.row == 1
        return turned and reaches(target.rows, transpose.ROWS) and reaches(target.cols, transpose.ROWS)

    def turn(self, source: Block, target: Block) -> None:
        """Copy rows as columns."""
        strips = -(-target.rows // transpose.ROWS)
        params = [target.rows, target.cols, source.row, target.col, strips, source.batch, target.batch]
        kernel = transpose.transpose_kernel(SIZES[target.code]).address
        grain = max(1, 32768 // (transpose.ROWS * target.cols))
        self.steps.append(Step(kernel, [place(source), place(target)], params, self.count * strips, grain, -1))

    def clear(self, target: Block, low: int | None, high: int | None) -> None:
        """Write 0 where column - row is outside [low, high]."""
        params = [target.rows, target.cols, target.batch, target.col]
        params += [-(1 << 40) if low is None else low, 1 << 40 if high is None else high]
        grain = max(1, 32768 // (target.rows * target.cols))
        kernel = kernel_for(self.device, clear_nest, target.code)
        self.steps.append(Step(kernel, [place(target)], params, self.count, grain, -1))

    def mirror(self, source: Block, target: Block, upper: bool) -> None:
        """Copy square Hermitian matrices of which one triangle is stored."""
        if not self.count * target.rows or self.device.type == "meta":
            return
        params = [target.rows, source.batch, source.lead, target.batch, target.lead]
        kernel = kernel_for(self.device, mirror_nest, target.code, upper)
        self.steps.append(
            Step(kernel, [place(source), place(target)], params, self.count, max(1, 32768 // target.rows**2), -1)
        )

    def constant(self, target: Block, value: int, low: int | None = None, high: int | None = None) -> None:
        """Write a number where column - row is in [low, high], and zeros elsewhere."""
        if not self.count * target.rows * target.cols or self.device.type == "meta":
            return
        band = [-(1 << 40) if low is None else low, 1 << 40 if high is None else high]
        params = [target.rows, target.cols, 0, 0, 0, target.batch, target.row, target.col, *band]
        kernel = kernel_for(self.device, copy_nest, target.code, target.code, True, False)
        grain = max(1, 32768 // (target.rows * target.cols))
        constants = packed(value, target.code).ljust(16, b"\0")
        self.steps.append(Step(kernel, [-1, place(target)], params, self.count, grain, constants=constants))

    def identity(self, target: Block) -> None:
        """Write ones on the diagonal and zeros elsewhere."""
        self.constant(target, 1, 0, 0)

    def call(self, routine: str, code: str, *args: Any, work: int = 0, strips: int | None = None) -> None:
        """Call a routine on every matrix: text is a character argument, an int an INTEGER, a Block its matrix.

        With `strips` there is one matrix, the calls are for its strips, and blocks step from strip to strip.
        """
        if not self.count or self.device.type == "meta":
            return
        if any(isinstance(arg, Extent) for arg in args):
            raise Untraceable(routine)     # how much memory it wants is asked for these very sizes
        address = routine_address(LETTERS[code] + routine)
        places, described = describe(args, code, asked(address, args, code) if WORK in args else 0)
        wide = strips is None and self.count == 1 and work >= WIDE
        params = [address, len(described), int(wide), *(x for arg in described for x in arg)]
        grain = 0 if work >= WIDE else max(1, SHARE // max(1, work))   # 0: too long to hold the interpreter lock
        extent = self.count if strips is None else strips
        self.steps.append(Step(_C.routine_kernel(), places, params, extent, grain))

    def exchanges(self, source: Block, target: Block, limit: int, name: str, signed: bool = False) -> None:
        """Copy row exchanges as LAPACK's integers; those that name no row of `limit` would read memory of others,
        and raise."""
        if not self.count * target.rows or self.device.type == "meta":
            return
        cell, params = self.cell(), [target.rows, source.batch, source.row, target.batch, limit]
        self.steps.append(
            Step(
                kernel_for(self.device, exchanges_nest, signed),
                [place(b) for b in (source, target, cell)],
                params,
                self.count,
                1 << 40,
                cell.slot,
            )
        )
        self.on_error = lambda code: raise_exchange(name, limit)

    def status(
        self, target: Block | None, info: Block, name: str | None = None, explain: Callable | None = None
    ) -> None:
        """Convert the routine's status to `target`; with `name`, raise what `explain` makes of one that is not 0."""
        if not self.count or self.device.type == "meta":
            return
        cell = self.cell() if name else info
        kernel = kernel_for(self.device, status_nest, target is not None, name is not None)
        target = target or info
        self.steps.append(
            Step(
                kernel,
                [place(info), place(target), place(cell)],
                [self.count],
                self.count,
                1 << 40,
                cell.slot if name else -1,
            )
        )
        if name:
            assert explain is not None, "what is raised has words"
            single = not self.batch
            self.on_error = lambda code: raise_status(name, code, single, explain)

    def cell(self) -> Block:
        """A fresh error cell."""
        self.slots.append(("temp", _C.int64, (1,), None, -1, 0))
        return Block(self.inputs + len(self.slots) - 1, "i64", 1, 1, 1, 1, 0)

    def plan(self, wrap: Callable | None = None) -> Any:
        """The plan; one result bare, several as `wrap` makes them."""
        single = sum(slot[0] == "new" for slot in self.slots) == 1
        return _C.Plan(self.inputs, self.device, self.slots, self.steps, single, wrap, self.on_error)


class Lapack(Extern):
    """A definition whose body is a `program` of LAPACK calls."""

    kind = KIND_PLANNED
    batch = "leading"
    # tensor parameters and how many of their last dims are one matrix
    batched: tuple[tuple[int, int], ...] = ((0, 2),)

    def check(self, *args: Any) -> None:
        """Raise for arguments the op refuses."""

    def program(self, p: Program, *args: Any) -> None:
        """Write the steps."""
        raise NotImplementedError

    def plan(self, args: tuple) -> Any:
        check_devices(self.name, args)
        self.check(*args)
        device = device_of(args)
        first, core = self.batched[0]
        if device.type not in ("cpu", "meta") or not self.walkable(args) or not self.is_planned(args):
            return None
        tensors = sum(isinstance(a, _C.Tensor) for a in args)
        p = Program(device, tensors, tuple(args[first].shape[: args[first].ndim - core]))
        self.program(p, *args)
        names = self.spec.return_names
        return p.plan(result_type(self.spec.name, names) if names else None)

    def is_planned(self, args: tuple) -> bool:
        """Whether a program alone is the answer, of one that can be written."""
        return True

    def walkable(self, args: tuple) -> bool:
        """Whether every batch has one stride."""
        return all(
            one_stride(tuple(args[i].shape[: args[i].ndim - c]), tuple(args[i].stride()[: args[i].ndim - c]))
            is not None
            for i, c in self.batched
        )

    def run(self, *args: Any) -> Any:
        """Operands no program can read are made dense; other devices are asked, or the host computes."""
        device = device_of(args)
        if device.type in ("cpu", "meta"):
            dense = tuple(a.contiguous() if isinstance(a, _C.Tensor) else a for a in args)
            return self.plan(dense)(*(a for a in dense if isinstance(a, _C.Tensor)))
        return self.on_device(device, args)

    def on_device(self, device: Any, args: tuple) -> Any:
        """Small matrices by its function for those, others by the device's routines; otherwise by its own function for
        the op, or on the host."""
        handler = handlers[device.type]
        small = small_device.attempt(handler.own("_small_factors"), self.spec.name, args)
        if small is not None:
            return small[0] if len(small) == 1 else self.wrap(small)
        routines = handler.routines() if handler.own(self.spec.name) is None else None
        if routines is None:
            return on_other_device(self.spec.name, device, args, self.run)
        dense = args if self.walkable(args) else tuple(a.contiguous() if isinstance(a, _C.Tensor) else a for a in args)
        first, core = self.batched[0]
        tensors = [a for a in dense if isinstance(a, _C.Tensor)]
        batch = tuple(dense[first].shape[: dense[first].ndim - core])
        p = late.provided("device program")(device, tensors, batch, routines)
        try:
            self.program(p, *dense)
        except Lacking:
            return on_other_device(self.spec.name, device, args, self.run)
        names = self.spec.return_names
        return p.results(result_type(self.spec.name, names) if names else None)


# --- arguments --------------------------------------------------------------------------------------------------------


def place(block: Block) -> tuple[int, int]:
    """A block's slot and byte offset, as steps name operands."""
    return block.slot, block.offset * SIZES[block.code]


def packed(value: complex, code: str) -> bytes:
    """A number's bytes in a LAPACK type."""
    if code in REAL:
        return struct.pack("<ff" if code == "c64" else "<dd", complex(value).real, complex(value).imag)
    return struct.pack({"f32": "<f", "f64": "<d", "i32": "<i", "i64": "<q"}[code], value)


def describe(args: tuple, code: str, length: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """Operands of the step, and kind and two numbers of every argument; lengths of characters come last, hidden."""
    places: list[tuple[int, int]] = []
    result = []
    for arg in args:
        if isinstance(arg, str):
            result.append((IMMEDIATE, ord(arg), 0))
        elif arg is WORK:
            result.append((SCRATCH, length * SIZES[code], 0))
        elif arg is LENGTH:
            result.append((IMMEDIATE, length, 0))
        elif isinstance(arg, int):
            result.append((IMMEDIATE, arg, 0))
        elif isinstance(arg, Strip):
            result.append((STRIP, arg.size, arg.total))
        elif isinstance(arg, Affine):
            result.append((AFFINE, arg.start, arg.step))
        elif isinstance(arg, Scratch):
            result.append((SCRATCH, max(arg.bytes, 8), 0))
        elif isinstance(arg, Number):
            result.append(
                (
                    IMMEDIATE,
                    *struct.unpack(
                        "<qq", packed(arg.value, REAL.get(code, code) if arg.real else code).ljust(16, b"\0")
                    ),
                )
            )
        else:
            result.append((OPERAND, len(places), arg.batch * SIZES[arg.code]))
            places.append(place(arg))
    result += [(VALUE, 1, 0)] * sum(isinstance(arg, str) for arg in args)
    return places, result


def asked(address: int, args: tuple, code: str) -> int:
    """The workspace length a routine wants: it answers in the first element when the length given is -1."""
    described = []
    for arg in args:
        if arg is WORK:
            described.append((OPERAND, 0, 0))
        elif arg is LENGTH:
            described.append((IMMEDIATE, -1, 0))
        elif isinstance(arg, (str, int, Scratch, Number)):
            described.append(describe((arg,), code, 0)[1][0])
        else:
            described.append((OPERAND, 1, 0))
    described += [(VALUE, 1, 0)] * sum(isinstance(arg, str) for arg in args)
    params = [address, len(described), 0, *(x for arg in described for x in arg)]
    cpu, dtype = _C.device("cpu"), getattr(
        _C, {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}[code]
    )
    slots = [("new", dtype, (1,), None, -1, 0), ("temp", _C.float64, (64,), None, -1, 0)]
    answer = _C.Plan(0, cpu, slots, [Step(_C.routine_kernel(), [0, 1], params, 1, 1, -1)])().item()
    # Single precision rounds large lengths, perhaps down.
    return max(1, math.ceil(complex(answer).real * (1 + 2**-22)))


def routine_address(name: str) -> int:
    """Address of a routine in the BLAS library, which also holds LAPACK."""
    found = _routines.get(name)
    if found is None:
        blas.kernels()
        found = _routines[name] = _C.find_routine(f"scipy_{name}_64_")
    return found


def raise_status(name: str, code: int, single: bool, explain: Callable) -> None:
    """Raise the error of the first matrix that failed."""
    which, status = code >> 32, (code & 0xFFFFFFFF) - INFO_BIAS
    where = name if single else f"{name}: (Batch element {which - 1})"
    raise LinAlgError(f"{where}: {explain(status)}")


def raise_exchange(name: str, limit: int) -> None:
    """Raise for pivots that no factorisation gives."""
    raise RuntimeError(f"{name}: pivots must be between 1 and {limit} inclusive, as the factorization gives them.")


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernel_for(device: Any, nest: Callable[..., Nest], *options: Any) -> Any:
    """The compiled kernel of the nest that `nest(*options)` makes, as steps name it."""
    key = (device.type, nest, *options)
    if key not in _kernels:
        _kernels[key] = as_step(compile_for(device, nest(*options)))
    return _kernels[key]


def copy_nest(source: str, target: str, band: bool, blocked: bool) -> Nest:
    """target[r, c] = source[r, c] for every matrix i of a batch; column by column, or `blocked` by several columns."""
    names = ("rows", "cols", "sb", "sr", "sc", "tb", "tr", "tc", *(("low", "high") if band else ()))
    v = {name: expr.var(name) for name in (*names, "i", "r", "c", "k")}
    zero = expr.const(0, "i64")
    value = expr.cast(expr.load(0, v["i"] * v["sb"] + v["r"] * v["sr"] + v["c"] * v["sc"], source), target)
    if band:
        apart = v["c"] - v["r"]
        inside = expr.and_(expr.ge(apart, v["low"]), expr.le(apart, v["high"]))
        value = expr.select(inside, value, expr.cast(expr.const(0, "i64"), target))
    store = Store(1, v["i"] * v["tb"] + v["r"] * v["tr"] + v["c"] * v["tc"], value)
    if not blocked:
        body = For("c", zero, v["cols"], (For("r", zero, v["rows"], (store,), vector=True),))
        return Nest("matrix_copy", operands([source], [target]), names, rows(body))
    block = expr.const(BLOCK, "i64")
    stop = v["k"] * block + block
    inner = For("c", v["k"] * block, expr.min_(stop, v["cols"]), (store,))
    blocks = expr.idiv(v["cols"] + expr.const(BLOCK - 1, "i64"), block)
    body = For("k", zero, blocks, (For("r", zero, v["rows"], (inner,)),))
    return Nest("matrix_copy", operands([source], [target]), names, rows(body))


def clear_nest(code: str) -> Nest:
    """Zeros above and below a band of every column-major matrix i."""
    names = ("rows", "cols", "batch", "lead", "low", "high")
    v = {name: expr.var(name) for name in (*names, "i", "c")}
    zero, nothing = expr.const(0, "i64"), expr.cast(expr.const(0, "i64"), code)
    at = v["i"] * v["batch"] + v["c"] * v["lead"]

    def between(name: str, start: Value, stop: Value) -> For:
        return For(name, expr.max_(start, zero), expr.min_(stop, v["rows"]),
                   (Store(0, at + expr.var(name), nothing),), vector=True)

    above = between("r", zero, v["c"] - v["high"])
    below = between("s", v["c"] - v["low"] + expr.const(1, "i64"), v["rows"])
    return Nest("matrix_clear", operands([], [code]), names, rows(For("c", zero, v["cols"], (above, below))))


def mirror_nest(code: str, upper: bool) -> Nest:
    """target[r, c] = source[r, c] in the stored triangle, conj(source[c, r]) in the other."""
    names = ("n", "sb", "sl", "tb", "tl")
    v = {name: expr.var(name) for name in (*names, "i", "r", "c")}
    zero = expr.const(0, "i64")
    here = expr.load(0, v["i"] * v["sb"] + v["r"] + v["c"] * v["sl"], code)
    there = expr.load(0, v["i"] * v["sb"] + v["c"] + v["r"] * v["sl"], code)
    if code in ("c64", "c128"):
        there = expr.complex_(expr.real(there), expr.neg(expr.imag(there)))
    stored = expr.le(v["r"], v["c"]) if upper else expr.ge(v["r"], v["c"])
    store = Store(1, v["i"] * v["tb"] + v["r"] + v["c"] * v["tl"], expr.select(stored, here, there))
    return Nest(
        "matrix_mirror",
        operands([code], [code]),
        names,
        rows(For("c", zero, v["n"], (For("r", zero, v["n"], (store,)),))),
    )


def exchanges_nest(signed: bool) -> Nest:
    """int32 row exchanges as int64. Where they may be `signed`, negative ones come in pairs,
    for the 2x2 blocks of LDL."""
    i, k, row, half = expr.var("i"), expr.var("k"), expr.var("row"), expr.var("half")
    zero, one = expr.const(0, "i64"), expr.const(1, "i64")
    loaded = Local("row", expr.cast(expr.load(0, i * expr.var("sb") + k * expr.var("sr"), "i32"), "i64"))
    size = expr.abs_(row) if signed else row
    good = expr.and_(expr.ge(size, one), expr.le(size, expr.var("limit")))
    if signed:
        good = expr.and_(good, expr.or_(expr.eq(half, zero), expr.lt(row, zero)))
    place_ = i * expr.var("tb") + k
    # What is refused becomes a harmless 1 before the error is seen.
    body: list[Statement] = [
        loaded,
        Store(1, place_, one),
        Check(good, 2, one),
        Store(1, place_, row),
        Assign("half", expr.select(expr.lt(row, zero), one - half, zero)),
    ]
    loop = For("k", zero, expr.var("count"), tuple(body))
    return Nest("row_exchanges", operands(["i32"], ["i64"], ["i64"]), ("count", "sb", "sr", "tb", "limit"),
                rows(Local("half", zero), loop, Check(expr.eq(half, zero), 2, one)))


def status_nest(converts: bool, checks: bool) -> Nest:
    """Statuses as int32; the error cell gets the first that is not 0 (walked from the end, so that it is the last
    written)."""
    at = expr.var("count") - expr.const(1, "i64") - expr.var("i")
    status = expr.var("status")
    body: list = [Local("status", expr.load(0, at, "i64"))]
    if converts:
        body.append(Store(1, at, expr.cast(status, "i32")))
    if checks:
        code = (at + expr.const(1, "i64")) * expr.const(1 << 32, "i64") + status + expr.const(INFO_BIAS, "i64")
        body.append(Check(expr.eq(status, expr.const(0, "i64")), 2, code))
    return Nest("matrix_status", operands(["i64", "i32" if converts else "i64"], ["i64"]), ("count",), rows(*body))
