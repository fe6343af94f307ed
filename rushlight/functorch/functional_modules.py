"""Modules as functions of tuples of tensors: what `functorch` had before `torch.func.functional_call`.

Enters: a module, or several alike. Leaves: a function that takes parameters (and buffers) first, and copies of those;
the module is not touched. PyTorch keeps these names with a warning, and programs on ensembles still use them.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._C import Tensor
from ..func import functional_call
from ..func.stateless import named_tensors
from ..nn import Module
from ..op import find_op


class FunctionalModule(Module):
    """A module without parameters of its own: calls take them as a tuple in front of the arguments."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        return self._called(params, self.param_names, args, kwargs)

    def _called(self, tensors: Sequence[Tensor], names: tuple[str, ...], args: tuple, kwargs: dict[str, Any]) -> Any:
        if len(tensors) != len(names):
            raise ValueError(f"expected {len(names)} parameters and buffers, got {len(tensors)}")
        given = {each: t for name, t in zip(names, tensors, strict=True) for each in self.names_map[name]}
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """The same for a module with buffers, which calls take after the parameters."""

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__(stateless_model, param_names, {**param_names_map, **buffer_names_map})
        self.buffer_names = buffer_names

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        return self._called((*params, *buffers), self.param_names + self.buffer_names, args, kwargs)


def _tied(model: Module, tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The names of each tensor, by the first of them."""
    everywhere = named_tensors(model)
    return {name: [other for other, t in everywhere.items() if t is tensor] for name, tensor in tensors.items()}


def _taken_apart(model: Module, is_tracked: bool) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """A function of all state of a copy of the model, the copy's parameters, and its buffers."""
    model = copy.deepcopy(model)
    params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    function = FunctionalModuleWithBuffers(
        model, tuple(params), tuple(buffers), _tied(model, params), _tied(model, buffers)
    )
    model.to("meta")      # the function keeps no numbers: a name left out would be noticed
    if not is_tracked:
        for p in params.values():
            p.requires_grad_(False)
    return function, tuple(params.values()), tuple(buffers.values())


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(function, parameters) of a module without buffers: `function(parameters, *args)` is `model(*args)`."""
    _warn("make_functional", "torch.func.functional_call")
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError("make_functional: the model has buffers. Call make_functional_with_buffers(model).")
    function, params, _ = _taken_apart(model, not disable_autograd_tracking)
    return FunctionalModule(function.stateless_model, function.param_names, function.names_map), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(function, parameters, buffers) of a module: `function(parameters, buffers, *args)` is `model(*args)`."""
    _warn("make_functional_with_buffers", "torch.func.functional_call")
    return _taken_apart(model, not disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for modules of one class, with their parameters and buffers stacked, to be called under `vmap`."""
    _warn("combine_state_for_ensemble", "torch.func.stack_module_state")
    if not models:
        raise RuntimeError("combine_state_for_ensemble: expected at least one model, got none")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: expected models of one class, got "
                           + ", ".join(sorted({type(m).__name__ for m in models})))
    if len({m.training for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: expected all models to train, or none: got some of each")
    functions, params, buffers = zip(*(_taken_apart(m, False) for m in models), strict=True)
    stack: Callable[[Any], Tensor] = find_op("stack")
    return functions[0], tuple(map(stack, zip(*params, strict=True))), tuple(map(stack, zip(*buffers, strict=True)))


def _warn(name: str, today: str) -> None:
    warnings.warn(f"functorch.{name} is deprecated. Call {today} instead.", FutureWarning, stacklevel=3)
