"""Types and constants: casts, bits seen as another type, values that a node holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .... import _C, ops
from ....tensors.interop import tensor
from ...kinds import ELEMENTS, STRING, element
from ..table import rule

aten = ops.aten
FLOAT8 = {17: 448.0, 18: 240.0, 19: 57344.0, 20: 57344.0}        # the largest number of each


def _cast_gives(numbers: Sequence[int], settings: Mapping[str, Any]) -> Any:
    return settings.get("to", 0)


def _like_gives(numbers: Sequence[int], settings: Mapping[str, Any]) -> Any:
    return numbers[1]


def cast_to(x: Any, to: int, saturate: int = 1, round_mode: str = "up", anchor: Any = None, own: int = 0) -> Any:
    """x as another type of elements."""
    if not isinstance(x, _C.Tensor):
        return _from_text(x, to)
    if to == STRING:
        return _as_text(x)
    kind = element(to, "Cast")
    if kind.name == "FLOAT4E2M1":
        return nearest_float4(x.to(_C.float32))
    if kind.is_packed:
        return wrapped(x, kind.bits, kind.dtype)
    if to in FLOAT8:
        return _as_float8(x, to, saturate)
    if kind.name == "FLOAT8E8M0":
        return _as_powers(x, saturate, round_mode)
    if x.dtype.is_floating_point and kind.dtype in (_C.uint8, _C.int8, _C.uint16, _C.int16, _C.uint32, _C.uint64):
        return x.to(_C.int64).to(kind.dtype)
    return x.to(kind.dtype)


def wrapped(x: Any, bits: int, dtype: Any) -> Any:
    """Integers cut to their lowest bits."""
    whole = x.to(_C.int32)
    low = aten.bitwise_and(whole, (1 << bits) - 1)
    if dtype is _C.int8:
        sign = 1 << bits - 1
        low = aten.sub(aten.bitwise_xor(low, sign), sign)
    return low.to(dtype)


def nearest_float4(x: Any) -> Any:
    """The nearest number of one bit of mantissa and two of exponent, ties to even; 6 is the largest."""
    size = aten.abs(x)
    # Steps are a half below 2, one below 4, two above.
    step = aten.where(aten.lt(size, 2.0), 0.5, aten.where(aten.lt(size, 4.0), 1.0, 2.0)).to(x.dtype)
    rounded = aten.mul(aten.round(aten.div(size, step)), step)
    found = aten.copysign(aten.clamp(rounded, max=6.0), x)
    return aten.where(aten.isnan(x), aten.full_like(x, -0.0), found)


def _as_float8(x: Any, to: int, saturate: int) -> Any:
    dtype, largest = ELEMENTS[to].dtype, FLOAT8[to]
    x = x.to(_C.float32) if x.dtype not in (_C.float32, _C.float64) else x
    found = x
    if saturate:
        found = aten.clamp(x, -largest, largest)
    narrow = found.to(dtype)
    if saturate:
        return narrow
    # Without saturation what rounds beyond the largest number is infinite, or not a number where there is no infinity.
    half = {17: 464.0, 18: 248.0, 19: 61440.0, 20: 61440.0}[to]
    beyond = aten.ge(aten.abs(x), half) if to != 17 else aten.gt(aten.abs(x), half)
    replaced = aten.copysign(aten.full_like(x, float("inf") if to == 19 else float("nan")), x).to(dtype)
    return aten.where(beyond, replaced.to(_C.float32), narrow.to(_C.float32)).to(dtype)


def _as_powers(x: Any, saturate: int, round_mode: str) -> Any:
    """Powers of two, as their exponents."""
    x = x.to(_C.float32)
    mantissa, exponent = aten.frexp(x)
    exponent = exponent.to(_C.int32)
    if round_mode == "up":
        power = aten.where(aten.eq(mantissa, 0.5), exponent - 1, exponent)
    elif round_mode == "down":
        power = exponent - 1
    elif round_mode == "nearest":
        power = aten.where(aten.lt(mantissa, 0.75), exponent - 1, exponent)
    else:
        raise ValueError(f"Cast: round_mode should be 'up', 'down' or 'nearest', got {round_mode!r}")
    power = aten.add(power, 127)
    power = aten.where(aten.eq(x, 0), aten.zeros_like(power), power)
    top = aten.where(aten.isinf(x), aten.full_like(power, 254 if saturate else 255), power)
    if saturate:
        top = aten.clamp(top, 0, 254)
    bits = aten.where(aten.logical_or(aten.isnan(x), aten.lt(x, 0)), aten.full_like(top, 255), aten.clamp(top, 0, 255))
    return bits.to(_C.uint8).view(_C.float8_e8m0fnu)


def _from_text(x: Any, to: int) -> Any:
    import numpy  # noqa: PLC0415

    if to == STRING:
        return x
    dtype = element(to, "Cast").dtype
    flat = [str(v) for v in numpy.asarray(x).reshape(-1)]
    if dtype is _C.bool:
        return tensor([v.strip() not in ("", "0", "false", "False") for v in flat]).reshape(numpy.shape(x))
    if dtype.is_floating_point:
        return tensor([float(v) for v in flat], dtype=_C.float64).to(dtype).reshape(numpy.shape(x))
    return tensor([int(float(v)) if any(c in v for c in ".eEn") else int(v) for v in flat], dtype=_C.int64).to(
        dtype).reshape(numpy.shape(x))


def _as_text(x: Any) -> Any:
    import numpy  # noqa: PLC0415

    found = numpy.empty(x.numel(), object)
    single = numpy.float32 if x.dtype in (_C.float32, _C.float16, _C.bfloat16) else numpy.float64
    for k, v in enumerate(x.reshape(-1).tolist()):
        found[k] = _written(v, single) if isinstance(v, float) else str(int(v)) if isinstance(v, (int,
                                                                                                  bool)) else str(v)
    return found.reshape(tuple(x.shape))


def _written(value: float, single: Any) -> str:
    """A number as the standard writes it: the shortest digits that its type reads back."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "INF" if value > 0 else "-INF"
    return str(single(value))


@rule("Cast", gives=_cast_gives, since=6)
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(x, to, saturate, round_mode)


@rule("Cast", gives=lambda numbers, settings: {e.name: e.number for e in ELEMENTS.values()}.get(settings.get("to"), 0))
def cast_1(x: Any, *, to: str) -> Any:
    """Types by their names, as version 1 has them."""
    by_name = {e.name: e.number for e in ELEMENTS.values()}
    if to not in by_name:
        raise ValueError(f"Cast: {to!r} is no type of elements")
    return cast_to(x, by_name[to])


@rule("CastLike", since=15, gives=_like_gives, closed=(1,))
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", elements: tuple = (0, 0)) -> Any:
    if elements[1] in ELEMENTS:
        return cast_to(x, elements[1], saturate, round_mode)
    if not isinstance(like, _C.Tensor):
        return cast_to(x, STRING)
    from ...kinds import NUMBER_OF  # noqa: PLC0415

    return cast_to(x, NUMBER_OF[like.dtype], saturate, round_mode)


@rule("BitCast", since=26, gives=_cast_gives, closed=True)
def bit_cast(x: Any, *, to: int) -> Any:
    dtype = element(to, "BitCast").dtype
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"BitCast: expected a type of {x.dtype.itemsize} bytes, got {dtype}")
    return x.view(dtype)


@rule("Identity")
def identity(x: Any) -> Any:
    return x


@rule("Constant", closed=True, gives=lambda numbers, settings: next(
    (v.element.number for k, v in settings.items() if k in ("value", "sparse_value") and hasattr(v, "element")), 0))
def constant(*, value: Any = None, sparse_value: Any = None, value_int: int | None = None,
             value_ints: Sequence[int] | None = None, value_float: float | None = None,
             value_floats: Sequence[float] | None = None, value_string: str | None = None,
             value_strings: Sequence[str] | None = None) -> Any:
    import numpy  # noqa: PLC0415

    given = [v for v in (value, sparse_value, value_int, value_ints, value_float, value_floats, value_string,
                         value_strings) if v is not None]
    if len(given) != 1:
        raise ValueError(f"Constant: expected one value, got {len(given)}")
    if value is not None or sparse_value is not None:
        return given[0]
    if value_string is not None or value_strings is not None:
        found = numpy.empty(() if value_strings is None else (len(value_strings),), object)
        found[...] = value_string if value_strings is None else value_strings
        return found
    dtype = _C.int64 if value_int is not None or value_ints is not None else _C.float32
    return tensor(list(given[0]) if isinstance(given[0], (list, tuple)) else given[0], dtype=dtype)


