"""What the builtins of the language do, apart from tensors' ops: one Python function, or one piece of Python, each.

Enters: the kind of a node. Leaves: `TEXTS`, Python with `{0}`, `{1}` for the inputs, which the executor writes into its
functions; `FUNCTIONS`, callables for the rest. Both take values of the program as Python has them.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late

INT_MIN = -(2**63)


def _floor(value: Any) -> Any:
    return math.floor(value)


def wrapped(value: int) -> int:
    """An integer as 64 bits hold it."""
    return (value + 2**63) % 2**64 - 2**63 if not -(2**63) <= value < 2**63 else value


def divide(a: Any, b: Any) -> Any:
    """True division; of numbers by zero, as C++ does it for floats."""
    try:
        return a / b
    except ZeroDivisionError:
        raise RuntimeError("division by zero") from None


def item_of(row: Any, index: Any) -> Any:
    """An element of a list or string, with the errors of the language."""
    try:
        return row[index]
    except IndexError:
        raise IndexError(f"{'string' if isinstance(row, str) else 'list'} index out of range") from None


def set_item(row: Any, index: Any, value: Any) -> Any:
    row[index] = value
    return row


def delete_item(row: Any, index: Any) -> None:
    del row[index]


def pop(row: Any, *at: Any) -> Any:
    if not row and isinstance(row, list):
        raise IndexError("pop from empty list")
    return row.pop(*at)


def pop_key(held: dict, key: Any, *default: Any) -> Any:
    return held.pop(key, *default)


def appended(row: list, value: Any) -> list:
    row.append(value)
    return row


def changed(method: str) -> Callable[..., Any]:
    """A method of a list that changes it and answers nothing."""
    def call(row: Any, *args: Any) -> None:
        getattr(row, method)(*args)

    return call


def number_text(value: Any) -> str:
    """`str(value)` as the language prints it."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    from .text.values import shown_float

    return shown_float(value) if not value.is_integer() or abs(value) >= 1e10 else f"{int(value)}."


def formatted(text: str, *values: Any) -> str:
    """`'{}'.format(...)`, plain braces only."""
    parts = text.split("{}")
    out = parts[0]
    for i, part in enumerate(parts[1:]):
        if i >= len(values):
            raise RuntimeError(f"Too few arguments for format string: {text}")
        out += (str(values[i]) if not isinstance(values[i], float) else repr_float(values[i])) + part
    return out.replace("{{", "{").replace("}}", "}")


def repr_float(value: float) -> str:
    return number_text(value)


def percent_formatted(text: str, *values: Any) -> str:
    return text % tuple(values)


def joined(separator: str, parts: list[str]) -> str:
    return separator.join(parts)


def derived_index(index: int, start: int, step: int) -> int:
    return start + index * step


def range_length(low: int, high: int, step: int) -> int:
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(low, high, step))


def minimum(*values: Any) -> Any:
    return min(*values) if len(values) > 1 or values[0] else _empty("min")


def maximum(*values: Any) -> Any:
    return max(*values) if len(values) > 1 or values[0] else _empty("max")


def _empty(word: str) -> Any:
    raise ValueError(f"{word}() arg is an empty sequence")


def sorted_row(row: list) -> list:
    return sorted(row)


def sort_row(row: list, reverse: bool = False) -> None:
    row.sort(reverse=reverse)


def rounded(value: Any) -> Any:
    return float(round(value)) if isinstance(value, (int, float)) else round(value)


def same(a: Any, b: Any) -> bool:
    return a is b or (not isinstance(a, _C.Tensor) and not isinstance(b, _C.Tensor) and a is b)


def unwrapped(value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def to_int(value: Any) -> int:
    if isinstance(value, _C.Tensor):
        return int(value.item())
    return int(value)


def to_float(value: Any) -> float:
    return float(value.item()) if isinstance(value, _C.Tensor) else float(value)


def to_bool(value: Any) -> bool:
    return bool(value)


def to_complex(real: Any, imag: Any = 0) -> complex:
    return complex(real) if imag == 0 else complex(real, imag)


def power(a: Any, b: Any) -> Any:
    result = a ** b
    return float(result) if isinstance(result, int) else result


def split_words(text: str, separator: str | None = None, most: int = -1) -> list[str]:
    return text.split(separator, most)


def divide_to_zero(a: int, b: int) -> int:
    """Integer division as C++ has it."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def part(row: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A slice of a list or a string."""
    return row[start:end:step]


def sizes(tensor: Any, dim: int | None = None) -> Any:
    """The sizes of a tensor as a list, or one of them."""
    return list(tensor.shape) if dim is None else tensor.size(dim)


def new_tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """`torch.tensor` with a dtype by number."""
    from .constants import NUMBERED_DTYPES

    made = late.provided("package").tensor(data, dtype=None if dtype is None else NUMBERED_DTYPES[dtype], device=device)
    return made.requires_grad_() if requires_grad else made


def show(*values: Any) -> None:
    print(*values)


TEXTS = {
    "aten::add": "({0} + {1})", "aten::sub": "({0} - {1})", "aten::mul": "({0} * {1})", "aten::neg": "(-{0})",
    "aten::floordiv": "({0} // {1})", "aten::remainder": "({0} % {1})", "aten::lt": "({0} < {1})",
    "aten::le": "({0} <= {1})", "aten::gt": "({0} > {1})", "aten::ge": "({0} >= {1})", "aten::eq": "({0} == {1})",
    "aten::wait": "{0}.wait()",
    "aten::ne": "({0} != {1})", "aten::__not__": "(not {0})", "aten::__is__": "({0} is {1})",
    "aten::__isnot__": "({0} is not {1})", "aten::__and__": "({0} & {1})", "aten::__or__": "({0} | {1})",
    "aten::__xor__": "({0} ^ {1})", "aten::__lshift__": "({0} << {1})", "aten::__rshift__": "({0} >> {1})",
    "aten::len": "len({0})", "prim::TupleIndex": "{0}[{1}]", "aten::keys": "list({0}.keys())",
    "aten::values": "list({0}.values())", "aten::items": "list({0}.items())", "aten::list": "list({0})",
    "aten::copy": "{0}.copy()", "aten::dict": "dict({0})", "prim::unchecked_cast": "{0}",
    "prim::unchecked_unwrap_optional": "{0}", "prim::EnumName": "{0}.name", "prim::EnumValue": "{0}.value",
    "aten::upper": "{0}.upper()", "aten::lower": "{0}.lower()", "prim::rangelist": "list(range({0}))",
    "aten::clear": "{0}.clear()", "prim::device": "{0}.device", "prim::is_cuda": "{0}.is_cuda",
    "prim::is_cpu": "{0}.is_cpu",
    "prim::is_meta": "{0}.is_meta", "prim::is_sparse": "{0}.is_sparse", "prim::is_quantized": "{0}.is_quantized",
    "prim::is_nested": "{0}.is_nested", "prim::is_mkldnn": "{0}.is_mkldnn", "prim::is_xla": "{0}.is_xla",
    "prim::is_mps": "{0}.is_mps", "prim::is_xpu": "{0}.is_xpu", "prim::is_sparse_csr": "{0}.is_sparse_csr",
    "prim::requires_grad": "{0}.requires_grad", "prim::grad": "{0}.grad", "prim::data": "{0}.data",
    "prim::itemsize": "{0}.itemsize", "prim::nbytes": "{0}.nbytes", "aten::is_leaf": "{0}.is_leaf",
    "aten::dim": "{0}.dim()", "aten::numel": "{0}.numel()", "aten::is_floating_point": "{0}.is_floating_point()",
    "aten::is_complex": "{0}.is_complex()", "aten::is_contiguous": "{0}.is_contiguous()",
    "aten::element_size": "{0}.element_size()",
    "aten::storage_offset": "{0}.storage_offset()", "aten::item": "{0}.item()", "aten::get_device": "{0}.get_device()",
    "aten::is_signed": "{0}.is_signed()", "aten::retains_grad": "{0}.retains_grad", "aten::output_nr": "{0}.output_nr",
}
def number_as_tensor(value: Any) -> Any:
    """A number as a tensor of no dimension, as traces have sizes."""
    return late.provided("package").tensor(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "prim::NumToTensor": number_as_tensor,
    "aten::div": divide, "aten::pow": power, "aten::__getitem__": item_of, "aten::_set_item": set_item,
    "aten::select": item_of, "aten::append": appended, "aten::insert": changed("insert"),
    "aten::extend": changed("extend"), "aten::remove": changed("remove"), "aten::reverse": changed("reverse"),
    "aten::update": changed("update"), "aten::sort": sort_row, "aten::pop": pop, "aten::Delete": delete_item,
    "aten::sorted": sorted_row, "prim::min": minimum, "prim::max": maximum, "prim::abs": abs, "aten::round": rounded,
    "aten::format": formatted, "aten::percentFormat": percent_formatted, "aten::str": number_text, "aten::join": joined,
    "aten::__range_length": range_length, "aten::__derive_index": derived_index, "aten::Int": to_int,
    "aten::Float": to_float, "aten::Bool": to_bool, "aten::Complex": to_complex, "aten::IntImplicit": to_int,
    "aten::FloatImplicit": to_float, "aten::ComplexImplicit": lambda x: complex(x.item()),
    "aten::ScalarImplicit": lambda x: x.item(), "aten::_unwrap_optional": unwrapped, "aten::floor": _floor,
    "aten::ceil": math.ceil, "aten::sqrt": lambda x: math.sqrt(x) if not isinstance(x, complex) else cmath.sqrt(x),
    "aten::ord": ord, "aten::chr": chr, "aten::hex": hex, "aten::bin": bin, "aten::oct": oct, "aten::divmod": divmod,
    "aten::hash": hash, "aten::split": split_words, "prim::Print": show, "aten::sum": sum, "aten::any": any,
    "aten::all": all, "aten::__contains__": lambda held, key: key in held, "aten::get": lambda d, k, *x: d.get(k, *x),
    "aten::setdefault": lambda d, k, v: d.setdefault(k, v), "aten::popitem": lambda d: d.popitem(),
    "aten::device": _C.device, "prim::StringIndex": item_of, "aten::mathremainder": math.remainder,
    "aten::fabs": math.fabs, "aten::copysign": math.copysign, "aten::gcd": math.gcd, "aten::factorial": math.factorial,
    "aten::degrees": math.degrees, "aten::radians": math.radians, "aten::frexp": math.frexp, "aten::modf": math.modf,
    "aten::ldexp": math.ldexp, "aten::isnan": math.isnan, "aten::isinf": math.isinf, "aten::isfinite": math.isfinite,
    "aten::is_grad_enabled": _C.is_grad_enabled, "aten::set_grad_enabled": _C._set_grad_enabled,
    "prim::EnumName": lambda member: member.name, "prim::EnumValue": lambda member: member.value,
    "aten::__round_to_zero_floordiv": divide_to_zero,
    "aten::bitwise_not": lambda x: ~x, "aten::slice": part, "aten::size": sizes, "aten::tensor": new_tensor,
}
_MATH = ("log", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
         "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma", "fmod")
for _name in _MATH:
    FUNCTIONS[f"aten::{_name}"] = getattr(math, _name)
_OF_STRINGS = ("capitalize", "title", "center", "count", "endswith", "startswith", "expandtabs", "find", "rfind",
               "rindex", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
               "isprintable", "isspace", "istitle", "isupper", "ljust", "rjust", "lstrip", "rstrip", "strip",
               "partition", "rpartition", "replace", "rsplit", "splitlines", "swapcase", "zfill", "index")


def _method(name: str) -> Callable[..., Any]:
    def call(held: Any, *args: Any) -> Any:
        found = getattr(held, name)(*args)
        return list(found) if isinstance(found, tuple) and name not in ("partition", "rpartition") else found

    return call


for _name in _OF_STRINGS:
    FUNCTIONS.setdefault(f"aten::{_name}", _method(_name))
