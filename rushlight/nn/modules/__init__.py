"""PyTorch's `nn.modules`: one file per family of layers."""

from . import (
    activation,
    adaptive,
    batchnorm,
    channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    lazy,
    linear,
    loss,
    module,
    multihead,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
    utils,
)
from .module import Module

_FAMILIES = (
    container, linear, activation, conv, batchnorm, instancenorm, normalization, pooling, padding, dropout, sparse, loss,
    adaptive, flatten, fold, pixelshuffle, channelshuffle, upsampling, distance, multihead, transformer, rnn,
)  # fmt: skip
_PRIVATE = {"LazyModuleMixin", "NonDynamicallyQuantizableLinear"}


def _layers(family: object) -> dict[str, type]:
    """The modules a file defines for users."""
    return {
        name: thing
        for name, thing in vars(family).items()
        if isinstance(thing, type) and issubclass(thing, Module) and thing.__module__ == family.__name__ and name[0] != "_" and name not in _PRIVATE
    }


for _family in _FAMILIES:
    globals().update(_layers(_family))

__all__ = ["Module", *(name for family in _FAMILIES for name in _layers(family))]
