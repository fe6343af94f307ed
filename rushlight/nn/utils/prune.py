"""Pruning: entries of a tensor masked to zero, chosen at random, by size, or given.

Enters: a module and the name of a parameter. Leaves: a parameter `<name>_orig`, a buffer `<name>_mask`, and the masked
tensor computed before each forward; a tensor pruned again carries a `PruningContainer` of its methods, each of which
chooses among what the ones before it left. A pruning that is refused leaves the module as it was.
Refuses amounts that are no share or count of the entries.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ..._C import Tensor
from ...base.shape import contiguous_format
from ...op import find_op
from ..modules.module import Module
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A forward pre-hook that masks one tensor; subclasses choose the mask and say how in `PRUNING_TYPE`."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Before a forward: let the attribute be the original times the mask."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for importance scores `t`, within a mask there was before."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"{module}: this method pruned nothing, so there is no mask to apply")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune `module.name`, more if it was pruned before."""
        new = cls(*args, **kwargs)
        new._tensor_name = name
        keys = [key for key, hook in module._forward_pre_hooks.items() if _prunes(hook, name)]
        if len(keys) > 1:
            raise AssertionError(f"{name} of {module} has {len(keys)} pruning hooks; a PruningContainer holds several")
        weight = getattr(module, name)
        scores = weight if importance_scores is None else _same_shape(importance_scores, weight, f"{name} of {module}")
        if not keys:
            return _first_pruning(module, name, new, scores)
        old = module._forward_pre_hooks[keys[0]]
        before = tuple(old) if isinstance(old, PruningContainer) else (old,)
        trial = PruningContainer(*before[:1])
        trial._pruning_methods = (*before, new)
        mask = getattr(module, name + "_mask").detach().clone(memory_format=contiguous_format)
        mask = trial.compute_mask(scores, default_mask=mask)
        container = old if isinstance(old, PruningContainer) else trial
        container._pruning_methods = trial._pruning_methods
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, container.apply_mask(module))
        del module._forward_pre_hooks[keys[0]]
        module.register_forward_pre_hook(container)
        return container

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else _same_shape(importance_scores, t, "t")
        mask = find_op("ones_like")(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the masked tensor the parameter, for good. The hook stays; the function `remove` takes it away too."""
        if self._tensor_name is None:
            raise AssertionError(f"{module}: this method pruned nothing, so there is no pruning to take back")
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        setattr(module, name, original)


def _prunes(hook: Any, name: str) -> bool:
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


def _same_shape(scores: Tensor, of: Tensor, what: str) -> Tensor:
    if scores.shape != of.shape:
        raise AssertionError(f"importance_scores: expected the shape {of.shape} of {what}, got {scores.shape}")
    return scores


def _first_pruning(module: Module, name: str, method: BasePruningMethod, scores: Tensor) -> BasePruningMethod:
    """Give the module the names of pruning, or leave it as it was when the method refuses."""
    weight = getattr(module, name)
    mask = method.compute_mask(scores, default_mask=find_op("ones_like")(weight))
    module.register_parameter(name + "_orig", weight)
    del module._parameters[name]
    module.register_buffer(name + "_mask", mask)
    setattr(module, name, method.apply_mask(module))
    module.register_forward_pre_hook(method)
    return method


class PruningContainer(BasePruningMethod):
    """The methods that pruned one tensor, in order; a new mask is the last one's choice among what was left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Put a method of the same tensor at the end."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"method: expected a BasePruningMethod, got {type(method)}")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"this container holds pruning methods of the parameter '{self._tensor_name}', and the method given"
                f" acts on '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask for the part of `t` that `default_mask` leaves."""
        method = self._pruning_methods[-1]
        left = _left_for(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


def _left_for(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of what a method may still choose from: entries, whole channels of its `dim`, or everything."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.dim()
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError(f'{type(method).__name__}: methods of PRUNING_TYPE "structured" need an attribute `dim`')
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"dim {method.dim} is out of bounds for a tensor of {t.dim()} dimensions")
    return _channels(t.dim(), dim, mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0)


def _channels(rank: int, dim: int, chosen: Any) -> tuple[Any, ...]:
    """The index of chosen places along one dim, all of the others."""
    index: list[Any] = [slice(None)] * rank
    index[dim] = chosen
    return tuple(index)


class Identity(BasePruningMethod):
    """Prunes nothing: makes the names that pruning makes."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """Give `module.name` the names of pruning."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """A method that is told how much to prune: a share or a count."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount


class RandomUnstructured(_ByAmount):
    """Entries at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, _checked_count(self.amount, t.nelement()), lambda: -find_op("rand_like")(t))

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any) -> BasePruningMethod:  # type: ignore[override]
        """Prune entries of `module.name` at random."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """The entries of smallest magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, _checked_count(self.amount, t.nelement()), lambda: t.abs())

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the smallest entries of `module.name`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _without(mask: Tensor, count: int, scores: Any) -> Tensor:
    """A mask with zeros at the `count` places of smallest score besides those it has."""
    mask = mask.clone(memory_format=contiguous_format)
    if count:
        mask.view(-1)[find_op("topk")(scores().view(-1), k=count, largest=False).indices] = 0
    return mask


class RandomStructured(_ByAmount):
    """Channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _channel_count(self.amount, t, self.dim)
        if not count:
            return default_mask
        drawn = find_op("rand")((t.shape[self.dim],))
        return _only(default_mask, t, self.dim, drawn > find_op("kthvalue")(drawn, k=count).values)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        """Prune channels of `module.name` at random."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_ByAmount):
    """The channels along `dim` of smallest n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _channel_count(self.amount, t, self.dim)
        norm = _compute_norm(t, self.n, self.dim)
        if not count:
            return default_mask
        kept = find_op("topk")(norm, k=t.shape[self.dim] - count, largest=True).indices
        return _only(default_mask, t, self.dim, kept)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the channels of smallest norm of `module.name`."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


def _channel_count(amount: Any, t: Tensor, dim: int) -> int:
    _validate_structured_pruning(t)
    _validate_pruning_dim(t, dim)
    return _checked_count(amount, t.shape[dim])


def _only(mask: Tensor, t: Tensor, dim: int, chosen: Tensor) -> Tensor:
    """The part of a mask in the chosen channels, in the dtype of the scores."""
    result = find_op("zeros_like")(t)
    result[_channels(t.dim(), dim, chosen)] = 1
    result *= mask.to(dtype=result.dtype)
    return result


class CustomFromMask(BasePruningMethod):
    """The entries a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"mask: expected the shape {default_mask.shape}, got {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """Prune `module.name` by a mask."""
        return super().apply(module, name, mask=mask)


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
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several tensors as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError(f"parameters: expected an iterable of (module, name) pairs, got {parameters!r}")
    if not isinstance(importance_scores, dict) and importance_scores is not None:
        raise TypeError(f"importance_scores: expected a dict, got {type(importance_scores).__name__}")
    given = importance_scores or {}
    pairs = list(parameters)
    weights = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector(given.get(pair, weight) for pair, weight in zip(pairs, weights))
    masks = parameters_to_vector(
        getattr(module, name + "_mask", find_op("ones_like")(weight)) for (module, name), weight in zip(pairs, weights)
    )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'pruning_method: Only "unstructured" PRUNING_TYPE supported, got {pruning_method} of type'
            f" {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all parameters"
    mask = PruningContainer(method).compute_mask(scores, masks)
    for (module, name), weight, part in zip(pairs, weights, mask.split([weight.numel() for weight in weights])):
        custom_from_mask(module, name, mask=part.view_as(weight))


def remove(module: Module, name: str) -> Module:
    """Make pruning permanent."""
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"'{name}' of {module} is not pruned, so there is no pruning to remove")


def is_pruned(module: Module) -> bool:
    """Whether anything in the module is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for found in module.modules() for hook in found._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount: Any) -> None:
    """Refuse what is no share (a float from 0 to 1) and no count (a whole number from 0 on)."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"amount: expected an int or a float, got {amount!r}")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
        raise ValueError(f"amount={amount}: expected a float in [0, 1] or a whole number from 0 on")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Refuse a count of more than there is."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount}: expected at most the {tensor_size} there are to prune")


def _validate_structured_pruning(t: Tensor) -> None:
    """Refuse tensors that have no channels."""
    if t.dim() <= 1:
        raise ValueError(f"structured pruning needs a tensor of 2 dims or more, got shape {tuple(t.shape)}")


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Refuse a dim the tensor does not have."""
    if dim >= t.dim():
        raise IndexError(f"dim {dim} is out of bounds for a tensor of shape {tuple(t.shape)}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many entries an amount is: a share (float) or a number (int)."""
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _checked_count(amount: Any, size: int) -> int:
    count = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(count, size)
    return count


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The n-norm of each channel along `dim`."""
    channels = range(t.dim())[dim]
    return find_op("norm")(t, p=n, dim=[other for other in range(t.dim()) if other != channels])
