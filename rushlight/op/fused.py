"""Fused ops: a composite body over the rows of its arguments that eager mode runs as one kernel.

Enters: a definition whose `compute` is written with other ops: pointwise ops, and reductions over the row (the last
`row_dims` dims). Leaves: a plan of one generated row program: a loop over rows holding one reducing loop per level of
reductions and one storing loop, with every pointwise op inlined. The body also runs on real tensors, which is how
layouts the kernel cannot read, devices without it, and derivatives of any order are served.
Refuses: ops in the body that are neither pointwise nor reductions.

    row operand kinds   full: the row's elements     row: one number per row     column: one row shared by all
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import _C
from ..loops import expr
from ..loops.expr import Value, cast, const, load, min_, var
from ..loops.nest import Check, For, Local, Nest, Statement, Store, operands, reduction, rows
from ..shape import NUMBERS, surely
from .definition import KIND_PLANNED, OpDefinition
from .indexed import copy_steps
from .pointwise import Pointwise, check_devices, compile_for, compute_code, scalars
from .reduction import Fold, Reduction, as_step
from .registry import ops
from .results import result_type

FULL, ROW, COLUMN = "full", "row", "column"
ZERO = const(0, "i64")
GRAIN = 32768
SUM_ROWS = 256          # rows whose column sums one chunk keeps


class Traced:
    """A tensor of the body while it is traced: how its element is computed, and of which kind it is."""

    def __init__(self, kind: str, level: int, emit: Any, parts: tuple = (), fold: Fold | None = None, operand: int | None = None) -> None:
        self.kind, self.level, self.emit, self.parts, self.fold = kind, level, emit, parts, fold
        self.name = ""            # of the local holding a reduction's result
        self.operand = operand    # number of the operand, for leaves

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: traced_call(name, (self, *args), kwargs)

    def sum_to_size(self, size: Any) -> Traced:
        """The sum over all rows, one number per column."""
        return Traced(COLUMN, self.level, None, (self,))

    def to(self, dtype: Any) -> Traced:
        """Types are settled by the kernel: everything is computed in one."""
        return self


def _operator(name: str, swap: bool = False) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        return traced_call(name, (other, self) if swap else (self, other), {})

    return method


for _symbol, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow"}.items():
    setattr(Traced, f"__{_symbol}__", _operator(_name))
    setattr(Traced, f"__r{_symbol}__", _operator(_name, swap=True))
for _symbol in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Traced, f"__{_symbol}__", _operator(_symbol))
Traced.__neg__ = lambda self: traced_call("neg", (self,), {})
Traced.__hash__ = object.__hash__


def traced_call(name: str, args: tuple, kwargs: dict[str, Any]) -> Traced:
    """The op `name` applied to traced tensors."""
    for overload in ops[name].overload_list:
        definition = overload.definition
        names = [p.name for p in definition.spec.params]
        required = sum(p.required for p in definition.spec.params)
        if len(args) <= len(names) and len(args) + len(kwargs) >= required and all(k in names for k in kwargs):
            break
    else:
        raise TypeError(f"{name}: no signature for {len(args)} arguments in a fused body")
    if isinstance(definition, Pointwise):
        return _traced_pointwise(definition, args, kwargs)
    if isinstance(definition, Reduction):
        return _traced_reduction(definition, args[0])
    raise TypeError(f"{name}: a fused body may use pointwise ops and reductions, and this is a {type(definition).__mro__[1].__name__}")


def _traced_pointwise(definition: Pointwise, args: tuple, kwargs: dict[str, Any]) -> Traced:
    values = [kwargs.get(p.name, args[i] if i < len(args) else p.default) for i, p in enumerate(definition.spec.params)]
    traced = [a for a in values if isinstance(a, Traced)]
    kinds = {a.kind for a in traced}
    kind = FULL if FULL in kinds or kinds == {ROW, COLUMN} else (COLUMN if COLUMN in kinds else ROW)

    def emit(row: RowProgram, j: Value | None) -> Value:
        inner = [row.value(a, j) if isinstance(a, Traced) else a for a in values]
        operands_ = [v if isinstance(v, Value) or not _is_number(v, p) else const(v, row.compute) for v, p in zip(inner, definition.spec.params, strict=True)]
        return definition.outputs(operands_)[0]

    return Traced(kind, max(a.level for a in traced), emit, tuple(traced))


def _is_number(value: Any, param: Any) -> bool:
    return "Scalar" in param.type and isinstance(value, NUMBERS) and value is not None


def _traced_reduction(definition: Reduction, x: Traced) -> Traced:
    return Traced(ROW, x.level + 1, None, (x,), definition.fold())


def pick(x: Any, index: Any, dim: int = -1) -> Any:
    """The element of each row that a per-row index names; index is [..., 1] like a kept reduction."""
    if not isinstance(x, Traced):
        return x.gather(dim, index)
    return Traced(ROW, max(x.level, index.level), lambda row, j: row.value(x, cast(row.value(index, None), "i64")), (x, index))


def column(x: Any, like: Any) -> Any:
    """Whether each element is the one its row's index names: 1 or 0."""
    if not isinstance(x, Traced):
        return like.new_zeros(like.shape).scatter(-1, x, 1.0)
    return Traced(FULL, x.level, lambda row, j: cast(expr.eq(j, cast(row.value(x, None), "i64")), row.compute), (x,))


class RowProgram:
    """Turns traced results into a nest."""

    def __init__(self, name: str, codes: Sequence[str], kinds: Sequence[str], compute: str, outputs: Sequence[tuple[Traced, str]], bound: int | None) -> None:
        self.name, self.codes, self.kinds, self.compute, self.outputs, self.bound = name, codes, kinds, compute, outputs, bound
        self.cols = var("cols")
        self.row = var("i")
        self.spilled: dict[int, int] = {}      # id of a traced value -> output that already holds it
        self.cache: dict[tuple[int, Any], Value] = {}

    def leaf(self, number: int, j: Value | None) -> Value:
        code, kind = self.codes[number], self.kinds[number]
        if kind == ROW:
            return var(f"in{number}", self.leaf_code(code))
        index = j if kind == COLUMN else self.row * self.cols + j
        return cast(load(number, index, code), self.leaf_code(code))

    def leaf_code(self, code: str) -> str:
        return code if code in ("i64", "i32") else self.compute

    def value(self, t: Traced, j: Value | None) -> Value:
        """The element of `t` at column `j` of the present row."""
        key = (id(t), j)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = self.make(t, j)
        return found

    def make(self, t: Traced, j: Value | None) -> Value:
        if t.operand is not None:
            return self.leaf(t.operand, j)
        if t.fold is not None:
            return var(t.name, self.compute)
        if id(t) in self.spilled and j is not None:
            return load(self.spilled[id(t)], self.row * self.cols + j, self.compute)
        return t.emit(self, j)

    # Order: one reducing loop per level, then one storing loop ------------------------------------------------------------

    def reductions(self) -> list[list[Traced]]:
        levels: dict[int, list[Traced]] = {}
        for t in self.reachable([t for t, _ in self.outputs]):
            if t.fold is not None:
                t.name = f"r{sum(map(len, levels.values()))}"
                levels.setdefault(t.level, []).append(t)
        return [levels[k] for k in sorted(levels)]

    @staticmethod
    def reachable(roots: Sequence[Traced]) -> list[Traced]:
        found, stack, order = set(), list(roots), []
        while stack:
            t = stack.pop()
            if id(t) in found:
                continue
            found.add(id(t))
            order.append(t)
            stack.extend(t.parts)
        return order

    def body(self) -> list[Statement]:
        made: list[Statement] = []
        for number, (code, kind) in enumerate(zip(self.codes, self.kinds, strict=True)):
            if kind == ROW:
                made.append(Local(f"in{number}", cast(load(number, self.row, code), self.leaf_code(code))))
        if self.bound is not None:
            index = var(f"in{self.bound}", self.leaf_code(self.codes[self.bound]))
            cell = len(self.codes) + len(self.outputs)
            inside = expr.and_(expr.ge(index, const(0, index.dtype)), expr.lt(cast(index, "i64"), self.cols))
            made.append(Check(inside, cell, cast(index, "i64")))   # never 0 when it fails
        levels = self.reductions()
        for depth, level in enumerate(levels):
            made += self.reduce_level(level, depth, last=depth == len(levels) - 1)
        return made + self.stores()

    def reduce_level(self, level: list[Traced], depth: int, last: bool) -> list[Statement]:
        j = var(f"j{depth}")
        accs, init, spans = [], [], []
        for t in level:
            first = list(t.fold.init(scalars, self.compute))
            spans.append((len(init), len(init) + len(first)))
            init += first
            accs += [f"{t.name}.acc{k}" for k in range(len(first))]
        spill = self.spill(level, j) if last else []

        def step(now: list[Value]) -> list[Value]:
            return [v for t, (a, b) in zip(level, spans, strict=True) for v in t.fold.step(scalars, now[a:b], self.value(t.parts[0], j), None)]

        def merge(left: list[Value], right: list[Value]) -> list[Value]:
            return [v for t, (a, b) in zip(level, spans, strict=True) for v in t.fold.merge(scalars, left[a:b], right[a:b])]

        loop = reduction(j.attr, ZERO, self.cols, accs, init, step, merge, body=spill, blocked=any(t.fold.blocked for t in level))
        self.cache.clear()   # what was spilled is read back from here on
        done = []
        for t, (a, b) in zip(level, spans, strict=True):
            final = [var(name, v.dtype) for name, v in zip(accs[a:b], init[a:b], strict=True)]
            done.append(Local(t.name, cast(t.fold.finish(scalars, final, self.cols), self.compute)))
        return [loop, *done]

    def spill(self, level: list[Traced], j: Value) -> list[Statement]:
        """Keep an expensive element that the storing loop needs again in the output it will become."""
        full = [(k, t, code) for k, (t, code) in enumerate(self.outputs) if t.kind == FULL]
        if len(full) != 1 or full[0][2] != self.compute:
            return []
        number, out, _ = full[0]
        again = {id(t) for t in self.reachable([out]) if t.fold is None}
        for t in self.inside_reductions(level):
            if id(t) in again and t.operand is None and t.kind == FULL and t is not out and is_expensive(self.value(t, j)):
                value = self.value(t, j)
                self.spilled[id(t)] = len(self.codes) + number
                return [Store(len(self.codes) + number, self.row * self.cols + j, value)]
        return []

    def inside_reductions(self, level: list[Traced]) -> list[Traced]:
        return [t for root in level for t in self.reachable([root.parts[0]]) if t.fold is None]

    def stores(self) -> list[Statement]:
        made: list[Statement] = []
        inner: list[Statement] = []
        j = var("j")
        for k, (t, code) in enumerate(self.outputs):
            target = len(self.codes) + k
            if t.kind == ROW:
                made.append(Store(target, self.row, cast(self.value(t, None), code)))
            elif t.kind == FULL:
                inner.append(Store(target, self.row * self.cols + j, cast(self.value(t, j), code)))
            else:   # a sum over rows: this chunk's partial row
                inner.append(Store(target, var("chunk") * self.cols + j, self.value(t.parts[0], j), "add"))
        if inner:
            made.append(For("j", ZERO, self.cols, tuple(inner), vector=True))
        return made

    def nest(self) -> Nest:
        sums = [k for k, (t, _) in enumerate(self.outputs) if t.kind == COLUMN]
        out_codes = [self.compute if t.kind == COLUMN else code for t, code in self.outputs]
        cells = ["i64"] if self.bound is not None else []
        signature = operands(self.codes, out_codes, cells)
        body = tuple(self.body())
        if not sums:
            return Nest(self.name, signature, ("cols",), rows(*body))
        chunk = var("chunk")
        clear = tuple(Store(len(self.codes) + k, chunk * self.cols + var("z"), const(0, self.compute)) for k in sums)
        start = chunk * var("per_chunk")
        inner = For("i", start, min_(start + var("per_chunk"), var("rows")), body)
        return Nest(self.name, signature, ("cols", "rows", "per_chunk"), rows(For("z", ZERO, self.cols, clear, vector=True), inner, name="chunk"))


def is_expensive(value: Value) -> bool:
    """Whether recomputing costs more than reading back."""
    return any(v.op == "call" for v in expr.walk([value]))


class Fused(OpDefinition):
    """A definition whose composite body runs as one row program."""

    kind = KIND_PLANNED
    out = False
    row_operands: ClassVar[tuple[str, ...]] = ()      # parameters with one number per row
    column_operands: ClassVar[tuple[str, ...]] = ()   # parameters shared by all rows
    index_operand: ClassVar[str | None] = None        # a row operand that must be a valid column

    def compute(self, *args: Any) -> Any:
        """The result, written with other ops."""
        raise NotImplementedError

    def row_dims(self, *args: Any) -> int:
        """How many trailing dims of the first tensor make a row; raises for arguments the op refuses."""
        raise NotImplementedError

    def out_dtype(self, k: int, args: tuple) -> Any:
        """The dtype of output `k`."""
        return self.main(args).dtype

    def main(self, args: tuple) -> Any:
        """The first argument that holds whole rows: it sets shape, dtype and device."""
        shared = (*self.row_operands, *self.column_operands)
        return next(a for p, a in zip(self.spec.params, args, strict=True) if p.is_tensor and p.name not in shared)

    # Planning ---------------------------------------------------------------------------------------------------------------

    def plan(self, args: tuple) -> Any:
        check_devices(self.name, args)
        self.check(*args)
        count = self.row_dims(*args)
        tensors = [(i, a) for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
        main = self.main(args)
        if count <= 0 or surely(main.numel() == 0):
            return None
        shape = main.shape
        cols = 1
        for s in shape[len(shape) - count :]:
            cols *= s
        self.check_rows(tensors, main, cols)
        program = self.program(args, tensors)
        return program.plan([t for _, t in tensors], tuple(shape[: len(shape) - count]), tuple(shape[len(shape) - count :]), cols)

    def check_rows(self, tensors: list, main: Any, cols: int) -> None:
        """Every operand must have as many elements as its kind reads."""
        wanted = {FULL: main.numel(), ROW: main.numel() // cols, COLUMN: cols}
        for i, t in tensors:
            name = self.spec.params[i].name
            if t.numel() != wanted[self.kind_of(name)]:
                raise RuntimeError(f"{self.name}: expected {wanted[self.kind_of(name)]} elements in {name}, got shape {list(t.shape)}")
            if name == self.index_operand and (t.is_floating_point() or t.is_complex()):
                raise RuntimeError(f"{self.name}: expected integers in {name}, got {t.dtype.name}")

    def check(self, *args: Any) -> None:
        """Raise for arguments the op refuses."""

    def bad_index(self, index: int, cols: int) -> None:
        """Raise for a row index that names no column."""
        raise IndexError(f"{self.name}: index {index} is out of bounds for a row of {cols}")

    def program(self, args: tuple, tensors: list) -> CompiledRows:
        if any(isinstance(n, _C.SymbolicInt) for a in args for n in (a if isinstance(a, (list, tuple)) else (a,))):
            return CompiledRows(self, args, tensors)     # sizes that are symbols are no key: to hash them is to ask for them
        static = tuple(None if isinstance(a, _C.Tensor) else (type(a), tuple(a) if isinstance(a, list) else a) for a in args)
        key = (static, tuple((i, t.dtype.code) for i, t in tensors), self.main(args).device.type)
        cache = self.__dict__.setdefault("programs", {})
        found = cache.get(key)
        if found is None:
            found = cache[key] = CompiledRows(self, args, tensors)
        return found

    def kind_of(self, name: str) -> str:
        return ROW if name in self.row_operands else COLUMN if name in self.column_operands else FULL

    def run(self, *args: Any) -> Any:
        """The body itself, where there is no row to speak of."""
        return self.wrap(self.compute(*args))

    def wrap(self, result: Any) -> Any:
        names = self.spec.return_names
        return result_type(self.spec.name, names)(result) if names and isinstance(result, tuple) else result


class CompiledRows:
    """One compiled row program: its kernel and how its outputs are shaped."""

    def __init__(self, definition: Fused, args: tuple, tensors: list) -> None:
        names = [definition.spec.params[i].name for i, _ in tensors]
        kinds = [definition.kind_of(n) for n in names]
        codes = [t.dtype.code for _, t in tensors]
        main = definition.main(args)
        compute = compute_code(main.dtype.code)
        leaves = [Traced(kind, 0, None, operand=k) for k, kind in enumerate(kinds)]
        body_args = list(args)
        for (i, _), leaf in zip(tensors, leaves, strict=True):
            body_args[i] = leaf
        result = definition.compute(*body_args)
        self.single = not isinstance(result, tuple)
        results = (result,) if self.single else result
        self.definition, self.inputs = definition, len(tensors)
        self.present = [r is not None for r in results]
        outputs = [(r, definition.out_dtype(k, args).code) for k, r in enumerate(results) if r is not None]
        self.dtypes = [definition.out_dtype(k, args) for k, r in enumerate(results) if r is not None]
        self.kinds = [t.kind for t, _ in outputs]
        bound = names.index(definition.index_operand) if definition.index_operand in names else None
        self.checked = bound is not None
        device = main.device
        program = RowProgram(definition.name, codes, kinds, compute, outputs, bound)
        self.kernel = None if device.type == "meta" else as_step(compile_for(device, program.nest()))
        self.compute = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}[compute]
        self.sums = [k for k, kind in enumerate(self.kinds) if kind == COLUMN]
        self.fold_kernels = {k: None if device.type == "meta" else as_step(compile_for(device, _sum_rows(compute, self.dtypes[k].code))) for k in self.sums}

    def plan(self, tensors: list, outer: tuple[int, ...], inner: tuple[int, ...], cols: int) -> Any:
        device = tensors[0].device
        count = 1
        for s in outer:
            count *= s
        shapes = {FULL: (*outer, *inner), ROW: (*outer, *(1,) * len(inner)), COLUMN: inner}
        slots = [("new", d, shapes[kind], None, -1, 0) for d, kind in zip(self.dtypes, self.kinds, strict=True)]
        base = self.inputs
        names = self.definition.spec.return_names
        wrap = None if self.single else result_type(self.definition.spec.name, names) if names else None
        if self.kernel is None:
            return _C.Plan(base, device, slots, [], self.single, wrap)
        targets = [base + k for k in range(len(slots))]
        per_chunk = max(1, min(SUM_ROWS, GRAIN * 8 // max(1, cols)))
        chunks = -(-count // per_chunk)
        steps, final = [], []
        for k in self.sums:
            targets[k] = base + len(slots)
            slots.append(("temp", self.compute, (chunks, cols), None, -1, 0))
            final.append((self.fold_kernels[k], [targets[k], base + k], [cols, chunks], cols, max(64, GRAIN // max(1, chunks)), -1))
        error = -1
        if self.checked:
            error = base + len(slots)
            slots.append(("temp", _C.int64, (1,), None, -1, 0))
            targets.append(error)
        operands_ = [*range(base), *targets]
        for k, t in enumerate(tensors):   # rows are read as they lie in memory: others are copied first
            if not t._is_contiguous():
                operands_[k] = base + len(slots)
                slots.append(("temp", t.dtype, tuple(t.shape), None, -1, 0))
                steps += [] if self.kernel is None else copy_steps(device, t, k, (operands_[k], 0), None)
        if self.sums:
            steps.append((self.kernel, operands_, [cols, count, per_chunk], chunks, 1, error))
        else:
            steps.append((self.kernel, operands_, [cols], count, max(1, GRAIN // max(1, cols)), error))
        on_error = (lambda index: self.definition.bad_index(index, cols)) if self.checked else None
        return _C.Plan(base, device, slots, [*steps, *final], self.single, wrap, on_error)


def _sum_rows(compute: str, code: str) -> Nest:
    """Column sums of a [chunks, cols] array."""
    i, r = var("i"), var("r")
    x = load(0, r * var("cols") + i, compute)
    total = reduction("r", ZERO, var("chunks"), ["acc"], [const(0, compute)], lambda acc: [acc[0] + x], lambda a, b: [a[0] + b[0]])
    return Nest("sum_rows", operands([compute], [code]), ("cols", "chunks"), rows(total, Store(1, i, cast(var("acc", compute), code)), vector=True))
