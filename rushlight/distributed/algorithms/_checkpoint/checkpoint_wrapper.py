"""Modules whose activations are computed again in the backward pass, or wait for it in host memory.

Enters: a module. Leaves: a wrapper with the same results and the same names in its state dict and parameters."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint
from ...fsdp.wrap import chosen_modules, lambda_auto_wrap_policy

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]
_WRAPPED = "_checkpoint_wrapped_module"
_PREFIX = _WRAPPED + "."


class CheckpointImpl(enum.Enum):
    """Which of the two ways of `utils.checkpoint` computes activations again."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module):
    """A module inside another, under its own names."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(_with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own."""
        raise ValueError("ActivationWrapper: subclasses say what forward does")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _WRAPPED:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names and parameters of the module alone."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), p


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    inner = prefix + _PREFIX
    for key in [k for k in state if k.startswith(inner)]:
        state[prefix + key[len(inner) :]] = state.pop(key)


def _with_prefix(state: dict[str, Any], prefix: str, *_: Any) -> None:
    inner = prefix + _PREFIX
    for key in [k for k in state if k.startswith(prefix) and not k.startswith(inner)]:
        state[inner + key[len(prefix) :]] = state.pop(key)


class OffloadWrapper(ActivationWrapper):
    """What the module saves for the backward pass waits in pinned host memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """What the module would save is computed again; `checkpoint_fn` may do it in place of `utils.checkpoint`."""

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            is_reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = partial(checkpoint, use_reentrant=is_reentrant)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:
            # That way takes positional arguments only: named ones travel as such.
            names = list(kwargs)
            count = len(args)
            return self.checkpoint_fn(
                lambda *given: inner(*given[:count], **dict(zip(names, given[count:]))), *args, *kwargs.values()
            )
        return self.checkpoint_fn(inner, *args, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """The module, with what it saves in host memory."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module, with what it saves computed again."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True, auto_wrap_policy: Callable | None = None,
) -> None:
    """Wrap the modules inside a model for which `check_fn` (or a wrap policy) is true, in place."""
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    for module in chosen_modules(model, policy, set(), {}):
        wrapper = checkpoint_wrapper_fn(module)
        for parent in list(model.modules()):
            for name, child in parent._modules.items():
                if child is module and parent is not wrapper:
                    parent._modules[name] = wrapper
