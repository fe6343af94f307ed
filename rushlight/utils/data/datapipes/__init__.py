"""Datapipes: datasets put together from small steps. Importing this registers the steps as methods of datapipes."""

from . import iter, map  # noqa: A004 - PyTorch's names

__all__ = ["iter", "map"]
