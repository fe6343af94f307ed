"""`torch.mtia` on a machine without such a device: questions are answered, use is refused."""

from __future__ import annotations

from .absent import absent_names


def is_available() -> bool:
    """Whether a device of this kind can be used."""
    return False


def device_count() -> int:
    """How many devices of this kind there are."""
    return 0


def is_initialized() -> bool:
    """Whether the device's run time was started."""
    return False


def is_bf16_supported() -> bool:
    """Whether the device computes in bfloat16."""
    return False


def manual_seed(seed: int) -> None:
    """Seed the device's generator (there is none)."""


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator (there are none)."""


def empty_cache() -> None:
    """Give cached device memory back (there is none)."""


globals().update(absent_names("torch.mtia", "there is no MTIA device support",
                              "Event Stream current_allocated_memory current_device current_stream driver_allocated_memory get_device_name "
                              "get_device_properties get_rng_state memory_allocated max_memory_allocated memory_reserved mem_get_info "
                              "recommended_max_memory set_device set_rng_state stream synchronize"))
