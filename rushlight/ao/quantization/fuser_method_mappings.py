"""How chains of float layers become one: the functions that fuse, and which chain each is for.

Enters: whether the model will be trained with rounding, and the layers of a chain. Leaves: one module: for inference
with the batch norm folded into the weights, for training a chain that keeps it. Refuses: layers in different modes,
norms that cannot be folded, chains nobody fuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ...nn import Module
from ...nn.modules.activation import ReLU
from ...nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ...nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ...nn.modules.linear import Linear
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn.intrinsic.modules import fused
from .utils import MatchAllNode, get_combined_dict

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn", "get_fuser_method",
    "get_fuser_method_new",
]

_CHAINS: dict[type[Module], tuple[type, type, type]] = {     # with a norm, with a norm and ReLU, with ReLU
    Conv1d: (fused.ConvBn1d, fused.ConvBnReLU1d, fused.ConvReLU1d),
    Conv2d: (fused.ConvBn2d, fused.ConvBnReLU2d, fused.ConvReLU2d),
    Conv3d: (fused.ConvBn3d, fused.ConvBnReLU3d, fused.ConvReLU3d),
}


def _expect_one_mode(*modules: Module) -> None:
    if len({module.training for module in modules}) > 1:
        modes = ", ".join(f"{type(m).__name__} {'training' if m.training else 'evaluating'}" for m in modules)
        raise AssertionError(f"fuse: all modules of a chain must be in the same mode (train or eval), got {modes}")


def _expect_foldable(bn: Any, channels: int, layer: Module) -> None:
    """Refuses a norm whose training cannot go on inside the layer."""
    name = type(layer).__name__
    if bn.num_features != channels:
        raise AssertionError(
            f"fuse: outputs of {name} must match num_features of {type(bn).__name__}, got {channels} and"
            f" {bn.num_features}"
        )
    for setting in ("affine", "track_running_stats"):
        if not getattr(bn, setting):
            raise AssertionError(f"fuse: Only support fusing {type(bn).__name__} with {setting} set to True")


def _chain_of(layer: Module, which: int, parts: tuple[Module, ...], mode: str) -> type:
    if type(layer) not in _CHAINS:
        raise NotImplementedError(f"Cannot fuse {mode} modules: {parts}")
    return _CHAINS[type(layer)][which]


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Module:
    """A convolution and its batch norm as one."""
    _expect_one_mode(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _expect_foldable(bn, conv.out_channels, conv)
    return _chain_of(conv, 0, (conv, bn), "train")(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Module:
    """A convolution, its batch norm and ReLU as one."""
    _expect_one_mode(conv, bn, relu)
    if not is_qat:
        return _chain_of(conv, 2, (conv, bn, relu), "eval")(fuse_conv_bn_eval(conv, bn), relu)
    _expect_foldable(bn, conv.out_channels, conv)
    return _chain_of(conv, 1, (conv, bn, relu), "train")(conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Module:
    """A linear layer and its batch norm as one."""
    _expect_one_mode(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _expect_foldable(bn, linear.out_features, linear)
    return fused.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Module:
    """A transposed convolution and its batch norm as one, for inference only."""
    _expect_one_mode(convt, bn)
    if is_qat:
        raise Exception(     # noqa: TRY002 - PyTorch's class
            f"transposed convolutions are not fused with norms while training: leave {type(convt).__name__} and"
            f" {type(bn).__name__} out of the list, or fuse them after training"
        )
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential: Callable[[Module, Module], Module]) -> Callable[..., Module]:
    """A fuser that puts two modules into a chain, in training and in inference alike."""

    def fuser_method(is_qat: bool, m1: Module, m2: Module) -> Module:
        return sequential(m1, m2)

    return fuser_method


_DEFAULT_OP_LIST_TO_FUSER_METHOD: dict[tuple, Callable[..., Module]] = {
    (Linear, BatchNorm1d): fuse_linear_bn,
    (Linear, ReLU): _sequential_wrapper2(fused.LinearReLU),
    (BatchNorm2d, ReLU): _sequential_wrapper2(fused.BNReLU2d),
    (BatchNorm3d, ReLU): _sequential_wrapper2(fused.BNReLU3d),
}
for _conv, _transposed, _norm in (
    (Conv1d, ConvTranspose1d, BatchNorm1d),
    (Conv2d, ConvTranspose2d, BatchNorm2d),
    (Conv3d, ConvTranspose3d, BatchNorm3d),
):
    _DEFAULT_OP_LIST_TO_FUSER_METHOD |= {
        (_conv, _norm): fuse_conv_bn,
        (_conv, _norm, ReLU): fuse_conv_bn_relu,
        (_conv, ReLU): _sequential_wrapper2(_CHAINS[_conv][2]),
        (_transposed, _norm): fuse_convtranspose_bn,
    }


def get_fuser_method(op_list: tuple, additional_fuser_method_mapping: dict | None = None) -> Callable[..., Module]:
    """The function that fuses a chain of these classes. Refuses chains without one."""
    known = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {})
    if known.get(op_list) is None:
        names = ", ".join(getattr(kind, "__name__", str(kind)) for kind in op_list)
        chains = "; ".join(sorted(", ".join(kind.__name__ for kind in chain) for chain in known))
        raise AssertionError(f"did not find fuser method for: {op_list} ({names}). These can be fused: {chains}")
    return known[op_list]


def _reverse2(f: Callable[..., Any]) -> Callable[..., Any]:
    """A fuser of two, called with the later module first."""

    def reversed(is_qat: bool, x: Any, y: Any) -> Any:
        return f(is_qat, y, x)

    return reversed


def _reverse3(f: Callable[..., Any]) -> Callable[..., Any]:
    """A fuser of three, called with the last module and (the middle one, the first one)."""

    def reversed(is_qat: bool, x: Any, w: tuple[Any, Any]) -> Any:
        middle, first = w
        return f(is_qat, first, middle, x)

    return reversed


def _get_valid_patterns(op_pattern: Any) -> list[Any]:
    """A pattern and those that follow from it when parts of it may be any node."""
    if isinstance(op_pattern, tuple | list):
        return list(itertools.product(*(_get_valid_patterns(part) for part in op_pattern)))
    return [op_pattern, MatchAllNode]


def get_fuser_method_new(op_pattern: Any, fuser_method_mapping: dict[Any, Callable]) -> Callable:
    """The function for a pattern of a graph, or for one that it is a case of. Refuses patterns without one."""
    for pattern in _get_valid_patterns(op_pattern):
        method = fuser_method_mapping.get(pattern)
        if method is not None:
            return method
    raise AssertionError(f"did not find fuser method for: {op_pattern}")
