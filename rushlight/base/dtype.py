"""What numbers a dtype can hold: `finfo` and `iinfo`.

Enters: a dtype. Leaves: its limits as Python numbers. Refuses: types of the other family, as PyTorch does.
"""

from __future__ import annotations

from .. import _C

# name: (exponent bits, stored mantissa bits, largest value, decimal resolution)
_FLOATS: dict[str, tuple[int, int, float, float]] = {
    "float16": (5, 10, 65504.0, 1e-3),
    "bfloat16": (8, 7, (2 - 2.0**-7) * 2.0**127, 1e-2),
    "float32": (8, 23, (2 - 2.0**-23) * 2.0**127, 1e-6),
    "float64": (11, 52, (2 - 2.0**-52) * 2.0**1023, 1e-15),
    "float8_e4m3fn": (4, 3, 448.0, 1.0),
    "float8_e5m2": (5, 2, 57344.0, 1.0),
    "float8_e4m3fnuz": (4, 3, 240.0, 1.0),
    "float8_e5m2fnuz": (5, 2, 57344.0, 1.0),
    "float8_e8m0fnu": (8, 0, 2.0**127, 1.0),
}

# Formats that keep no code for infinity or a second zero: their (eps, smallest normal, smallest) are their own.
_OWN: dict[str, tuple[float, float, float]] = {
    "float8_e4m3fnuz": (0.125, 2.0**-7, -240.0),
    "float8_e5m2fnuz": (0.125, 2.0**-15, -57344.0),
    "float8_e8m0fnu": (1.0, 2.0**-127, 2.0**-127),
}

# Every dtype by its name, those included that are only stored and named (quantized, sub-byte).
ALL: dict[str, _C.dtype] = {d.name: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


class finfo:  # noqa: N801 - PyTorch's name
    """Limits of a floating type (of the parts, for a complex one); the default dtype if none is given."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: _C.dtype | None = None) -> None:
        d = _C.get_default_dtype() if type is None else type
        if not isinstance(d, _C.dtype):
            raise TypeError(f"finfo(): argument 'type' must be a dtype, got {d!r}")
        real = d.to_real()
        if real.name not in _FLOATS:
            raise TypeError(
                f"rushlight.finfo() requires a floating point input type, got {d}. Use rushlight.iinfo instead."
            )
        exponent, mantissa, largest, self.resolution = _FLOATS[real.name]
        self.bits = real.itemsize * 8
        self.dtype = real.name
        usual = (2.0**-mantissa, 2.0 ** (2 - 2 ** (exponent - 1)), -largest)
        self.eps, self.tiny, self.min = _OWN.get(real.name, usual)
        self.smallest_normal = self.tiny
        self.max = largest

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in shown)}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))


class iinfo:  # noqa: N801 - PyTorch's name
    """Limits of an integer type."""

    __slots__ = ("bits", "dtype", "max", "min")
    bits: int
    dtype: str
    max: int
    min: int

    def __init__(self, type: _C.dtype) -> None:
        if not isinstance(type, _C.dtype):
            raise TypeError(f"iinfo(): argument 'type' must be a dtype, got {type!r}")
        if type is _C.bool:
            raise TypeError("rushlight.bool is not supported by rushlight.iinfo")
        if type.is_floating_point or type.is_complex:
            raise TypeError(
                f"rushlight.iinfo() requires an integer input type, got {type}. Use rushlight.finfo instead."
            )
        self.bits = type.itemsize * 8
        self.dtype = type.name
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - type.is_signed) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))
