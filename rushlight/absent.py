"""Names of PyTorch that programs import but that Rushlight does not have yet: they say so when used, not when imported.

Enters: what is missing and why. Leaves: a class, which may stand in annotations, in `isinstance` and as a base class, and
whose construction, call or class-level use raises NotImplementedError with that reason. Nothing here pretends to work.
"""

from __future__ import annotations

from typing import Any


class _Absent(type):
    """The class of absent classes: a touch of a missing class attribute says what is missing."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("_absent_reason") is None:   # a user's subclass of an absent class
            return super().__call__(*args, **kwargs)
        raise NotImplementedError(cls._absent_reason)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise NotImplementedError(f"{cls._absent_reason} (asked for its {name!r})")


def absent(module: str, name: str, reason: str) -> type:
    """A stand-in for `module.name`."""
    return _Absent(name, (), {"__module__": module, "_absent_reason": f"{module}.{name} is not available in Rushlight: {reason}"})


def absent_names(module: str, reason: str, names: str) -> dict[str, type]:
    """Stand-ins for many names (separated by blanks) that are missing for one reason."""
    return {name: absent(module, name, reason) for name in names.split()}


def absent_device(module: str, kind: str) -> dict[str, Any]:
    """The names of a device's module on a machine without such a device: questions are answered, seeds accepted, use is refused."""
    def no(*args: Any, **kwargs: Any) -> bool:
        """There is no such device."""
        return False

    def nothing(*args: Any, **kwargs: Any) -> None:
        """There is no such device to seed or to empty."""

    answered = {"is_available": no, "is_initialized": no, "is_bf16_supported": no, "device_count": lambda: 0}
    accepted = dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache"), nothing)
    refused = absent_names(module, f"there is no {kind} device support", (
        "Event Stream current_allocated_memory current_device current_stream device driver_allocated_memory get_device_capability get_device_name "
        "get_device_properties get_rng_state get_rng_state_all is_current_stream_capturing mem_get_info memory_allocated max_memory_allocated "
        "memory_reserved recommended_max_memory reset_peak_memory_stats set_device set_rng_state set_rng_state_all stream synchronize"))
    return {**answered, **accepted, **refused}
