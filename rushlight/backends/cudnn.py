"""cuDNN is not here; its switches are kept for the programs that set them."""

from __future__ import annotations

from typing import Any

from .._C import Tensor, float16, float32, float64
from .flags_of_modules import FP32Precision, Switch, precision_switch, set_switches, switched, turn_into

CUDNN_TENSOR_DTYPES = {float16, float32, float64}
_switches = turn_into(
    __name__, enabled=Switch("cudnn.enabled", True), benchmark=Switch("cudnn.benchmark", False),
    benchmark_limit=Switch("cudnn.benchmark_limit", None, (None, *range(1025))),
    deterministic=Switch("cudnn.deterministic", False), allow_tf32=Switch("cudnn.allow_tf32", True),
    fp32_precision=precision_switch("cuda", "all"),
    depthwise_kernel=Switch("cudnn.depthwise_kernel", "auto", ("auto", "cudnn", "native")),
)  # fmt: skip
conv, rnn = FP32Precision("cuda", "conv"), FP32Precision("cuda", "rnn")


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Tensor) -> bool:
    """False: cuDNN takes no tensor."""
    return False


def set_flags(_enabled: Any = None, _benchmark: Any = None, _benchmark_limit: Any = None, _deterministic: Any = None,
              _allow_tf32: Any = None, _fp32_precision: Any = "none",
              _depthwise_kernel: Any = None) -> tuple:  # fmt: skip
    """Set the switches that are not None; what all were before."""
    return set_switches(
        _switches,
        dict(
            zip(
                _switches,
                (
                    _enabled,
                    _benchmark,
                    _benchmark_limit,
                    _deterministic,
                    _allow_tf32,
                    _fp32_precision,
                    _depthwise_kernel,
                ),
                strict=True,
            )
        ),
    )


def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int | None = 10, deterministic: bool = False,
          allow_tf32: bool = True, fp32_precision: str = "none", depthwise_kernel: str = "auto") -> Any:  # fmt: skip
    """A context with other switches."""
    return switched(
        _switches,
        dict(
            zip(
                _switches,
                (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel),
                strict=True,
            )
        ),
    )
