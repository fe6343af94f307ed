"""Fused ops: a composite body over the rows of its arguments that eager mode runs as one kernel.

Enters: a definition whose `compute` is written with other ops: pointwise ops, and reductions over the row (the last
`row_dims` dims). Leaves: a plan of one generated row program: every op of the body is lowered as it would be alone, and
the scheduler makes one loop over rows of all of them. Half types are widened where they are read; from there on types
are what the ops say. The body also runs on real tensors, which is how layouts the kernel cannot read, devices without
it, and derivatives of any order are served. Refuses:
ops in the body that are neither pointwise nor reductions of whole rows.

    row operand kinds   full: the row's elements     row: one number per row     column: one row shared by all
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import _C
from ..base.shape import surely
from ..base.show import is_shown, show
from ..codegen.schedule import schedule_rows
from ..loops import expr
from ..loops.lowered import Lowered, Memory, NotLowerable, TwoPass, compute_code, folding_of
from ..loops.row_program import COLUMN, FULL, ROW, RowNode, RowOperand, RowProgram
from .definition import KIND_PLANNED, OpDefinition
from .indexed import copy_steps
from .pack import BY_CODE, packed
from .pointwise import Pointwise, check_devices
from .reduction import Reduction
from .registry import find_op, ops
from .results import result_type

FLOATS = frozenset(("f32", "f64"))


class Stand:
    """A tensor of the body while it is traced: its node, and a tensor of the same rank and type without data,
    of which ops may ask."""

    def __init__(self, node: RowNode, like: Any) -> None:
        self.node, self.like = node, like

    @property
    def dtype(self) -> Any:
        return self.like.dtype

    @property
    def ndim(self) -> int:
        return self.like.ndim

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "shape":
            raise AttributeError(f"{name}: a fused body is traced for rows of any length")
        return lambda *args, **kwargs: call(name, (self, *args), kwargs)

    def sum_to_size(self, size: Any) -> Stand:
        """The sum over all rows, one number per column."""
        return Stand(RowNode("total", COLUMN, self.node.code, (self.node,)), self.like)

    def to(self, dtype: Any) -> Stand:
        """Half types are widened in a kernel; others are converted."""
        code = compute_code(dtype.code)
        return self if code == self.node.code else call("to", (self, BY_CODE[code]), {})

    def __neg__(self) -> Stand:
        return call("neg", (self,), {})

    __hash__ = object.__hash__      # `==` is set below, and gives a tensor


def _operator(name: str, swap: bool = False) -> Any:
    def method(self: Stand, other: Any) -> Stand:
        return call(name, (other, self) if swap else (self, other), {})

    return method


for _symbol, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow"}.items():
    setattr(Stand, f"__{_symbol}__", _operator(_name))
    setattr(Stand, f"__r{_symbol}__", _operator(_name, swap=True))
for _symbol in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Stand, f"__{_symbol}__", _operator(_symbol))


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The op `name` applied to traced tensors: lowered as it would be for tensors of their types."""
    definition, bound = bind(name, args, kwargs)
    stands = [a for a in bound if isinstance(a, Stand)]
    if not isinstance(definition, (Pointwise, Reduction)):
        raise TypeError(
            f"{name}: a fused body may use pointwise ops and reductions, and this is a"
            f" {type(definition).__mro__[1].__name__}"
        )
    lowered = definition.lower(tuple([a.like if isinstance(a, Stand) else a for a in bound]))
    is_fold = isinstance(definition, Reduction)
    form, kind = ("fold", ROW) if is_fold else ("points", joined_kind([s.node for s in stands]))
    if form == "fold":
        check_whole_rows(name, lowered)
    result = []
    for k, code in enumerate(lowered.outs):
        node = RowNode(form, kind, compute_code(code), [s.node for s in stands], result_number(lowered, k))
        node.is_product = name == "mul" and len(stands) == 2 and {s.node.code for s in stands} == {node.code}
        result.append(Stand(node, like(lowered.shape, node.code)))
    return result[0] if len(result) == 1 else tuple(result)


def decayed(x: Any) -> Any:
    """exp of elements that are 0 or less, up to rounding."""
    if not isinstance(x, Stand) or x.node.code not in FLOATS:
        return x.exp()

    def body(at: Any, sources: Any) -> tuple:
        return (expr.call("exp_of_negative", sources[0].read(at)),)

    return Stand(points("decayed", (), [x.node], body), x.like)


def in_rows(name: str, x: Any, y: Any) -> Any:
    """mul or sub, as the last op of a body whose result lies in dense rows whatever the order of its input."""
    return call(name, (x, y), {}) if isinstance(x, Stand) else find_op(f"_{name}_rows")(x, y)


def multiply_add(x: Any, factor: Any, summand: Any) -> Any:
    """x * factor + summand; in kernels rounded once, where all are of one type."""
    parts = (x, factor, summand)
    codes = {v.node.code if isinstance(v, Stand) else None for v in parts}
    if len(codes) != 1 or not codes <= FLOATS:
        return x * factor + summand

    def body(at: Any, sources: Any) -> tuple:
        return (expr.fma(*[s.read(at) for s in sources]),)

    return Stand(points("multiply_add", (), [v.node for v in parts], body), x.like)


def points(name: str, how: tuple, parts: Sequence[RowNode], body: Any) -> RowNode:
    """A node of a scalar function of nodes of one type."""
    code = parts[0].code
    reads = tuple([Memory(f"x{k}", code, (), (), ()) for k in range(len(parts))])
    lowered = Lowered(name, (name, code, how), (), (), (code,), reads, body)
    return RowNode("points", joined_kind(parts), code, parts, lowered)


def bind(name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The first schema that takes these arguments, and the arguments by its order."""
    for overload in ops[name].overload_list:
        definition = overload.definition
        params = definition.spec.params
        names = [p.name for p in params]
        places = [p.name for p in params if not p.keyword_only]
        if len(args) > len(places) or any(k not in names or k in places[: len(args)] for k in kwargs):
            continue
        given = {**dict(zip(places, args, strict=False)), **kwargs}
        if all(p.name in given or not p.required for p in params) and all(
            not isinstance(given.get(p.name), Stand) or p.is_tensor for p in params
        ):
            return definition, [given.get(p.name, None if p.required else p.default) for p in params]
    raise TypeError(f"{name}: no signature for {len(args)} arguments in a fused body")


def joined_kind(nodes: Sequence[RowNode]) -> str:
    """What pointwise ops make of their operands' kinds."""
    kinds = {node.kind for node in nodes}
    return FULL if FULL in kinds or kinds == {ROW, COLUMN} else COLUMN if COLUMN in kinds else ROW


def check_whole_rows(name: str, lowered: Lowered) -> None:
    """A reduction in a fused body folds whole rows, in one pass, and keeps their dims."""
    folding = folding_of(lowered)
    whole = all((n == 1) or d in folding.reduced for d, n in enumerate(lowered.ranges) if n != OUTER)
    kept = len(lowered.shape) == len(lowered.ranges) and not any(
        lowered.ranges[d] == OUTER for d in folding.reduced
    )
    if not whole or not kept or isinstance(folding.fold, TwoPass) or folding.fold.uses_index:
        raise TypeError(f"{name}: a fused body folds whole rows, with keepdim=True, in one pass and without positions")


def result_number(lowered: Lowered, k: int) -> Lowered:
    """The Lowered of one result among several."""
    if len(lowered.outs) == 1:
        return lowered
    raise TypeError(f"{lowered.name}: an op of one result is expected in a fused body, got {len(lowered.outs)}")


OUTER, INNER = 2, 3      # sizes that stand for any number of rows, and for any length of them


def like(shape: Sequence[int], code: str) -> Any:
    """A tensor without data."""
    return _C.empty(tuple(shape), None, BY_CODE[code], _C.device("meta"))


def pick(x: Any, index: Any, dim: int = -1) -> Any:
    """The element of each row that a per-row index names; index is [..., 1] like a kept reduction."""
    if not isinstance(x, Stand):
        return x.gather(dim, index)
    return Stand(RowNode("pick", ROW, x.node.code, (x.node, index.node)), like(index.like.shape, x.node.code))


def column(x: Any, like: Any) -> Any:
    """Whether each element is the one its row's index names: 1 or 0."""
    if not isinstance(x, Stand):
        return like.new_zeros(like.shape).scatter(-1, x, 1.0)
    return Stand(RowNode("is_picked", FULL, like.node.code, (x.node,)), like.like)


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

    def ignored_index(self, *args: Any) -> int | None:
        """An index in `index_operand` that names no column and is no mistake."""
        return None

    def out_dtype(self, k: int, args: tuple) -> Any:
        """The dtype of output `k`."""
        return self.main(args).dtype

    def main(self, args: tuple) -> Any:
        """The first argument that holds whole rows: it sets shape, dtype and device."""
        shared = (*self.row_operands, *self.column_operands)
        return next(a for p, a in zip(self.spec.params, args, strict=True) if p.is_tensor and p.name not in shared)

    # Planning
    # ---------------------------------------------------------------------------------------------------------------

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
        program = self.program(args, tensors, count)
        return program.plan(
            [t for _, t in tensors], tuple(shape[: len(shape) - count]), tuple(shape[len(shape) - count :]), cols
        )

    def check_rows(self, tensors: list, main: Any, cols: int) -> None:
        """Every operand must have as many elements as its kind reads."""
        wanted = {FULL: main.numel(), ROW: main.numel() // cols, COLUMN: cols}
        for i, t in tensors:
            name = self.spec.params[i].name
            if t.numel() != wanted[self.kind_of(name)]:
                raise RuntimeError(
                    f"{self.name}: expected {wanted[self.kind_of(name)]} elements in {name}, got shape {list(t.shape)}"
                )
            if name == self.index_operand and (t.is_floating_point() or t.is_complex()):
                raise RuntimeError(f"{self.name}: expected integers in {name}, got {t.dtype.name}")

    def check(self, *args: Any) -> None:
        """Raise for arguments the op refuses."""

    def bad_index(self, index: int, cols: int) -> None:
        """Raise for a row index that names no column."""
        raise IndexError(f"{self.name}: index {index} is out of bounds for a row of {cols}")

    def lower(self, args: tuple) -> Lowered:
        raise NotLowerable(f"{self.name}: a row program of several loops. Lower the ops of its body.")

    def program(self, args: tuple, tensors: list, row_dims: int) -> TracedRows:
        """The body traced for these types; sizes that are symbols are no part of the key, and no body looks at them."""
        static = tuple(
            [
                (
                    None
                    if isinstance(a, _C.Tensor)
                    else (type(a), tuple([sizeless(n) for n in a]) if isinstance(a, (list, tuple)) else sizeless(a))
                )
                for a in args
            ]
        )
        ranks = (self.main(args).ndim, row_dims)
        key = (static, tuple([(i, t.dtype.code) for i, t in tensors]), ranks)
        cache = self.__dict__.setdefault("programs", {})
        found = cache.get(key)
        if found is None:
            found = cache[key] = TracedRows(self, key, args, tensors, *ranks)
        return found

    def kind_of(self, name: str) -> str:
        return ROW if name in self.row_operands else COLUMN if name in self.column_operands else FULL

    def run(self, *args: Any) -> Any:
        """The body itself, where there is no row to speak of."""
        return self.wrap(self.compute(*args))

    def wrap(self, result: Any) -> Any:
        names = self.spec.return_names
        return result_type(self.spec.name, names)(result) if names and isinstance(result, tuple) else result


def sizeless(n: Any) -> Any:
    """An argument as programs are told apart by: a size that is a symbol stands for all of them."""
    return "size" if isinstance(n, _C.SymbolicInt) else n


def stand_ins(size: int, count: int) -> tuple[int, ...]:
    """Sizes of `count` dims that bodies are traced with: enough longer than 1,
    and few enough that their product is a size."""
    return (size,) * min(count, 16) + (1,) * (count - 16)


class TracedRows:
    """One traced body: its row program, and how the outputs are shaped."""

    def __init__(self, definition: Fused, key: tuple, args: tuple, tensors: list, rank: int, row_dims: int) -> None:
        names = [definition.spec.params[i].name for i, _ in tensors]
        outer, inner = stand_ins(OUTER, rank - row_dims), stand_ins(INNER, row_dims)
        shapes = {FULL: (*outer, *inner), ROW: (*outer, *(1,) * row_dims), COLUMN: inner}
        operands, body_args = [], list(args)
        for k, (i, t) in enumerate(tensors):
            operands.append(RowOperand(t.dtype.code, definition.kind_of(names[k]), compute_code(t.dtype.code)))
            node = RowNode("leaf", operands[k].kind, operands[k].read, operand=k)
            body_args[i] = Stand(node, like(shapes[node.kind], node.code))
        result = definition.compute(*body_args)
        self.definition, self.single = definition, not isinstance(result, tuple)
        answers = [(k, r.node) for k, r in enumerate((result,) if self.single else result) if r is not None]
        self.dtypes = [definition.out_dtype(k, args) for k, _ in answers]
        results = tuple([(node, d.code) for (_, node), d in zip(answers, self.dtypes, strict=True)])
        bound = names.index(definition.index_operand) if definition.index_operand in names else None
        compute = compute_code(definition.main(args).dtype.code)
        ignored = definition.ignored_index(*args)
        self.rows = RowProgram(definition.name, (definition, key), tuple(operands), results, compute, bound, ignored)

    def plan(self, tensors: list, outer: tuple[int, ...], inner: tuple[int, ...], cols: int) -> Any:
        device, definition = tensors[0].device, self.definition
        count = 1
        for s in outer:
            count *= s
        shapes = {FULL: (*outer, *inner), ROW: (*outer, *(1,) * len(inner)), COLUMN: inner}
        slots = [
            ("new", d, shapes[node.kind], None, -1, 0)
            for d, (node, _) in zip(self.dtypes, self.rows.results, strict=True)
        ]
        names = definition.spec.return_names
        wrap = None if self.single else result_type(definition.spec.name, names) if names else None
        if device.type == "meta":
            return _C.Plan(len(tensors), device, slots, [], self.single, wrap)
        result = schedule_rows(self.rows, count, cols, device.type)
        if is_shown("schedule"):
            show("schedule", self.rows.name, str(result))
        steps = packed(result, device, definition.__dict__.setdefault("kernels", {}), slots, [])
        copies, moved = [], {}
        for k, t in enumerate(tensors):   # rows are read as they lie in memory: others are copied first
            if not t._is_contiguous():
                moved[k] = len(tensors) + len(slots)
                slots.append(("temp", t.dtype, tuple(t.shape), None, -1, 0))
                copies += copy_steps(device, t, k, (moved[k], 0), None)
        if moved:
            steps = [step._replace(operands=[moved.get(k, k) for k in step.operands]) for step in steps]
        on_error = (lambda index: definition.bad_index(index, cols)) if self.rows.bound is not None else None
        return _C.Plan(len(tensors), device, slots, [*copies, *steps], self.single, wrap, on_error)
