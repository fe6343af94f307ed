"""What `from_float` and its kin ask of the module they are given.

Enters: the class to be made, and a module. Leaves: nothing, or what was asked for. Refuses, as AssertionError: modules
of another class, modules without a qconfig.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._C import Tensor
from ...nn import Module, Parameter
from ...nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from ...nn.utils.parametrize import type_before_parametrizations

BATCH_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")     # what a batch norm holds


def expect_class(method: str, mod: Module, classes: type | Iterable[type], parametrized: bool = False) -> None:
    """Refuses a module that is of none of the classes, also of their subclasses; `parametrized` says that modules with
    parametrizations count as what they were before."""
    allowed = (classes,) if isinstance(classes, type) else tuple(classes)
    given = type_before_parametrizations(mod) if parametrized else type(mod)
    if given not in allowed:
        names = ", ".join(kind.__name__ for kind in allowed)
        raise AssertionError(f"{method} only works for {names}, but got: {given.__name__}")


def expect_qconfig(method: str, mod: Module, may_be_none: bool = False) -> Any:
    """The module's qconfig. Refuses a module that has none, or (unless told otherwise) an empty one."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError(
            f"{method}: Input float module must have qconfig defined. Set {type(mod).__name__}.qconfig, or prepare()"
            " the model, which hands on the qconfig of its parents"
        )
    if not (mod.qconfig or may_be_none):
        raise AssertionError(f"{method}: Input float module must have a valid qconfig, got {mod.qconfig}")
    return mod.qconfig


def expect_given_qconfig(module: Module, qconfig: Any) -> Any:
    """The qconfig handed to a constructor of a layer that trains with rounding. Refuses none."""
    if not qconfig:
        raise AssertionError(f"{type(module).__name__}: qconfig must be provided for QAT module, got {qconfig}")
    return qconfig


def fold_batch_norm(mod: Any) -> tuple[Parameter, Parameter]:
    """(weight, bias) of a layer with its batch norm `bn` folded in."""
    bn = mod.bn
    if bn.running_var is None or bn.running_mean is None:
        raise AssertionError(f"{type(mod).__name__}: bn.running_var and bn.running_mean must not be None")
    fuse = fuse_linear_bn_weights if hasattr(mod, "in_features") else fuse_conv_bn_weights
    return fuse(mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


def take_weights(layer: Any, weight: Tensor, bias: Tensor | None) -> None:
    """Give a float layer parameters of its own over the values of another's."""
    layer.weight = Parameter(weight.detach())
    if bias is not None:
        layer.bias = Parameter(bias.detach())
