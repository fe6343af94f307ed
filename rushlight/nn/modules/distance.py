"""Distances between vectors.

Enters: two tensors of vectors. Leaves: one number per pair. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module


class PairwiseDistance(Module):
    """The p-norm of differences along the last dim.

    Arguments:
        p: exponent of the norm
        keepdim: whether the dimension stays, with size 1

    Shape:
        two inputs of one shape; output without the compared dimension

    Example:
        >>> layer = rl.nn.PairwiseDistance()
        >>> tuple(layer(rl.ones(5, 3), rl.zeros(5, 3)).shape)
        (5,)
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dim.

    Shape:
        two inputs of one shape; output without the compared dimension

    Example:
        >>> layer = rl.nn.CosineSimilarity()
        >>> tuple(layer(rl.ones(5, 3), rl.zeros(5, 3)).shape)
        (5,)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


describe_layers(globals())
