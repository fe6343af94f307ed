"""PyTorch's place for the question whether mixed precision on CUDA can work at all."""

from __future__ import annotations

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """True: there is no CUDA device."""
    return True
