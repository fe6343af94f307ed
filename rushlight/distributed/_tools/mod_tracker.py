"""Which modules are running, forward and backward, with hooks of the user's at each of their ends.

Enters: nothing but `with ModTracker() as tracker:` around the work. Leaves: `tracker.parents`, the dotted names of the
modules that run now ("Global" always), and calls of the registered hooks. Refuses: a second hook of one kind.
"""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from ... import _C
from ...autograd.graph import register_multi_grad_hook
from ...compiler import is_compiling
from ...nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from ...utils._pytree import tree_leaves
from ...utils.module_tracker import ModuleTracker

__all__ = ["ModTracker"]

KINDS = ("pre_fw_hook", "post_fw_hook", "pre_bw_hook", "post_bw_hook")


class ModTracker(ModuleTracker):
    """Hooks every module while active. A module is inside its backward from the first gradient of its outputs to the
    last of its inputs; one whose inputs need none is left when the pass ends."""

    parents: set[str] = {"Global"}      # type: ignore[assignment]  # replaced by each tracker's own

    def __init__(self) -> None:
        super().__init__()
        self.parents = {"Global"}
        self._depths: Counter[str] = Counter()
        self._at_end: list[Callable[[], None]] = []
        self._has_end = False
        self._user: dict[str, Callable | None] = dict.fromkeys(KINDS)

    def get_known_fqn(self, mod: Any) -> str | None:
        """A module's name, None for one that was never seen."""
        return self._names.get(mod)

    def register_user_hooks(
        self, pre_fw_hook: Callable | None = None, post_fw_hook: Callable | None = None,
        pre_bw_hook: Callable | None = None, post_bw_hook: Callable | None = None,
    ) -> None:
        """Call these as `pre_fw_hook(module, inputs)`, `post_fw_hook(module, inputs, outputs)`,
        `pre_bw_hook(module, grads)` and `post_bw_hook(module, grads)`, the module running at each; None for a module
        that is gone. Refuses a hook where there is one."""
        given = dict(zip(KINDS, (pre_fw_hook, post_fw_hook, pre_bw_hook, post_bw_hook), strict=True))
        for kind, hook in given.items():
            if hook is not None and self._user[kind] is not None:
                raise AssertionError(
                    f"ModTracker: only one {kind} can be registered at a time. clear_user_hooks takes it away."
                )
        self._user.update(given)

    def clear_user_hooks(self) -> None:
        """Take away all hooks."""
        self._user = dict.fromkeys(KINDS)

    def _call(self, kind: str, *args: Any) -> None:
        hook = self._user[kind]
        if hook is not None:
            hook(*args)

    def _go_in(self, name: str) -> None:
        if name in self.parents and not self.is_bw:
            warnings.warn(
                f"ModTracker: {name} runs inside of itself; modules are told apart by name, so that its end may be"
                " found too early",
                stacklevel=3,
            )
        self._depths[name] = self._depths[name] + 1 if name in self.parents else 1
        self.parents.add(name)

    def _go_out(self, name: str) -> None:
        if name in self.parents:
            self._depths[name] -= 1
            if not self._depths[name]:
                self.parents.remove(name)
        elif not self.is_bw:      # backward need not nest: some inputs and outputs have no gradients
            raise RuntimeError(f"ModTracker: {name} ended, but it was not running")

    def _end_of_pass(self) -> None:
        self.parents, self._has_end = {"Global"}, False

    def _before_backward(self, module: weakref.ref, name: str) -> Callable:
        def enter(*grads: Any) -> None:
            if not self._has_end:
                self._has_end = True
                for leave in reversed(self._at_end):
                    _C.queue_callback(leave)
                self._at_end.clear()
                _C.queue_callback(self._end_of_pass)
            self._go_in(name)
            self._call("pre_bw_hook", module(), grads)

        return enter

    def _after_backward(self, module: weakref.ref, name: str) -> Callable:
        def leave(*grads: Any) -> None:
            self._call("post_bw_hook", module(), grads)
            self._go_out(name)

        return leave

    def _before(self, module: Any, inputs: Any) -> None:
        if is_compiling():
            return
        name = self._name_of(module)
        self._go_in(name)
        self._call("pre_fw_hook", module, inputs)
        if not self.is_bw:
            leave, tensors = self._after_backward(weakref.ref(module), name), _with_gradients(inputs)
            if tensors:
                register_multi_grad_hook(tensors, leave)
            else:
                self._at_end.append(leave)

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        if is_compiling():
            return
        name = self._name_of(module)
        self._call("post_fw_hook", module, inputs, output)
        self._go_out(name)
        tensors = _with_gradients(output)
        if tensors and not self.is_bw:
            register_multi_grad_hook(tensors, self._before_backward(weakref.ref(module), name), mode="any")

    def __enter__(self) -> ModTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self


def _with_gradients(values: Any) -> list[Any]:
    return [t for t in tree_leaves(values) if isinstance(t, _C.Tensor) and t.requires_grad]
