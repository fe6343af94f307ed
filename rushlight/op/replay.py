"""Composites that the core replays: a body written down once, as one plan.

Enters: a composite definition whose class says `replays = True`, and the arguments of a call. Its body runs on
`Sketch`es, tensors of sizes and strides without elements; each op that it calls adds the steps of its own plan, views
are places in what they look at, and what lies between is memory of the plan. Leaves: a plan, for one shape or, where
sizes are `Extent`s, for many; None where the body wants more than layouts (elements, memory of its own, an op that
only Python runs), and then it runs in Python as before. The core replays a plan only where
nobody has to see the ops of the body: no gradient is recorded, no mode, subclass, transform or profiler looks on.
"""

from __future__ import annotations

from ctypes import string_at
from functools import partial
from typing import Any

from .. import _C
from ..base.bits import BITS
from ..base.shape import or_one
from ..loops.lowered import NotLowerable
from .extents import _OWN, _SAME, Extent, Outline, Untraceable
from .layout import Layout, by_stride, strides_in
from .pack import BY_CODE, lowered_steps
from .registry import KIND_POINTWISE, KIND_PYTHON
from .step import Step

CONSTANT = 1 << 30      # from here on, "slots" are numbers that travel with the steps
MOST_CONSTANT = 1 << 12 # bytes of one of them
_HELD = frozenset(("slot", "start", "extents", "writing", "_fresh", "_is_elsewhere", "detach", "is_plain"))
_LOOKED_AT = (_OWN - {"expand", "permute"}) | _SAME | _HELD


class Sketch(Outline):
    """A tensor of a body that is being written down: where its elements are in the plan, and how they lie."""

    __torch_function__ = _C._disabled_torch_function_impl
    own_ops = True
    _is_elsewhere = False
    slot: int               # of the plan, whose inputs come first
    is_plain: bool          # its sizes and strides are those of one shape
    start: Any              # elements before its first one
    writing: Writing

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise Untraceable(func)

    @classmethod
    def __compose__(cls, overload: Any, args: tuple) -> Any:
        writing = next(t.writing for t in tensors_in(args) if isinstance(t, Sketch))
        return writing.call(overload, tuple([writing.held(a) for a in args]))

    # Of plain numbers the core knows the answer; others are a program's.
    def _is_contiguous(self) -> bool:
        return _C.Tensor._is_contiguous(self) if self.is_plain else Outline._is_contiguous(self)

    def _is_channels_last(self) -> bool:
        return _C.Tensor._is_channels_last(self) if self.is_plain else Outline._is_channels_last(self)

    def _is_dense(self) -> bool:
        return _C.Tensor._is_dense(self) if self.is_plain else Outline._is_dense(self)

    def _overlaps_itself(self) -> bool:
        return _C.Tensor._overlaps_itself(self) if self.is_plain else Outline._overlaps_itself(self)

    def _fresh(self, shape: Any, strides: Any, dtype: Any, device: Any) -> Sketch:
        """Memory for a result of an op on this tensor."""
        if _C.device(device).type != "cpu":
            raise Untraceable(device)
        return self.writing.fresh(tuple(shape), strides, dtype)

    def detach(self) -> Sketch:      # nothing is recorded here
        return self.writing.sketch(self.dtype, *self.extents, self.slot, self.start)

    def _wants_elements(self, *args: Any) -> Any:
        raise Untraceable("elements")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = __len__ = __contains__ = _wants_elements
    __getitem__ = __setitem__ = _wants_elements

    def __getattribute__(self, name: str) -> Any:
        if name in _LOOKED_AT:
            return object.__getattribute__(self, name)
        attribute = getattr(_C.Tensor, name, None)
        if isinstance(attribute, _C.Op):
            return partial(attribute, self)
        raise Untraceable(name)


class Writing:
    """The plan that a body becomes."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.inputs: list[Sketch] = []
        self.slots: list[tuple] = []
        self.steps: list[Step] = []
        self.constants: list[bytes] = []
        self.made: list[Sketch] = []        # results of ops that are no views

    def sketch(self, dtype: Any, sizes: tuple, strides: tuple, slot: int, start: Any = 0) -> Sketch:
        """A tensor of these numbers; the core's own part of it has those of this call, and no memory."""
        result = _C.make_wrapper(Sketch, hints(sizes), hints(strides), dtype, self.device)
        result.is_plain = not any(isinstance(n, Extent) for n in (*sizes, *strides))
        result.extents, result.slot, result.start, result.writing = (tuple(sizes), tuple(strides)), slot, start, self
        return result

    def given(self, value: Any) -> Any:
        """An argument of the composite with sketches in the place of tensors, in the order of the plan's inputs."""
        if isinstance(value, (tuple, list)):
            return type(value)([self.given(v) for v in value]) if type(value) in (tuple, list) else value
        if not isinstance(value, _C.Tensor):
            return value
        if value.device.type != "cpu" or value._keys & (BITS if isinstance(value, Outline) else ~0):
            raise Untraceable("elements that memory does not hold as they are")
        result = self.sketch(value.dtype, tuple(value.shape), value.stride(), len(self.inputs))
        self.inputs.append(result)
        return result

    def held(self, value: Any) -> Any:
        """An argument of an op in the body: numbers that the body made of nothing but sizes travel with the steps."""
        if isinstance(value, (tuple, list)):
            return type(value)([self.held(v) for v in value]) if type(value) in (tuple, list) else value
        if not isinstance(value, _C.Tensor) or (isinstance(value, Sketch) and value.writing is self):
            return value
        if isinstance(value, Outline) or value._keys or value.device.type != "cpu" or value.requires_grad:
            raise Untraceable("a tensor of somebody else's")
        if not 0 < value.numel() * value.itemsize <= MOST_CONSTANT:
            raise Untraceable("more memory than a step should hold")
        value = value.contiguous()
        self.constants.append(string_at(value.data_ptr(), value.numel() * value.itemsize))
        return self.sketch(value.dtype, tuple(value.shape), value.stride(), CONSTANT + len(self.constants) - 1)

    def slot(self, *slot: Any) -> int:
        self.slots.append(slot)
        return len(self.inputs) + len(self.slots) - 1

    # What ops of the body do
    # ---------------------------------------------------------------------------------------------------------------

    def call(self, overload: Any, args: tuple) -> Any:
        definition = overload.definition
        if overload.overridden or definition.custom:
            raise Untraceable("a kernel of the program's own")
        if hasattr(definition, "geometry"):
            return self.view(definition, args)
        if definition.is_composite and not definition.is_inplace and definition.is_planned(args):
            return definition.compute(*args)
        if definition.is_inplace:
            return self.overwrite(definition, args)
        if definition.kind != KIND_PYTHON and definition.is_planned(args):
            return (self.points if definition.kind == KIND_POINTWISE else self.planned)(definition, args)
        if definition.replays and definition.batch != "random":      # written with other ops where it has no plan
            return definition.run(*args)
        raise Untraceable(definition.name)

    def view(self, definition: Any, args: tuple) -> Any:
        found, source = definition.geometry(*args), args[0]
        if not definition.cacheable:
            raise Untraceable(definition.name)

        def seen(g: Any) -> Sketch:
            if g.dtype not in (None, source.dtype) or g.flips:
                raise Untraceable(definition.name)
            return self.sketch(source.dtype, g.sizes, g.strides, source.slot, source.start + g.offset)

        return tuple([seen(g) for g in found]) if isinstance(found, list) else seen(found)

    def fresh(self, sizes: tuple, strides: Any, dtype: Any) -> Sketch:
        """Memory that nobody wrote to yet."""
        strides = None if strides is None else tuple(strides)
        return self.sketch(dtype, sizes, strides or rows_of(sizes), self.slot("temp", dtype, sizes, strides, 0, 0))

    def overwrite(self, definition: Any, args: tuple) -> Any:
        """A pointwise op in place, over all of what the body made and of nothing else."""
        target = args[0]
        if definition.kind != KIND_POINTWISE or not definition.is_planned(args) or definition.divisor:
            raise Untraceable(definition.name)
        read = [args[i] for i in definition.operand_indices(args) if isinstance(args[i], Sketch)]
        is_own = len(self.inputs) <= target.slot < CONSTANT and target.start == 0
        if not is_own or any(t.slot == target.slot and t is not target for t in read):
            raise Untraceable("a write to an argument, or to part of what is read")
        lowered = definition.lower(args)
        if not read:      # numbers alone: for every element
            lowered = lowered.but(shape=target.shape, ranges=target.shape)
        fits = target._is_contiguous() and lowered.shape == target.shape and lowered.outs == (target.dtype.code,)
        if not fits or len(read) != len(lowered.memories):
            raise Untraceable(definition.name)
        first = len(read)
        slots: list = [("new", target.dtype, lowered.shape, None, 0, 0)]
        steps = lowered_steps(lowered, self.device, definition.__dict__.setdefault("replayed", {}), slots)
        places = [(t.slot, t.start * t.dtype.itemsize) for t in read] + [(target.slot, 0)]
        if len(slots) > 1 or first + 1 != len(places):
            raise Untraceable(definition.name)
        self.steps += [self.placed(step, places, None) for step in steps]
        return target

    def points(self, definition: Any, args: tuple) -> Any:
        """A pointwise op: its loop, over a result that lies as the core would lay it out."""
        if definition.returns_itself(args):
            return args[0]
        try:
            lowered = definition.lower(args)
        except NotLowerable:
            raise Untraceable(definition.name) from None
        if (definition.divisor and lowered.reads[0].code[0] in "iu") or not lowered.aligned:
            raise Untraceable(definition.name)
        operands = tensors_in(args)
        strides = self.result_strides(definition.layout, lowered.shape, operands)
        if strides is not None and not is_in_rows(lowered.shape, strides):
            return self.turned_points(definition, args, lowered.shape, strides)
        slots = [("new", BY_CODE[code], lowered.shape, None, 0, 0) for code in lowered.outs]
        steps = lowered_steps(lowered, self.device, definition.__dict__.setdefault("replayed", {}), slots)
        results = self.add(operands, slots, steps, None)
        return results[0] if len(results) == 1 else tuple(results)

    def turned_points(self, definition: Any, args: tuple, shape: tuple, strides: tuple) -> Any:
        """The same with the dims of all operands in the order in which the result lies, which is turned back."""
        order = list(reversed(by_stride(shape, strides)))
        back = [order.index(d) for d in range(len(order))]

        def turned(a: Any) -> Any:
            if not isinstance(a, Sketch):
                return a
            sizes, own = Outline.expand(a, shape).extents
            return self.sketch(a.dtype, tuple(sizes[d] for d in order), tuple(own[d] for d in order), a.slot, a.start)

        found = self.points(definition, tuple([turned(a) for a in args]))

        def seen(t: Sketch) -> Sketch:
            sizes, own = t.extents
            return self.sketch(t.dtype, tuple(sizes[d] for d in back), tuple(own[d] for d in back), t.slot)

        return tuple([seen(t) for t in found]) if isinstance(found, tuple) else seen(found)

    def result_strides(self, layout: Layout, shape: tuple, operands: list) -> tuple | None:
        if layout is Layout.ROWS:
            return None
        if layout is not Layout.OWN:
            return strides_in(layout, operands[0])
        if all(t._is_contiguous() and (t.shape == shape or t.ndim == 0) for t in operands):
            return None
        from ..symbols.geometry import pointwise_strides  # noqa: PLC0415 - most programs never need it

        return pointwise_strides(tuple(shape), [t.extents for t in operands])

    def planned(self, definition: Any, args: tuple) -> Any:
        """The steps of the plan that the op would have alone."""
        before = _C.keep_parts(True)
        try:
            plan = definition.plan(args)
        finally:
            _C.keep_parts(before)
        if plan is None and definition.replays:
            return definition.run(*args)
        if not isinstance(plan, _C.Plan) or plan.calls_python or plan.parts is None or plan.requires_grad:
            raise Untraceable(definition.name)
        steps, on_error = plan.parts
        results = self.add(tensors_in(args), plan.outputs, steps, on_error)
        if plan.single:
            return results[0]
        return definition.wrap(tuple(results)) if hasattr(definition, "wrap") else tuple(results)

    def add(self, operands: list, slots: Any, steps: Any, on_error: Any) -> list[Sketch]:
        """Steps of a plan with slots of its own, behind those that are there; what it makes is only between now."""
        places = [(t.slot, t.start * t.dtype.itemsize) for t in operands]
        results: list[Sketch] = []
        for kind, dtype, sizes, strides, source, offset, *flips in slots:
            if kind not in ("new", "temp") or (flips and flips[0]):
                raise Untraceable(f"a result that is {kind} of slot {source}, {offset}")
            number = self.slot("temp", dtype, tuple(sizes), strides, 0, 0)
            places.append((number, 0))
            if kind == "new":
                results.append(self.sketch(dtype, tuple(sizes), strides or rows_of(sizes), number))
                self.made.append(results[-1])
        self.steps += [self.placed(step, places, on_error) for step in steps]
        return results

    def placed(self, step: Step, places: list, on_error: Any) -> Step:
        step = Step(*step)
        own = bytearray(step.constants)

        def operand(given: Any) -> Any:
            slot, start = given if isinstance(given, tuple) else (given, 0)
            if slot < 0:
                return given
            place, before = places[slot]
            if place < CONSTANT:
                return place, before + start
            own.extend(bytes(-len(own) % 64))
            own.extend(self.constants[place - CONSTANT])
            return -1, len(own) - len(self.constants[place - CONSTANT]) + before + start

        operands = [operand(o) for o in step.operands]
        step = step._replace(operands=operands, constants=bytes(own))
        if step.error < 0:
            return step
        return step._replace(error=places[step.error][0], on_error=step.on_error or on_error)

    # What the body returns
    # ---------------------------------------------------------------------------------------------------------------

    def plan(self, result: Any, may_alias: bool) -> Any:
        single = isinstance(result, Sketch)
        given = [result] if single else result
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(r, Sketch) for r in given):
            raise Untraceable("a result that is no tensor")
        wrap = None if single or type(given) is tuple else list if type(given) is list else type(given)
        returned: list[int] = []
        for sketch in given:
            returned.append(self.output(sketch, may_alias, returned))
        if len(returned) > 1 and any(slot[0] == "base" for slot in self.slots):
            raise Untraceable("several results, one of them a view of a copy")
        if returned != sorted(returned):
            self.put_in_order(returned)
        return _C.Plan(len(self.inputs), self.device, self.slots, self.steps, single, wrap)

    def output(self, sketch: Sketch, may_alias: bool, returned: list[int]) -> int:
        """The slot of a result: fresh memory with the sizes it is seen with, the argument itself, a view of it, or a
        view of what the body made, which is kept behind it."""
        first, (sizes, strides) = len(self.inputs), sketch.extents
        if sketch.slot < first:
            source = self.inputs[sketch.slot]
            if sketch is source:
                return self.slot("arg", sketch.dtype, (), None, sketch.slot, 0)
            if not may_alias or sketch.slot:
                raise Untraceable("a view of an argument")
            return self.slot("view", sketch.dtype, sizes, strides, sketch.slot, sketch.start)
        if sketch.slot >= CONSTANT:
            raise Untraceable("numbers that the body made")
        kind, dtype, own, laid, *_ = self.slots[sketch.slot - first]
        if may_alias and not any(sketch is made for made in self.made):
            if kind != "temp":
                raise Untraceable("a view of a result")
            self.slots[sketch.slot - first] = ("base", dtype, own, laid, -1, 0)
            return self.slot("view", sketch.dtype, sizes, strides, sketch.slot, sketch.start)
        room, numel = 1, 1
        for n in own:
            room = room * n
        for n in sizes:
            numel = numel * n
        if kind != "temp" or sketch.start != 0 or room != numel or sketch.slot in returned:
            raise Untraceable("part of what the body made")
        if (not is_in_rows(own, laid) and not self.sketch(dtype, own, laid, 0)._is_dense()) or not sketch._is_dense():
            raise Untraceable("what the body made, with gaps")
        in_rows = sketch._is_contiguous() and tuple(strides) == rows_of(sizes)    # those of single elements included
        self.slots[sketch.slot - first] = ("new", dtype, sizes, None if in_rows else strides, -1, 0)
        return sketch.slot

    def put_in_order(self, returned: list[int]) -> None:
        """Give the slots of results numbers that rise as the body returns them, behind all others."""
        first = len(self.inputs)
        order = [k for k in range(first, first + len(self.slots)) if k not in returned] + returned
        numbers = {old: first + new for new, old in enumerate(order)}
        self.slots = [self.slots[k - first] for k in order]

        def numbered(given: Any) -> Any:
            slot, start = given if isinstance(given, tuple) else (given, 0)
            return numbers.get(slot, slot), start

        self.steps = [s._replace(operands=[numbered(o) for o in s.operands], error=numbers.get(s.error, s.error))
                      for s in self.steps]


def tensors_in(args: Any) -> list:
    """The tensors among arguments, lists opened, in order."""
    found: list = []
    for a in args:
        found += tensors_in(a) if isinstance(a, (tuple, list)) else [a] if isinstance(a, _C.Tensor) else []
    return found


def hints(numbers: Any) -> tuple[int, ...]:
    return tuple([n.hint if isinstance(n, Extent) else n for n in numbers])


def rows_of(sizes: Any) -> tuple:
    """Strides of dense rows."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step = step * or_one(n)
    return tuple(reversed(strides))


def is_in_rows(sizes: Any, strides: Any) -> bool:
    """Whether strides, None for dense rows, are those."""
    return strides is None or all(n == 1 or a == b for n, a, b in zip(sizes, strides, rows_of(sizes), strict=True))


def written_plan(definition: Any, args: tuple) -> Any:
    """The body of a composite as a plan, or None. What the body raises for arguments it refuses is raised."""
    tensors = tensors_in(args)
    if not tensors or definition.is_inplace or tensors[0].device.type != "cpu" or any(t.numel() == 0 for t in tensors):
        return None
    traced = any(isinstance(t, Outline) for t in tensors)
    if traced and definition.plan_per_shape:
        raise Untraceable(definition.name)
    try:
        writing = Writing(tensors[0].device)
        result = definition.compute(*[writing.given(a) for a in args])
        return writing.plan(result, definition.result_views() == 1)
    except Untraceable:
        if traced:
            raise
        return None
