"""The oneDNN kernels: as fbgemm's, and sums after a convolution, leaky relu and tanh after a linear, taken in."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from .... import nn
from ....nn import functional as F  # noqa: N812
from ....nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ...nn import intrinsic as nni
from ...nn.quantized import reference as nnqr
from ..fuser_method_mappings import _sequential_wrapper2
from ..utils import MatchAllNode
from . import families
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig
from .backends import DYNAMIC, FLOAT_WEIGHT, PLAIN, WEIGHT_ONLY_SIGNED, WEIGHTED, build
from .families import TOP, configure

__all__ = ["get_onednn_backend_config"]


def _fuse_linear_bn_leaky_relu(is_qat: bool, linear: nn.Linear, bn: nn.Module, leaky_relu: nn.Module) -> nn.Module:
    """Linear, batch norm and leaky relu as one; refused while training, and for modules of different modes."""
    if not linear.training == bn.training == leaky_relu.training:
        raise AssertionError("linear, batch norm and leaky relu must be in the same mode, training or evaluation")
    if is_qat:
        raise NotImplementedError(f"Cannot fuse train modules: {(linear, bn, leaky_relu)}")
    return nni.LinearLeakyReLU(fuse_linear_bn_eval(linear, bn), leaky_relu)


def _sum_pattern(add: Any, with_norm: bool, on_left: bool, with_relu: bool) -> BackendPatternConfig:
    """A convolution on one side of a sum. The matched nodes have the form of the pattern, and so have the modules that
    the fuser is given; a getter finds the convolution, another the other summand."""
    chain: Any = (nn.BatchNorm2d, nn.Conv2d) if with_norm else nn.Conv2d
    summed = (add, chain, MatchAllNode) if on_left else (add, MatchAllNode, chain)
    side, other = (1, 2) if on_left else (2, 1)
    fused = nni.ConvAddReLU2d if with_relu else nni.ConvAdd2d

    def parts(matched: Any) -> Any:
        return matched[1] if with_relu else matched

    def root(matched: Any) -> Any:
        return parts(matched)[side][-1] if with_norm else parts(matched)[side]

    def fuse(is_qat: bool, *modules: Any) -> nn.Module:
        sum_of = parts(modules)
        conv = sum_of[side]
        if with_norm:
            norm, conv = conv
            if is_qat:
                raise NotImplementedError(f"Cannot fuse train modules: {(conv, norm, *modules)}")
            conv = fuse_conv_bn_eval(conv, norm)
        return fused(conv, sum_of[0], *([modules[0]] if with_relu else []))

    config = BackendPatternConfig()._set_pattern_complex_format((nn.ReLU, summed) if with_relu else summed)
    config._set_root_node_getter(root)._set_extra_inputs_getter(lambda matched: [parts(matched)[other]])
    return config.set_fuser_method(fuse).set_fused_module(fused)


def _conv(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    result = families.conv(dtypes)
    for with_relu, fused in ((False, nni.ConvAdd2d), (True, nni.ConvAddReLU2d)):
        for on_left, with_norm, add in itertools.product((True, False), (True, False), (TOP["add"], operator.add)):
            result.append(_sum_pattern(add, with_norm, on_left, with_relu).set_dtype_configs(dtypes))
        result.append(configure(fused, dtypes, root=nn.Conv2d, reference=nnqr.Conv2d))
    return result


def _linear_then(
    module: type, function: Callable, fused: type, dtypes: list[DTypeConfig]
) -> list[BackendPatternConfig]:
    fusion: dict[str, Any] = {"fuser": _sequential_wrapper2(fused), "fused": fused}
    return [
        configure((nn.Linear, module), dtypes, **fusion),
        configure((nn.Linear, function), dtypes, **fusion),
        configure(fused, dtypes, root=nn.Linear, reference=nnqr.Linear),
        configure((F.linear, module), dtypes),
        configure((F.linear, function), dtypes),
    ]


def _linear(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    return [
        *families.linear(dtypes),
        *_linear_then(nn.LeakyReLU, F.leaky_relu, nni.LinearLeakyReLU, dtypes),
        configure((nn.Linear, nn.BatchNorm1d, nn.LeakyReLU), dtypes, fuser=_fuse_linear_bn_leaky_relu,
                  fused=nni.LinearLeakyReLU),
        *_linear_then(nn.Tanh, TOP["tanh"], nni.LinearTanh, dtypes),
    ]


def get_onednn_backend_config() -> BackendConfig:
    """What the oneDNN kernels can quantize."""
    plain = (families.arithmetic, families.cat, families.default, families.fixed, families.sharing, families.batch_norm)
    return build("onednn", (
        (_conv, [WEIGHTED]),
        (_linear, [WEIGHTED, DYNAMIC]),
        *((family, [PLAIN]) for family in plain),
        (families.layer_norm, [FLOAT_WEIGHT]),
        (families.rnn, [DYNAMIC]),
        (families.embedding, [WEIGHT_ONLY_SIGNED]),
    ))
