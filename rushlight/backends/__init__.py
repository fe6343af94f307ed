"""PyTorch's `backends`: which libraries serve here, and the switches programs set on them.
Submodules load when first used.

Kernels are generated or come from OpenBLAS and LAPACK, so most backends of PyTorch are not available, and say so.
"""

from ..base import late as _late
from .flags_of_modules import (  # noqa: F401
    ContextProp,
    PropModule,
    disable_global_flags,
    flags_frozen,
    precision_switch as _precision_switch,
    set_switches as _set_switches,
    switched as _switched,
    turn_into as _turn_into,
)

_switches = _turn_into(__name__, fp32_precision=_precision_switch("generic", "all"))


def set_flags(_fp32_precision: str | None = "none") -> tuple:
    """Set the general precision of float32; what it was."""
    return _set_switches(_switches, {"fp32_precision": _fp32_precision})


def flags(fp32_precision: str = "none") -> object:
    """A context with another precision of float32."""
    return _switched(_switches, {"fp32_precision": fp32_precision})


__getattr__, __dir__ = _late.names(globals(), {}, (
    "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp",
    "opt_einsum", "quantized", "xeon", "xnnpack",
))
