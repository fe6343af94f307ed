"""Hooks for `DistributedDataParallel.register_comm_hook`, by name."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks  # noqa: F401

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Registering:
    """Called with a model and a state, registers a hook; callable objects can be members of an Enum."""

    def __init__(self, hook: Callable, rank: int = 0) -> None:
        self.hook, self.rank = hook, rank

    def __call__(self, model: Any, state: Any = None, **options: Any) -> None:
        if self.rank:       # the state given is the process group
            state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=self.rank, **options)
        elif options:
            raise TypeError(f"this hook takes a model and a state, got {', '.join(options)}, too")
        model.register_comm_hook(state, self.hook)


class DDPCommHookType(enum.Enum):
    """The hooks that can be registered by name: `DDPCommHookType.FP16_COMPRESS.value(model=model, state=group)`."""

    ALLREDUCE = _Registering(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registering(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registering(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Registering(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Registering(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _Registering(powerSGD_hook.powerSGD_hook, rank=1)
    POWER_SGD_RANK2 = _Registering(powerSGD_hook.powerSGD_hook, rank=2)
    BATCHED_POWER_SGD = _Registering(powerSGD_hook.batched_powerSGD_hook, rank=1)
    BATCHED_POWER_SGD_RANK2 = _Registering(powerSGD_hook.batched_powerSGD_hook, rank=2)
    NOOP = _Registering(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register one of them; `state` is the process group, None for all processes."""
    comm_hook_type.value(model=model, state=state)
