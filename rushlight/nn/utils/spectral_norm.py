"""The older spectral norm, by a hook before forward; `parametrizations.spectral_norm` replaces it.

Enters: a module and the name of its weight. Leaves: a parameter `<name>_orig` and buffers `<name>_u`, `<name>_v`, the
weight computed before each forward. Refuses to be applied twice to one name.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...op import find_op
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter


class SpectralNorm:
    """The hook."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations: expected a number above 0, got {n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with `dim` as rows."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value."""
        mv = find_op("mv")      # which mixed precision leaves alone on the CPU, as it does not leave `@`
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(mv(matrix, v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()  # a second forward may change the buffers before the first's backward
        return weight / find_op("dot")(u, mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Put the computed weight back as a parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Split the weight and hang the hook on the module."""
        if any(isinstance(hook, SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"{name} has a spectral_norm hook already")
        result = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            matrix = result.reshape_weight_to_matrix(weight)
            u, v = (F.normalize(weight.new_empty((size,)).normal_(0, 1), dim=0, eps=eps) for size in matrix.shape)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # a plain attribute until the first forward
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(result)
        return result


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Keep a weight's spectral norm at 1."""
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo spectral_norm."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")


def __getattr__(name: str) -> Any:
    """The hooks that files written by PyTorch name; the module's own hook does their work."""
    if name in ("SpectralNormStateDictHook", "SpectralNormLoadStateDictPreHook"):
        from ...serialization import stand_ins

        return getattr(stand_ins, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
