"""Numbers that become elements: the checked conversion of a Scalar argument, stated once.

Enters: the op's name, a Python number and the dtype it is to be an element of. Leaves: the number as that dtype holds
it. Refuses: numbers that do not fit, with PyTorch's RuntimeError. What fits is `number_fits` of the core
(csrc/number.h): it is asked here when a call is planned or lowered, and by the core itself where numbers are packed for
pointwise kernels. Arithmetic does not ask: there a number is an operand, and wraps round as an element would.
"""

from __future__ import annotations

from typing import Any

from .. import _C

WIDE = {_C.float16: _C.float32, _C.bfloat16: _C.float32, _C.complex32: _C.complex64}
WIDE |= {d: _C.float32 for d in vars(_C).values() if isinstance(d, _C.dtype) and d.name.startswith("float8_")}


def check_fits(name: str, value: Any, dtype: Any) -> None:
    """Refuse a number that the type cannot hold. Of an int that a plan leaves open the range is asked, so that the plan
    holds for the ints in it; other symbols are not judged."""
    if isinstance(value, (int, float, complex)):
        fits = _C.number_fits(value, dtype)
    elif isinstance(value, _C.Extent) and (dtype.itemsize < 8 and dtype is not _C.bool):
        top = largest_int(dtype)
        fits = value <= top and value >= (-top - 1 if dtype.is_signed and not dtype.is_floating_point else -top)
    else:
        fits = True
    if not fits:
        raise RuntimeError(f"{name}: value {value} cannot be converted to type {dtype.name} without overflow")


def largest_int(dtype: Any) -> int:
    """The largest int of 64 bits that fits a dtype."""
    fitting_bits = [n for n in range(1, 64) if _C.number_fits((1 << n) - 1, dtype)]
    known = {_C.float16: 65504, _C.float8_e4m3fn: 448, _C.float8_e4m3fnuz: 240}
    known |= dict.fromkeys((_C.float8_e5m2, _C.float8_e5m2fnuz), 57344)
    return known.get(dtype, (1 << fitting_bits[-1]) - 1)


def wide_of(dtype: Any) -> Any:
    """The type that numbers for arithmetic on `dtype` are held in: float32 for narrower floats."""
    return WIDE.get(dtype, dtype)


def filled(name: str, value: Any, dtype: Any, shape: Any = (1,)) -> Any:
    """The number that a tensor of this shape is filled with. PyTorch writes one of one element by another way, which
    lets narrow floats overflow to infinity."""
    is_one = all(isinstance(n, int) and n == 1 for n in shape)
    check_fits(name, value, wide_of(dtype) if is_one else dtype)
    return fitting(name, value, dtype, is_checked=True)


def fitting(name: str, value: Any, dtype: Any, is_checked: bool = False) -> Any:
    """The number as an element of `dtype`, once it is checked: whole for integers, real for real types."""
    if not is_checked:
        check_fits(name, value, dtype)
    if isinstance(value, complex) and not dtype.is_complex:
        value = bool(value) if dtype is _C.bool else value.real
    if dtype is _C.bool and isinstance(value, (int, float)):
        return bool(value)
    if dtype.is_floating_point or dtype.is_complex or not isinstance(value, (int, float)):
        return float(value) if isinstance(value, int) and value >= 1 << 63 else value
    whole, bits = int(value), 8 * dtype.itemsize
    half = 1 << bits - 1 if dtype.is_signed else 0
    return (whole + half) % (1 << bits) - half
