"""Initial values of parameters, with the numbers PyTorch draws for the same seed.

Enters: a tensor, filled in place without recording. Leaves: that tensor. Refuses: shapes a scheme does not define
(a fan needs two dims), unknown nonlinearities. Tensors without elements are left alone, with a warning where a
scheme would have drawn something.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from .._C import Generator, Tensor
from ..autograd.grad_mode import no_grad
from ..dispatch.overrides import overridable
from ..op import find_op

_GAINS = {"sigmoid": 1.0, "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
          "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0),
          "selu": 3.0 / 4}
_EMPTY = "the tensor has no elements: there is nothing to initialise"


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps variances through a nonlinearity; `param` is the negative slope of leaky_relu (0.01)."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


@overridable
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform over [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, restricted to [a, b] by drawing again what falls outside; the draws are PyTorch's, round for round."""
    if tensor.device.type == "meta":      # and no fake, of which a graph is to draw
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean lies more than 2 std outside [a, b], so the samples follow the wished distribution"
            " only roughly.",
            stacklevel=2,
        )
    low, high = (0.5 * (1.0 + math.erf((edge - mean) / std / math.sqrt(2.0))) for edge in (a, b))
    with no_grad():
        if high - low > 0.3:
            return _redrawn_normal(tensor, mean, std, a, b, generator)
        return _accepted_uniform(tensor, mean, std, a, b, generator)


def _redrawn_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Tensor:
    """Whole rounds of normal draws; an element takes the first of its column of draws that lies inside."""
    low, high = (find_op("full")((), edge, dtype=tensor.dtype).item() for edge in (a, b))  # as the tensor can hold them
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        again = find_op("empty_like")(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(find_op("where")(outside, again, tensor))
    return tensor


def _accepted_uniform(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """For an interval far out: uniform draws over it,
    each kept with the probability of the density there over its largest."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    draw, chance = find_op("empty_like")(tensor), find_op("empty_like")(tensor)
    pending = find_op("ones_like")(tensor, dtype=find_op("eq")(tensor, tensor).dtype)
    while pending.any():
        draw.uniform_(a, b, generator=generator)
        tensor.copy_(find_op("where")(pending, draw, tensor))
        draw.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        refused = chance.uniform_(generator=generator).log_().gt(draw)
        pending = pending & refused
    return tensor


@overridable
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The convolution weight (3 to 5 dims) that hands as many channels as it can through unchanged."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for c in range(min(per_group, tensor.shape[1])):
                tensor[(g * per_group + c, c, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("fan in and fan out exist for tensors of 2 dimensions or more only")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform with variance 2 gain² / (fan_in + fan_out)."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance 2 gain² / (fan_in + fan_out)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


@overridable
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with variance gain² / fan."""
    if 0 in tensor.shape:
        warnings.warn(_EMPTY, stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with variance gain² / fan."""
    if 0 in tensor.shape:
        warnings.warn(_EMPTY, stacklevel=2)
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix, from the QR factors of a normal one; further dims count as columns."""
    if tensor.ndim < 2:
        raise ValueError("the tensor must have 2 or more dimensions")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    with no_grad():
        flat = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
        tall = flat.t() if rows < flat.shape[1] else flat
        q, r = find_op("linalg_qr")(tall)
        q = q * r.diagonal().sign()  # the factor is unique once its diagonal is positive
        tensor.view_as(flat).copy_(q.t() if rows < flat.shape[1] else q)
        return tensor.mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal, with the given share of every column set to zero."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            order = find_op("randperm")(rows)
            tensor[order[:zeros], column] = 0
    return tensor


def _make_deprecate(method: Callable) -> Callable:
    """The name without the underscore, as old programs spell it."""
    new, old = method.__name__, method.__name__[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"nn.init.{old} is deprecated: its name is nn.init.{new}.", FutureWarning, stacklevel=2)
        return method(*args, **kwargs)

    deprecated.__name__ = old
    deprecated.__doc__ = f"Old spelling of `{new}`."
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
