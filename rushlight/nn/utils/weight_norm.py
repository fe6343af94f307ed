"""The older weight norm, by a hook before forward; `parametrizations.weight_norm` replaces it.

Enters: a module and the name of its weight. Leaves: parameters `<name>_g` and `<name>_v` instead, the weight computed
before each forward. Refuses to be applied twice to one name.
"""

from __future__ import annotations

import warnings
from typing import Any

from ...autograd.grad_mode import no_grad
from ...op import find_op
from ..modules.module import Module
from ..parameter import Parameter


class WeightNorm:
    """The hook."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """Length times direction."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return find_op("_weight_norm")(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Split the weight and hang the hook on the module."""
        if any(isinstance(hook, WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"{name} has a weight_norm hook already")
        result = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(find_op("norm_except_dim")(weight, 2, result.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, result.compute_weight(module))
        module.register_forward_pre_hook(result)
        return result

    def remove(self, module: Module) -> None:
        """Put the computed weight back as a parameter."""
        with no_grad():
            weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into length and direction."""
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo weight_norm."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
