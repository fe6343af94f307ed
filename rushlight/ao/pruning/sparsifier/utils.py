"""Names of modules within a model, and the parametrization that masks a tensor."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ...._C import Tensor
from ....nn import Module
from ....nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity", "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param", "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: Module, parametrization: type[Module]) -> bool:
    """Whether a tensor of the module is parametrized by such a class."""
    if not is_parametrized(module):
        return False
    lists: Any = module.parametrizations.values()
    return any(isinstance(found, parametrization) for steps in lists for found in steps)


def swap_module(mod: Module, mapping: dict[type[Module], type[Module]]) -> Module:
    """What the mapping makes of a module (`from_dense`), with its hooks and on its device; itself if nothing."""
    new_class: Any = mapping.get(type_before_parametrizations(mod))
    if new_class is None:
        return mod
    new = new_class.from_dense(mod)
    for hooks, take in (
        (mod._forward_pre_hooks, new.register_forward_pre_hook), (mod._forward_hooks, new.register_forward_hook)
    ):
        for hook in hooks.values():
            take(hook)
    devices = {tensor.device for tensor in chain(mod.parameters(), mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(f"swap_module: expected a module on one device, got one on {devices}")
    for device in devices:
        new.to(device)
    return new


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """The dotted path of a module within a model, "" for the model itself, None when it is not in it."""
    if module is model:
        return ""
    for name, child in model.named_children():
        below = module_to_fqn(child, module, ".")
        if below is not None:
            return prefix + name + below
    return None


def fqn_to_module(model: Module | None, path: str) -> Module | None:
    """The module at a dotted path, None when there is none."""
    found: Any = model
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    return found


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """The module, its path and the tensor's name that a dotted tensor name stands for."""
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    module = fqn_to_module(model, module_fqn)
    return {"tensor_fqn": tensor_fqn, "module_fqn": module_fqn, "tensor_name": tensor_name, "module": module}


class FakeSparsity(Module):
    """A parametrization that multiplies by a mask. The mask is the sparsifier's state, so none of it is saved here."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        mask: Any = self.mask
        if x.shape != mask.shape:
            raise AssertionError(f"mask of shape {mask.shape} for a tensor of shape {x.shape}")
        return mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}
