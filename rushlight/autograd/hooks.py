"""Hooks: how they are registered on tensors and nodes, and the handle that takes them off again.

Enters: a tensor or a node, and a callable. Leaves: a `RemovableHandle`. The engine reads the dictionaries kept here;
it runs tensor hooks on a gradient before the node that made the tensor sees it. Refuses tensors that get no gradient.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .. import _C


class RemovableHandle:
    """Takes a hook off again. Holds the dictionary weakly: hooks die with what they hang on."""

    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self) -> None:
        """Forget the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple) -> None:
        hooks, self.id, extra = (*state, ()) if len(state) == 2 else state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


def add_hook(hooks: OrderedDict, hook: Callable) -> RemovableHandle:
    """Put `hook` into `hooks` under a new handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: Any, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` whenever this tensor's gradient is computed; what it returns replaces the gradient."""
    if not self.requires_grad:
        raise RuntimeError("hooks need a tensor that requires a gradient; this one doesn't require it")
    if self._backward_hooks is None:
        self._backward_hooks = OrderedDict()
    return add_hook(self._backward_hooks, hook)


def register_post_accumulate_grad_hook(self: Any, hook: Callable) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to this leaf's .grad."""
    if not self.requires_grad:
        raise RuntimeError("hooks need a tensor that requires a gradient; this one doesn't require it")
    if self.grad_fn is not None:
        raise RuntimeError("register_post_accumulate_grad_hook: expected a leaf, got a non-leaf tensor")
    if self._post_accumulate_grad_hooks is None:
        self._post_accumulate_grad_hooks = OrderedDict()
    return add_hook(self._post_accumulate_grad_hooks, hook)


def _node_hooks(node: Any, which: str) -> OrderedDict:
    hooks = node._get_hooks(which)
    if hooks is None:
        hooks = OrderedDict()
        node._set_hooks(which, hooks)
    return hooks


def hook_after(node: Any, fn: Callable) -> RemovableHandle:
    """Call `fn(grad_inputs, grad_outputs)` after the engine ran a node, whatever steps it shows."""
    return add_hook(_node_hooks(node, "post"), fn)


def hook_before(node: Any, fn: Callable) -> RemovableHandle:
    """Call `fn(grad_outputs)` before the engine runs a node."""
    return add_hook(_node_hooks(node, "pre"), fn)


def register_node_hook(self: Any, fn: Callable) -> RemovableHandle:
    """Call `fn(grad_inputs, grad_outputs)` after this node ran; a returned tuple replaces grad_inputs."""
    shown = self._shown
    if self._step[0] is not None or (shown and not isinstance(shown[0], int)):
        raise one_of_several(self, "register_hook", "a tensor's register_hook, register_prehook of the first of them")
    return hook_after(self, fn)


def register_node_prehook(self: Any, fn: Callable) -> RemovableHandle:
    """Call `fn(grad_outputs)` before this node runs; a returned tuple replaces grad_outputs."""
    if self._step[0] is not None:
        raise one_of_several(self, "register_prehook", "a tensor's register_hook")
    return hook_before(self, fn)


def one_of_several(node: Any, what: str, instead: str) -> NotImplementedError:
    """The refusal of what would need a gradient between steps that the engine takes at once."""
    return NotImplementedError(
        f"{what}: {type(node).__name__} is one of several steps that run as one here, so there is no gradient between"
        f" them to hook. Use {instead}, or register_full_backward_hook of a module."
    )


def install() -> None:
    """Put the methods on Tensor and on both node types."""
    tensor_type: Any = _C.Tensor
    tensor_type.register_hook = register_hook
    tensor_type.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook
    node_types: tuple[Any, ...] = (_C.Node, _C.FunctionNode)
    for node_type in node_types:
        node_type.register_hook = register_node_hook
        node_type.register_prehook = register_node_prehook
        node_type._register_hook_dict = lambda self, hooks: self._set_hooks("post", hooks)
