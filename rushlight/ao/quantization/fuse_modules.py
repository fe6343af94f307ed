"""Named chains of layers in a model, replaced by one layer each.

Enters: a model and lists of names. Leaves: the model (a copy, unless in place) with the first of each list replaced by
the fused layer, and the others by Identity. Refuses: names that are not there, chains that nobody fuses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ...nn import Module
from ...nn.modules.linear import Identity
from ...nn.utils.parametrize import type_before_parametrizations
from .fuser_method_mappings import fuse_conv_bn, fuse_conv_bn_relu, get_fuser_method

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]
_AGAIN = (fuse_conv_bn, fuse_conv_bn_relu)     # older programs import them from here

Names = Sequence[str] | Sequence[Sequence[str]]


def _get_module(model: Any, submodule_key: str) -> Any:
    """The module at a dotted path. Refuses paths that lead nowhere, by the part that is missing."""
    found = model
    for part in submodule_key.split("."):
        if not hasattr(found, part):
            raise AttributeError(
                f"fuse_modules: {submodule_key!r} names no module of {type(model).__name__}:"
                f" {type(found).__name__} has no {part!r}"
            )
        found = getattr(found, part)
    return found


def _set_module(model: Any, submodule_key: str, module: Module) -> None:
    """Put a module at a dotted path."""
    parent, _, name = submodule_key.rpartition(".")
    setattr(_get_module(model, parent) if parent else model, name, module)


def fuse_known_modules(
    mod_list: Sequence[Module], is_qat: bool, additional_fuser_method_mapping: dict | None = None
) -> list[Module]:
    """The fused layer, and Identity for each of the others. It takes over the hooks that run before the first module
    and after the last; those in between are lost."""
    classes = tuple(type_before_parametrizations(module) for module in mod_list)
    fused = get_fuser_method(classes, additional_fuser_method_mapping)(is_qat, *mod_list)
    for hooks, take in (
        (mod_list[0]._forward_pre_hooks, fused.register_forward_pre_hook),
        (mod_list[-1]._forward_hooks, fused.register_forward_hook),
    ):
        for hook in hooks.values():
            take(hook)
        hooks.clear()
    rest = [Identity().train(mod_list[0].training) for _ in mod_list[1:]]
    return [fused, *rest]


def _fuse_one(model: Module, names: Sequence[str], is_qat: bool, fuser_func: Callable, chains: dict) -> None:
    modules = [_get_module(model, name) for name in names]
    try:
        fused = fuser_func(modules, is_qat, chains)
    except (AssertionError, NotImplementedError) as error:
        error.args = (f"fuse_modules {list(names)}: {error}",)
        raise
    for name, module in zip(names, fused):
        _set_module(model, name, module)


def _fuse_modules(
    model: Module, modules_to_fuse: Names, is_qat: bool, inplace: bool = False,
    fuser_func: Callable = fuse_known_modules, fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    model = model if inplace else copy.deepcopy(model)
    chains = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    one_list = all(isinstance(entry, str) for entry in modules_to_fuse)
    lists: Any = [modules_to_fuse] if one_list else modules_to_fuse
    for names in lists:
        _fuse_one(model, names, is_qat, fuser_func, chains)
    return model


def fuse_modules(
    model: Module, modules_to_fuse: Names, inplace: bool = False, fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    """The model with chains of layers fused for inference; it must be in evaluation mode where norms are folded.

    modules_to_fuse: names of the layers of one chain (`["conv1", "bn1", "relu1"]`), or a list of such lists.
    fuser_func: makes of a chain's modules as many modules, the first doing the work of all.
    fuse_custom_config_dict: `{"additional_fuser_method_mapping": {classes of a chain: function}}`.
    """
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Module, modules_to_fuse: Names, inplace: bool = False, fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    """`fuse_modules` for training with rounding: batch norms stay, inside the fused layers."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
