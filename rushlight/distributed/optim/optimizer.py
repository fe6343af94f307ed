"""`torch.distributed.optim.optimizer`: an optimizer for parameters that several workers have."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from ... import optim
from .. import autograd, rpc

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """A worker's part: its own optimizer, for its own parameters."""

    # Parameters' gradients are one for all optimizers of a worker: a step at a time sets and uses them.
    lock = threading.Lock()

    def __init__(
        self, optimizer_class: type[optim.Optimizer], references: list[Any], args: tuple, kwargs: dict
    ) -> None:
        self.optimizer = optimizer_class([reference.local_value() for reference in references], *args, **kwargs)

    def step(self, context_id: int) -> None:
        gradients = autograd.get_gradients(context_id)
        with self.lock:
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            self.optimizer.step()


def _new_local(optimizer_class: type[optim.Optimizer], references: list[Any], args: tuple, kwargs: dict) -> Any:
    return rpc.RRef(_LocalOptimizer(optimizer_class, references, args, kwargs))


def _step_local(local: Any, context_id: int) -> None:
    local.local_value().step(context_id)


class DistributedOptimizer:
    """Makes an optimizer on every worker that has one of the parameters (`params_rref`), and has them all step with the
    gradients of a context. Further arguments are the optimizer's own."""

    def __init__(
        self, optimizer_class: type[optim.Optimizer], params_rref: list[Any], *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(optimizer_class, type) or not issubclass(optimizer_class, optim.Optimizer):
            raise TypeError(f"DistributedOptimizer: expected a class of optimizers, got {optimizer_class!r}")
        by_owner = defaultdict(list)
        for reference in params_rref:
            by_owner[reference.owner()].append(reference)
        if not by_owner:
            raise ValueError("DistributedOptimizer: there are no parameters (params_rref is empty)")
        futures = [
            rpc.rpc_async(owner, _new_local, (optimizer_class, references, args, kwargs))
            for owner, references in by_owner.items()
        ]
        self.remote_optimizers = [future.wait() for future in futures]

    def step(self, context_id: int) -> None:
        """A step of all of them; it returns when all are done."""
        autograd._is_valid_context(context_id)
        futures = [
            rpc.rpc_async(local.owner(), _step_local, (local, context_id)) for local in self.remote_optimizers
        ]
        for future in futures:
            future.wait()
