"""Overloads made for batches: the same op with one more leading dim on some of its arguments.

Enters: an overload and which of its arguments are batched. Leaves: an overload of the same signature for physical
tensors, kept with the definition. Its forward form comes from the kind (one more range, one more dim of a geometry, or
the body under vmap); its derivative is the op's own rule, run under vmap, so every level below may record it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..loops.expr import Value
from ..op.definition import KIND_PYTHON, OpDefinition
from ..op.extents import Extent, Untraceable
from ..op.extern import Spec
from ..op.indexed import At, Elements, Indexed, Scattered
from ..op.reduction import Reduction
from ..op.view import Geometry, View
from . import levels
from .levels import VmapLevel, batch, behind


def form(overload: Any, label: Any, make: Callable[[], OpDefinition]) -> Any:
    """The overload kept under `label` with a definition, made at the first call."""
    definition = overload.definition
    kept = definition.__dict__.setdefault("batched_forms", {})
    found = kept.get(label)
    if found is None:
        found = kept[label] = make().overload()
    return found


# --- the derivative under vmap ----------------------------------------------------------------------------------------


class PythonMeta:
    """Base of what stands for the core's TensorMeta where Python knows more of a tensor's shape."""


class ExampleMeta(PythonMeta):
    """Shape and type of one example, where a rule keeps no data; what it makes has the batch."""

    def __init__(self, meta: Any, level: VmapLevel) -> None:
        self.meta, self.level = meta, level
        self.shape, self.dtype, self.device = meta.shape[1:], meta.dtype, meta.device
        self.ndim, self.requires_grad = meta.ndim - 1, meta.requires_grad

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self.shape.numel()

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        strides = self.meta.stride()[1:]
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        return self.meta.storage_offset()

    def is_floating_point(self) -> bool:
        return self.meta.is_floating_point()

    def is_complex(self) -> bool:
        return self.meta.is_complex()

    def empty(self) -> Any:
        return batch(self.level, self.meta.empty(), 0)

    def zeros(self, shape: Any = None) -> Any:
        size = self.level.batch_size
        return batch(self.level, self.meta.zeros((size, *(self.shape if shape is None else shape))), 0)

    def full(self, value: Any) -> Any:
        return batch(self.level, self.meta.full(value), 0)

    def like(self, shape: Any = None, dtype: Any = None) -> ExampleMeta:
        full = (self.level.batch_size, *(self.shape if shape is None else shape))
        return ExampleMeta(self.meta.like(shape=full, dtype=dtype), self.level)


def under_vmap(definition: OpDefinition, saved: dict[str, int], mask: tuple) -> Callable | None:
    """The definition's vjp for batched arguments, as the tape calls it."""
    rule = definition.positional_vjp(saved)
    if rule is None:
        return None
    params = definition.spec.params
    order = [i for i, p in enumerate(params) if p.name in saved]
    tensor_params = [i for i, p in enumerate(params) if p.is_tensor]

    def vjp(g: Any, *values: Any) -> tuple:
        first = g if isinstance(g, _C.Tensor) else next(x for x in g if x is not None)
        level = VmapLevel(first.shape[0], "same")
        with levels.opened(level):
            shown = [example(v, mask[i], level) for i, v in zip(order, values, strict=False)]
            shown += [example(v, True, level) for v in values[len(order) :]]
            result = rule(
                tuple([example(x, True, level) for x in g]) if isinstance(g, tuple) else example(g, True, level), *shown
            )
        named = isinstance(result, dict)
        if not named and not isinstance(result, tuple):
            result = (result,)
        answers = []
        for k, i in enumerate(tensor_params):
            answers.append(gathered(result.get(params[i].name) if named else result[k], mask[i], level))
        return tuple(answers)

    return vjp


def example(value: Any, is_batched: Any, level: VmapLevel) -> Any:
    """A saved value as the rule for one example sees it."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, (_C.Tensor, _C.TensorMeta, PythonMeta)) for v in value):
        flags = is_batched if isinstance(is_batched, tuple) else (is_batched,) * len(value)
        return [example(v, f, level) for v, f in zip(value, flags, strict=True)]
    if not is_batched:
        return value
    if isinstance(value, (_C.TensorMeta, PythonMeta)):   # the second where vmap is nested, or the tensor is fake
        return ExampleMeta(value, level)
    return batch(level, value, 0) if isinstance(value, _C.Tensor) else value


def gathered(g: Any, is_batched: Any, level: VmapLevel) -> Any:
    """A gradient with the batch in front; summed over it where the argument was the same for all examples."""
    if isinstance(g, (list, tuple)):
        flags = is_batched if isinstance(is_batched, tuple) else (is_batched,) * len(g)
        return [gathered(x, f, level) for x, f in zip(g, flags, strict=True)]
    if g is None:
        return None
    w = behind(g, level)
    if is_batched:
        return (
            g.unsqueeze(0).expand((level.batch_size, *g.shape))
            if w is None
            else w.value if w.dim == 0 else w.value.movedim(w.dim, 0)
        )
    return g * level.batch_size if w is None else w.value.sum(w.dim)


class Derived(OpDefinition):
    """What batched forms share: signature, derivative and names of the op they serve."""

    inner: Any       # the op's definition, of the kind that a form is for

    def derive(self, inner: OpDefinition, mask: tuple) -> None:
        """Take over from `inner`; `mask` says which arguments have the batch."""
        self.inner, self.mask = inner, mask
        OpDefinition.__init__(self, inner.spec, inner.is_inplace)
        self.name = inner.name

    def records(self) -> bool:
        return self.inner.records()

    def saved_names(self) -> dict[str, int]:
        return self.inner.saved_names()

    def positional_vjp(self, saved: dict[str, int]) -> Callable | None:
        return under_vmap(self.inner, saved, self.mask)

    def mask_vjp(self) -> None:
        return None

    def examples(self, level: VmapLevel, args: tuple) -> tuple:
        """Physical arguments as examples of a level."""
        return tuple([example(a, m, level) for a, m in zip(args, self.mask, strict=True)])

    def size(self, args: tuple) -> int:
        """How many examples there are."""
        for a, m in zip(args, self.mask, strict=True):
            if m is True:
                return a.shape[0]
            if m:
                return next(t for t, is_batched in zip(a, m, strict=True) if is_batched).shape[0]
        raise AssertionError("a batched form needs a batched argument")


# --- bodies -----------------------------------------------------------------------------------------------------------


class Opaque(Derived):
    """An op with a body and a derivative of its own."""

    kind = KIND_PYTHON
    batch = "body"
    out = False

    def __init__(self, inner: OpDefinition, mask: tuple) -> None:
        self.derive(inner, mask)

    def run(self, *args: Any) -> Any:
        level = VmapLevel(self.size(args), "same")
        inner = self.inner
        with levels.opened(level):      # a graph calls this op too, whose body is not the program's code there either
            result = _C.own_call(getattr(inner, "compute", inner.run), *self.examples(level, args))
        given = {id(a) for a in args if isinstance(a, _C.Tensor)}
        # A result is a tensor of its own, also where the body hands an argument through.
        return levels.map_tensors(lambda t: t.clone() if id(t) in given else t, physical(result, level))


def physical(result: Any, level: VmapLevel) -> Any:
    """Results of a body with the batch in front."""
    return levels.map_tensors(lambda t: gathered(t, True, level), result)


def opaque_form(overload: Any, mask: tuple) -> Any:
    """The body under vmap."""
    return form(overload, ("body", mask), lambda: Opaque(overload.definition, mask))


# --- views ------------------------------------------------------------------------------------------------------------


class BatchedView(Derived, View):
    """A view of every example."""

    def __init__(self, inner: View) -> None:
        self.derive(inner, (True,) + (False,) * (len(inner.spec.params) - 1))
        self.cacheable = inner.cacheable

    def geometry(self, t: Any, *args: Any) -> Geometry | list[Geometry]:
        sizes, strides = tuple(t.shape), t.stride()
        if t._keys and hasattr(t, "_example"):      # its sizes may be symbols
            shown = t._example()
        else:
            shown = _C.alias(t, sizes[1:], strides[1:], t.storage_offset(), t.dtype)
        result = self.inner.geometry(shown, *args)
        return [self.with_batch(g, t) for g in result] if isinstance(result, list) else self.with_batch(result, t)

    def with_batch(self, g: Geometry, t: Any) -> Geometry:
        """One example's geometry, the batch in front of it."""
        stride = t.stride()[0]
        if g.dtype is not None and g.dtype.itemsize != t.dtype.itemsize:
            stride = stride * t.dtype.itemsize // g.dtype.itemsize
        return Geometry((t.shape[0], *g.sizes), (stride, *g.strides), g.offset, g.dtype, g.flips)


def view_form(overload: Any) -> Any:
    """The view of every example."""
    return form(overload, "view", lambda: BatchedView(overload.definition))


# --- reductions of everything -----------------------------------------------------------------------------------------


def row_form(overload: Any) -> Any:
    """A reduction without dims, folding each row of [batch, elements]."""
    return form(overload, "rows", lambda: row_reduction(overload.definition))


def row_reduction(inner: Reduction) -> Reduction:
    """A copy of the definition that folds dim 1."""

    class Rows(type(inner)):   # type: ignore[misc]   # a definition is a class, and this one is like it
        """Each row by itself; the derivative is that of one row, under vmap."""

        is_rows = True

        def __init__(self) -> None:
            OpDefinition.__init__(self, inner.spec, inner.is_inplace)
            self.name = inner.name

        def reduced_dims(self, t: Any, dim: Any) -> Any:
            return frozenset((1,))

        def positional_vjp(self, saved: dict[str, int]) -> Callable | None:
            return under_vmap(inner, saved, (True,) + (False,) * (len(inner.spec.params) - 1))

    return Rows()


# --- indexed ----------------------------------------------------------------------------------------------------------


class Example:
    """A batched tensor inside a loop body, at one example."""

    def __init__(self, elements: Elements | Example, at: Any) -> None:
        self.elements, self.at = elements, at
        self.operand: int = elements.operand
        self.code: str = elements.code
        self.ndim: int = elements.ndim - 1
        self.shape: tuple[Value, ...] = elements.shape[1:]
        self.strides: tuple[Value, ...] = elements.strides[1:]

    def place(self, at: Any) -> Any:
        return self.elements.place((self.at, *at))

    def __getitem__(self, at: Any) -> Any:
        return self.elements[(self.at, *(at if isinstance(at, tuple) else (at,)))]

    def broadcast(self, at: Any) -> Any:
        return self[tuple(at[len(at) - self.ndim :])]


class BatchedLoops(Derived):
    """What gather and scatter forms share: arguments prepared as examples, then seen with the batch."""

    def start(self, inner: OpDefinition, mask: tuple) -> None:
        self.derive(inner, mask)
        self.runtime = self.inner.runtime
        self.tables: dict[tuple, dict] = {}
        self.now: tuple = mask          # which prepared arguments have the batch
        self.logical: tuple = ()

    @property
    def kernels(self) -> dict:
        return self.tables.setdefault(self.now, {})

    def prepare(self, args: tuple) -> tuple | None:
        size = self.size(args)
        if isinstance(size, Extent):   # a batched tensor has numbers for sizes: the plan would be that of one shape
            raise Untraceable(self.name)
        level = VmapLevel(size, "same")
        with levels.opened(level):
            prepared = self.inner.prepare(self.examples(level, args))
        if prepared is None:
            return None
        self.now = tuple([flags(a, level) for a in prepared])
        self.logical = tuple([shape_only(a, level) for a in prepared])
        return levels.map_args(lambda t: gathered(t, True, level) if behind(t, level) is not None else t, prepared)

    def run(self, *args: Any) -> Any:
        level = VmapLevel(self.size(args), "same")
        with levels.opened(level):
            result = _C.own_call(self.inner.run, *self.examples(level, args))
        return args[0] if self.is_inplace else physical(result, level)

    def inside(self, at: At, args: tuple) -> tuple[At, tuple]:
        """Position and arguments as the loop body of one example sees them."""
        inner_at = At(at[1:])
        inner_at.checks = at.checks
        return inner_at, tuple([seen(a, m, at[0]) for a, m in zip(args, self.now, strict=True)])

    def index_error(self, index: int, dim: int, args: tuple) -> Exception:
        return self.inner.index_error(
            index, dim, tuple([a if a is not None else b for a, b in zip(self.logical, args, strict=True)])
        )


def flags(a: Any, level: VmapLevel) -> Any:
    """Whether a prepared argument has the batch; per item for lists."""
    if isinstance(a, _C.Tensor):
        return behind(a, level) is not None
    return (
        tuple([flags(x, level) for x in a])
        if isinstance(a, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in a)
        else False
    )


class _Logical:
    """What error messages need of an example."""

    def __init__(self, t: Any) -> None:
        self.shape, self.dtype, self.ndim = tuple(t.shape), t.dtype, t.ndim


def shape_only(a: Any, level: VmapLevel) -> Any:
    """An example's shape and type; None for other values."""
    return _Logical(a) if isinstance(a, _C.Tensor) else None


def seen(a: Any, is_batched: Any, at: Any) -> Any:
    """A kernel argument as the loop body of one example sees it."""
    if isinstance(a, list):
        marks = is_batched if isinstance(is_batched, tuple) else (is_batched,) * len(a)
        return [seen(x, m, at) for x, m in zip(a, marks, strict=True)]
    return Example(a, at) if is_batched and isinstance(a, (Elements, Example)) else a


class BatchedGather(BatchedLoops, Indexed):
    """A gather form with one more outer range."""

    def __init__(self, inner: Indexed, mask: tuple) -> None:
        self.start(inner, mask)

    def meta(self, *args: Any) -> Spec:
        spec = self.inner.meta(*self.stand_ins(args))
        return Spec((self.count(args), *spec.shape), spec.dtype)

    def count(self, args: tuple) -> int:
        return next(a.shape[0] if m is True else first_size(a, m) for a, m in zip(args, self.now, strict=True) if m)

    def stand_ins(self, args: tuple) -> tuple:
        """Examples without data, for rules that look at shapes only."""
        level = VmapLevel(0, "same")
        level.is_open = True
        return tuple([example(a, m, level) for a, m in zip(args, self.now, strict=True)])

    def loops(self, at: At, *args: Any) -> Any:
        inner_at, shown = self.inside(at, args)
        return self.inner.loops(inner_at, *shown)


def first_size(items: Any, marks: tuple) -> int:
    """The batch size, from the first batched item of a list."""
    return next(t.shape[0] for t, m in zip(items, marks, strict=True) if m)


class BatchedScatter(BatchedGather, Scattered):
    """A scatter form with one more outer range; the target always has the batch."""

    def plan(self, args: tuple) -> Any:
        if args[0].ndim == 1 and not self.is_inplace and self.inner.needs_dims:
            return None   # without dims of its own: the op has another way
        return Scattered.plan(self, args)

    def run(self, *args: Any) -> Any:
        if self.is_inplace:
            return Scattered.run(self, *args)
        return BatchedLoops.run(self, *args)

    def check(self, *args: Any) -> None:
        self.inner.check(*self.stand_ins(args))

    def space(self, *args: Any) -> tuple[int, ...]:
        return (args[0].shape[0], *self.inner.space(*self.stand_ins(args)))

    def serial(self, *args: Any) -> frozenset[int]:
        return frozenset([d + 1 for d in self.inner.serial(*self.stand_ins(args))])

    def writes(self, at: At, out: Elements, *args: Any) -> tuple[tuple, Any]:
        inner_at, shown = self.inside(at, args)
        place, value = self.inner.writes(inner_at, Example(out, at[0]), *shown)
        return (at[0], *place), value

    def combine(self, s: Any, old: Any, new: Any, *args: Any) -> Any:
        return self.inner.combine(s, old, new, *args)


def gather_form(overload: Any, mask: tuple) -> Any:
    """The gather form for arguments batched as `mask` says."""
    return form(overload, ("gather", mask), lambda: BatchedGather(overload.definition, mask))


def scatter_form(overload: Any, mask: tuple) -> Any:
    """The scatter form for arguments batched as `mask` says."""
    return form(overload, ("scatter", mask), lambda: BatchedScatter(overload.definition, mask))
