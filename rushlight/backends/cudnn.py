"""cuDNN's switches: `allow_tf32` is for convolutions on CUDA devices; the others are kept for the programs that set
them."""

from __future__ import annotations

from typing import Any

from .._C import Tensor, float16, float32, float64
from ..base import late
from ..base.settings import set_conv_tf32
from .flags_of_modules import FP32Precision, Switch, precision_switch, set_switches, switched, turn_into

CUDNN_TENSOR_DTYPES = {float16, float32, float64}
_switches = turn_into(
    __name__, enabled=Switch("cudnn.enabled", True), benchmark=Switch("cudnn.benchmark", False),
    benchmark_limit=Switch("cudnn.benchmark_limit", None, (None, *range(1025))),
    deterministic=Switch("cudnn.deterministic", False), allow_tf32=Switch("cudnn.allow_tf32", True, told=set_conv_tf32),
    fp32_precision=precision_switch("cuda", "all"),
    depthwise_kernel=Switch("cudnn.depthwise_kernel", "auto", ("auto", "cudnn", "native")),
)
conv, rnn = FP32Precision("cuda", "conv"), FP32Precision("cuda", "rnn")


def _library() -> Any:
    """The library where there is a device for it, else None."""
    if late.provided("cuda device")() is None:
        return None
    from ..devices.cuda import cudnn  # opens the library, which few programs ask about

    return cudnn.find()


def is_available() -> bool:
    """Whether there is a CUDA device, and cuDNN for it."""
    return _library() is not None


def version() -> int | None:
    """Its number, such as 91900; None where there is none."""
    library = _library()
    return None if library is None else library.functions.cudnnGetVersion()


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN takes a tensor."""
    return tensor.device.type == "cuda" and tensor.dtype in CUDNN_TENSOR_DTYPES and is_available()


def set_flags(_enabled: Any = None, _benchmark: Any = None, _benchmark_limit: Any = None, _deterministic: Any = None,
              _allow_tf32: Any = None, _fp32_precision: Any = "none",
              _depthwise_kernel: Any = None) -> tuple:
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
          allow_tf32: bool = True, fp32_precision: str = "none", depthwise_kernel: str = "auto") -> Any:
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
