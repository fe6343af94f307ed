"""Row programs whose loops run as one, each a row behind the one before it.

Enters: a `RowProgram` without sums over rows and without indices to check. Leaves: a nest that sums up row i while it
measures row i - 1 and writes row i - 2. Memory is read and written all the time, where loops one after another leave
it at rest in all but the first and the last of them.

A chunk of rows takes as many turns more as there are stages before the last. Those stages that have no row in such a
turn work on the chunk's first or last one, and what comes of it is overwritten by the turn that is about that row, or
looked at by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....base.shape import is_below
from ....loops.expr import Value, cast, const, load, max_, min_, remainder, var, walk
from ....loops.nest import Assign, Fetch, For, Local, Nest, Operand, Statement, Store, operands, reduction, rows
from ....loops.row_program import FULL, ROW, RowNode, RowProgram, reachable
from ...text.primitives import SIZE
from ...text.targets import vector_bits
from ..forms.launch import GRAIN, Launch, Schedule
from ..forms.rows import ZERO, LevelFolds, RowNest, along

ONE = const(1, "i64")
SHORTEST = 64            # elements of a row: turns of shorter ones take longer than they gain
LONGEST = 2048           # the same: several rows wait in the nearest cache
LARGEST_CHUNKS = 4       # times as many rows to a chunk, where there are chunks enough for any number of threads
ENOUGH_CHUNKS = 64
AHEAD = 4096             # bytes before they are read that rows are asked for


def can_stagger(program: RowProgram, cols: int) -> bool:
    """Whether a program's loops can run as one, and gain by it: each result is a row's own, rows are of a length for
    it, one result has elements (where two have, both are written long before memory takes them), and no element needs
    a function that takes longer than memory does. Processors with wide vectors look far enough ahead by themselves."""
    if program.bound is not None or program.totals() or vector_bits() > 128:
        return False
    if not is_below(cols, LONGEST + 1) or is_below(cols, SHORTEST):
        return False
    nodes = reachable([node for node, _ in program.results])
    return (
        [node.kind for node, _ in program.results].count(FULL) == 1
        and any(node.form == "fold" for node in nodes)
        and not any(calls_function(node) for node in nodes)
    )


def calls_function(node: RowNode) -> bool:
    """Whether elements of a node are made by functions such as exp."""
    if node.form != "points" or node.kind != FULL:
        return False
    return any(v.op == "call" for v in walk([node.emit(lambda part, j: var("x", part.code), var("j"))]))


def schedule_staggered(program: RowProgram, count: int, cols: int, distances: tuple[int, ...]) -> Schedule:
    """One launch over chunks of rows."""
    each = max(1, GRAIN // max(1, cols))
    if isinstance(count, int):
        each = max(each, min(each * LARGEST_CHUNKS, count // ENOUGH_CHUNKS))
    numbers = tuple(range(len(program.operands) + len(program.results)))
    key, params = ("staggered rows", program.key), (cols, count, each, *distances)
    launch = Launch(key, lambda: StaggeredNest(program).nest(), numbers, params, -(-count // each), 1)
    return Schedule((launch,))


class StaggeredNest(RowNest):
    """Writes the nest."""

    def __init__(self, program: RowProgram) -> None:
        super().__init__(program, True, LONGEST)
        self.stage, self.stages = 0, 0
        self.level_of: dict[int, int] = {}      # of folds, by id
        self.requested: set[int] = set()        # operands whose next rows are asked for

    # Where a stage looks
    # ------------------------------------------------------------

    def enter(self, stage: int) -> None:
        """From here on values are those of the row that the stage works on."""
        self.stage, self.row = stage, var(f"row{stage}")
        self.cache.clear()

    def leaf(self, number: int, j: Value | None) -> Value:
        operand = self.program.operands[number]
        if operand.kind == ROW:
            return var(f"in{number}.{self.stage}", operand.read)
        return super().leaf(number, j)

    def at(self, number: int, j: Value) -> Value:
        return var(f"place{self.stage}") + j if number == self.own else super().at(number, j)

    def make(self, node: RowNode, j: Value | None) -> Value:
        if node.form == "fold":
            return var(f"{node.name}.{self.stage - self.level_of[id(node)]}", node.code)
        return super().make(node, j)

    # Statements
    # ------------------------------------------------------------

    def begin_row(self) -> list[Statement]:
        """The rows of the stages, where elements of them wait, and their numbers."""
        result: list[Statement] = []
        turn, count = var("turn"), const(self.stages, "i64")
        for stage in range(self.stages):
            row = turn - const(stage, "i64")
            inside = max_(min_(row, var("stop") - ONE), var("start"))
            result.append(Local(f"row{stage}", inside))
            if self.waiting:
                result.append(Local(f"place{stage}", remainder(row + count, count) * self.cols))
            for number, operand in enumerate(self.program.operands):
                if operand.kind == ROW:
                    value = cast(load(number, var(f"row{stage}"), operand.code), operand.read)
                    result.append(Local(f"in{number}.{stage}", value))
        return result

    def asked(self, values: Sequence[Value], j: Value) -> list[Statement]:
        """Requests for what the present stage is the first to read: processors predict single streams, and these are
        many."""
        result: list[Statement] = []
        for number in dict.fromkeys(v.attr for v in along(values, j) if v.op == "load"):
            is_row = number < self.first_out and self.program.operands[number].kind == FULL
            if is_row and number not in self.requested:
                self.requested.add(number)
                distance = const(AHEAD // SIZE[self.program.operands[number].code], "i64")
                result.append(Fetch(number, self.at(number, j) + distance))
        return result

    def loops(self) -> tuple[list[Statement], list[Statement], list[Statement]]:
        """What goes before all turns, what each turn does in its loop and around it, and what it leaves to the next."""
        levels = self.folds()
        self.stages = len(levels) + 1
        self.level_of = {id(node): depth for depth, level in enumerate(levels) for node in level}
        j = var("j")
        folds = [LevelFolds(level) for level in levels]
        body: list[Statement] = []
        steps: list[Value] = []
        for depth, own in enumerate(folds):
            self.enter(depth)
            spill = self.spill(levels, depth, j)
            now = [var(name, v.dtype) for name, v in zip(own.accs, own.init, strict=True)]
            found = own.step(self.value, j, now)
            body += [*self.asked([*[s.value for s in spill], *found], j), *spill]
            steps += found
            self.end_level()
        self.enter(len(levels))
        body += self.asked([self.value(n, j) for n in self.stored()], j)
        around: list[Statement] = []
        for k, (node, code) in enumerate(self.program.results):
            target = self.first_out + k
            if node.kind == ROW:
                around.append(Store(target, self.row, cast(self.value(node, None), code)))
            else:
                body.append(Store(target, self.at(target, j), cast(self.value(node, j), code)))
        sizes = [len(own.init) for own in folds]

        def merge(left: list[Value], right: list[Value]) -> list[Value]:
            found, first = [], 0
            for own, size in zip(folds, sizes, strict=True):
                found += own.merge(left[first : first + size], right[first : first + size])
                first += size
            return found

        accs, init = [a for own in folds for a in own.accs], [v for own in folds for v in own.init]
        blocked = any(own.blocked for own in folds)
        around.append(reduction("j", ZERO, self.cols, accs, init, lambda now: steps, merge, body, blocked))
        before: list[Statement] = []
        after: list[Statement] = []
        for depth, own in enumerate(folds):
            for node in levels[depth]:
                before += [Local(f"{node.name}.{lag}", const(0, node.code)) for lag in range(1, self.stages - depth)]
                after += [
                    Assign(f"{node.name}.{lag}", var(f"{node.name}.{lag - 1}", node.code))
                    for lag in range(self.stages - depth - 1, 1, -1)
                ]
            after += own.results(self.cols, Assign, ".1")
        return before, around, after

    def nest(self) -> Nest:
        program = self.program
        before, around, after = self.loops()
        body = (*self.begin_row(), *around, *after)
        signature = operands([o.code for o in program.operands], [code for _, code in program.results])
        if self.waiting:
            signature += (Operand(self.waiting, self.held * self.stages),)
        per_chunk = var("per_chunk")
        chunk = [
            Local("start", var("chunk") * per_chunk),
            Local("stop", min_(var("start") + per_chunk, var("rows"))),
            *before,
            For("turn", var("start"), var("stop") + const(self.stages - 1, "i64"), body),
        ]
        return Nest(
            program.name, signature, ("cols", "rows", "per_chunk", *program.line_names()), rows(*chunk, name="chunk")
        )
