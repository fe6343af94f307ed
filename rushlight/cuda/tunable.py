"""`torch.cuda.tunable`: choosing among GPU matrix products by timing them. There is no GPU; the switches are kept,
the rest refuses.

Enters: settings. Leaves: the same settings; nothing is tuned. Refuses to read, write or tune.
"""

from __future__ import annotations

from typing import Any

from .no_device import _needs_device

__all__ = [
    "enable", "get_filename", "get_max_tuning_duration", "get_max_tuning_iterations", "get_results",
    "get_rotating_buffer_size", "get_validators", "is_enabled", "mgpu_tune_gemm_in_file", "read_file",
    "record_untuned_enable", "record_untuned_is_enabled", "set_filename", "set_max_tuning_duration",
    "set_max_tuning_iterations", "set_numerical_check_tolerances", "set_rotating_buffer_size", "tune_gemm_in_file",
    "tuning_enable", "tuning_is_enabled",
]

_values: dict[str, Any] = {
    "enabled": False,
    "tuning": True,
    "untuned": False,
    "filename": "",
    "duration": 30,
    "iterations": 100,
    "buffer": -1,
}
mgpu_tune_gemm_in_file, tune_gemm_in_file, read_file, get_validators, set_numerical_check_tolerances = (
    _needs_device(name, __name__)
    for name in (
        "mgpu_tune_gemm_in_file",
        "tune_gemm_in_file",
        "read_file",
        "get_validators",
        "set_numerical_check_tolerances",
    )
)


def enable(val: bool = True) -> None:
    """Whether products may be chosen by timing."""
    _values["enabled"] = bool(val)


def is_enabled() -> bool:
    """Whether that was asked for."""
    return _values["enabled"]


def tuning_enable(val: bool = True) -> None:
    """Whether products not seen before are timed."""
    _values["tuning"] = bool(val)


def tuning_is_enabled() -> bool:
    """Whether that was asked for."""
    return _values["tuning"]


def record_untuned_enable(val: bool = True) -> None:
    """Whether products not seen before are noted down."""
    _values["untuned"] = bool(val)


def record_untuned_is_enabled() -> bool:
    """Whether that was asked for."""
    return _values["untuned"]


def set_max_tuning_duration(duration: int) -> None:
    """How long one product is timed, in milliseconds."""
    _values["duration"] = duration


def get_max_tuning_duration() -> int:
    """How long that is."""
    return _values["duration"]


def set_max_tuning_iterations(iterations: int) -> None:
    """How often one product is run to be timed."""
    _values["iterations"] = iterations


def get_max_tuning_iterations() -> int:
    """How often that is."""
    return _values["iterations"]


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Where results are kept."""
    _values["filename"] = f"{filename}0" if insert_device_ordinal else filename


def get_filename() -> str:
    """Where that is."""
    return _values["filename"]


def set_rotating_buffer_size(buffer_size: int) -> None:
    """How much memory timings walk through, in MB."""
    _values["buffer"] = buffer_size


def get_rotating_buffer_size() -> int:
    """How much that is."""
    return _values["buffer"]


def get_results() -> tuple[Any, ...]:
    """What was chosen so far: nothing."""
    return ()
