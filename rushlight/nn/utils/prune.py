"""Pruning: entries of a tensor masked to zero, chosen at random, by size, or given.

Enters: a module and the name of a parameter. Leaves: a parameter `<name>_orig`, a buffer `<name>_mask`, and the masked
tensor computed before each forward; pruning again works on what is left.
Refuses amounts that are no share or count of the entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._C import Tensor
from ...op import find_op
from ..modules.module import Module


def _count(amount: Any, size: int) -> int:
    """How many entries an amount is: a share (float) or a number (int)."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(f"amount: expected a float in [0, 1] or a whole number from 0 on, got {amount}")
    if isinstance(amount, int) and amount > size:
        raise ValueError(f"amount: expected at most the {size} elements there are, got {amount}")
    return amount if isinstance(amount, int) else round(amount * size)


class BasePruningMethod:
    """A forward pre-hook that masks one tensor; subclasses choose the mask."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for importance scores `t`, within a mask there was before."""
        raise NotImplementedError(f"{type(self).__name__}.compute_mask is not defined")

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune `module.name`, more if it was pruned before."""
        result = cls(*args, **kwargs)
        result._tensor_name = name
        pruned = {
            k: h
            for k, h in module._forward_pre_hooks.items()
            if isinstance(h, BasePruningMethod) and h._tensor_name == name
        }
        if pruned:
            mask = getattr(module, name + "_mask")
        else:
            weight = getattr(module, name)
            mask = find_op("ones_like")(weight.detach())
            module.register_parameter(name + "_orig", weight)
            del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
        scores = getattr(module, name + "_orig") if importance_scores is None else importance_scores
        if scores.shape != mask.shape:
            raise AssertionError(f"importance_scores: expected the shape of {name} of {module}")
        module._buffers[name + "_mask"] = result.compute_mask(scores.detach(), mask).to(mask.dtype)
        setattr(module, name, result.apply_mask(module))
        for key in pruned:
            del module._forward_pre_hooks[key]
        module.register_forward_pre_hook(result)
        return result

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        mask = find_op("ones_like")(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    def remove(self, module: Module) -> None:
        """Make the masked tensor the parameter, for good."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class Identity(BasePruningMethod):
    """Prunes nothing: makes the names that pruning makes."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Within(BasePruningMethod):
    """Chooses among the entries that are left."""

    def __init__(self, amount: Any) -> None:
        _count(amount, 1 << 62)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone().reshape(-1)
        left = mask.nonzero().squeeze(-1)
        count = _count(self.amount, left.numel())
        if count:
            mask[left[self._choose(t.reshape(-1)[left], count)]] = 0
        return mask.reshape(default_mask.shape)

    def _choose(self, scores: Tensor, count: int) -> Tensor:
        raise NotImplementedError


class RandomUnstructured(_Within):
    """Entries at random."""

    def _choose(self, scores: Tensor, count: int) -> Tensor:
        return find_op("rand_like")(scores).topk(count).indices


class L1Unstructured(_Within):
    """The entries of smallest magnitude."""

    def _choose(self, scores: Tensor, count: int) -> Tensor:
        return scores.abs().topk(count, largest=False).indices


class CustomFromMask(BasePruningMethod):
    """The entries a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class LnStructured(BasePruningMethod):
    """The channels along `dim` of smallest n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _count(amount, 1 << 62)
        self.amount = amount
        self.n = n
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        rows = t.movedim(self.dim, 0).reshape(t.shape[self.dim], -1)
        return find_op("linalg_vector_norm")(rows, float(self.n), 1)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(f"structured pruning needs a tensor of 2 dims or more, got shape {tuple(t.shape)}")
        alive = default_mask.movedim(self.dim, 0).reshape(t.shape[self.dim], -1).any(1)
        left = alive.nonzero().squeeze(-1)
        count = _count(self.amount, left.numel())
        keep = find_op("ones")((t.shape[self.dim],), dtype=default_mask.dtype)
        if count:
            keep[left[self._scores(t)[left].topk(count, largest=False).indices]] = 0
        shape = [1] * t.dim()
        shape[self.dim] = -1
        return default_mask * keep.reshape(shape)


class RandomStructured(LnStructured):
    """Channels along `dim` at random."""

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount, 1, dim)

    def _scores(self, t: Tensor) -> Tensor:
        return -find_op("rand")((t.shape[self.dim],))


def identity(module: Module, name: str) -> Module:
    """The names of pruning, nothing pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune entries at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Module:
    """Prune the smallest entries."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune channels at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of smallest norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune by a mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune several tensors as if they were one."""
    pairs = list(parameters)
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError('pruning_method: its PRUNING_TYPE must be "unstructured", got '
                        f"{pruning_method} of type {pruning_method.PRUNING_TYPE}")
    given = importance_scores or {}
    scores = [given.get(pair, getattr(pair[0], pair[1])).detach() for pair in pairs]
    masks = [
        getattr(module, name + "_mask", find_op("ones_like")(getattr(module, name).detach())) for module, name in pairs
    ]
    flat = find_op("cat")([s.reshape(-1) for s in scores])
    mask = pruning_method(**kwargs).compute_mask(flat, find_op("cat")([m.reshape(-1) for m in masks]))
    for (module, name), part, old in zip(pairs, mask.split([m.numel() for m in masks]), masks):
        custom_from_mask(module, name, part.view_as(old))


def remove(module: Module, name: str) -> Module:
    """Make pruning permanent."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"'{name}' of {module} is not pruned, so there is no pruning to remove")


def is_pruned(module: Module) -> bool:
    """Whether anything in the module is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for found in module.modules() for hook in found._forward_pre_hooks.values()
    )
