"""Tensors from sizes and numbers: zeros, ones, full, arange and their kin, plus the *_like and new_* forms."""

from __future__ import annotations

import math
from typing import Any

from ... import _C, rules
from ...base.assertions import sym_float, sym_int
from ...base.promotion import default_dtype, number_dtype
from ...base.settings import must_fill_memory
from ...base.shape import INTS, contiguous_format, holds, preserve_format, strided
from ...loops import expr
from ...loops.lowered import At, Lowered, Number
from ...op import Composite, Spec, find_op
from ...op.factory import OPTIONS, Factory, check_options, check_sizes, device_or_default, fresh, marker
from ...op.numbers import check_fits
from .copy import strides_for


class _MaybeSparse(Factory):
    """Factories that also make sparse tensors, which hold nothing yet."""

    def is_planned(self, args):
        return args[2] is None or args[2] is strided

    def run(self, size, dtype, layout, device, pin_memory, requires_grad, *rest):
        if layout is None or layout is strided:
            return super().run(size, dtype, layout, device, pin_memory, requires_grad, *rest)
        return find_op("_sparse_zeros")(
            size, dtype or default_dtype(), layout, device_or_default(device), requires_grad
        )


class Zeros(_MaybeSparse):
    """All zeros."""

    schema = f"zeros(int[] size, {OPTIONS}) -> Tensor"

    def value(self, size):
        return 0


class Ones(Factory):
    """All ones."""

    schema = f"ones(int[] size, {OPTIONS}) -> Tensor"

    def value(self, size):
        return 1


class Full(Factory):
    """One number everywhere."""

    schema = f"full(int[] size, Scalar fill_value, {OPTIONS}) -> Tensor"

    def dtype(self, size, fill_value):
        return number_dtype(fill_value)

    def value(self, size, fill_value):
        return fill_value


class Empty(_MaybeSparse):
    """Memory that holds whatever it held."""

    schema = f"empty(int[] size, {OPTIONS}, memory_format? memory_format=None) -> Tensor"

    def split(self, args):
        own, dtype, device, requires_grad = super().split(args[:-1])
        return (*own, args[-1]), dtype, device, requires_grad

    def spec_and_content(self, own, dtype, device):
        size, memory_format = own
        check_sizes("empty", size)
        strides = None
        if memory_format not in (None, contiguous_format):
            if memory_format is preserve_format:
                raise RuntimeError("empty: preserve_format is not supported; there is nothing to preserve")
            strides = strides_for(_C.empty(size, None, dtype, "meta"), memory_format)
        return Spec(size, dtype, strides), None

    def dtype(self, *own):
        return default_dtype()


class EmptyStrided(Factory):
    """Memory with the given sizes and strides."""

    schema = f"empty_strided(int[] size, int[] stride, {OPTIONS}) -> Tensor"
    out = False

    def spec_and_content(self, own, dtype, device):
        size, stride = own
        check_sizes("empty_strided", size)
        if len(size) != len(stride):
            raise RuntimeError(
                f"empty_strided: dimensionality of sizes ({len(size)}) must match dimensionality of strides"
                f" ({len(stride)})"
            )
        if any(s < 0 for s in stride):
            raise RuntimeError(f"empty_strided: strides must not be negative, got {list(stride)}")
        return Spec(size, dtype, stride), None


class EmptyPermuted(Factory):
    """Memory of the given sizes whose dims lie in the order `physical_layout`, densely."""

    schema = f"empty_permuted(int[] size, int[] physical_layout, {OPTIONS}) -> Tensor"
    out = False

    def spec_and_content(self, own, dtype, device):
        size, order = own
        check_sizes("empty_permuted", size)
        if len(size) != len(order):
            raise RuntimeError(
                f"empty_permuted: expected as many dims in physical_layout as in size, got {len(order)} and {len(size)}"
            )
        stride, step = [0] * len(size), 1
        for d in reversed(order):
            if not 0 <= d < len(size):
                raise RuntimeError(
                    f"empty_permuted: Dimension out of range: expected one between 0 and {len(size) - 1}, got {d} in"
                    f" physical_layout {list(order)}"
                )
            if stride[d]:
                raise RuntimeError(f"Duplicate dim not allowed: {d} in physical_layout {list(order)}")
            stride[d] = step
            step *= max(size[d], 1)
        return Spec(size, dtype, tuple(stride)), None


# --- sequences --------------------------------------------------------------------------------------------------------


def whole(n: Any) -> Any:
    """A number without its fraction."""
    return n if isinstance(n, INTS) else sym_int(n)


def sequence(
    name: str, count: int, dtype: Any, device: Any, compute: str, element: Any, numbers: list[Any], counts: tuple = ()
) -> tuple[Spec, Lowered | None]:
    """`count` elements, number i being element(i, the numbers as `compute`, the counts); these are given when a kernel
    runs."""
    if device.type == "meta":     # before the numbers, which may be symbolic, are looked at
        return Spec((count,), dtype), None
    whole = {"i64": int, "c128": complex}.get(compute, float)
    given = [Number(f"number{k}", compute, n if isinstance(n, _C.Extent) else whole(n)) for k, n in enumerate(numbers)]
    given += [Number(f"count{k}", "i64", n) for k, n in enumerate(counts)]

    def body(at: At, sources: Any) -> tuple:
        return (element(at[0] if at else expr.const(0, "i64"), *[s.value for s in sources]),)

    result = Lowered(name, (name, compute), (count,), (count,), (dtype.code,), tuple(given), body, aligned=False)
    return Spec((count,), dtype), result


class Arange(Factory):
    """start, start + step, ... up to but without end."""

    schema = (
        f"arange(Scalar end, {OPTIONS}) -> Tensor",
        f"arange.start(Scalar start, Scalar end, {OPTIONS}) -> Tensor",
        f"arange.step(Scalar start, Scalar end, Scalar step=1, {OPTIONS}) -> Tensor",
    )

    def bounds(self, own):
        return (0, own[0], 1) if len(own) == 1 else (*own, 1)[:3]

    def dtype(self, *own):
        return _C.int64 if all(isinstance(v, INTS) for v in own) else default_dtype()

    def spec_and_content(self, own, dtype, device):
        start, end, step = self.bounds(own)
        if dtype.is_complex or dtype is _C.bool:
            raise NotImplementedError(f"arange: not implemented for dtype {dtype.name}")
        if step == 0:
            raise RuntimeError("arange: step must be nonzero")
        if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end, step)):
            raise RuntimeError(f"arange: unsupported range: {start} -> {end}")
        if any(not -(2**63) <= v < 2**63 for v in (start, end, step)):
            raise RuntimeError(f"arange: {start} -> {end} by {step} cannot be converted to type int64 without overflow")
        if dtype is _C.int64:   # counted in integers, whatever was given
            start, end, step = map(whole, (start, end, step))
            if step == 0:
                raise ValueError("arange: step must be nonzero, and a fraction is none as an int64")
        if not holds((end - start) * (1 if step > 0 else -1) >= 0):
            raise RuntimeError(f"arange: the bounds do not fit the sign of step: from {start} to {end} by {step}")
        if all(isinstance(v, INTS) for v in (start, end, step)):
            count = -((start - end) // step) if step > 0 else -((end - start) // -step)
        else:
            count = math.ceil((end - start) / step)
        compute = "f64" if dtype.is_floating_point and not all(isinstance(v, INTS) for v in (start, step)) else "i64"
        if compute == "i64":
            start, step = whole(start), whole(step)
        else:
            start, step = sym_float(start), sym_float(step)
        # Vectors multiply and convert 32-bit numbers; wider ones they take apart. Symbols are not asked: nothing runs.
        is_short = compute == "i64" and all(
            isinstance(v, (int, _C.Extent)) and -(2**31) < v < 2**31 for v in (start, end, step, count)
        )
        counted = "i32" if is_short else compute
        return sequence(
            "arange_short" if is_short else "arange", count, dtype, device, compute,
            lambda i, a, b: expr.cast(a, counted) + expr.cast(i, counted) * expr.cast(b, counted), [start, step],
        )


def pinned_if(tensor: Any, pin_memory: Any) -> Any:
    return tensor.pin_memory() if pin_memory else tensor


class Range(Composite):
    """start to end, end included; arange is the usual choice."""

    schema = f"range(Scalar start, Scalar end, Scalar step=1, {OPTIONS}) -> Tensor"
    method = False
    takes_out_dtype = True

    def compute(self, start, end, step, dtype, layout, device, pin_memory, requires_grad):
        check_options("range", layout, pin_memory)
        made = dtype or default_dtype()
        if made.is_complex or made is _C.bool:
            raise NotImplementedError(f"range: not implemented for dtype {made.name}")
        for bound in (start, end, step):
            check_fits("range", bound, _C.float64 if made.is_floating_point else _C.int64)
        if not all(map(math.isfinite, (start, end))):
            raise RuntimeError(f"range: unsupported range: {start} -> {end}")
        if step == 0:
            raise RuntimeError("range: step must be nonzero")
        if (end - start) * step < 0:
            raise RuntimeError(f"range: the bounds do not fit the sign of step: from {start} to {end} by {step}")
        count = math.floor((end - start) / step) + 1
        result = find_op("arange")(count, dtype=_C.float64, device=device) * step + start
        return pinned_if(result.to(dtype or default_dtype()), pin_memory).requires_grad_(requires_grad)


def bounds_in(dtype: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """The ends of a sequence as its dtype holds them: integers count between whole numbers. Refuses bool."""
    for bound in (start, end):
        if isinstance(bound, complex) and not dtype.is_complex:
            raise RuntimeError(f"linspace: inferred dtype complex can't be safely cast to passed dtype {dtype.name}")
        check_fits("linspace", bound, dtype)
    if dtype is _C.bool:
        raise NotImplementedError("\"linspace\" not implemented for 'bool'")
    return (start, end) if dtype.is_floating_point or dtype.is_complex else (sym_int(start), sym_int(end))


class Linspace(Factory):
    """`steps` values from start to end, evenly apart, both included."""

    schema = f"linspace(Scalar start, Scalar end, int steps, {OPTIONS}) -> Tensor"

    def dtype(self, start, end, steps):
        return (
            default_dtype().to_complex() if isinstance(start, complex) or isinstance(end, complex) else default_dtype()
        )

    def spec_and_content(self, own, dtype, device):
        start, end, steps = own
        if steps < 0:
            raise RuntimeError(f"linspace: number of steps must be non-negative, got {steps}")
        start, end = bounds_in(dtype, start, end)
        compute = "c128" if dtype.is_complex else "f32" if dtype is _C.float32 else "f64"
        real = "f64" if compute == "c128" else compute
        step = (end - start) / (steps - 1) if steps > 1 else 0

        def element(i, a, b, gap, last, half):
            # The second half counts back from the end, so that both ends are exact.
            ahead = expr.cast(expr.cast(i, real), compute)
            behind = expr.cast(expr.cast(last - i, real), compute)
            if compute == "c128":
                forward, back = a + gap * ahead, b - gap * behind
            else:
                forward, back = expr.fma(gap, ahead, a), expr.fma(-gap, behind, b)
            first = expr.lt(i, half)
            if compute != "c128":
                return expr.select(first, forward, back)
            return expr.complex_(
                expr.select(first, expr.real(forward), expr.real(back)),
                expr.select(first, expr.imag(forward), expr.imag(back)),
            )

        return sequence(
            "linspace", steps, dtype, device, compute, element, [start, end, step], (steps - 1, max(steps // 2, 1))
        )


class Logspace(Composite):
    """base raised to evenly spaced exponents."""

    schema = f"logspace(Scalar start, Scalar end, int steps, float base=10.0, {OPTIONS}) -> Tensor"
    method = False
    takes_out_dtype = True

    def compute(self, start, end, steps, base, dtype, layout, device, pin_memory, requires_grad):
        check_options("logspace", layout, pin_memory)
        start, end = bounds_in(dtype or default_dtype(), start, end)
        exponents = find_op("linspace")(start, end, steps, dtype=_C.float64, device=device)
        result = find_op("pow")(find_op("full")((steps,), float(base), dtype=_C.float64, device=device), exponents)
        return pinned_if(result.to(dtype or default_dtype()), pin_memory).requires_grad_(requires_grad)


class _FromTensors(Composite):
    """linspace and logspace between 0-d tensors."""

    abstract = True
    method = False

    def compute(self, start, end, steps, *rest):
        for t in (start, end):
            if isinstance(t, _C.Tensor) and t.ndim:
                raise RuntimeError(
                    f"{self.name}: expected start and end to be numbers or 0-dimensional tensors, got one with {t.ndim}"
                    " dimensions"
                )
        options = dict(zip([p.name for p in self.spec.params[3:]], rest, strict=True))
        bounds = (t if not isinstance(t, _C.Tensor) else 0 if t.device.type == "meta" else t.item()
                  for t in (start, end))     # of a fake tensor that is a symbol
        return find_op(self.name)(*bounds, steps, **options)


for _name, _base in (("linspace", ""), ("logspace", "float base=10.0, ")):
    for _kinds in (("Tensor", "Tensor"), ("Tensor", "Scalar"), ("Scalar", "Tensor")):
        type(
            f"{_name}_{_kinds[0]}_{_kinds[1]}",
            (_FromTensors,),
            {
                "schema": (
                    f"{_name}.{_kinds[0]}_{_kinds[1]}({_kinds[0]} start, {_kinds[1]} end, int steps, {_base}{OPTIONS})"
                    " -> Tensor"
                ),
                "__doc__": _FromTensors.__doc__,
                "__module__": __name__,
            },
        )


class Eye(Composite):
    """Ones on the diagonal, zeros elsewhere."""

    schema = (f"eye(int n, {OPTIONS}) -> Tensor", f"eye.m(int n, int m, {OPTIONS}) -> Tensor")
    method = False
    takes_out_dtype = True

    def compute(self, n, *rest):
        m, options = (rest[0], rest[1:]) if len(rest) == 6 else (n, rest)
        dtype, layout, device, pin_memory, requires_grad = options
        if n < 0 or m < 0:
            raise RuntimeError(f"eye: expected n and m of at least 0, got {n} and {m}")
        result = find_op("zeros")((n, m), dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
        result.diagonal().fill_(1)
        return result.requires_grad_(requires_grad)


class ScalarTensor(Composite):
    """A 0-d tensor holding one number."""

    schema = f"scalar_tensor(Scalar s, {OPTIONS}) -> Tensor"
    method = False
    out = False

    def compute(self, s, dtype, layout, device, pin_memory, requires_grad):
        return find_op("full")(
            (),
            s,
            dtype=dtype or default_dtype(),
            layout=layout,
            device=device,
            pin_memory=pin_memory,
            requires_grad=requires_grad,
        )


# --- like another tensor ----------------------------------------------------------------------------------------------

LIKE = f"{OPTIONS}, memory_format? memory_format=None"


def empty_as(name: str, input: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    """Fresh memory shaped like `input`, with what is not given taken from it."""
    check_options(name, layout, pin_memory)
    fmt = memory_format or preserve_format
    place = device if device is not None else input.device
    result = fresh(input, input.shape, strides_for(input, fmt), dtype or input.dtype, place)
    return pinned_if(result, pin_memory)


class _Like(Composite):
    """What the *_like functions share."""

    method = False
    out = False
    replays = True

    def fill(self, result: Any, *own: Any) -> Any:
        return result

    def vmap(self, level, overload, args):
        return rules.batching.wrapped(overload.call(rules.batching.front(args[0], level), *args[1:-1], None), level)

    def compute(self, input, *rest):
        own, (dtype, layout, device, pin_memory, requires_grad, memory_format) = rest[:-6], rest[-6:]
        result = self.fill(empty_as(self.name, input, dtype, layout, device, pin_memory, memory_format), *own)
        return result.requires_grad_() if requires_grad else result


class EmptyLike(_Like):
    """Memory shaped like `input`."""

    schema = f"empty_like(Tensor input, {LIKE}) -> Tensor"
    is_composite = False     # its body calls no op: recorders must see this one

    def fill(self, result):
        return result.fill_(marker(result.dtype)) if must_fill_memory() else result


class ZerosLike(_Like):
    """Zeros shaped like `input`."""

    schema = f"zeros_like(Tensor input, {LIKE}) -> Tensor"

    def fill(self, result):
        return result.zero_()


class OnesLike(_Like):
    """Ones shaped like `input`."""

    schema = f"ones_like(Tensor input, {LIKE}) -> Tensor"

    def fill(self, result):
        return result.fill_(1)


class FullLike(_Like):
    """One number everywhere, shaped like `input`."""

    schema = f"full_like(Tensor input, Scalar fill_value, {LIKE}) -> Tensor"

    def fill(self, result, fill_value):
        return result.fill_(fill_value)


class _New(Composite):
    """What the new_* methods share: dtype and device come from the tensor unless given."""

    function = False
    out = False
    factory = ""

    def vmap(self, level, overload, args):
        return rules.batching.wrapped(
            overload.call(args[0]._wrapped.value, (level.batch_size, *args[1]), *args[2:]), level
        )

    def compute(self, input, size, *rest):
        own, (dtype, layout, device, pin_memory, requires_grad) = rest[:-5], rest[-5:]
        return find_op(self.factory)(
            tuple(size), *own, dtype=dtype or input.dtype, layout=layout,
            device=device if device is not None else input.device, pin_memory=pin_memory, requires_grad=requires_grad,
        )


class NewZeros(_New):
    """Zeros with the dtype and device of `input`."""

    schema = f"new_zeros(Tensor input, int[] size, {OPTIONS}) -> Tensor"
    factory = "zeros"


class NewOnes(_New):
    """Ones with the dtype and device of `input`."""

    schema = f"new_ones(Tensor input, int[] size, {OPTIONS}) -> Tensor"
    factory = "ones"


class NewEmpty(_New):
    """Memory with the dtype and device of `input`."""

    schema = f"new_empty(Tensor input, int[] size, {OPTIONS}) -> Tensor"
    factory = "empty"


class NewFull(_New):
    """One number everywhere, with the dtype and device of `input`."""

    schema = f"new_full(Tensor input, int[] size, Scalar fill_value, {OPTIONS}) -> Tensor"
    factory = "full"


class NewEmptyStrided(_New):
    """Memory with given strides and the dtype and device of `input`."""

    schema = f"new_empty_strided(Tensor input, int[] size, int[] stride, {OPTIONS}) -> Tensor"
    factory = "empty_strided"

    def vmap(self, level, overload, args):
        size, stride = args[1:3]
        span = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        return rules.batching.wrapped(
            overload.call(args[0]._wrapped.value, (level.batch_size, *size), (span, *stride), *args[3:]), level
        )
