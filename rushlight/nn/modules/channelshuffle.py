"""Channels dealt out over groups.

Enters: [N, C, …]. Leaves: the same shape. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import settings


class ChannelShuffle(Module):
    """Channels dealt out over groups, in turn.

    Shape:
        input (N, C, ...); output of the same shape

    Example:
        >>> layer = rl.nn.ChannelShuffle(2)
        >>> tuple(layer(rl.ones(1, 4, 2, 2)).shape)
        (1, 4, 2, 2)
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return settings(self, "groups")


describe_layers(globals())
