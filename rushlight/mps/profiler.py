"""`torch.mps.profiler`: marks for Apple's profiler, which has no device to look at."""

from ..absent import absent_names

globals().update(absent_names("torch.mps.profiler", "there is no MPS device support", "metal_capture profile start stop"))


def is_capturing_metal() -> bool:
    """There is no such device."""
    return False


def is_metal_capture_enabled() -> bool:
    """There is no such device."""
    return False
