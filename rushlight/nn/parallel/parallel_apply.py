"""`torch.nn.parallel.parallel_apply`: modules called on their devices at the same time, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd.grad_mode import set_grad_enabled
from ..modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Any:
    """Some tensor in nested values; None if there is none."""
    if isinstance(obj, Tensor):
        return obj
    values = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((t for t in map(get_a_var, values) if t is not None), None)


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """`modules[i](*inputs[i], **kwargs_tup[i])` for all i, in threads of their own; the first error is raised."""
    kwargs_tup = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(f"parallel_apply: {len(modules)} modules but {len(given)} {name}")
    has_grad = _C.is_grad_enabled()
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException | None] = [None] * len(modules)

    def work(i: int) -> None:
        given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            with set_grad_enabled(has_grad):
                results[i] = modules[i](*given, **kwargs_tup[i])
        except Exception as error:
            errors[i] = error

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for i, error in enumerate(errors):
        if error is not None:
            error.add_note(f"in replica {i} of {len(modules)}")
            raise error
    return results
