"""`torch.nn.parallel.replicate`: a module on several devices, whose gradients come back to the one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..modules.module import Module
from .comm import device_of

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of a module for each device. Its parameters are results of copying the module's own, and lead gradients
    back to them; with `detach` they do not."""
    return [_replica(network, device_of(d), detach) for d in devices]


def _shallow(module: Module) -> Module:
    """A module that shares everything with another, but can have other tensors and modules below it."""
    copy = module.__new__(type(module))
    copy.__dict__ = {
        **module.__dict__, "_parameters": {}, "_buffers": dict(module._buffers), "_modules": dict(module._modules),
        "_former_parameters": {}, "_is_replica": True,
    }
    return copy


def _replica(network: Module, device: Any, detach: bool) -> Module:
    tensors: dict[int, Any] = {}

    def moved(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in tensors:
            # A view of it where nothing is moved: a replica's parameters are never the module's own.
            copy = tensor.detach() if detach else tensor
            tensors[id(tensor)] = copy.to(device) if copy.device != device else copy.view_as(copy)
        return tensors[id(tensor)]

    copies: dict[int, Any] = {}
    for module in network.modules():
        copies[id(module)] = _shallow(module)
    for module in network.modules():
        copy = copies[id(module)]
        for name, child in module._modules.items():
            copy._modules[name] = copies[id(child)] if child is not None else None
        for name, p in module._parameters.items():
            result = moved(p)
            if result is None:
                copy._parameters[name] = None
                continue
            object.__setattr__(copy, name, result)      # no parameter of the copy: it has a history
            copy._former_parameters[name] = result
        for name, b in module._buffers.items():
            same = b is not None and b.device == device
            copy._buffers[name] = b if same else moved(b)       # the first device's are updated in place
    return copies[id(network)]
