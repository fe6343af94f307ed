"""`torch.distributed.fsdp.api`: what `FullyShardedDataParallel` can be told."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import _C
from ...nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]


class ShardingStrategy(enum.Enum):
    """What is spread over processes: parameters, gradients and state; not parameters between forward and backward;
    nothing (gradients are averaged); either of the first two within a machine, with copies on all machines."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When the next parameters begin to be gathered in backward: before this module's backward, or after it."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass
class MixedPrecision:
    """Types, each None for those that are there: of parameters while passes compute, of gradients while they are
    reduced, of buffers. Inputs of the root, or of all modules, become `param_dtype`; modules of the classes to ignore
    are wrapped by themselves and keep their types, where an auto_wrap_policy is given."""

    param_dtype: _C.dtype | None = None
    reduce_dtype: _C.dtype | None = None
    buffer_dtype: _C.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parts of parameters and gradients lie in host memory."""

    offload_params: bool = False


class StateDictType(enum.Enum):
    """What a state dict holds: whole tensors, this process's part of the flat ones, or DTensors."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class StateDictConfig:
    """Whether tensors of a state dict come to host memory."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whether only rank 0 gets the whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Nothing more."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """DTensors are what parts are here in any case."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether an optimizer's tensors come to host memory."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whether only rank 0 gets the whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Where they are."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors are what parts are here in any case."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """All of them."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


_MODEL_CONFIGS: dict[StateDictType, type] = {
    StateDictType.FULL_STATE_DICT: FullStateDictConfig,
    StateDictType.LOCAL_STATE_DICT: LocalStateDictConfig,
    StateDictType.SHARDED_STATE_DICT: ShardedStateDictConfig,
}
_OPTIM_CONFIGS: dict[StateDictType, type] = {
    StateDictType.FULL_STATE_DICT: FullOptimStateDictConfig,
    StateDictType.LOCAL_STATE_DICT: LocalOptimStateDictConfig,
    StateDictType.SHARDED_STATE_DICT: ShardedOptimStateDictConfig,
}


def settings(kind: StateDictType, config: Any = None, optim_config: Any = None) -> StateDictSettings:
    """Settings of a kind, with the configurations given or the kind's own."""
    config = _MODEL_CONFIGS[kind]() if config is None else config
    optim_config = _OPTIM_CONFIGS[kind]() if optim_config is None else optim_config
    for given, expected in ((config, _MODEL_CONFIGS[kind]), (optim_config, _OPTIM_CONFIGS[kind])):
        if type(given) is not expected:
            raise RuntimeError(
                f"state_dict_type: {kind.name} goes with a {expected.__name__}, got a {type(given).__name__}"
            )
    return StateDictSettings(kind, config, optim_config)
