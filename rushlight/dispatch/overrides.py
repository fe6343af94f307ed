"""`__torch_function__`: the default of tensor subclasses, functions written in Python that may be overridden, the stack
of modes.

Enters: functions and their arguments. Leaves: what the first override that takes a call answers, or the function's own
result. Refuses calls that every override declines.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _C, _extras
from .._C import Tensor
from ..autograd.backward import tensor_backward as plain_backward
from ..autograd.grad_mode import no_grad
from ..base import homes
from ..base.homes import is_own
from ..base.shape import memory_format
from ..op import find_op
from .dispatcher import ask_overrides, first_answer, flat, overloaded_types, owners_in, sees_aten
from .modes import DisableTorchFunctionSubclass, TorchFunctionMode, below, state
from .overridable import respelled

_is_recording = _extras.profile_is_on


def default_torch_function(
    cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Run the op on the tensors as they are; results become instances of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    call = (id(func), *map(id, args))
    if call in _calls.running:   # a function that is not ours brings our tensors back here, for ever
        raise TypeError(
            f"{getattr(func, '__name__', func)}: a function of another library was given tensors of Rushlight. "
            "Convert them first, with that library's from_dlpack, or call Rushlight's function."
        )
    _calls.running.append(call)
    try:
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
    finally:
        _calls.running.pop()
    return convert(result, cls)


class _Calls(threading.local):
    """Functions that this thread runs on behalf of `default_torch_function`."""

    def __init__(self) -> None:
        self.running: list[tuple[int, ...]] = []


_calls = _Calls()


def convert(result: Any, cls: type) -> Any:
    """Tensors in a result as instances of `cls`."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        result = result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        result = type(result)(convert(r, cls) for r in result)
    return result


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any argument (or an active mode) overrides functions."""
    if state.all_functions_disabled:
        return False
    if state.function_modes:
        return True
    return not state.subclass_functions_disabled and any(_overrides(a) for a in relevant_args)


def _overrides(a: Any) -> bool:
    handler = getattr(type(a), "__torch_function__", None)
    return type(a) is not Tensor and handler is not None and handler is not _C._disabled_torch_function_impl


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the overriding arguments in order, for functions written in Python."""
    owners = [a for a in relevant_args if _overrides(a)]
    ordered = overloaded_types(owners)
    result = first_answer(public_api, ordered, args, kwargs)
    if result is NotImplemented:
        raise TypeError(
            f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types that implement"
            f" __torch_function__: {[type(a).__name__ for a in ordered]}"
        )
    return result


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorator: the function goes to overriding arguments, which `dispatcher(*args)` lists."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def overridable(func: Callable, plain: Callable | None = None) -> Callable:
    """Decorator for functions of tensors written in Python: arguments with `__torch_function__`, and modes,
    may take the call. Where nobody has a say, `plain` runs, if there is one."""
    at_once = plain or func

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _C.is_plain_call(args, kwargs):
            return at_once(*args)
        owners = [a for a in flat((*args, *kwargs.values())) if type(a) is not Tensor and _overrides(a)]
        if owners or state.function_modes:
            answer = ask_overrides(call, owners, *respelled(call, args, kwargs))
            if answer is not NotImplemented:
                return answer
        return recorded_call(func, args, kwargs) if _is_recording() else func(*args, **kwargs)

    call.plain = plain      # type: ignore[attr-defined]
    return call


def recorded_call(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call that a profiler sees: PyTorch may have one op where we have a function of Python."""
    handle = _extras.call_begin(func, (*args, *kwargs.values()))
    try:
        return func(*args, **kwargs)
    finally:
        _extras.record_end(handle)


def seen_method(func: Callable, plain: Callable | None = None) -> Callable:
    """A method of tensors written in Python, whose calls modes and subclasses see; `plain` is as in `overridable`."""

    @functools.wraps(func)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if plain is not None and _C.is_plain_call((self, *args), kwargs):
            return plain(self, *args)
        if _C.is_asked(self) and not is_own_call(2):
            answer = ask_overrides(call, owners_in((self, *args)), *respelled(call, (self, *args), kwargs))
            if answer is not NotImplemented:
                return answer
        return recorded_call(func, (self, *args), kwargs) if _is_recording() else func(self, *args, **kwargs)

    return call


def is_own_call(depth: int) -> bool:
    """Whether the caller of the caller (`depth` frames up) is part of this library: its calls are nobody's business."""
    return sys._getframe(depth).f_globals.get("__name__", "").partition(".")[0] in (homes.PACKAGE, homes.shown)


def ask_modes(func: Callable, args: tuple, options: dict[str, Any]) -> Any:
    """What modes make of a function that takes no tensors; options that were left out are not shown to them."""
    return ask_overrides(func, [], args, {n: v for n, v in options.items() if v is not None and v is not False})


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or an object that overrides functions."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function_unary(tensor: Any) -> bool:
    """has_torch_function for one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*args: Any) -> bool:
    """has_torch_function for several arguments."""
    return has_torch_function(args)


# --- modes ------------------------------------------------------------------------------------------------------------


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost active mode of this thread."""
    return state.function_modes[-1] if state.function_modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """Every active mode of this thread, innermost last."""
    return list(state.function_modes)


def _is_torch_function_mode_enabled() -> bool:
    return bool(state.function_modes) and not state.all_functions_disabled


def _len_torch_function_stack() -> int:
    return len(state.function_modes)


def _push_mode(mode: TorchFunctionMode) -> None:
    mode.__enter__()


def _pop_mode() -> TorchFunctionMode:
    mode = state.function_modes[-1]
    mode.__exit__(None, None, None)
    return mode


def _pop_mode_temporarily() -> Any:
    """A context without the innermost mode."""
    return below(state.function_modes)


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] | None = None) -> list[Any]:
    """One argument per type that overrides functions, subclasses first."""
    return overloaded_types([a for a in relevant_args if _overrides(a)])


def make_wrapper_subclass(
    cls: type,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Tensor:
    """A subclass instance with sizes and types but no data: the subclass's handlers supply the behaviour."""
    if getattr(cls, "__torch_dispatch__", None) in (None, _C._disabled_torch_function_impl):
        raise RuntimeError(f"{cls.__name__}: _make_wrapper_subclass requires __torch_dispatch__ to be defined")
    if pin_memory:
        raise RuntimeError("_make_wrapper_subclass: pin_memory=True needs a CUDA device, and none is available")
    if storage_offset is not None and strides is None:
        raise RuntimeError(f"_make_wrapper_subclass: storage_offset={storage_offset} needs strides as well")
    result = _C.make_wrapper(cls, size, strides, dtype or _C.get_default_dtype(), device, storage_offset or 0)
    return result.requires_grad_() if requires_grad else result


def backward_or_override(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.backward` where modes or subclasses may want the call."""
    answer = ask_overrides(Tensor.backward, [self], (self, *args), kwargs)
    return plain_backward(self, *args, **kwargs) if answer is NotImplemented else answer


def computes_itself(t: Tensor) -> bool:
    """Whether a program's class answers for the tensor with its `__torch_dispatch__`."""
    kind = type(t)
    if kind is Tensor or is_own(kind):
        return False
    return getattr(kind, "__torch_dispatch__", None) not in (None, _C._disabled_torch_function_impl)


def ask_class(name: str, self: Tensor, *args: Any) -> Any:
    """What the program's class of `self` makes of an op, below autograd; NotImplemented if it has no say."""
    if state.subclass_dispatch_disabled or not computes_itself(self):
        return NotImplemented
    with no_grad():
        return find_op(name)(self, *args)


def detach_or_override(self: Tensor) -> Any:
    """`Tensor.detach` of a tensor whose class has rules: the class of a program's is asked."""
    kind = type(self)
    if not is_own(kind):
        if _overrides(self) and not (state.subclass_functions_disabled or state.all_functions_disabled):
            answer = kind.__torch_function__(Tensor.detach, (kind,), (self,), {})
            if answer is not NotImplemented:
                return answer
    if sees_aten([self]):
        with no_grad():
            return find_op("detach")(self)
    return _C.shallow_copy(self, True)


def seen_item(self: Tensor) -> Any:
    """The only element of a tensor, by a call that handlers see."""
    return find_op("_local_scalar_dense")(self)


def _is_dense(t: Tensor) -> bool:
    """Whether elements lie side by side, each once, in some order of dims."""
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(t.shape, t.stride(), strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def first_gradient(leaf: Tensor, grad: Tensor, can_take: bool) -> Tensor | None:
    """The gradient of a leaf that had none, by calls that handlers see; None where none of a program's looks."""
    if not sees_aten([grad]):
        return None
    with DisableTorchFunctionSubclass():      # the engine calls, not the program
        if can_take:
            return grad.detach()
        if not _is_dense(leaf):
            return grad.clone(memory_format=memory_format("contiguous_format"))
        options: dict[str, Any] = {"dtype": grad.dtype, "layout": grad.layout, "device": grad.device}
        return grad.new_empty_strided(leaf.shape, leaf.stride(), **options).copy_(grad)


@functools.cache
def _accessed(name: str) -> Callable:
    """What handlers are shown of an access: a method of Tensor, or the getter or setter of one of its attributes."""
    attribute, _, way = name.rpartition(".")
    return getattr(vars(Tensor)[attribute], way) if attribute else vars(Tensor)[name]


def see_access(name: str, args: tuple, kwargs: dict[str, Any] | None, depth: int = 1) -> Any:
    """For the core: what modes and subclasses make of an attribute or a method that is no op; NotImplemented if there
    is none to ask. `depth`: frames between this one and the program's."""
    if is_own_call(depth + 1):
        return NotImplemented
    return ask_overrides(_accessed(name), owners_in(args), args, kwargs or {})


def init_subclass(cls: Any, **kwargs: Any) -> None:
    """A class of a program that computes by `__torch_dispatch__` and says nothing of functions is not asked about them:
    their results are what its handler returns."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    handler = cls.__dict__.get("__torch_dispatch__", _C._disabled_torch_function_impl)
    if handler is _C._disabled_torch_function_impl or is_own(cls):
        return
    if getattr(cls.__torch_function__, "__func__", None) is default_torch_function:
        cls.__torch_function__ = _C._disabled_torch_function_impl


def install() -> None:
    """Give tensors their default `__torch_function__` and the wrapper constructor."""
    _C._autograd_callbacks["seen_detach"] = detach_or_override
    _C._autograd_callbacks["first_gradient"] = first_gradient
    _C._autograd_callbacks["seen_item"] = seen_item
    _C._autograd_callbacks["access"] = see_access
    _C._autograd_callbacks["tensor_backward"] = backward_or_override
    methods = {
        "__torch_function__": classmethod(default_torch_function),
        "__init_subclass__": classmethod(init_subclass),
        "__torch_dispatch__": _C._disabled_torch_function_impl,
        "_make_wrapper_subclass": staticmethod(make_wrapper_subclass),
    }
    for name, method in methods.items():
        setattr(Tensor, name, method)


def redispatch_function(func: Callable, types: Any, args: tuple, kwargs: dict[str, Any] | None) -> Any:
    """Call a function from inside a `__torch_function__` without asking the overrides of its arguments again."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Within a `__torch_dispatch__`, let ops ask modes and subclasses again. Here they always do."""
    yield
