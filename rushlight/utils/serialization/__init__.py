"""PyTorch's `utils.serialization`: the options of saving and loading."""

from . import config

__all__ = ["config"]
