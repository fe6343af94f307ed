"""Where native code is: not told here."""

from __future__ import annotations

__all__ = ["get_cpp_backtrace"]


def get_cpp_backtrace(frames_to_skip: int = 0, maximum_number_of_frames: int = 64) -> str:
    """Refused: the core keeps no names to look frames up by."""
    raise NotImplementedError(
        "get_cpp_backtrace: native stack traces are not available. Run under gdb, with a debug build:"
        " tools/dev_build.py --debug."
    )
