"""CPU schedules of row programs.

Enters: a `RowProgram` (loops/row_program.py), how many rows there are and how long they are. Leaves: one launch over
the rows; where results are sums over rows, one over chunks of them,
and one that adds up the chunks' sums for each of these results.
"""

from __future__ import annotations

from ...loops.expr import Value, and_, cast, const, ge, load, lt, min_, var, walk
from ...loops.nest import Check, For, Local, Nest, Statement, Store, operands, reduction, rows
from ...loops.row_program import COLUMN, FULL, ROW, RowNode, RowProgram, reachable
from ...loops.vocabulary import Scalars
from .launch import GRAIN, SUM_ROWS, Launch, Schedule, Temp, grain_of

ZERO = const(0, "i64")
scalars = Scalars()


def schedule_rows(program: RowProgram, count: int, cols: int, target: str = "cpu") -> Schedule:
    """How a CPU runs the program over `count` rows of `cols` elements;
    elsewhere nothing is kept in the results meanwhile."""
    spills = target == "cpu"
    inputs, outs, totals = len(program.operands), len(program.results), program.totals()
    place = inputs + outs
    per_chunk = max(1, min(SUM_ROWS, GRAIN * 8 // max(1, cols)))
    chunks = -(-count // per_chunk)
    temps = [Temp(program.compute, (chunks, cols)) for _ in totals]
    partial = {k: place + n for n, k in enumerate(totals)}
    error = -1
    if program.bound is not None:
        error = place + len(temps)
        temps.append(Temp("i64", (1,)))
    numbers = (*range(inputs), *[partial.get(k, inputs + k) for k in range(outs)], *([error] if error >= 0 else []))
    key = ("rows", program.key, spills)
    if not totals:
        return Schedule(
            (Launch(key, lambda: RowNest(program, spills).nest(), numbers, (cols,), count, grain_of(cols), error),),
            tuple(temps),
        )
    launches = [
        Launch(key, lambda: RowNest(program, spills).nest(), numbers, (cols, count, per_chunk), chunks, 1, error)
    ]
    for k in totals:
        code = program.results[k][1]
        own = ("sum_rows", program.compute, code)
        launches.append(
            Launch(
                own,
                lambda code=code: sum_rows_nest(program.compute, code),
                (partial[k], inputs + k),
                (cols, chunks),
                cols,
                max(64, GRAIN // max(1, chunks)),
            )
        )
    return Schedule(tuple(launches), tuple(temps))


def sum_rows_nest(compute: str, code: str) -> Nest:
    """Column sums of a [chunks, cols] array."""
    i, r = var("i"), var("r")
    x = load(0, r * var("cols") + i, compute)
    total = reduction(
        "r", ZERO, var("chunks"), ["acc"], [const(0, compute)], lambda acc: [acc[0] + x], lambda a, b: [a[0] + b[0]]
    )
    return Nest(
        "sum_rows",
        operands([compute], [code]),
        ("cols", "chunks"),
        rows(total, Store(1, i, cast(var("acc", compute), code)), vector=True),
    )


class RowNest:
    """Writes the nest of a program."""

    def __init__(self, program: RowProgram, spills: bool = True) -> None:
        self.program, self.spills = program, spills
        self.cols, self.row = var("cols"), var("i")
        self.first_out = len(program.operands)
        self.spilled: dict[int, int] = {}      # id of a node -> operand that already holds it
        self.cache: dict[tuple[int, Value | None], Value] = {}

    def leaf(self, number: int, j: Value | None) -> Value:
        operand = self.program.operands[number]
        if operand.kind == ROW:
            return var(f"in{number}", operand.read)
        index = j if operand.kind == COLUMN else self.row * self.cols + j
        return cast(load(number, index, operand.code), operand.read)

    def value(self, node: RowNode, j: Value | None) -> Value:
        """The element of `node` at column `j` of the present row."""
        key = (id(node), j)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = self.make(node, j)
        return found

    def make(self, node: RowNode, j: Value | None) -> Value:
        if node.operand is not None:
            return self.leaf(node.operand, j)
        if node.form == "fold":
            return var(node.name, node.code)
        if id(node) in self.spilled and j is not None:
            return load(self.spilled[id(node)], self.row * self.cols + j, node.code)
        return node.emit(self.value, j)

    # Order: one reducing loop per level, then one storing loop
    # ------------------------------------------------------------

    def folds(self) -> list[list[RowNode]]:
        levels: dict[int, list[RowNode]] = {}
        for node in reachable([node for node, _ in self.program.results]):
            if node.form == "fold":
                node.name = f"r{sum(map(len, levels.values()))}"
                levels.setdefault(node.level, []).append(node)
        return [levels[k] for k in sorted(levels)]

    def body(self) -> list[Statement]:
        result: list[Statement] = []
        for number, operand in enumerate(self.program.operands):
            if operand.kind == ROW:
                result.append(Local(f"in{number}", cast(load(number, self.row, operand.code), operand.read)))
        if self.program.bound is not None:
            index = var(f"in{self.program.bound}", self.program.operands[self.program.bound].read)
            inside = and_(ge(index, const(0, index.dtype)), lt(cast(index, "i64"), self.cols))
            # never 0 when it fails
            result.append(Check(inside, self.first_out + len(self.program.results), cast(index, "i64")))
        levels = self.folds()
        for depth, level in enumerate(levels):
            result += self.fold_level(level, depth, last=depth == len(levels) - 1)
        return result + self.stores()

    def fold_level(self, level: list[RowNode], depth: int, last: bool) -> list[Statement]:
        j = var(f"j{depth}")
        accs, init, spans = [], [], []
        for node in level:
            first = list(node.lowered.folding.fold.init(scalars, node.lowered.folding.compute))
            spans.append((len(init), len(init) + len(first)))
            init += first
            accs += [f"{node.name}.acc{k}" for k in range(len(first))]
        spill = self.spill(level, j) if last else []
        pairs = [(node, node.lowered.folding.fold, a, b) for node, (a, b) in zip(level, spans, strict=True)]

        def step(now: list[Value]) -> list[Value]:
            return [
                v for node, fold, a, b in pairs for v in fold.step(scalars, now[a:b], node.element(self.value, j), None)
            ]

        def merge(left: list[Value], right: list[Value]) -> list[Value]:
            return [v for _, fold, a, b in pairs for v in fold.merge(scalars, left[a:b], right[a:b])]

        loop = reduction(
            j.attr,
            ZERO,
            self.cols,
            accs,
            init,
            step,
            merge,
            body=spill,
            blocked=any(fold.blocked for _, fold, _, _ in pairs),
        )
        self.cache.clear()   # what was spilled is read back from here on
        done = []
        for node, fold, a, b in pairs:
            final = [var(name, v.dtype) for name, v in zip(accs[a:b], init[a:b], strict=True)]
            done.append(Local(node.name, cast(fold.finish(scalars, final, self.cols), node.code)))
        return [loop, *done]

    def spill(self, level: list[RowNode], j: Value) -> list[Statement]:
        """Keep an expensive element that the storing loop needs again in the output it will become."""
        full = [(k, node, code) for k, (node, code) in enumerate(self.program.results) if node.kind == FULL]
        if len(full) != 1 or not self.spills:
            return []
        number, out, code = full[0]
        again = {id(node) for node in reachable([out]) if node.form != "fold"}
        for node in [n for root in level for n in reachable([root.parts[0]]) if n.form != "fold"]:
            wanted = (
                id(node) in again
                and node.operand is None
                and node.kind == FULL
                and node is not out
                and node.code == code
            )
            if wanted and is_expensive(self.value(node, j)):
                value = self.value(node, j)
                self.spilled[id(node)] = self.first_out + number
                return [Store(self.first_out + number, self.row * self.cols + j, value)]
        return []

    def stores(self) -> list[Statement]:
        result: list[Statement] = []
        inner: list[Statement] = []
        j = var("j")
        for k, (node, code) in enumerate(self.program.results):
            target = self.first_out + k
            if node.kind == ROW:
                result.append(Store(target, self.row, cast(self.value(node, None), code)))
            elif node.kind == FULL:
                inner.append(Store(target, self.row * self.cols + j, cast(self.value(node, j), code)))
            else:   # a sum over rows: this chunk's partial row
                inner.append(
                    Store(
                        target,
                        var("chunk") * self.cols + j,
                        cast(self.value(node.parts[0], j), self.program.compute),
                        "add",
                    )
                )
        if inner:
            result.append(For("j", ZERO, self.cols, tuple(inner), vector=True))
        return result

    def nest(self) -> Nest:
        program, totals = self.program, self.program.totals()
        out_codes = [program.compute if node.kind == COLUMN else code for node, code in program.results]
        signature = operands(
            [o.code for o in program.operands], out_codes, ["i64"] if program.bound is not None else []
        )
        body = tuple(self.body())
        if not totals:
            return Nest(program.name, signature, ("cols",), rows(*body))
        chunk = var("chunk")
        clear = tuple(
            Store(self.first_out + k, chunk * self.cols + var("z"), const(0, program.compute)) for k in totals
        )
        start = chunk * var("per_chunk")
        inner = For("i", start, min_(start + var("per_chunk"), var("rows")), body)
        return Nest(
            program.name,
            signature,
            ("cols", "rows", "per_chunk"),
            rows(For("z", ZERO, self.cols, clear, vector=True), inner, name="chunk"),
        )


def is_expensive(value: Value) -> bool:
    """Whether recomputing costs more than reading back."""
    return any(v.op == "call" for v in walk([value]))
