"""PyTorch's `nn.modules`: one file per family of layers."""

from . import (
    activation,
    adaptive,
    container,
    conv,
    dropout,
    linear,
    loss,
    module,
    multihead,
    normalization,
    padding,
    pooling,
    reshaping,
    rnn,
    sparse,
    transformer,
)
from .module import Module

_FAMILIES = (
    container, linear, activation, conv, normalization, pooling, padding, dropout, sparse, loss, adaptive, reshaping, multihead, transformer,
    rnn,
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
