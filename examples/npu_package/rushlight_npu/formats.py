"""How the vector unit's types lie in numpy arrays, and conversions between them.

Types that numpy has are its own; bf16 and the byte floats are bit patterns in unsigned integers, and c32 a pair of
float16 in a uint32. The unit computes on those in f32: `widen`, then `narrow`, which rounds to nearest even.
"""

from __future__ import annotations

import functools
import math

import numpy as np

ARRAY = {
    "b1": np.bool_, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i8": np.int8,
    "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": np.uint16, "f32": np.float32,
    "f64": np.float64, "c32": np.uint32, "c64": np.complex64, "c128": np.complex128, "f8e4m3fn": np.uint8,
    "f8e5m2": np.uint8, "f8e4m3fnuz": np.uint8, "f8e5m2fnuz": np.uint8, "f8e8m0fnu": np.uint8,
}
ARRAY = {name: np.dtype(kind) for name, kind in ARRAY.items()}
# bits of the mantissa, bias of the exponent, what overflow gives, NaN
BYTES = {
    "f8e4m3fn": (3, 7, 0x7E, 0x7F), "f8e5m2": (2, 15, 0x7C, 0x7F), "f8e4m3fnuz": (3, 8, 0x80, 0x80),
    "f8e5m2fnuz": (2, 16, 0x80, 0x80), "f8e8m0fnu": (0, 127, 0xFF, 0xFF),
}
PATTERNS = frozenset((*BYTES, "bf16"))      # floats that numpy has not
PARTS = {"c32": "f16", "c64": "f32", "c128": "f64"}


@functools.cache
def byte_values(code: str) -> np.ndarray:
    """What each of the 256 bytes means."""
    mantissa, bias, _, nan = BYTES[code]
    if code == "f8e8m0fnu":
        return np.array([2.0 ** (k - bias) for k in range(255)] + [math.nan], np.float32)
    values = []
    for k in range(256):
        exponent, fraction = (k & 0x7F) >> mantissa, k & ((1 << mantissa) - 1)
        size = math.ldexp(fraction + ((exponent > 0) << mantissa), max(exponent, 1) - bias - mantissa)
        if code == "f8e5m2" and exponent == 31:
            size = math.nan if fraction else math.inf
        if k == nan or (nan == 0x7F and k & 0x7F == nan):
            size = math.nan
        values.append(-size if k & 0x80 else size)
    return np.array(values, np.float32)


def widen(code: str, a: np.ndarray) -> np.ndarray:
    """A pattern as f32."""
    if code == "bf16":
        return (np.asarray(a, np.uint32) << np.uint32(16)).view(np.float32)
    return byte_values(code)[a]


def narrow(code: str, a: np.ndarray) -> np.ndarray:
    """f32 as the nearest pattern, ties to even."""
    a = np.ascontiguousarray(a, np.float32)
    if code == "bf16":
        bits = a.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16)
    mantissa, bias, top, nan = BYTES[code]
    size = np.abs(a).astype(np.float64)
    if code == "f8e8m0fnu":      # a power of 2: halves go up, and so does all between the two smallest
        fraction, exponent = np.frexp(size)
        bits = np.where(size < 2.0**-126, size > 2.0**-127, exponent + 126 + (fraction >= 0.75))
        return np.where(size < 1.5 * 2.0**127, bits, nan).astype(np.uint8)
    sign = np.where(np.signbit(a), 0x80, 0)
    exponent = np.where(size == 0, 1 - bias, np.frexp(np.where(np.isfinite(size), size, 1.0))[1] - 1)
    exponent = np.maximum(exponent, 1 - bias)
    steps = np.rint(np.ldexp(np.where(np.isfinite(size), size, 2.0**40), mantissa - exponent))
    bits = np.minimum(np.minimum(steps, 2.0**30) + ((exponent + bias - 1) << mantissa), top).astype(np.int64)
    signed = np.where(bits == 0, 0, bits | sign) if top == 0x80 else bits | sign
    return np.where(np.isnan(a), nan if top == 0x80 else nan | sign, signed).astype(np.uint8)


def convert(a: np.ndarray, source: str, target: str) -> np.ndarray:
    """By value: towards zero into integers, to nearest even into floats, `!= 0` into b1."""
    if source == target:
        return a
    if source in PATTERNS:
        a, source = widen(source, a), "f32"
    elif source == "f16":
        a, source = a.astype(np.float32), "f32"
    if target in PATTERNS:
        return narrow(target, convert(a, source, "f32"))
    if target == "f16":
        return convert(a, source, "f32").astype(np.float16)
    if target == "b1":
        return a != 0
    if source in ("f32", "f64") and target[0] in "iu":
        # Small integers come from the 32-bit conversion and u32 from the 64-bit one: negative values then wrap.
        middle = {"u32": "i64", "u64": "u64", "i64": "i64"}.get(target, "i32")
        if middle == "u64":
            above = a >= 2.0**63
            whole = np.where(above, a - a.dtype.type(2.0**63), a).astype(np.int64)
            return np.where(above, whole ^ np.int64(-(1 << 63)), whole).view(np.uint64)
        return a.astype(ARRAY[middle]).astype(ARRAY[target])
    return a.astype(ARRAY[target])


def part(a: np.ndarray, code: str, second: bool) -> np.ndarray:
    """The real or imaginary parts of complex numbers."""
    if code == "c32":
        return np.ascontiguousarray(a).view(np.float16)[second::2]
    return a.imag if second else a.real


def pairs(re: np.ndarray, im: np.ndarray, code: str, count: int) -> np.ndarray:
    """Complex numbers of type `code` from their parts."""
    out = np.empty((count, 2), ARRAY[PARTS[code]])
    out[:, 0], out[:, 1] = re, im
    return out.view(ARRAY[code])[:, 0]
