"""Marks that TorchScript's compiler reads from Python code: decorators, annotations and dispatch on constant flags.

Enters: functions and classes that PyTorch programs decorate. Leaves: the same objects, marked; run as Python they
behave as written. Nothing here compiles: that is `rushlight.jit`'s to refuse or, one day, to do.
"""

from __future__ import annotations

import functools
import inspect
import typing
import warnings
from collections.abc import Callable
from typing import Any, Final, Union, get_args, get_origin

from .futures import Future

__all__ = ["Final", "Future", "FunctionModifiers", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]


class Error(RuntimeError):
    """What a running script raises, with the lines it comes from."""


Error.__module__ = "rushlight.jit"


class FunctionModifiers:
    """What a mark says the script compiler should do with a function."""

    UNUSED = "unused"
    IGNORE = "ignore"
    EXPORT = "export"
    DEFAULT = "default"
    COPY_TO_SCRIPT_WRAPPER = "copy_to_script_wrapper"
    _DROP = "drop"


def is_scripting() -> bool:
    """Whether the code runs as compiled TorchScript: in Python, never."""
    return False


def _mark(fn: Any, modifier: str) -> Any:
    if isinstance(fn, property):   # the mark belongs to the functions behind it
        parts: tuple[Any, ...] = (fn.fget, fn.fset)
        for part in parts:
            if part is not None:
                part._torchscript_modifier = modifier
        return fn
    fn._torchscript_modifier = modifier
    return fn


def export(fn: Callable) -> Callable:
    """Compile the method even if forward does not call it."""
    return _mark(fn, FunctionModifiers.EXPORT)


def unused(fn: Callable) -> Callable:
    """Leave the function out of compiled code, where calling it raises."""
    return _mark(fn, FunctionModifiers.UNUSED)


def ignore(drop: Any = False, **kwargs: Any) -> Callable:
    """Leave the function in Python when its module is compiled. Used bare or with `drop`."""
    if callable(drop):
        return _mark(drop, FunctionModifiers.IGNORE)
    if not isinstance(drop, bool):
        raise RuntimeError(f"torch.jit.ignore: expected a bool or a function, got {drop}")
    if kwargs.pop("drop_on_export", None):
        warnings.warn(
            "ignore(drop_on_export=True) has been deprecated; use torch.jit.unused instead",
            category=FutureWarning,
            stacklevel=2,
        )
        drop = True
    return functools.partial(_mark, modifier=FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE)


def _drop(fn: Callable) -> Callable:
    return _mark(fn, FunctionModifiers._DROP)


def _copy_to_script_wrapper(fn: Callable) -> Callable:
    return _mark(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def get_torchscript_modifier(fn: Any) -> str | None:
    """The mark of a function; None if it cannot have one."""
    if not callable(fn):
        return None
    return getattr(getattr(fn, "__func__", fn), "_torchscript_modifier", FunctionModifiers.DEFAULT)


def copy_torchscript_modifier(orig: Any, new: Any) -> None:
    """Give a function the mark of another."""
    modifier = get_torchscript_modifier(orig)
    if modifier is not None:
        new._torchscript_modifier = modifier


def is_ignored_fn(fn: Any) -> bool:
    """Whether a function is left out of compiled code."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)


def should_drop(fn: Any) -> bool:
    """Whether compiled code raises where it would call the function."""
    return get_torchscript_modifier(fn) is FunctionModifiers.UNUSED


def module_has_exports(mod: Any) -> bool:
    """Whether a module has methods marked for export."""
    return any(get_torchscript_modifier(getattr(mod, name, None)) is FunctionModifiers.EXPORT for name in dir(mod))


# --- overloads and dispatch -------------------------------------------------------------------------------------------

_overloaded_fns: dict[str, list[Callable]] = {}
_overloaded_methods: dict[str, dict[str, list[Callable]]] = {}


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    module = getattr(obj, "__module__", None) or "__main__"
    if module == "__main__":
        return f"__torch__.{obj.__name__}"
    return f"{'__torch__.' if mangle_name else ''}{module}.{obj.__name__}"


def _overload(func: Callable) -> Callable:
    """Note one signature of a function whose last definition does the work."""
    _overloaded_fns.setdefault(_qualified_name(func), []).append(func)
    return func


def _overload_method(func: Callable) -> Callable:
    """Note one signature of a method whose last definition does the work."""
    owner = func.__qualname__.rpartition(".")[0]
    _overloaded_methods.setdefault(_qualified_name(func), {}).setdefault(owner, []).append(func)
    return func


def _get_fn_overloads(qual_name: str) -> list[Callable] | None:
    return _overloaded_fns.get(qual_name)


def _clear_fn_overloads(qual_name: str) -> None:
    del _overloaded_fns[qual_name]


boolean_dispatched: dict[Callable, dict[str, Any]] = {}


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable,
    if_false: Callable,
    module_name: str | None,
    func_name: str,
) -> Callable:
    """One function that calls `if_true` or `if_false` by the flag `arg_name`."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    described = (if_true, if_false)
    if all(f.__doc__ is not None for f in described):
        raise RuntimeError("only one function can have a docstring")
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    fn.__name__ = func_name or fn.__name__
    if module_name is not None:
        fn.__module__ = module_name
    boolean_dispatched[fn] = {
        "if_true": if_true,
        "if_false": if_false,
        "index": arg_index,
        "default": default,
        "arg_name": arg_name,
    }
    return fn


# --- annotations ------------------------------------------------------------------------------------------------------


class BroadcastingListCls:
    """`BroadcastingList2[int]`: a list of two, or one value for both. In Python it is only an annotation."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = (
    BroadcastingList6
) = BroadcastingListCls()


def is_tuple(ann: Any) -> bool:
    """Whether an annotation is a tuple's."""
    return ann is tuple or get_origin(ann) is tuple


def is_list(ann: Any) -> bool:
    """Whether an annotation is a list's."""
    return ann is list or get_origin(ann) is list


def is_dict(ann: Any) -> bool:
    """Whether an annotation is a dict's."""
    return ann is dict or get_origin(ann) is dict


def is_union(ann: Any) -> bool:
    """Whether an annotation is a union's."""
    return get_origin(ann) in (Union, type(int | str))


def is_optional(ann: Any) -> bool:
    """Whether an annotation is a union with None."""
    return is_union(ann) and type(None) in get_args(ann)


def is_future(ann: Any) -> bool:
    """Whether an annotation is a future's."""
    return ann is Future or get_origin(ann) is Future


def is_final(ann: Any) -> bool:
    """Whether an annotation is Final."""
    return ann is Final or get_origin(ann) is Final


def _isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance for annotations too: `list[int]`, `Optional[Tensor]`, `Dict[str, Tensor]`."""
    if isinstance(target_type, tuple):
        return any(_isinstance(obj, t) for t in target_type)
    if is_union(target_type):
        return any(_isinstance(obj, t) for t in get_args(target_type))
    origin, inner = get_origin(target_type), get_args(target_type)
    if target_type in (typing.List, typing.Dict, typing.Tuple, typing.Optional):  # noqa: UP006
        raise RuntimeError(
            f"Attempted to use {target_type} without a contained type. Please add a contained type, e.g."
            f" {target_type}[int]"
        )
    if origin is None:
        return isinstance(obj, type(None) if target_type is None else target_type)
    if not isinstance(obj, origin):
        return False
    if origin is list:
        return all(_isinstance(x, inner[0]) for x in obj)
    if origin is dict:
        return all(_isinstance(k, inner[0]) and _isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple and inner:
        return len(obj) == len(inner) and all(_isinstance(x, t) for x, t in zip(obj, inner, strict=True))
    return True


class _IgnoreContextManager:
    """`with torch.jit._IgnoreContextManager(...)`: a plain block in Python."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


def get_static_fn(cls: type, fn: str) -> Any:
    """A class's attribute as it is stored."""
    return inspect.getattr_static(cls, fn, None)


def is_static_fn(cls: type, fn: str) -> bool:
    """Whether a class's attribute is a static method."""
    return isinstance(get_static_fn(cls, fn), staticmethod)
