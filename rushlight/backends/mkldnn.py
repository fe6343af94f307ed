"""oneDNN (once MKL-DNN) is not here; its switches are kept for the programs that set them."""

from __future__ import annotations

from typing import Any, Literal

from .flags_of_modules import FP32Precision, Switch, precision_switch, set_switches, switched, turn_into

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
_switches = turn_into(
    __name__, enabled=Switch("mkldnn.enabled", True), deterministic=Switch("mkldnn.deterministic", False),
    allow_tf32=Switch("mkldnn.allow_tf32", None, (None, True, False)), fp32_precision=precision_switch("mkldnn", "all"),
)
matmul, conv, rnn = FP32Precision("mkldnn", "matmul"), FP32Precision("mkldnn", "conv"), FP32Precision("mkldnn", "rnn")


def is_available() -> bool:
    """False."""
    return False


def is_acl_available() -> bool:
    """False."""
    return False


class verbose:  # noqa: N801 - PyTorch's name
    """A region in which oneDNN would report what it runs; there is nothing to report."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        if self.level != VERBOSE_OFF:
            raise AssertionError(
                "Failed to set MKLDNN into verbose mode: oneDNN is not available. RUSHLIGHT_SHOW=dispatch prints the"
                " ops that run."
            )
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False


def set_flags(
    _enabled: Any = None, _deterministic: Any = None, _allow_tf32: Any = None, _fp32_precision: Any = "none"
) -> tuple:
    """Set the switches that are not None; what all were before."""
    return set_switches(
        _switches, dict(zip(_switches, (_enabled, _deterministic, _allow_tf32, _fp32_precision), strict=True))
    )


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Any:
    """A context with other switches."""
    return switched(_switches, dict(zip(_switches, (enabled, deterministic, allow_tf32, fp32_precision), strict=True)))
