"""Hooks of modules: who may be called around `forward` and its backward, and in which order.

Enters: callables registered on one module or on all of them. Leaves: handles that take them off again, and
`call_with_hooks`, the long way round that `Module.__call__` takes when any hook exists.
Refuses: mixing the deprecated backward hooks with the full ones, hooks whose answers do not fit.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...autograd.hooks import RemovableHandle, hook_after

_global_forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()

# What the fast path of a call looks at: these dicts of every module, and these of all.
CALL_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
GLOBAL_CALL_HOOKS = (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

_MIXED = "a {} takes full backward hooks or old ones, not both kinds at once."


def _has_any_global_hook() -> bool:
    return any(GLOBAL_CALL_HOOKS)


def _added(hooks: OrderedDict, hook: Callable, extra: list[OrderedDict] | None = None) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever any module registers a buffer; what it returns replaces it."""
    return _added(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever any module registers a submodule; what it returns replaces it."""
    return _added(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever any module registers a parameter; what it returns replaces it."""
    return _added(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, args)` before every forward of every module; what it returns replaces the arguments."""
    return _added(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every forward of every module; what it returns replaces the output."""
    handle = _added(
        _global_forward_hooks, hook, [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _set_global_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook is not full:
        raise RuntimeError(_MIXED.format("global level (all Modules)"))
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The deprecated global backward hook, on the last node of a forward; prefer the full one."""
    _set_global_kind(False)
    return _added(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` whenever gradients of any module's inputs are computed."""
    _set_global_kind(True)
    return _added(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, grad_output)` whenever gradients of any module's outputs are computed."""
    return _added(_global_backward_pre_hooks, hook)


class Hooks:
    """The hook-registering half of `Module`."""

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result that is not None replaces the arguments.

        with_kwargs: `hook(module, args, kwargs)`, answering None or `(args, kwargs)`. prepend:
        before those registered already.
        """
        handle = _added(self._forward_pre_hooks, hook, [self._forward_pre_hooks_with_kwargs])
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result that is not None replaces the output.

        with_kwargs: `hook(module, args, kwargs, output)`. always_call: also when forward raised (output is then None).
        """
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = _added(self._forward_hooks, hook, extra)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def _set_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is not None and self._is_full_backward_hook is not full:
            raise RuntimeError(_MIXED.format("single Module"))
        self._is_full_backward_hook = full

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The deprecated backward hook, on the last node of a forward; prefer `register_full_backward_hook`."""
        self._set_backward_kind(False)
        return _added(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when gradients of the inputs are known;
        a result replaces them."""
        self._set_backward_kind(True)
        handle = _added(self._backward_hooks, hook)
        if prepend:
            self._backward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when gradients of the outputs are known; a result replaces them."""
        handle = _added(self._backward_pre_hooks, hook)
        if prepend:
            self._backward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """(full, deprecated) backward hooks that apply to this module, global ones first."""
        full: list[Callable] = []
        partial: list[Callable] = []
        (full if _global_is_full_backward_hook is True else partial).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook is True else partial).extend(self._backward_hooks.values())
        return full, partial

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _maybe_warn_non_full_backward_hook(self, inputs: Any, result: Any, grad_fn: Any) -> None:
        def tensors(value: Any) -> tuple | None:
            value = (value,) if isinstance(value, Tensor) else value
            return value if isinstance(value, tuple) and all(isinstance(t, Tensor) for t in value) else None

        remedy = "register_full_backward_hook sees all of them."
        results, arguments = tensors(result), tensors(inputs)
        if results is None:
            warnings.warn("register_backward_hook on a Module that returns something else than a Tensor or a tuple of "
                          f"Tensors is deprecated: it misses some of grad_output. {remedy}",
                          FutureWarning, stacklevel=4)
        elif arguments is None:
            warnings.warn("register_backward_hook on a Module that is given something else than a Tensor or a tuple of "
                          f"Tensors is deprecated: it misses some of grad_input. {remedy}",
                          FutureWarning, stacklevel=4)
        elif len({t.grad_fn for t in results}) > 1:
            warnings.warn("A backward hook that is not full, on a module whose outputs come from different nodes, "
                          f"is deprecated: it misses some of grad_output. {remedy}", FutureWarning,
                          stacklevel=4)
        elif {n[0] for n in grad_fn._edges} != {t.grad_fn for t in arguments if t.grad_fn is not None}:
            warnings.warn("A backward hook that is not full, on a module of more than one node, "
                          f"is deprecated: it misses some of grad_input. {remedy}", FutureWarning,
                          stacklevel=4)


def _run_pre_hooks(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    for number, hook in [*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
        if number in module._forward_pre_hooks_with_kwargs:
            answer = hook(module, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise RuntimeError(
                    f"a forward pre-hook with kwargs returns None or (args, kwargs), got {answer}."
                )
            args, kwargs = answer
        else:
            answer = hook(module, args)
            if answer is not None:
                args = answer if isinstance(answer, tuple) else (answer,)
    return args, kwargs


def _forward_hooks(module: Any) -> list[tuple[int, Callable, bool, bool]]:
    """(handle, hook, wants keywords, is always called) in the order they run."""
    return [
        *((i, h, i in _global_forward_hooks_with_kwargs, i in _global_forward_hooks_always_called)
          for i, h in _global_forward_hooks.items()),
        *((i, h, i in module._forward_hooks_with_kwargs, i in module._forward_hooks_always_called)
          for i, h in module._forward_hooks.items()),
    ]


def _inner(module: Any, args: tuple, kwargs: dict, ran: set[int]) -> Any:
    """Forward with the hooks around it; `ran` collects the always-called ones that had their turn."""
    full, partial = module._get_backward_hooks()
    before = module._get_backward_pre_hooks()
    args, kwargs = _run_pre_hooks(module, args, kwargs)
    backward = None
    if full or before:
        from .backward_hooks import BackwardHook  # a custom Function, which few programs need

        backward = BackwardHook(module, full, before)
        args = backward.setup_input_hook(args)
    result = module.forward(*args, **kwargs)
    for number, hook, with_kwargs, always in _forward_hooks(module):
        if always:
            ran.add(number)
        answer = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        if answer is not None:
            result = answer
    if backward is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn("backward hooks are called only where the module returns a Tensor or a tuple of them,"
                          f" not {type(result)}", stacklevel=3)
        result = backward.setup_output_hook(result)
    if partial:
        _hang_on_last_node(module, partial, args, result)
    return result


def _first_tensor(value: Any) -> Tensor | None:
    while not isinstance(value, Tensor):
        if isinstance(value, dict):
            value = next((v for v in value.values() if isinstance(v, Tensor)), None)
        elif isinstance(value, (tuple, list)) and value:
            value = value[0]
        else:
            return None
    return value


def _hang_on_last_node(module: Any, hooks: list[Callable], args: tuple, result: Any) -> None:
    tensor = _first_tensor(result)
    node = None if tensor is None else tensor.grad_fn
    if node is None:
        return
    for hook in hooks:
        hook_after(node, lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))
    module._maybe_warn_non_full_backward_hook(args, result, node)


def call_with_hooks(module: Any, args: tuple, kwargs: dict) -> Any:
    """What calling `module` does when hooks exist; after an error, hooks registered with always_call still run."""
    ran: set[int] = set()
    try:
        return _inner(module, args, kwargs, ran)
    except Exception:
        for number, hook, with_kwargs, always in _forward_hooks(module):
            if always and number not in ran:
                _run_despite_error(module, hook, with_kwargs, args, kwargs)
        raise


def _run_despite_error(module: Any, hook: Callable, with_kwargs: bool, args: tuple, kwargs: dict) -> None:
    try:
        if with_kwargs:
            hook(module, args, kwargs, None)
        else:
            hook(module, args, None)
    except Exception as problem:
        warnings.warn(f"module forward hook with ``always_call=True`` raised an exception that was silenced, "
                      f"since another one was already on its way: {problem}", stacklevel=4)


def registered(hooks: OrderedDict[int, Callable], module: Any, name: str, value: Any) -> Any:
    """What registration hooks make of a parameter, buffer or submodule about to be registered."""
    for hook in hooks.values():
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value
