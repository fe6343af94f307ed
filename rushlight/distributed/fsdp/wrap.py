"""`torch.distributed.fsdp.wrap`: which modules inside a module are wrapped by themselves."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from ...nn.modules.multihead import MultiheadAttention

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable) -> bool:
    """Modules for which a function is true."""
    return True if recurse else bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type]
) -> bool:
    """Modules of some classes, such as a transformer's layer."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable]) -> bool:
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: set[type] | None = None, exclude_wrap_modules: set[type] | None = None,
) -> bool:
    """Modules with at least so many parameters that are not wrapped yet."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = (
        size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    )
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, tuple(leaves))
    return is_large and not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}     # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}           # type: ignore[attr-defined]


class _Policy(ABC):
    """Says for each module inside whether, and with which arguments, it is wrapped."""

    @abstractmethod
    def _run_policy(self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]) -> dict:
        """module -> arguments."""


class ModuleWrapPolicy(_Policy):
    """Modules of some classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]) -> dict:
        classes = tuple(self._module_classes)
        return {m: dict(root_kwargs) for m in root_module.modules() if m not in ignored_modules
                and isinstance(m, classes)}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return True if recurse else isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy(_Policy):
    """Modules for which a function gives True, or a dict of arguments that differ from the root's."""

    def __init__(self, lambda_fn: Callable[[Module], Any]) -> None:
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]) -> dict:
        chosen = {}
        for m in root_module.modules():
            if m in ignored_modules:
                continue
            said = self._lambda_fn(m)
            if not isinstance(said, (bool, dict)):
                raise ValueError(f"CustomPolicy: expected a bool or a dict, got {type(said).__name__}")
            if said:
                chosen[m] = {**root_kwargs, **(said if isinstance(said, dict) else {})}
        return chosen


def chosen_modules(root: Module, policy: Any, ignored: set[Module], arguments: dict[str, Any]) -> dict[Module, dict]:
    """The modules inside that a policy wraps, innermost first, each with its arguments."""
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, ignored, arguments)
        chosen.pop(root, None)
    elif callable(policy):
        chosen = {}
        _ask(root, policy, ignored, arguments, chosen, is_root=True)
    else:
        raise TypeError(f"auto_wrap_policy must be a function or a policy, got {type(policy).__name__}")
    inner_first = [m for m in reversed(list(root.modules())) if m in chosen]
    return {m: chosen[m] for m in inner_first}


def _ask(module: Module, policy: Callable, ignored: set[Module], arguments: dict[str, Any], chosen: dict,
         is_root: bool = False) -> int:
    """How many parameters below are wrapped now; what the policy says depends on how many are not."""
    total = sum(p.numel() for p in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return 0
    wrapped = 0
    for child in module.children():
        if child not in ignored:
            wrapped += _ask(child, policy, ignored, arguments, chosen)
    if not is_root and policy(module=module, recurse=False, nonwrapped_numel=total - wrapped):
        chosen[module] = dict(arguments)
        return total
    return wrapped


_wrapping: list[tuple[Any, dict[str, Any]]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap(module)` wraps with a class and its arguments; outside it gives the module back."""
    _wrapping.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """A module wrapped as `enable_wrap` says; itself outside of that."""
    if not _wrapping:
        return module
    cls, arguments = _wrapping[-1]
    return cls(module, **{**arguments, **wrap_overrides})
