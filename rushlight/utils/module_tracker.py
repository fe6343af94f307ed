"""Which modules are running: their names while forward or backward is inside them.

Enters: nothing but `with ModuleTracker() as tracker:` around the work. Leaves: `tracker.parents`, a set of dotted names
that always holds "Global". Names start with the class of the outermost module.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .. import _C
from ..autograd.graph import register_multi_grad_hook
from ..base import late
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Hooks every module while active."""

    def __init__(self) -> None:
        self._parents = {"Global"}
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._named: weakref.WeakSet = weakref.WeakSet()
        self._backward: Any = None   # the pass that entered modules: with its end they are left
        self._handles: list[Any] = []

    @property
    def parents(self) -> set[str]:
        """Names of the modules that are running now."""
        if self._backward is not None and _C._current_backward() != self._backward:
            self._parents, self._backward = {"Global"}, None
        return self._parents

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        return bool(_C._current_backward())

    def _name_of(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._named:
            self._named.add(module)
            for child_name, child in module.named_children():
                self._names[child] = f"{name}.{child_name}"
                self._name_of(child)
        return name

    def _enter(self, name: str) -> Callable:
        def enter(*grads: Any) -> None:
            self.parents.add(name)
            self._backward = _C._current_backward()

        return enter

    def _leave(self, name: str) -> Callable:
        return lambda *grads: self.parents.discard(name)

    def _hook(self, values: Any, action: Callable) -> None:
        tensors = [t for t in tree_leaves(values) if isinstance(t, _C.Tensor) and t.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, action))

    def _before(self, module: Any, inputs: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        self._hook(inputs, self._leave(name))

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        self._hook(output, self._enter(name))

    def __enter__(self) -> ModuleTracker:
        module = late.provided("module hooks")
        self._handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
