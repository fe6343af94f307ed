"""Invertible maps with known volume change: what carries one distribution into another.

Enters: a tensor of the domain. Leaves: a tensor of the codomain, its inverse, and the logarithm of the absolute
determinant of the Jacobian. Refuses: shapes that do not fit. With `cache_size=1` a transform remembers its last pair of
values, so that the inverse of what it just made is exact and free.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from .._C import Tensor
from ..base.dtype import finfo
from ..base.shape import Size
from ..op import find_op
from ..tensors.plain_functions import broadcast_shapes
from . import constraints
from .distribution import Distribution
from .utils import _Number, _sum_rightmost, broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "ExpTransform", "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform",
    "identity_transform",
]  # fmt: skip

_cat, _stack, _pad = find_op("cat"), find_op("stack"), find_op("constant_pad_nd")
_softplus, _logsigmoid = find_op("softplus"), find_op("logsigmoid")


class Transform:
    """A map from `domain` to `codomain`; subclasses give `_call`, `_inverse` and `log_abs_det_jacobian`."""

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        if cache_size:
            self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # made again when asked for

    @property
    def event_dim(self) -> int:
        """How many dims the map takes together, if as many leave as enter."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("event_dim differs between the two sides: ask .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse map; its own inverse is this transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """+1 where the map increases, -1 where it decreases; for maps of single numbers."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """This transform, or one like it, with the given cache size."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        return new

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Tensor) -> Tensor:
        """The image of `x`."""
        if not self._cache_size:
            return self._call(x)
        last, image = self._cached_x_y
        if x is not last:
            image = self._call(x)
            self._cached_x_y = x, image
        return image

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        origin, last = self._cached_x_y
        if y is not last:
            origin = self._inverse(y)
            self._cached_x_y = origin, y
        return origin

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx| at an input and its image, the event's dims summed out."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """The shape of the image of a tensor of this shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """The shape of the origin of a tensor of this shape."""
        return shape


class _InverseTransform(Transform):
    """Another transform read backwards; it shares that one's cache."""

    _inv: Transform

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # without the transform nothing would be left

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> constraints.Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.forward_shape(shape)


def _widen(constraint: constraints.Constraint, event_dim: int) -> constraints.Constraint:
    """`constraint` over events of at least as many dims as its own."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


class ComposeTransform(Transform):
    """Transforms applied one after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widen(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> constraints.Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widen(self.parts[-1].codomain, event_dim)

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return find_op("zeros_like")(x)
        event_dim = self.domain.event_dim
        terms = []
        for place, part in enumerate(self.parts, 1):
            image = y if place == len(self.parts) else part(x)
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(x, image), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = image
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform with more dims taken as one event, over which its volume change is summed."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        _require_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _require_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.inverse_shape(shape)


def _require_dims(shape: Sequence[int], least: int) -> None:
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


class ReshapeTransform(Transform):
    """The last dims, of sizes `in_shape`, laid out as `out_shape`."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("ReshapeTransform: in_shape and out_shape hold different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    @staticmethod
    def _exchange(shape: Sequence[int], old: Size, new: Size) -> Size:
        _require_dims(shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return Size(shape[:cut]) + new

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._exchange(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._exchange(shape, self.out_shape, self.in_shape)


class _Plain(Transform):
    """A transform without parameters: all of a kind are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class ExpTransform(_Plain):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """sigmoid(x) inside the open interval (0, 1)."""
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)), kept away from 0 and 1."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x) - _softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return _softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x)


class TanhTransform(_Plain):
    """y = tanh(x); with `cache_size=1` the inverse of its own results stays finite."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the cancellation far from zero
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(_Plain):
    """y = |x|; its inverse takes the positive branch."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, over events of `event_dim` dims."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return _widen(constraints.real, self.event_dim)

    codomain = domain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, _Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, _Number):
            result = find_op("full_like")(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        if not self.event_dim:
            return result.expand(x.shape)
        return _sum_rightmost(result, self.event_dim).expand(x.shape[: -self.event_dim])

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _same(a: Any, b: Any) -> bool:
    """Whether two numbers or tensors are equal everywhere."""
    return a == b if isinstance(a, _Number) and isinstance(b, _Number) else bool((a == b).all())


class CorrCholeskyTransform(Transform):
    """An unconstrained vector of D (D - 1) / 2 as the Cholesky factor of a D x D correlation matrix.

    tanh of the entries are partial correlations; each row of the factor breaks a stick of unit length by them.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        partial = partial + find_op("eye")(partial.shape[-1], dtype=x.dtype, device=x.device)
        return partial * _pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = _pad(1 - (y * y).cumsum(-1)[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        # What is left of the stick right of the diagonal's neighbour would be rounding noise, hence diag=-2.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        breaking = 0.5 * left.log().sum(-1)
        return breaking - 2 * (x + _softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _require_dims(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("CorrCholeskyTransform: the last size is not that of a flattened lower-diagonal matrix")
        return Size(shape[:-1]) + (size, size)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _require_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size(shape[:-2]) + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(_Plain):
    """Vectors to the simplex by softmax, which forgets a constant: no bijection, but good for optimisation."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _require_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """Vectors to a simplex of one more dimension: each entry breaks its share off what is left of a stick."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _centre(x: Tensor, count: int) -> Tensor:
        """Logs of the numbers of shares still to be broken off, so that zero gives equal shares."""
        return (count + 1 - x.new_ones(count).cumsum(-1)).log()

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - self._centre(x, x.shape[-1]))
        left = (1 - share).cumprod(-1)
        return _pad(share, [0, 1], value=1) * _pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        left = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - left.log() + self._centre(y, broken.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._centre(x, x.shape[-1])
        return (-x + _logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _require_dims(shape, 1)
        return Size(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _require_dims(shape, 1)
        return Size(shape[:-1]) + (shape[-1] - 1,)


class LowerCholeskyTransform(_Plain):
    """Matrices to Cholesky factors: the upper triangle dropped, the diagonal exponentiated."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Matrices to positive-definite ones, through a Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(find_op("linalg_cholesky")(y))


class _Parts(Transform):
    """Several transforms along one dim, of slices that a subclass cuts (`_pieces`) and puts together again (`_join`)."""

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(part, Transform) for part in tseq):
            raise AssertionError("tseq: expected a sequence of Transform objects")
        super().__init__(cache_size=cache_size)
        self.transforms = [part.with_cache(cache_size) for part in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _check(self, value: Tensor, name: str, length: int) -> None:
        if not -value.ndim <= self.dim < value.ndim:
            raise AssertionError(f"dim {self.dim} out of range for {name} with {value.ndim} dimensions")
        if value.shape[self.dim] != length:
            raise AssertionError(f"{name}.size({self.dim}) = {value.shape[self.dim]} must equal {length}")

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.transforms)

    def _call(self, x: Tensor) -> Tensor:
        return self._join([part(piece) for part, piece in zip(self.transforms, self._pieces(x, "x"), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([part.inv(piece) for part, piece in zip(self.transforms, self._pieces(y, "y"), strict=True)])


class CatTransform(_Parts):
    """Transforms of consecutive slices of the given lengths (one each by default)."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")
        self.length = sum(self.lengths)

    @lazy_property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value: Tensor, name: str) -> Sequence[Tensor]:
        self._check(value, name, self.length)
        return value.split(self.lengths, self.dim)

    def _join(self, pieces: list[Tensor]) -> Tensor:
        return _cat(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for part, before, after in zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"), strict=True):
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(before, after), self.event_dim - part.event_dim))
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + self.event_dim
        return _cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.cat([part.domain for part in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.cat([part.codomain for part in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Transforms of the single slices along a dim."""

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _pieces(self, value: Tensor, name: str) -> Sequence[Tensor]:
        self._check(value, name, len(self.transforms))
        return value.unbind(self.dim)

    def _join(self, pieces: list[Tensor]) -> Tensor:
        return _stack(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"), strict=True)
        return _stack([part.log_abs_det_jacobian(before, after) for part, before, after in triples], self.dim)

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.stack([part.domain for part in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.stack([part.codomain for part in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution, to the unit interval."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> constraints.Constraint:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
