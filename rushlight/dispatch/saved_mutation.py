"""Tensors saved for backward may be changed in place inside a block: whoever changes one, the tape keeps what it was.

Enters: in-place ops, seen by a dispatch mode. Leaves: clones of what the tape saved, made only when the memory is about
to change. Refuses a backward after the block: its clones are gone.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad
from ..autograd.graph import saved_tensors_hooks
from .modes import TorchDispatchMode


class _Saved:
    """A tensor the tape saved: the tensor itself until it is changed, a clone from then on."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.clone = tensor, None


class _AllowMutationOnSavedContext:
    """What was saved in the block, by storage, and the clones made so far."""

    def __init__(self) -> None:
        self.saved: dict[int, weakref.WeakSet[_Saved]] = {}
        self.cloned: weakref.WeakKeyDictionary[_Saved, Any] = weakref.WeakKeyDictionary()
        self.is_over = False

    def pack(self, tensor: Any) -> _Saved:
        result = _Saved(tensor)
        self.saved.setdefault(tensor.untyped_storage()._cdata, weakref.WeakSet()).add(result)
        return result

    def unpack(self, saved: _Saved) -> Any:
        if self.is_over:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors: backward must run inside the block in which the tensors were saved"
            )
        return saved.tensor if saved.clone is None else saved.clone

    def before_write(self, tensor: Any) -> None:
        """Clone what was saved of the memory a tensor shows, once."""
        for saved in tuple(self.saved.pop(tensor.untyped_storage()._cdata, ())):
            with no_grad():
                saved.clone = saved.tensor.clone()
            self.cloned[saved] = saved.clone
            saved.tensor = None

    def clear(self) -> None:
        self.saved.clear()
        self.cloned.clear()
        self.is_over = True


_active = [False]


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Within the block, in-place changes of tensors saved for backward do not disturb backward,
    which must run inside too."""
    context = _AllowMutationOnSavedContext()

    class CloneBeforeWrite(TorchDispatchMode):
        own_ops = True

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            for written in _written(func, args, kwargs or {}):
                context.before_write(written)
            return func(*args, **(kwargs or {}))

    if _active[0]:
        raise RuntimeError("allow_mutation_on_saved_tensors: already active on this thread; it cannot be nested")
    _active[0] = True
    try:
        with saved_tensors_hooks(context.pack, context.unpack), CloneBeforeWrite():
            yield context
    finally:
        _active[0] = False
        context.clear()


def _written(func: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[Any]:
    """The tensors an overload writes to: those of `out=`, and what its name or its schema says it changes."""
    name = str(func).split(".")[1]
    if name.endswith("_") and not name.endswith("__") and args:
        first = args[0]
        yield from first if isinstance(first, (list, tuple)) else (first,)
    out = kwargs.get("out")
    yield from (t for t in (out if isinstance(out, (list, tuple)) else (out,)) if isinstance(t, _C.Tensor))
