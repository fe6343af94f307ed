"""Methods, operators and attributes of tensors as ATen's ops: those whose op has another name, or is several.

Enters: what the program gives them. Leaves: their results, written down. `NAMES` are plain renamings, `OPERATORS` and
`METHODS` have bodies of their own, `ATTRIBUTES` are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import late
from .aten import call, call_with, ignored
from .operators import WRITTEN_IN_PYTHON

Tensor = _C.Tensor
NAMES = {
    "__eq__": "eq", "__ne__": "ne", "__invert__": "bitwise_not", "cross_entropy": "cross_entropy_loss",
    "__div__": "div", "__idiv__": "div_", "__itruediv__": "div_", "__pow__": "pow", "__ipow__": "pow_",
    "__matmul__": "matmul", "logsigmoid": "log_sigmoid",
}


# --- conversions ------------------------------------------------------------------------------------------------------


def _to_dtype(tensor: Any, dtype: Any, non_blocking: bool, memory_format: Any) -> Any:
    torch = late.provided("package")
    return call_with("to", lambda *_: torch.Tensor.to(tensor, dtype, memory_format=memory_format),
                     (tensor, dtype, non_blocking, False, memory_format), {})


def _converting(dtype: str) -> Callable:
    def convert(self: Any, memory_format: Any = None) -> Any:
        torch = late.provided("package")
        return _to_dtype(self, getattr(torch, dtype), False, memory_format)

    return convert


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`x.to(dtype)`, `x.to(device)`, `x.to(device, dtype)`, `x.to(other)`: each has an overload of its own."""
    torch = late.provided("package")
    other = args[0] if args and isinstance(args[0], Tensor) else kwargs.get("other")
    names = ("device", "dtype", "non_blocking", "copy")
    if args and isinstance(args[0], _C.dtype):
        names = names[1:]
    given = dict(zip(("other", *names[2:]) if other is not None else names, args, strict=False)) | kwargs
    flags = (given.get("non_blocking", False), given.get("copy", False), given.get("memory_format"))
    dtype, device = given.get("dtype"), given.get("device")

    def run(*_: Any, **__: Any) -> Any:
        return torch.Tensor.to(self, *args, **kwargs)

    if other is not None:
        dtype, device = ignored(lambda: (other.dtype, other.device))
        return call_with("to", run, (self, device, dtype, *flags), {})
    if device is None and dtype is not None:
        return call_with("to", run, (self, dtype, *flags), {})
    if device is not None and dtype is not None:
        return call_with("to", run, (self, _C.device(device), dtype, *flags), {})
    made: tuple[Any, ...] = (None, None, None)
    if device is not None:
        made = (ignored(lambda: self.dtype), torch.strided, _C.device(device))
    options = {"dtype": made[0], "layout": made[1], "device": made[2], "pin_memory": None, "non_blocking": flags[0],
               "copy": flags[1], "memory_format": flags[2]}
    return call_with("to", run, (self,), options)


def cpu(self: Any, memory_format: Any = None) -> Any:
    return to(self, "cpu") if memory_format is None else to(self, "cpu", memory_format=memory_format)


def type_of(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """`x.type()` tells, `x.type(dtype)` converts."""
    torch = late.provided("package")
    if dtype is None:
        return ignored(lambda: torch.Tensor.type(self))
    made = ignored(lambda: torch.Tensor.type(self, dtype).dtype)
    return _to_dtype(self, made, non_blocking, None)


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    return call_with("copy_", lambda target, source, _: Tensor.copy_(target, source), (self, src, non_blocking), {})


def conj(self: Any) -> Any:
    if not ignored(lambda: self.is_complex()):
        return self
    return call_with("_conj", Tensor.conj, (self,), {})


def contiguous(self: Any, memory_format: Any = None) -> Any:
    torch = late.provided("package")
    return call("contiguous", self, memory_format=memory_format or torch.contiguous_format)


_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
                "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
                "cfloat": "complex64", "cdouble": "complex128"}
OPERATORS: dict[str, Callable] = dict(WRITTEN_IN_PYTHON)
OPERATORS.update({name: _converting(dtype) for name, dtype in _CONVERSIONS.items()})
OPERATORS.update({"to": to, "cpu": cpu, "contiguous": contiguous, "copy_": copy_, "conj": conj})


# --- methods that are functions of Python here ------------------------------------------------------------------------


def _plain(name: str) -> Callable:
    """A method that is one op under the same name."""
    def method(*args: Any, **kwargs: Any) -> Any:
        held = getattr(Tensor, name, None) or getattr(late.provided("package"), name)
        return call_with(name, held, args, kwargs)

    return method


def einsum(equation: str, *operands: Any) -> Any:
    rows = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    return call_with("einsum", lambda *_, **__: late.provided("package").einsum(equation, *rows), (equation, rows), {})


def where(condition: Any, *rest: Any, **kwargs: Any) -> Any:
    if isinstance(condition, Tensor) and rest and isinstance(rest[0], Tensor) and ignored(
            lambda: condition.dtype) is not _C.bool:
        condition, rest = rest[0], (condition, *rest[1:])          # x.where(condition, other)
    torch = late.provided("package")
    return call_with("where", torch.where, (condition, *rest), kwargs)


METHODS: dict[str, Callable] = {
    name: _plain(name)
    for name in ("resize_", "resize_as_", "squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_",
                 "as_strided_", "conj_physical_", "polygamma", "broadcast_tensors", "set_", "pin_memory")
}
METHODS.update({"einsum": einsum, "type": type_of})


# --- attributes -------------------------------------------------------------------------------------------------------


def _reading(name: str, op: str) -> Callable:
    def read(self: Any) -> Any:
        return call_with(op, lambda tensor: getattr(tensor, name), (self,), {})

    return read


ATTRIBUTES: dict[str, Callable] = {name: _reading(name, op) for name, op in (
    ("T", "numpy_T"), ("mT", "mT"), ("H", "matrix_H"), ("mH", "mH"), ("real", "real"), ("imag", "imag"))}
