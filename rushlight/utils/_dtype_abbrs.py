"""Short names of dtypes, as printed graphs and schemas of shapes use them: `f32[2, 3]`."""

from .. import _C

_SHORT = {
    "bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2", "complex32": "c32", "complex64": "c64", "complex128": "c128", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}

dtype_abbrs = {getattr(_C, name): short for name, short in _SHORT.items() if hasattr(_C, name)}
dtype_abbrs_parsing = {short: dtype for dtype, short in dtype_abbrs.items()}
