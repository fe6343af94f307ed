"""`DataParallel`: one module on several accelerators of one process, each with a share of the batch.

Enters: a module on the first device. Leaves: its results, on `output_device`; gradients of all shares are added to the
module's own. Without accelerators it calls its module, whatever devices are named, as PyTorch's does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...base import late
from ..modules.module import Module
from .comm import device_of
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


@functools.cache
def _accelerators() -> int:
    return late.provided("package").cuda.device_count()


def _check_place(module: Module, device: Any) -> None:
    for name, t in [*module.named_parameters(), *module.named_buffers()]:
        if t.device != device:
            raise RuntimeError(
                f"DataParallel: the module's parameters and buffers must be on {device} (device_ids[0]), but {name} is "
                f"on {t.device}"
            )


class DataParallel(Module):
    """`module` on several devices.

    Arguments:
        module: on the first device
        device_ids: accelerators; all by default
        output_device: where results are; the first by default
        dim: the batch dimension
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []
        if not _accelerators():
            return
        chosen = list(range(_accelerators())) if device_ids is None else list(device_ids)
        self.device_ids = [device_of(d).index for d in chosen]
        if any(k >= _accelerators() for k in self.device_ids):
            raise AssertionError(
                f"DataParallel: Invalid device id: got device_ids {self.device_ids}, the last device is"
                f" {_accelerators() - 1}"
            )
        self.output_device = device_of(chosen[0] if output_device is None else output_device)
        self.src_device_obj = device_of(chosen[0])
        if len(chosen) == 1:
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_place(self.module, self.src_device_obj)
        parts, named = self.scatter(inputs, kwargs, self.device_ids)
        if not parts:
            parts, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*parts[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(parts)])
        return self.gather(self.parallel_apply(replicas, parts, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """Copies of the module."""
        return replicate(module, device_ids, not _C.is_grad_enabled())

    def scatter(self, inputs: tuple, kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        """The share of each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """What each copy makes of its share."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The results as one."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """`module` on shares of `inputs`, one for each device."""
    inputs = inputs if isinstance(inputs, tuple) else (() if inputs is None else (inputs,))
    chosen = list(range(_accelerators())) if device_ids is None else list(device_ids)
    if not chosen:
        raise RuntimeError("data_parallel: there is no accelerator; name devices in device_ids")
    _check_place(module, device_of(chosen[0]))
    parts, named = scatter_kwargs(inputs, module_kwargs, chosen, dim)
    if not parts:
        parts, named = ((),), ({},)
    if len(chosen) == 1:
        return module(*parts[0], **named[0])
    used = chosen[: len(parts)]
    outputs = parallel_apply(replicate(module, used), parts, named, used)
    return gather(outputs, chosen[0] if output_device is None else output_device, dim)
