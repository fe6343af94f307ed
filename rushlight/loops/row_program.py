"""Row programs: ops over the rows of their operands, as a graph of Lowereds that one kernel runs.

Enters: nodes made by tracing a composite body (op/fused.py), each an op's Lowered and the nodes it reads. Leaves: a
`RowProgram`, which a scheduler turns into one loop over rows holding one reducing loop per level of folds and one
storing loop.

    kinds of nodes      full: a row's elements     row: one number per row     column: one row shared by all
    forms of nodes      leaf: an operand           points: a pointwise op      fold: a reduction of the row
                        pick: the element a row's index names                  is_picked: whether an element is the one
                        total: the sum over all rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .expr import Value, cast, const, eq
from .lowered import HERE, Given, Lowered, Memory, body_of
from .record import Record

FULL, ROW, COLUMN = "full", "row", "column"
Values = Callable[["RowNode", Value | None], Value]


class RowNode:
    """One tensor of the body: of which kind it is, its type, and what makes it."""

    def __init__(
        self,
        form: str,
        kind: str,
        code: str,
        parts: Sequence[RowNode] = (),
        lowered: Lowered | None = None,
        operand: int | None = None,
    ) -> None:
        self.form, self.kind, self.code, self.parts, self.lowered, self.operand = (
            form,
            kind,
            code,
            tuple(parts),
            lowered,
            operand,
        )
        self.level: int = max([p.level for p in self.parts], default=0) + (form == "fold")
        self.name = ""            # of the local that holds a fold's result
        self.is_product = False   # of two parts, and a sum that reads it may round once

    def _op(self) -> Lowered:
        assert self.lowered is not None, f"{self.form}: only pointwise ops and folds have a body"
        return self.lowered

    def emit(self, values: Values, j: Value | None) -> Value:
        """Its element at column `j`, from those of its parts: `values(node, j)`."""
        if self.form == "points":
            left = iter(self.parts)
            sources = [
                Given(values(next(left), j)) if isinstance(r, Memory) else Given(const(r.value, r.code))
                for r in self._op().reads
            ]
            return cast(body_of(self._op())(HERE, sources)[0], self.code)
        if self.form == "pick":
            return values(self.parts[0], cast(values(self.parts[1], None), "i64"))
        assert self.form == "is_picked" and j is not None, self.form
        return cast(eq(j, cast(values(self.parts[0], None), "i64")), self.code)

    def element(self, values: Values, j: Value) -> Value:
        """What a fold folds, at column `j`."""
        return body_of(self._op())(HERE, [Given(values(self.parts[0], j))])[0]


class RowOperand(Record):
    """An operand: its type in memory, its kind, and the type it is read as."""

    code: str
    kind: str
    read: str


class RowProgram(Record):
    """The whole: operands, results with the types they are stored as,
    and which operand holds indices of columns to check."""

    name: str
    key: tuple
    operands: tuple[RowOperand, ...]
    results: tuple[tuple[RowNode, str], ...]
    compute: str                 # the type sums over rows are kept in
    bound: int | None
    ignored: int | None = None   # an index that names no column and may be there
    lines: tuple[int, ...] = ()  # operands, then results, of whole rows whose rows lie further apart than they are long

    def line_names(self) -> tuple[str, ...]:
        """The parameters that say how far."""
        return tuple([f"line{number}" for number in self.lines])

    def totals(self) -> list[int]:
        """Which results are sums over rows."""
        return [k for k, (node, _) in enumerate(self.results) if node.kind == COLUMN]


def reachable(roots: Sequence[RowNode]) -> list[RowNode]:
    """The nodes below `roots`, and these, each once."""
    found, stack, order = set(), list(roots), []
    while stack:
        node = stack.pop()
        if id(node) in found:
            continue
        found.add(id(node))
        order.append(node)
        stack.extend(node.parts)
    return order
