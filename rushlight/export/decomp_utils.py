"""PyTorch's name for the module of decomposition tables."""

from __future__ import annotations

from .decompositions import CustomDecompTable

__all__ = ["CustomDecompTable"]
