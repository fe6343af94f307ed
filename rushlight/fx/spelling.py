"""How things are written in graphs: qualified names of functions and types, and values as source text.

Enters: functions, ops, overloads, types and values. Leaves: the text PyTorch would print for them. Rushlight's own
things are spelled under `torch`, which in generated code is this package: the same text therefore runs natively and
under the compatibility layer. Refuses: functions without a name to find them by.

An op called through `nn.functional` is another object than the one at top level (they compare equal): that is how
`torch.relu(x)` and `torch.nn.functional.relu(x, inplace = False)` keep their own spelling.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from .. import _C, fft, linalg, special
from .._C import Tensor
from ..aten.namespaces import namespace
from ..aten.overloads import AtenOverload
from ..base import homes, late
from ..base.shape import Size, layout, memory_format
from ..nn import functional
from ..op import ops, published

PACKAGE = __name__.partition(".")[0]     # while this module is loaded it has its own name

# Namespaces of PyTorch's core that hold the built-in functions of a public module, and what their names begin with.
_CORE_NAMESPACES = ((linalg, "_linalg", "linalg_"), (fft, "_fft", "fft_"), (special, "_special", "special_"))

_CORE_SPELLING = {"logsigmoid": "log_sigmoid"}

# PyTorch writes these in Python, in torch.functional, although they are published at top level.
FUNCTIONAL = frozenset((
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "cdist", "chain_matmul", "einsum", "lu", "meshgrid", "norm", "split", "stft", "tensordot", "unique",
    "unique_consecutive", "unravel_index",
))


def package() -> types.ModuleType:
    """The package itself: what generated code calls `torch`."""
    return late.provided("package")


_OPS_OF_ATEN = frozenset(("quantized_gru", "quantized_lstm"))     # PyTorch's functions of these names are ops.aten's


@functools.cache
def _op_names() -> dict[int, str]:
    """Where PyTorch keeps the function that each op object stands for, by identity."""
    found: dict[int, str] = {}
    for name, op in published("").items():
        space = "functional." if name in FUNCTIONAL else "ops.aten." if name in _OPS_OF_ATEN else ""
        found.setdefault(id(op), f"torch.{space}{name}")
    for name, op in vars(functional).items():
        if isinstance(op, _C.Op) and not name.startswith("_functional_"):
            found.setdefault(id(op), _functional_name(name))
    for public, private, prefix in _CORE_NAMESPACES:
        for name, op in _public_ops(public).items():
            found.setdefault(id(op), f"torch._C.{private}.{prefix}{name}")
    for name, op in ops.items():
        found.setdefault(
            id(op),
            (
                f"torch.Tensor.{name}"
                if getattr(Tensor, name, None) is op
                else f"torch.ops.{name.replace('::', '.') if '::' in name else 'aten.' + name}"
            ),
        )
    return found


def _functional_name(name: str) -> str:
    if name in functional._CORE_NAMES:
        return f"torch._C._nn.{_CORE_SPELLING.get(name, name)}"
    return f"torch.{name}" if name in functional._SHARED_NAMES else f"torch.nn.functional.{name}"


def _public_ops(module: types.ModuleType) -> dict[str, Any]:
    """The ops of a public module, as it has them."""
    return {name: op for name, op in vars(module).items() if isinstance(op, _C.Op)}


def install_core_namespaces() -> None:
    """Make `_C._linalg`, `_C._fft` and `_C._special`, the places graph code looks for PyTorch's built-in functions."""
    core: Any = _C
    for name, core_name in _CORE_SPELLING.items():
        setattr(core._nn, core_name, getattr(functional, name))
    for public, private, prefix in _CORE_NAMESPACES:
        if not hasattr(core, private):
            setattr(core, private, types.SimpleNamespace(**{prefix + n: op for n, op in _public_ops(public).items()}))


def op_name(op: Any) -> str:
    """The text for an op object; operator forms of tensors are spelled as their op."""
    found = _op_names().get(id(op))
    if found is None:
        _op_names.cache_clear()   # ops may have been registered since
        found = _op_names().get(id(op)) or _op_names().get(id(ops.get(op.__name__)))
    return found or f"torch.ops.{op.__name__.replace('::', '.')}"


def qualified_name(func: Callable) -> str:
    """The dotted name under which a function can be found."""
    if isinstance(func, _C.Op):
        return op_name(func)
    if isinstance(func, (_C.Overload, AtenOverload)):
        return f"torch.ops.{func}"
    if hasattr(func, "_qualified_op_name"):
        return f"torch.ops.{func._qualified_op_name.replace('::', '.')}"
    name = func.__name__
    if getattr(builtins, name, None) is func:
        return name
    if (
        isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType))
        and getattr(Tensor, name, None) is func
    ):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        name = _lambda_name(func)
    module = func.__module__ or _module_of(func, name)
    if homes.is_ours(module):
        return _under_torch(module) + "." + name
    return f"{module}.{name}"


def _lambda_name(func: Callable) -> str:
    try:
        return inspect.getsource(func).split("=")[0].strip()
    except (OSError, TypeError) as failure:
        raise RuntimeError("Unable to represent lambda") from failure


def _module_of(func: Callable, name: str) -> str:
    for place, module in (("torch", package()), ("torch.nn.functional", functional)):
        if getattr(module, name, None) is func:
            return place
    raise RuntimeError(f"cannot find module for {func}")


def is_ours(obj: Any) -> bool:
    """Whether a thing is found under the name `torch` in generated code."""
    if isinstance(obj, (_C.Overload, AtenOverload)):
        return is_found_by_name(obj)
    if isinstance(obj, _C.Op) or hasattr(obj, "_qualified_op_name"):
        return True
    module = getattr(obj, "__module__", None)
    if not homes.is_ours(module):
        return False
    return "<locals>" not in getattr(obj, "__qualname__", "")


def is_found_by_name(overload: Any) -> bool:
    """Whether an overload's text leads to an overload of the same definition.
    Those made for one transform have no name."""
    space, name, label = str(overload).split(".")
    packet = getattr(namespace(space), name, None)
    found = getattr(packet, label, None) if packet is not None else None
    if isinstance(found, AtenOverload):     # it takes what any overload of its op does
        return found is overload or overload in found.op.overload_list
    return found is overload or (
        found is not None and name.endswith("_vjp") and type(found.definition) is type(overload.definition)
    )


def type_text(obj: Any) -> str:
    """A type as an annotation shows it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{public_module(obj)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, types.FunctionType) else repr(obj)


def public_module(obj: Any) -> str:
    """The module of a type, ours under `torch`: the shortest place that has it."""
    module = obj.__module__
    if not homes.is_ours(module):
        return module
    return "torch" if getattr(package(), obj.__qualname__, None) is obj else _under_torch(module)


def _under_torch(module: str) -> str:
    return "torch" + "".join(module.partition(".")[1:])


_SPELLED_TYPES = (_C.dtype, layout, memory_format, Size)


def value_text(value: Any) -> str:
    """`repr`, with our dtypes, layouts, memory formats and sizes under `torch`."""
    text = repr(value)
    if type(value) in _SPELLED_TYPES and text.startswith(PACKAGE + "."):
        return "torch." + text[len(PACKAGE) + 1 :]
    return text


def plain_text(value: Any) -> str:
    """`str`, likewise."""
    return value_text(value) if type(value) in _SPELLED_TYPES else str(value)


def is_method_of_tensor(func: Any) -> bool:
    """Whether a call of `func` is a method call in PyTorch: an operator form,
    or an op that is published as a method alone."""
    if isinstance(func, (_C.Overload, AtenOverload)):
        return False
    if not isinstance(func, _C.Op):
        name = getattr(func, "__name__", "")
        return getattr(Tensor, name, None) is func and getattr(package(), name, None) is not func
    return op_name(func).startswith("torch.Tensor.") or id(func) not in _op_names()
