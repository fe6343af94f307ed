"""Modules for phones: `optimize_for_mobile` freezes a scripted module and runs the rewrites of frozen ones. Other code
for a phone is made ahead of time, by `export`."""

from __future__ import annotations

import enum
from typing import Any

from ..base import late
from ..base.refusals import names_of

globals().update(names_of("torch.utils.mobile_optimizer"))
_BACKENDS = ("cpu", "vulkan", "metal")


class MobileOptimizerType(enum.Enum):
    """Rewrites that a call may leave out."""

    CONV_BN_FUSION = 1
    INSERT_FOLD_PREPACK_OPS = 2
    REMOVE_DROPOUT = 3
    FUSE_ADD_RELU = 4
    HOIST_CONV_PACKED_PARAMS = 5
    CONV_1D_TO_2D = 6
    VULKAN_AUTOMATIC_GPU_TRANSFER = 7


def optimize_for_mobile(script_module: Any, optimization_blocklist: set[MobileOptimizerType] | None = None,
                        preserved_methods: list[Any] | None = None, backend: str = "CPU") -> Any:
    """A frozen copy of a scripted module in eval mode; `preserved_methods` stay beside forward. Convolutions and norms
    are folded unless the blocklist holds CONV_BN_FUSION."""
    jit = late.provided("package").jit
    if not isinstance(script_module, jit.ScriptModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")
    if backend.lower() not in _BACKENDS:
        raise TypeError(f"Unknown backend, must be one of {', '.join(map(repr, _BACKENDS))}, got {backend!r}")
    if backend.lower() != "cpu":
        raise NotImplementedError(f"optimize_for_mobile: models for {backend} are made ahead of time, by export")
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in preserved_methods or ()]
    missing = [name for name in names if not hasattr(script_module, name)]
    if missing:
        raise AttributeError(f"preserved_methods: the module has no method {', '.join(missing)}")
    without = optimization_blocklist or set()
    return jit.freeze(script_module.eval(), preserved_attrs=names,
                      optimize_numerics=MobileOptimizerType.CONV_BN_FUSION not in without)
