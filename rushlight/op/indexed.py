"""Indexed ops: every output element is computed from elements at computed places (gather), or every input element is
combined into a computed place (scatter).

Enters: a definition with `meta` and either `loops(at, ...)`, the value of output element `at`, or `writes(at, out, ...)`,
the place and value each loop position writes. Tensor arguments arrive as `Elements`: `x[indices]` is a load. Leaves:
one kernel per combination of types, ranks and baked arguments; sizes, strides and numbers named in `runtime` are
run-time parameters. Refuses: indices out of range. A check stands before every computed access, so memory outside
a tensor is never touched; the first bad index found raises IndexError with the op, the index and the size.

Scatter loops that may meet in one element (`serial`) run in order on one thread; the others are divided among
threads. So results never depend on the number of threads, repeated indices included.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..codegen import transpose
from ..loops.expr import (
    Value,
    bitcast,
    cast,
    complex_,
    const,
    ge,
    idiv,
    irem,
    load,
    lt,
    max_,
    min_,
    or_,
    replace,
    select,
    var,
    walk,
)
from ..loops.nest import Check, For, If, Nest, Statement, Store, operands, reduction, rows
from ..loops.record import Record
from ..shape import INTS, or_one
from .definition import KIND_PLANNED, OpDefinition
from .extern import Spec
from .pointwise import check_devices, compile_for, compute_code, device_of, scalars
from .reduction import GRAIN, as_step, product
from .results import result_type

ZERO, ONE = const(0, "i64"), const(1, "i64")
SINGLE, UNIT, GENERAL, REPEATED = 0, 1, 2, 3   # a dim of size 1, of neighbours in memory, any other, of one element over and over
FULL, PARTIAL = 1, 2     # Tensor._overlap: the same elements, some of them
LIMIT = 1 << 48
BLOCK = 4096             # positions whose indices are checked before any is used: they stay in the nearest cache
DIM_BITS = 6             # an error code holds the index and, in its low bits, which dim it was for


class Elements:
    """A tensor argument inside `loops`: `x[i, j]` loads, `x.shape` holds run-time sizes."""

    def __init__(self, operand: int, name: str, code: str, kinds: tuple[int, ...]) -> None:
        self.operand, self.code = operand, code
        self.ndim = len(kinds)
        self.shape = tuple(ONE if kind == SINGLE else var(f"{name}.n{d}") for d, kind in enumerate(kinds))
        known = {SINGLE: ZERO, UNIT: ONE, REPEATED: ZERO}
        self.strides = tuple(known[kind] if kind in known else var(f"{name}.s{d}") for d, kind in enumerate(kinds))

    def place(self, at: Sequence[Value]) -> Value:
        """Element index of position `at`; dims of size 1 repeat."""
        offset = ZERO
        for i, stride in zip(at, self.strides, strict=True):
            offset = offset + i * stride
        return offset

    def __getitem__(self, at: Any) -> Value:
        return load(self.operand, self.place(at if isinstance(at, tuple) else (at,)), self.code)

    def broadcast(self, at: Sequence[Value]) -> Value:
        """The element this tensor has at `at` once expanded."""
        return self[tuple(at[len(at) - self.ndim :])]


class At(tuple):
    """A loop position; remembers the checks its computed indices need."""

    checks: list[tuple[Value, Value]]

    def replace(self, dim: int, value: Value) -> tuple[Value, ...]:
        return (*self[:dim], value, *self[dim + 1 :])

    def at_least(self, ndim: int) -> At:
        """The same position with trailing zeros, for tensors without dims."""
        if len(self) >= ndim:
            return self
        longer = At((*self, *(ZERO,) * (ndim - len(self))))
        longer.checks = self.checks
        return longer

    def bounded(self, index: Value, size: Value, dim: int = 0, negative: bool = True) -> Value:
        """`index` checked against `size`; with `negative`, counted from the end where below 0."""
        index = cast(index, "i64")
        # Below 0 where the index is too small or too large, wrapping included: one sign instead of two comparisons.
        sign = or_(index + size if negative else index, size - ONE - index)
        # Never 0, and without overflow: an index past the limit is reported as the limit.
        shown = max_(min_(index, const(LIMIT, "i64")), const(-LIMIT, "i64"))
        shown = (shown + select(ge(shown, ZERO), ONE, ZERO)) * const(1 << DIM_BITS, "i64") + const(dim, "i64")
        self.checks.append((ge(sign, ZERO), shown))
        return select(lt(index, ZERO), index + size, index) if negative else index


def decode_error(code: int) -> tuple[int, int]:
    """(index, dim) of an error cell."""
    index, dim = code >> DIM_BITS, code & ((1 << DIM_BITS) - 1)
    return (index - 1 if index > 0 else index), dim


class Bound(Record):
    """One call prepared: what the kernel depends on, and what it is run with."""

    args: tuple              # tensors as Elements, runtime numbers as Values, the rest as given
    tensors: tuple           # the tensors, flattened, in operand order
    params: list[str]
    values: list[int]
    key: tuple


class Indexed(OpDefinition):
    """A definition in gather form: `meta` gives the output, `loops` one element of it."""

    kind = KIND_PLANNED
    runtime: ClassVar[tuple[str, ...]] = ()     # int and number parameters the kernel takes at run time

    def meta(self, *args: Any) -> Spec:
        """The output's spec; raises for arguments the op refuses."""
        raise NotImplementedError

    def loops(self, at: At, *args: Any) -> Value:
        """The value of output element `at`."""
        raise NotImplementedError

    def prepare(self, args: tuple) -> tuple | None:
        """Arguments in the form the kernel takes, or None to run in Python."""
        return args

    def index_error(self, index: int, dim: int, args: tuple) -> Exception:
        """The exception for an index out of range."""
        t = args[0]
        size = t.shape[dim] if dim < t.ndim else 1
        return IndexError(f"{self.name}: index {index} is out of bounds for dimension {dim} with size {size}")

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def plan(self, args: tuple) -> Any:
        check_devices(self.name, tuple(flatten(args)))
        prepared = self.prepare(args)
        if prepared is None:
            return None
        spec = self.meta(*prepared)
        device = device_of(args)
        slots: list[tuple] = [("new", spec.dtype, spec.shape, None, 0, 0)]
        if device.type == "meta":     # before anything asks how the arguments are laid out
            return _C.Plan(sum(isinstance(a, _C.Tensor) for a in flatten(prepared)), device, slots, [])
        bound = bind(self, prepared)
        if 0 in spec.shape:
            return _C.Plan(len(bound.tensors), device, slots, [])
        ones = tuple([n == 1 for n in spec.shape])
        key = (bound.key, ones, spec.dtype.code, device.type)
        found = self.kernels.get(key)
        if found is None:
            nest, checked = self.nest(bound, spec, ones)
            found = self.kernels[key] = (as_step(compile_for(device, nest)), checked)
        kernel, checked = found
        inputs = len(bound.tensors)
        operand_slots = [*range(inputs), inputs]
        if checked:
            slots.append(("temp", _C.int64, (1,), None, 0, 0))
            operand_slots.append(inputs + 1)
        loops = [n for n in spec.shape if n != 1]
        inner = loops[-1] if len(loops) > 1 else 1
        extent = product(loops[:-1]) if len(loops) > 1 else product(loops)
        params = [*bound.values, *(loops if len(loops) > 1 else (extent,) if checked else ())]
        if checked and len(loops) <= 1:
            extent, inner = -(-extent // BLOCK), BLOCK
        step = (kernel, operand_slots, params, extent, max(1, GRAIN // max(1, inner)), inputs + 1 if checked else -1)
        return _C.Plan(inputs, device, slots, [step], True, None, self.raiser(prepared) if checked else None)

    def raiser(self, args: tuple) -> Any:
        shapes = tuple([_without_data(a) for a in args])

        def on_error(code: int) -> None:
            raise self.index_error(*decode_error(code), shapes)

        return on_error

    def nest(self, bound: Bound, spec: Spec, ones: tuple[bool, ...]) -> tuple[Nest, bool]:
        """The kernel: outer loop over all dims but the last, vector loop over that."""
        dims = [d for d, one in enumerate(ones) if not one]
        sizes = [f"out.n{d}" for d in dims]
        item, position = var("i"), {}
        flat = len(dims) <= 1
        for d in reversed(dims[:-1]):
            n = var(f"out.n{d}")
            first = d == dims[0]
            position[d] = item if first else irem(item, n)
            item = item if first else idiv(item, n)

        def traced(last: Value) -> tuple[Value, list]:
            at = At({**position, **({dims[-1]: last} if dims else {})}.get(d, ZERO) for d in range(len(ones)))
            at.checks = []
            return cast(self.loops(at, *bound.args), spec.dtype.code), at.checks

        value, found = traced(var("j"))
        if flat and not found:   # nothing to check: the outer loop itself runs in vectors
            value, found = traced(var("i"))
        inputs = [t.dtype.code for t in bound.tensors]
        cell = len(inputs) + 1
        checks = [Check(condition, cell, shown) for condition, shown in found]
        if flat and not checks:
            body = rows(Store(len(inputs), var("i"), value), vector=True)
        elif flat:
            first = var("i") * const(BLOCK, "i64")
            last = min_(first + const(BLOCK, "i64"), var("numel"))
            body = rows(*checked_loop("j", first, last, checks, Store(len(inputs), var("j"), value)))
        else:
            out = var("i") * var(sizes[-1]) + var("j")
            inside = [c for c in checks if depends(c, "j")]
            before = [c for c in checks if c not in inside]
            body = rows(*before, *checked_loop("j", ZERO, var(sizes[-1]), inside, Store(len(inputs), out, value)))
        made = operands(inputs, [spec.dtype.code], ["i64"] if checks else [])
        own = () if flat and not checks else ("numel",) if flat else sizes
        return Nest(self.spec.name, made, (*bound.params, *own), body), bool(checks)


def checked_loop(name: str, start: Value, stop: Value, checks: Sequence[Check], body: Store) -> list[Statement]:
    """A loop over computed places. All places are looked at first, in vectors; then no step has to test its own."""
    if not checks:
        return [For(name, start, stop, (body,), vector=True)]
    sign = ZERO
    for check in checks:
        sign = or_(sign, check.condition.args[0])   # `bounded` made it: negative where the check fails
    verified = reduction(name, start, stop, ["signs"], [ZERO], lambda acc: [or_(acc[0], sign)], lambda a, b: [or_(a[0], b[0])])
    return [verified, If(ge(var("signs"), ZERO), tuple(unrolled(name, start, stop, body)), (For(name, start, stop, (*checks, body)),))]


def unrolled(name: str, start: Value, stop: Value, body: Store, times: int = 4) -> list[Statement]:
    """A serial loop whose steps come several at a time: short ones are all overhead otherwise."""
    four = const(times, "i64")
    whole = idiv(stop - start, four)
    steps = []
    for k in range(times):
        at = {var(name): start + var(f"{name}.group") * four + const(k, "i64")}
        steps.append(Store(body.operand, replace(body.index, at), replace(body.value, at), body.combine))
    return [For(f"{name}.group", ZERO, whole, tuple(steps)), For(name, start + whole * four, stop, (body,))]


class _Shape:
    """What an error message needs of a tensor; keeps no data alive."""

    def __init__(self, t: Any) -> None:
        self.shape, self.dtype, self.ndim = tuple(t.shape), t.dtype, t.ndim


def _without_data(a: Any) -> Any:
    """An argument as error messages see it: plans are kept, and must keep no tensor of the caller's alive."""
    if isinstance(a, _C.Tensor):
        return _Shape(a)
    return [_without_data(x) for x in a] if isinstance(a, (list, tuple)) else a


def depends(check: Check, name: str) -> bool:
    """Whether a check reads the loop variable `name`."""
    return any(node.op == "var" and node.attr == name for node in walk((check.condition, check.value)))


def flatten(args: Any) -> list:
    """Tensors among the arguments, lists opened."""
    found = []
    for a in args:
        if isinstance(a, _C.Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found.extend([t for t in a if isinstance(t, _C.Tensor)])
    return found


def kinds_of(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """What a kernel's code depends on of a geometry."""
    return tuple([SINGLE if n == 1 else UNIT if s == 1 else GENERAL if s else REPEATED for n, s in zip(sizes, strides, strict=True)])


def geometry(name: str, sizes: Sequence[int], strides: Sequence[int], kinds: Sequence[int], params: list[str], values: list[int]) -> None:
    """Add the sizes and strides that are run-time parameters."""
    for d, kind in enumerate(kinds):
        if kind != SINGLE:
            params.append(f"{name}.n{d}")
            values.append(sizes[d])
        if kind == GENERAL:
            params.append(f"{name}.s{d}")
            values.append(strides[d])


def bind(definition: Any, args: tuple) -> Bound:
    """Arguments as a kernel sees them."""
    seen, tensors, params, values, key = [], [], [], [], []

    def elements(t: Any, name: str) -> Elements:
        sizes, strides = t.shape, t.stride()
        kinds = kinds_of(sizes, strides)
        made = Elements(len(tensors), name, t.dtype.code, kinds)
        tensors.append(t)
        key.append((t.dtype.code, kinds))
        geometry(name, sizes, strides, kinds, params, values)
        return made

    for p, a in zip(definition.spec.params, args, strict=True):
        if isinstance(a, _C.Tensor):
            seen.append(elements(a, p.name))
        elif isinstance(a, (list, tuple)) and any(isinstance(t, _C.Tensor) for t in a):
            key.append(tuple([t is None for t in a]))
            seen.append([None if t is None else elements(t, f"{p.name}{k}") for k, t in enumerate(a)])
        elif p.name in definition.runtime and a is not None:
            seen.append(number(p.name, a, params, values))
            key.append(type(a))
        else:
            seen.append(a)
            key.append(tuple(a) if isinstance(a, list) else a)
    return Bound(tuple(seen), tuple(tensors), params, values, tuple(key))


def number(name: str, value: Any, params: list[str], values: list[int]) -> Value:
    """A Python number as run-time parameters: integers as they are, floats by their bits."""
    if isinstance(value, INTS):
        params.append(name)
        values.append(int(value) if isinstance(value, int) else value)
        return var(name)
    parts = []
    for k, part in enumerate((value.real, value.imag) if isinstance(value, complex) else (value,)):
        params.append(f"{name}.{k}")
        values.append(struct.unpack("q", struct.pack("d", part))[0])
        parts.append(bitcast(var(f"{name}.{k}"), "f64"))
    return complex_(*parts) if isinstance(value, complex) else parts[0]


# --- scatter ------------------------------------------------------------------------------------------------------------


class Scattered(Indexed):
    """A definition in scatter form: starts from a copy of the first argument, or from it (in-place), and writes."""

    needs_dims: ClassVar[bool] = False   # a target without dims runs as one with one dim

    def space(self, *args: Any) -> tuple[int, ...]:
        """Sizes of the loops."""
        raise NotImplementedError

    def serial(self, *args: Any) -> frozenset[int]:
        """Loops whose positions may write the same element; they run in order."""
        raise NotImplementedError

    def writes(self, at: At, out: Elements, *args: Any) -> tuple[tuple[Value, ...], Value]:
        """(output position, value to combine there) for loop position `at`."""
        raise NotImplementedError

    def combine(self, s: Any, old: Value, new: Value, *args: Any) -> Value:
        """What the element becomes; by default the new value."""
        return new

    def meta(self, input: Any, *args: Any) -> Spec:
        return Spec(tuple(input.shape), input.dtype)

    def check(self, *args: Any) -> None:
        """Raise for arguments the op refuses."""

    def plan(self, args: tuple) -> Any:
        check_devices(self.name, tuple(flatten(args)))
        prepared = self.prepare(args)
        if prepared is None:
            return None
        self.check(*prepared)
        target = prepared[0]
        device = device_of(args)
        bound = bind(self, prepared)
        inputs = len(bound.tensors)
        if self.is_inplace:
            if target._overlaps_itself():
                raise RuntimeError(
                    f"{self.name}: several elements of the written-to tensor refer to a single "
                    "memory location. Write to tensor.clone()."
                )
            read = [t for t in flatten(args[1:]) if shares_memory(target, t)]
            refuse_shared(self.name, target, read)
            if read:
                return None
            slots: list[tuple] = [("arg", None, (), None, 0, 0)]
        else:
            slots = [("new", target.dtype, tuple(target.shape), None, 0, 0)]
        space = self.space(*prepared)
        if device.type == "meta":
            return _C.Plan(inputs, device, slots, [])
        steps = [] if self.is_inplace else copy_steps(device, target, 0, (inputs, 0), None)
        if 0 not in space:
            steps.append(self.scatter_step(bound, prepared, space, target, slots, device))
        return _C.Plan(inputs, device, slots, steps, True, None, self.raiser(prepared))

    def run(self, *args: Any) -> Any:
        """An argument shares memory with the tensor written: it is copied first."""
        copied = (args[0], *[_apart(args[0], a) for a in args[1:]])
        return self.plan(copied)(*flatten(copied))

    def scatter_step(self, bound: Bound, args: tuple, space: tuple[int, ...], target: Any, slots: list, device: Any) -> tuple:
        serial = self.serial(*args)
        ones = tuple([n == 1 for n in space])
        out_strides = target.stride() if self.is_inplace else contiguous_strides(target.shape)
        kinds = kinds_of(target.shape, out_strides)
        inputs = len(bound.tensors)
        key = (bound.key, ones, kinds, serial, device.type)
        found = self.kernels.get(key)
        if found is None:
            nest, checked = self.scatter_nest(bound, target, kinds, ones, serial)
            found = self.kernels[key] = (as_step(compile_for(device, nest)), checked)
        kernel, checked = found
        loops = [d for d in range(len(space)) if not ones[d]]
        lane = loops[-1] if loops and loops[-1] not in serial else None
        shared = [d for d in loops if d not in serial and d != lane]
        inner = product(space[d] for d in loops if d in serial)
        values = [*bound.values]
        geometry("out", target.shape, out_strides, kinds, [], values)
        values.extend([space[d] for d in loops])
        extent = product(space[d] for d in shared)
        if lane is not None:
            width = max(1024, GRAIN // max(1, inner) // 64 * 64)   # long runs: slices are visited in any order
            if extent == 1 and inner * space[lane] >= 4 * GRAIN:   # else one thread would do all
                width = max(128, min(width, space[lane] // 256 * 64))
            blocks = -(-space[lane] // width)
            values.extend((width, blocks))
            extent *= blocks
            inner *= min(width, space[lane])
        operand_slots = [*range(inputs), inputs]
        error = -1
        if checked:
            error = inputs + len(slots)
            slots.append(("temp", _C.int64, (1,), None, 0, 0))
            operand_slots.append(error)
        return (kernel, operand_slots, values, extent, max(1, GRAIN // max(1, inner)), error)

    def scatter_nest(self, bound: Bound, target: Any, kinds: tuple[int, ...], ones: tuple[bool, ...], serial: frozenset[int]) -> tuple[Nest, bool]:
        """Outer loop over shared positions, then the serial loops, then lanes of the last loop if it is free."""
        inputs = [t.dtype.code for t in bound.tensors]
        out = Elements(len(inputs), "out", target.dtype.code, kinds)
        loops = [d for d in range(len(ones)) if not ones[d]]
        lane = loops[-1] if loops and loops[-1] not in serial else None
        shared = [d for d in loops if d not in serial and d != lane]
        params = [*bound.params]
        geometry("out", (0,) * len(kinds), (0,) * len(kinds), kinds, params, [])
        params.extend([f"loop{d}" for d in loops])
        item, position = var("i"), {}
        if lane is not None:
            params.extend(("width", "blocks"))
            block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
            position[lane] = var(f"at{lane}")
        for d in reversed(shared):
            first = d == shared[0]
            position[d] = item if first else irem(item, var(f"loop{d}"))
            item = item if first else idiv(item, var(f"loop{d}"))
        for d in loops:
            if d in serial:
                position[d] = var(f"at{d}")
        at = At(position.get(d, ZERO) for d in range(len(ones)))
        at.checks = []
        place, value = self.writes(at, out, *bound.args)
        compute = compute_code(out.code)
        index = out.place(place)
        result = self.combine(scalars, cast(load(out.operand, index, out.code), compute), cast(value, compute), *bound.args)
        body: list[Statement] = [Store(out.operand, index, cast(cast(result, compute), out.code))]
        checks = [Check(condition, len(inputs) + 1, shown) for condition, shown in at.checks]
        variables = [f"at{d}" for d in loops if d in serial] + ([f"at{lane}"] if lane is not None else [])
        for level in range(len(variables) - 1, -1, -1):
            name = variables[level]
            own = [c for c in checks if depends(c, name) and not any(depends(c, v) for v in variables[level + 1 :])]
            d = int(name[2:])
            if d == lane:
                first = block * var("width")
                bounds = (first, min_(first + var("width"), var(f"loop{d}")))
            else:
                bounds = (ZERO, var(f"loop{d}"))
            if own and level == len(variables) - 1:
                body = checked_loop(name, *bounds, own, body[0])
            else:
                body = [For(name, *bounds, (*own, *body), vector=d == lane and not own)]
        own = [c for c in checks if not any(depends(c, v) for v in variables)]
        made = operands(inputs, [out.code], ["i64"] if checks else [])
        return Nest(self.spec.name, made, tuple(params), rows(*own, *body)), bool(checks)


def refuse_shared(name: str, target: Any, read: Sequence[Any]) -> None:
    """Refuse arguments known to have elements among those that are written; what they would hold meanwhile is anybody's guess."""
    if any(target._overlap(t) in (FULL, PARTIAL) for t in read):
        raise RuntimeError(
            f"{name}: unsupported operation: an argument has elements in the memory that the operation writes. clone() that argument first."
        )


def _apart(target: Any, a: Any) -> Any:
    """An argument, lists opened, that looks at no memory of `target`."""
    if isinstance(a, (list, tuple)):
        return tuple([_apart(target, x) for x in a])
    return a.clone() if isinstance(a, _C.Tensor) and shares_memory(target, a) else a


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two tensors look at the same storage."""
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= or_one(n)
    return tuple(reversed(strides))


# --- copies -------------------------------------------------------------------------------------------------------------

_copy_kernels: dict[tuple, Any] = {}


def copy_steps(device: Any, source: Any, slot: int, target: tuple[int, int], strides: Sequence[int] | None, dtype: Any = None,
               sizes: Sequence[int] | None = None) -> list:  # fmt: skip
    """Steps that copy tensor `source` (in `slot`), or its corner of `sizes`, to `target`, a (slot, byte offset), laid out with `strides`."""
    dtype = dtype or source.dtype
    if sizes is None:
        sizes = source.shape
    if strides is None:
        strides = contiguous_strides(sizes)
    axes: list[list[int]] = []
    for n, s, o in zip(sizes, source.stride(), strides, strict=True):
        if n == 0:
            return []
        if n == 1:
            continue
        if axes and axes[-1][1] == n * s and axes[-1][2] == n * o:
            axes[-1] = [axes[-1][0] * n, s, o]
        else:
            axes.append([n, s, o])
    axes = axes or [[1, 0, 0]]
    if dtype is source.dtype and device.type == "cpu" and (turned := transposing_step(axes, dtype.itemsize, slot, target)):
        return [turned]
    backwards = axes[-1][1:] == [1, -1]
    key = (source.dtype.code, dtype.code, len(axes), backwards, device.type)
    kernel = _copy_kernels.get(key)
    if kernel is None:
        kernel = _copy_kernels[key] = as_step(compile_for(device, copy_nest(source.dtype.code, dtype.code, len(axes), backwards)))
    params = [a[0] for a in axes] + [a[1] for a in axes] + [a[2] for a in axes]
    numel = product(a[0] for a in axes)
    if len(axes) == 1:
        return [(kernel, [slot, target], params, numel, GRAIN, -1)]
    inner = axes[-1][0]
    return [(kernel, [slot, target], params, numel // inner, max(1, GRAIN // inner), -1)]


def transposing_step(axes: list[list[int]], size: int, slot: int, target: tuple[int, int]) -> tuple | None:
    """The step for a copy in which another dim lies densely than in the source; None for other copies."""
    dense = [k for k, a in enumerate(axes[:-1]) if a[1] == 1]
    if size > 8 or len(axes) not in (2, 3) or axes[-1][1] == 1 or axes[-1][2] != 1 or len(dense) != 1:
        return None
    (rows_, row, _), (cols, _, out_row) = axes[-1], axes[dense[0]]
    batch = next((a for k, a in enumerate(axes[:-1]) if k != dense[0]), [1, 0, 0])
    if rows_ < transpose.ROWS or cols < 16:
        return None
    strips = -(-rows_ // transpose.ROWS)
    params = [rows_, cols, row, out_row, strips, batch[1], batch[2]]
    return (transpose.transpose_kernel(size).address, [slot, target], params, batch[0] * strips, max(1, GRAIN // (cols * transpose.ROWS)), -1)


def copy_nest(source: str, target: str, rank: int, backwards: bool = False) -> Nest:
    """Strided copy of any rank: outer dims flattened, the last one in vectors, or written backwards one by one."""
    sizes, reads, stores = ([f"{p}{d}" for d in range(rank)] for p in "nso")
    last = var("i" if rank == 1 else "j")
    read, store = (last, -last) if backwards else (last * var(reads[-1]), last * var(stores[-1]))
    item = var("i")
    for d in range(rank - 2, -1, -1):
        at = irem(item, var(sizes[d])) if d else item
        read, store = read + at * var(reads[d]), store + at * var(stores[d])
        item = idiv(item, var(sizes[d])) if d else item
    move = Store(1, store, cast(load(0, read, source), target))
    if rank == 1:
        body = rows(move, vector=not backwards)
    else:
        body = rows(*(unrolled("j", ZERO, var(sizes[-1]), move) if backwards else [For("j", ZERO, var(sizes[-1]), (move,), vector=True)]))
    return Nest("copy", operands([source], [target]), (*sizes, *reads, *stores), body)


def named(definition: Any, parts: Sequence[Any]) -> Any:
    """Several results as the op returns them."""
    names = definition.spec.return_names
    return result_type(definition.spec.name, names)(tuple(parts)) if names else tuple(parts)
