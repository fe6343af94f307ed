"""MKL is not here: BLAS and LAPACK come from OpenBLAS."""

from __future__ import annotations

from typing import Literal

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False."""
    return False


class verbose:  # noqa: N801 - PyTorch's name
    """A region in which MKL would report what it runs; there is nothing to report."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        if self.enable != VERBOSE_OFF:
            raise AssertionError("Failed to set MKL into verbose mode: MKL is not available.")
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False
