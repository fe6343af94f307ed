"""Dims joined and split.

Enters: a tensor. Leaves: the same elements under other dims. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..._C import Tensor
from ...base.shape import INTS
from .descriptions import describe_layers
from .module import Module
from .settings import settings


class Flatten(Module):
    """Several dims as one; the batch stays by default.

    Arguments:
        start_dim: first dimension of those made one
        end_dim: last of them

    Shape:
        input (N, ...); output (N, the product of the rest)

    Example:
        >>> layer = rl.nn.Flatten()
        >>> tuple(layer(rl.ones(2, 3, 4)).shape)
        (2, 12)
    """

    __constants__ = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return settings(self, "start_dim", "end_dim")


class Unflatten(Module):
    """One dim as several, by sizes or by (name, size) pairs.

    Arguments:
        dim: the dimension that is split
        unflattened_size: sizes that the dimension is split into

    Shape:
        input with a dimension to split; output with unflattened_size in its place

    Example:
        >>> layer = rl.nn.Unflatten(1, (2, 3))
        >>> tuple(layer(rl.ones(4, 6)).shape)
        (4, 2, 3)
    """

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, int):
            self._check_sizes(unflattened_size)
        elif isinstance(dim, str):
            self._check_named(unflattened_size)
        else:
            raise TypeError("invalid argument type for dim parameter")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _check_sizes(self, given: Any) -> None:
        if not isinstance(given, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple or list, but found type {type(given).__name__}")
        for i, size in enumerate(given):
            if not isinstance(size, INTS):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at"
                    f" pos {i}"
                )

    def _check_named(self, given: Any) -> None:
        given = tuple(given.items()) if isinstance(given, OrderedDict) else given
        if not isinstance(given, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of tuples, but found type {type(given).__name__}")
        for i, pair in enumerate(given):
            if not isinstance(pair, tuple):
                raise TypeError(
                    f"unflattened_size must be tuple of tuples, but found element of type {type(pair).__name__} at"
                    f" pos {i}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return settings(self, "dim", "unflattened_size")


describe_layers(globals())
