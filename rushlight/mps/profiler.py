"""`torch.mps.profiler`: marks for Apple's profiler, which has no device to look at."""

from ..base.refusals import names_of

globals().update(names_of("torch.mps.profiler"))


def is_capturing_metal() -> bool:
    """There is no such device."""
    return False


def is_metal_capture_enabled() -> bool:
    """There is no such device."""
    return False
