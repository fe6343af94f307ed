"""What the builtins of the language do, apart from tensors' ops: one Python function, or one piece of Python, each.

Enters: the kind of a node. Leaves: `TEXTS`, Python with `{0}`, `{1}` for the inputs, which the executor writes into its
functions; `FUNCTIONS`, callables for the rest. Both take values of the program as Python has them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late
from . import types as t
from .arithmetic import NUMBERS, text_of as number_text
from .classes import Object
from .fast_paths import attention, encoder_layer
from .ir import Node
from .printing import formatted, percent_formatted, printed, show


def item_of(row: Any, index: Any) -> Any:
    """An element of a list or string, with the errors of the language."""
    try:
        return row[index]
    except IndexError:
        raise IndexError(f"{'string' if isinstance(row, str) else 'list'} index out of range") from None
    except KeyError:
        raise RuntimeError(f"KeyError: {printed(index)}") from None


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


def extended(row: list, more: list) -> list:
    row.extend(more)
    return row


def repeated(row: list, times: int) -> list:
    row *= times
    return row


def pop_first(held: dict) -> tuple[Any, Any]:
    """`popitem`: here the pair that came first."""
    if not held:
        raise RuntimeError("popitem(): dictionary is empty")
    key = next(iter(held))
    return key, held.pop(key)


def character(code: int) -> str:
    if not 0 <= code < 0x110000:
        raise RuntimeError(f"chr() arg not in range(0x110000), found {code}")
    return chr(code)


def text_of(node: Node) -> str | None:
    """Python for a node, with `{0}`, `{1}` for what it reads; None where a function is called."""
    text = TEXTS.get(node.kind_)
    if text is None or node.kind_ not in NUMBERS:
        return text
    kinds = (t.IntType, t.FloatType, t.ComplexType, t.NumberType, t.BoolType)
    if len(node.outputs_) == 1 and isinstance(node.outputs_[0].type_, kinds):
        return number_text(node)
    return text


def joined(separator: str, parts: list[str]) -> str:
    return separator.join(parts)


def derived_index(index: int, start: int, step: int) -> int:
    return start + index * step


def range_length(low: int, high: int, step: int) -> int:
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(low, high, step))


def sorted_row(row: list) -> list:
    return sorted(row)


def sort_row(row: list, reverse: bool = False) -> None:
    row.sort(reverse=reverse)


def unwrapped(value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def to_float(value: Any) -> float:
    return float(value.item()) if isinstance(value, _C.Tensor) else float(value)


def to_bool(value: Any) -> bool:
    return bool(value)


def to_complex(real: Any, imag: Any = 0) -> complex:
    return complex(real) if imag == 0 else complex(real, imag)


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


def _gradients(*values: Any) -> list:
    return list(late.provided("package").autograd.grad(*values))


def _backward(*values: Any) -> None:
    late.provided("package").autograd.backward(*values)


def _save(item: Any, filename: str) -> None:
    late.provided("package").save(item, filename)


def listed(tensor: Any, depth: int, kind: int) -> Any:
    """`x.tolist()` as its place declares it."""
    if tensor.dim() != depth:
        raise RuntimeError(f"tolist(): the annotation says lists {depth} deep, and the tensor has {tensor.dim()}"
                           " dimensions")
    found = "int" if not (tensor.is_floating_point() or tensor.is_complex()) else (
        "complex" if tensor.is_complex() else "float")
    if str(tensor.dtype).endswith("bool"):
        found = "bool"
    if found != ("int", "float", "bool", "complex")[kind]:
        raise RuntimeError("tolist(): the annotation says elements of type"
                           f" {('int', 'float', 'bool', 'complex')[kind]}, and the tensor is of {tensor.dtype}")
    return tensor.tolist()


def promoted(first: int, second: int) -> int:
    from .constants import DTYPE_NUMBERS, NUMBERED_DTYPES

    return DTYPE_NUMBERS[late.provided("package").promote_types(NUMBERED_DTYPES[first], NUMBERED_DTYPES[second])]


def can_cast(first: int, second: int) -> bool:
    from .constants import NUMBERED_DTYPES

    return late.provided("package").can_cast(NUMBERED_DTYPES[first], NUMBERED_DTYPES[second])


def result_type(first: Any, second: Any) -> int:
    from .constants import DTYPE_NUMBERS

    return DTYPE_NUMBERS[late.provided("package").result_type(first, second)]


def layout_number(tensor: Any) -> int:
    from .constants import as_number

    return as_number(tensor.layout)  # type: ignore[return-value]


def device_index(device: Any) -> int | None:
    return device.index


def warned(message: str, level: int = 2) -> None:
    """`warnings.warn` of a script: the line is the program's, which Python does not see."""
    warnings.warn(message, stacklevel=level)


def hashed(value: Any) -> int:
    """`hash`. Refuses objects."""
    if isinstance(value, Object):
        raise RuntimeError(f"unhashable type: '{value.type}'")
    return hash(value)


TEXTS = {
    "aten::add": "({0} + {1})", "aten::sub": "({0} - {1})", "aten::mul": "({0} * {1})", "aten::neg": "(-{0})",
    "aten::floordiv": "({0} // {1})", "aten::remainder": "({0} % {1})", "aten::lt": "({0} < {1})",
    "aten::le": "({0} <= {1})", "aten::gt": "({0} > {1})", "aten::ge": "({0} >= {1})", "aten::eq": "({0} == {1})",
    "aten::wait": "{0}.wait()",
    "aten::ne": "({0} != {1})", "aten::__not__": "(not {0})", "aten::__is__": "({0} is {1})",
    "aten::__isnot__": "({0} is not {1})", "aten::__and__": "({0} & {1})", "aten::__or__": "({0} | {1})",
    "aten::__xor__": "({0} ^ {1})",
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
    "prim::NumToTensor": number_as_tensor, "aten::warn": warned,
    "aten::_native_multi_head_attention": attention, "aten::_transformer_encoder_layer_fwd": encoder_layer,
    **NUMBERS, "aten::__getitem__": item_of, "aten::_set_item": set_item,
    "aten::select": item_of, "aten::append": appended, "aten::insert": changed("insert"),
    "aten::extend": changed("extend"), "aten::remove": changed("remove"), "aten::reverse": changed("reverse"),
    "aten::update": changed("update"), "aten::sort": sort_row, "aten::pop": pop, "aten::Delete": delete_item,
    "aten::sorted": sorted_row, "aten::add_": extended, "aten::mul_": repeated, "aten::format": formatted,
    "aten::percentFormat": percent_formatted, "aten::str": printed, "aten::join": joined,
    "aten::__range_length": range_length, "aten::__derive_index": derived_index,
    "aten::Float": to_float, "aten::Bool": to_bool, "aten::Complex": to_complex,
    "aten::FloatImplicit": to_float, "aten::ComplexImplicit": lambda x: complex(x.item()),
    "aten::ScalarImplicit": lambda x: x.item(), "aten::_unwrap_optional": unwrapped,
    "aten::ord": ord, "aten::chr": character, "aten::divmod": divmod,
    "aten::hash": hashed, "aten::split": split_words, "prim::Print": show, "aten::any": any,
    "aten::all": all, "aten::__contains__": lambda held, key: key in held, "aten::get": lambda d, k, *x: d.get(k, *x),
    "aten::is_grad_enabled": _C.is_grad_enabled, "aten::set_grad_enabled": _C._set_grad_enabled,
    "prim::EnumName": lambda member: member.name, "prim::EnumValue": lambda member: member.value,
    "aten::setdefault": lambda d, k, v: d.setdefault(k, v), "aten::popitem": pop_first,
    "prim::tolist": listed, "prim::layout": layout_number, "prim::index": device_index,
    "prim::type": lambda device: device.type, "aten::promote_types": promoted, "aten::can_cast": can_cast,
    "aten::result_type": result_type, "aten::grad": _gradients, "aten::backward": _backward, "aten::save": _save,
    "aten::device": _C.device, "prim::StringIndex": item_of,
    "aten::__round_to_zero_floordiv": divide_to_zero,
    "aten::bitwise_not": lambda x: ~x, "aten::slice": part, "aten::size": sizes, "aten::tensor": new_tensor,
}
_OF_STRINGS = ("capitalize", "title", "center", "count", "endswith", "startswith", "expandtabs", "find", "rfind",
               "rindex", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
               "isprintable", "isspace", "istitle", "isupper", "ljust", "rjust", "lstrip", "rstrip", "strip",
               "partition", "rpartition", "replace", "rsplit", "splitlines", "swapcase", "zfill", "index")


_WITHIN = ("count", "endswith", "startswith", "find", "rfind", "index", "rindex")      # take a start and an end


def _method(name: str) -> Callable[..., Any]:
    def call(held: Any, *args: Any) -> Any:
        if name in _WITHIN and len(args) == 3 and args[2] < 0:       # -1 is the end itself
            args = (*args[:2], max(0, len(held) + 1 + args[2]))
        found = getattr(held, name)(*args)
        return list(found) if isinstance(found, tuple) and name not in ("partition", "rpartition") else found

    return call


for _name in _OF_STRINGS:
    FUNCTIONS.setdefault(f"aten::{_name}", _method(_name))
