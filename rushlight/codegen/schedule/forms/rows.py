"""The nest of a row program: a reducing loop for each level of its folds, then one that stores.

Enters: a `RowProgram` (loops/row_program.py). Leaves: a nest over its rows, or over chunks of them where results are
sums over rows; on CPUs elements may wait for later loops, in a result or in memory of the kernel's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....loops.expr import Value, and_, cast, const, eq, fma, ge, load, lt, min_, or_, replace, var, walk
from ....loops.nest import Check, Fetch, For, Local, Nest, Operand, Statement, Store, operands, reduction, rows
from ....loops.row_program import COLUMN, FULL, ROW, RowNode, RowProgram, reachable
from ....loops.vocabulary import Scalars

ZERO = const(0, "i64")
CALL = 30                # instructions of a function such as exp
KEEPING = 6              # instructions that a store is worth: lines written so early are written to memory twice
HOLDING = 2              # instructions that a store to memory of the kernel's own is worth
scalars = Scalars()


class RowNest:
    """Writes the nest of a program."""

    def __init__(self, program: RowProgram, spills: bool = True, held: int = 0) -> None:
        """`spills`: elements may wait in a result for later loops; `held`: rows are no longer than that, and elements
        wait in memory of the kernel's own."""
        self.program, self.spills, self.held = program, spills, held
        self.cols, self.row = var("cols"), var("i")
        self.first_out = len(program.operands)
        self.own = self.first_out + len(program.results) + (program.bound is not None)
        self.spilled: dict[int, int] = {}      # id of a node -> operand that already holds it
        self.following: dict[int, int] = {}    # the same, behind the present loop
        self.waiting: str | None = None        # the type of what is kept
        self.cache: dict[tuple[int, Value | None], Value] = {}
        self.fetches: dict[int, list[tuple[int, Value]]] = {}      # by number of a loop: operands, and of which row

    def leaf(self, number: int, j: Value | None) -> Value:
        operand = self.program.operands[number]
        if operand.kind == ROW:
            return var(f"in{number}", operand.read)
        index = j if operand.kind == COLUMN else self.at(number, j)
        return cast(load(number, index, operand.code), operand.read)

    def at(self, number: int, j: Value) -> Value:
        """Where column `j` of the present row lies in an operand or result of whole rows, or in the kernel's own."""
        if number == self.own:
            return j
        return self.row * (var(f"line{number}") if number in self.program.lines else self.cols) + j

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
            return load(self.spilled[id(node)], self.at(self.spilled[id(node)], j), node.code)
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
            if self.program.ignored is not None:
                inside = or_(inside, eq(index, const(self.program.ignored, index.dtype)))
            # never 0 when it fails
            result.append(Check(inside, self.first_out + len(self.program.results), cast(index, "i64")))
        levels = self.folds()
        self.plan_fetches(levels)
        for depth in range(len(levels)):
            result += self.fold_level(levels, depth)
        return result + self.stores(levels)

    # What a loop reads from far away is asked for in another one
    # ------------------------------------------------------------

    def plan_fetches(self, levels: list[list[RowNode]]) -> None:
        """Which loop asks for the memory of which operand: for this row if it comes before the loop that reads it
        first, for the next row if it comes behind. Otherwise memory would rest while all but one of the loops run."""
        j = var("j")
        roots = [[node.element(self.value, j) for node in level] for level in levels]
        roots.append([self.value(n, j) for n in self.stored()])
        self.cache.clear()
        loops = [along(values, j) for values in roots]
        if not self.spills or len(loops) < 2:
            return
        work = [sum([CALL if v.op == "call" else 1 for v in loop]) for loop in loops]
        for number, operand in enumerate(self.program.operands):
            first = next((k for k, loop in enumerate(loops) if any(v.op == "load" and v.attr == number for v in loop)),
                         None)
            if operand.kind == FULL and first is not None:
                asked = [len(self.fetches.get(k, ())) for k in range(len(loops))]
                chosen = max((k for k in range(len(loops)) if k != first), key=lambda k: work[k] / (1 + asked[k]))
                row = self.row if chosen < first else self.row + const(1, "i64")
                self.fetches.setdefault(chosen, []).append((number, row))

    def fetched(self, loop: int, j: Value) -> list[Statement]:
        """What the loop asks for."""
        return [Fetch(number, row * self.cols + j) for number, row in self.fetches.get(loop, ())]

    def fold_level(self, levels: list[list[RowNode]], depth: int) -> list[Statement]:
        j = var(f"j{depth}")
        folding = LevelFolds(levels[depth])
        spill = self.spill(levels, depth, j)
        loop = reduction(
            j.attr,
            ZERO,
            self.cols,
            folding.accs,
            folding.init,
            lambda now: folding.step(self.value, j, now),
            folding.merge,
            body=[*spill, *self.fetched(depth, j)],
            blocked=folding.blocked,
        )
        self.end_level()
        return [loop, *folding.results(self.cols)]

    def end_level(self) -> None:
        """What was spilled is read back from here on."""
        self.cache.clear()
        self.spilled, self.following = self.following or self.spilled, {}

    def spill(self, levels: list[list[RowNode]], depth: int, j: Value) -> list[Statement]:
        """Keep an element that later loops need again, where computing it again would take longer than a store and a
        load: in memory of the kernel's own, or in the output that it will become."""
        full = [(k, node, code) for k, (node, code) in enumerate(self.program.results) if node.kind == FULL]
        if not self.spills or (not self.held and len(full) != 1):
            return []
        number, out, code = (self.own, None, None) if self.held else (self.first_out + full[0][0], *full[0][1:])
        own = self.read_in(levels[depth])
        later = [*[self.read_in(level) for level in levels[depth + 1 :]], self.read_from(self.stored())]
        best, chosen = 0.0, None
        for node in own.values():
            wanted = node.operand is None and node.kind == FULL and node is not out and code in (None, node.code)
            if wanted and id(node) not in self.spilled and (uses := sum(id(node) in loop for loop in later)):
                gain = uses * again(self.value(node, j), j) - (HOLDING if self.held else KEEPING)
                if gain > best and self.can_wait() and not self.needs_kept(levels, depth, node):
                    best, chosen = gain, node
        if chosen is None:
            return []
        kept = Local(f"kept{depth}", self.value(chosen, j))
        self.cache[id(chosen), j] = var(kept.name, chosen.code)
        self.following = {id(chosen): number}
        self.waiting = chosen.code
        return [kept, Store(number, self.at(number, j), var(kept.name, chosen.code))]

    def can_wait(self) -> bool:
        """Whether the kernel's own memory is free: what waits there stays to the end, as several loops may read it."""
        return not self.held or self.waiting is None

    def stored(self) -> list[RowNode]:
        """What the last loop computes for every element."""
        return [n.parts[0] if n.kind == COLUMN else n for n, _ in self.program.results if n.kind != ROW]

    def needs_kept(self, levels: list[list[RowNode]], depth: int, node: RowNode) -> bool:
        """Whether later loops read what is kept already, once `node` takes its place."""
        if not self.spilled:
            return False
        loops = [self.read_in(level, node) for level in levels[depth + 1 :]] + [self.read_from(self.stored(), node)]
        return any(kept in loop for loop in loops for kept in self.spilled)

    def read_in(self, level: list[RowNode], leaf: RowNode | None = None) -> dict[int, RowNode]:
        """The nodes that a loop of folds computes for every element."""
        return self.read_from([node.parts[0] for node in level], leaf)

    def read_from(self, roots: Sequence[RowNode], leaf: RowNode | None = None) -> dict[int, RowNode]:
        """The nodes that a loop computes for its roots, by id: those that other loops made are not looked into."""
        found: dict[int, RowNode] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) in found or node.form == "fold" or node is leaf:
                continue
            found[id(node)] = node
            if id(node) not in self.spilled:
                stack.extend(node.parts)
        return found

    def stores(self, levels: list[list[RowNode]]) -> list[Statement]:
        result: list[Statement] = []
        inner: list[Statement] = []
        last: list[Statement] = []       # what an output keeps for others is read before it is overwritten
        after: list[Statement] = []
        j = var("j")
        for k, (node, code) in enumerate(self.program.results):
            target = self.first_out + k
            if node.kind == ROW:
                result.append(Store(target, self.row, cast(self.value(node, None), code)))
            elif node.kind == FULL:
                value = cast(self.value(node, j), code)
                apart = self.picked_apart(value, j)
                if apart is not None:
                    value, own, place = apart
                    result.append(Local(f"own{k}", own))
                    after.append(Store(target, self.at(target, place), var(f"own{k}", code)))
                last.append(Store(target, self.at(target, j), value))
            else:   # a sum over rows: this chunk's partial row
                inner.append(
                    Store(
                        target,
                        var("chunk") * self.cols + j,
                        cast(self.value(node.parts[0], j), self.program.compute),
                        "add",
                    )
                )
        if inner or last:
            inner += [*last, *self.fetched(len(levels), j)]
            result.append(For("j", ZERO, self.cols, tuple(inner), vector=True))
        return result + after

    def picked_apart(self, value: Value, j: Value) -> tuple[Value, Value, Value] | None:
        """An element as if none were picked, the picked one, and its column; None where that is all one expression.

        The loop writes all of the row, and the picked element is written behind it: comparing positions takes a third
        of the loop's time otherwise. (Threads of a GPU share the loop, and would have to wait for each other.)"""
        asked = {v for v in along([value], j) if v.op == "cast" and v.args[0].op == "eq" and v.args[0].args[0] is j}
        if len(asked) != 1 or self.spilled or not self.spills:
            return None
        (test,) = asked
        column = test.args[0].args[1]
        plain, own = (replace(value, {test: const(is_picked, test.dtype)}) for is_picked in (0, 1))
        if any(v is test.args[0] for v in walk([plain])):
            return None
        return plain, replace(own, {j: column}), column

    def nest(self) -> Nest:
        program, totals = self.program, self.program.totals()
        out_codes = [program.compute if node.kind == COLUMN else code for node, code in program.results]
        signature = operands(
            [o.code for o in program.operands], out_codes, ["i64"] if program.bound is not None else []
        )
        body = tuple(self.body())
        if self.held and self.waiting:
            signature += (Operand(self.waiting, self.held),)
        if not totals:
            return Nest(program.name, signature, ("cols", *program.line_names()), rows(*body))
        chunk = var("chunk")
        clear = tuple(
            Store(self.first_out + k, chunk * self.cols + var("z"), const(0, program.compute)) for k in totals
        )
        start = chunk * var("per_chunk")
        inner = For("i", start, min_(start + var("per_chunk"), var("rows")), body)
        return Nest(
            program.name,
            signature,
            ("cols", "rows", "per_chunk", *program.line_names()),
            rows(For("z", ZERO, self.cols, clear, vector=True), inner, name="chunk"),
        )


class LevelFolds:
    """The folds of one level as the accumulators, steps and merges of one reducing loop."""

    def __init__(self, level: Sequence[RowNode]) -> None:
        self.accs: list[str] = []
        self.init: list[Value] = []
        self.spans: list[tuple[RowNode, Any, int, int]] = []      # each fold with its accumulators, from and to
        for node in level:
            fold, first = node.lowered.folding.fold, len(self.init)
            self.init += fold.init(scalars, node.lowered.folding.compute)
            self.accs += [f"{node.name}.acc{k}" for k in range(len(self.init) - first)]
            self.spans.append((node, fold, first, len(self.init)))
        self.blocked = any(fold.blocked for _, fold, _, _ in self.spans)

    def step(self, values: Any, j: Value, now: Sequence[Value]) -> list[Value]:
        return [
            rounded_once(v) if node.parts[0].is_product else v
            for node, fold, a, b in self.spans
            for v in fold.step(scalars, list(now[a:b]), node.element(values, j), None)
        ]

    def merge(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [v for _, fold, a, b in self.spans for v in fold.merge(scalars, list(left[a:b]), list(right[a:b]))]

    def results(self, cols: Value, form: type = Local, suffix: str = "") -> list[Statement]:
        """What the folds come to, once the loop is done."""
        done = []
        for node, fold, a, b in self.spans:
            final = [var(name, v.dtype) for name, v in zip(self.accs[a:b], self.init[a:b], strict=True)]
            done.append(form(node.name + suffix, cast(fold.finish(scalars, final, cols), node.code)))
        return done


def rounded_once(step: Value) -> Value:
    """A step that adds a product to its accumulator."""
    if step.op != "add" or step.args[0].op != "var" or step.args[1].op != "mul":
        return step
    return fma(*step.args[1].args, step.args[0])


def along(roots: Sequence[Value], j: Value) -> list[Value]:
    """What is computed for every element: all that depends on the loop's variable."""
    found: dict[Value, bool] = {}
    for value in walk(roots):
        found[value] = value is j or any(found[a] for a in value.args)
    return [value for value, depends in found.items() if depends]


def again(value: Value, j: Value) -> float:
    """Instructions that computing a value again takes more than reading it."""
    found = along([value], j)
    loads = sum([v.op == "load" for v in found])
    places = {id(a) for v in found if v.op == "load" for a in walk(v.args)}
    rest = [CALL if v.op == "call" else 1 for v in found if v.op != "load" and id(v) not in places]
    return sum(rest) + (loads - 1) / 2
