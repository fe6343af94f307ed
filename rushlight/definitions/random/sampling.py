"""Samplers whose parameters are tensors: normal, bernoulli, poisson, binomial, multinomial, gamma, dirichlet.

Enters: one parameter per element. Leaves: draws of the same shape, equal to PyTorch's CPU numbers for the same seed.
Refuses: parameters outside a distribution's domain, as PyTorch does. Samples carry zero gradients, except gamma's and
dirichlet's, which move with their concentrations (`sample_gradients`).
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.dtype import finfo
from ...op import Composite, OpDefinition, find_op
from ...op.extern import own_function, own_or_reported
from ...op.factory import fresh
from ...planners.draws import Drawn
from ...rules import levels
from .fills import (
    FLOATS,
    bernoulli_law,
    draw,
    empty_target,
    fill_bernoulli,
    fill_bernoulli_tensor,
    fill_exponential,
    fill_normal,
    refuse_dtype,
)


class Sampling(OpDefinition):
    """An op over parameter tensors whose result has no gradient to give them but zeros."""

    batch = "random"
    method = False
    out = False


def rows_like(t: Any) -> Any:
    """Memory for samples, one for each element of a tensor, in dense rows."""
    return fresh(t, tuple(t.shape), None, t.dtype, t.device)


def joint_shape(name: str, a: Any, b: Any) -> tuple[int, ...]:
    """The shape two tensors broadcast to."""
    rank = max(a.ndim, b.ndim)
    pairs = zip((1,) * (rank - a.ndim) + tuple(a.shape), (1,) * (rank - b.ndim) + tuple(b.shape), strict=True)
    shape = []
    for d, (m, n) in enumerate(pairs):
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"{name}: The size of tensor a ({m}) must match the size of tensor b ({n}) at dimension {d}"
            )
        shape.append(n if m == 1 else m)
    return tuple(shape)


class Normal(Composite):
    """Normal numbers whose mean or deviation (or both, broadcast) vary per element."""

    schema = (
        "normal(Tensor mean, float std=1, *, Generator? generator=None, Tensor? out=None) -> Tensor",
        "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None, Tensor? out=None) -> Tensor",
        "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None, Tensor? out=None) -> Tensor",
    )
    method = False
    out = False

    def compute(self, mean, std, generator, out):
        has_mean, has_std = isinstance(mean, _C.Tensor), isinstance(std, _C.Tensor)
        followed = (
            [t for t in (mean, std) if isinstance(t, _C.Tensor) and t.requires_grad]
            if _C.is_grad_enabled() and out is None
            else []
        )
        mean, std = (t.detach() if isinstance(t, _C.Tensor) else t for t in (mean, std))
        if has_std:
            if std.dtype.is_complex:
                raise RuntimeError("normal: expected a real standard deviation, got a complex tensor.")
            if not std.is_meta and not (std >= 0).all().item():
                raise RuntimeError("normal: expected all elements of std >= 0.0.")
        like = mean if has_mean else std
        shape = joint_shape("normal", mean, std) if has_mean and has_std else tuple(like.shape)
        if out is None:      # by ops, so that recorders and levels see the draw
            both = mean + std if has_mean and has_std and levels.state.stack else like      # either may be a batch
            target = both.new_empty(shape, dtype=like.dtype).normal_(0.0, 1.0 if has_std else std, generator=generator)
        else:
            target = empty_target("normal", shape, out, None, None, like.dtype)
            fill_normal(target, 0.0, 1.0 if has_std else std, generator)
            _C.bump_version(out)
        if has_std:
            target.mul_(std)
        target.add_(mean)
        # PyTorch records the samples as depending on their parameters, with a gradient of zero.
        return target + sum((t * 0).sum() for t in followed) if followed else target


class Bernoulli(Sampling, Drawn):
    """Ones, of the probability `input` gives each element, and zeros."""

    schema = "bernoulli(Tensor input, *, Generator? generator=None) -> Tensor"
    method = True
    reads = "bernoulli_tensor"

    def run(self, input, generator):
        return fill_bernoulli_tensor(rows_like(input), input, generator)

    def is_planned(self, args):
        return args[0].dtype in FLOATS

    def vjp(self, g):
        return {"input": g.new_zeros(g.shape)}


class BernoulliOut(Composite):
    """`bernoulli` written over `out`, in its dtype."""

    batch = "random"
    body = False
    schema = "bernoulli.out(Tensor input, *, Generator? generator=None, Tensor out) -> Tensor"
    method = False
    out = False
    differentiable = False

    def compute(self, input, generator, out):
        target = empty_target("bernoulli", tuple(input.shape), out, None, None, None)
        fill_bernoulli_tensor(target, input, generator)
        _C.bump_version(out)
        return out


class BernoulliP(Sampling, Drawn):
    """Ones of probability p and zeros, shaped like `input`."""

    schema = "bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor"
    method = True

    def run(self, input, p, generator):
        return fill_bernoulli(rows_like(input), p, generator)

    def law(self, dtype, p):
        return bernoulli_law(dtype, p)

    def vjp(self, g):
        return {"input": g.new_zeros(g.shape)}


class Poisson(Sampling, Drawn):
    """Counts of the Poisson distribution with the given rates."""

    schema = "poisson(Tensor input, Generator? generator=None) -> Tensor"
    reads = "poisson"

    def run(self, input, generator):
        if input.dtype not in FLOATS:
            refuse_dtype("poisson", input.dtype)
        return draw("poisson", generator, rows_like(input), reads=(input,))

    def is_planned(self, args):
        return args[0].dtype in FLOATS

    def vjp(self, g):
        return {"input": g.new_zeros(g.shape)}


class Binomial(Composite):
    """Successes in `count` trials of probability `prob`."""

    batch = "random"
    body = False
    schema = "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"
    is_composite = False     # drawing is no op of the body: recorders must see this one
    method = False
    out = False
    differentiable = False

    def compute(self, count, prob, generator):
        for label, t in (("count", count), ("prob", prob)):
            if not t.dtype.is_floating_point:
                raise ValueError(f"binomial: expected a floating-point dtype for {label}, got {t.dtype.name}.")
        if count.dtype is not prob.dtype:
            raise RuntimeError(
                f"binomial: expected one dtype, found {prob.dtype.name} but expected {count.dtype.name}."
            )
        if count.dtype not in (_C.float32, _C.float64):
            refuse_dtype("binomial", count.dtype)
        shape = joint_shape("binomial", count, prob)
        out = fresh(count, shape, None, count.dtype, count.device)
        return draw("binomial", generator, out, reads=(count.detach().expand(shape), prob.detach().expand(shape)))


def gamma_types(device: Any) -> tuple:
    """Types of gamma numbers: those of the host, or all where a device draws them itself."""
    return (_C.float32, _C.float64) if own_function("random_gamma", device) is None else FLOATS


class StandardGamma(Sampling):
    """Draws of the gamma distribution of shape `input` and scale one."""

    schema = "_standard_gamma(Tensor input, Generator? generator=None) -> Tensor"

    def run(self, input, generator):
        if input.dtype not in gamma_types(input.device):
            refuse_dtype("_standard_gamma", input.dtype)
        out = fresh(input, tuple(input.shape), None, input.dtype, input.device)
        return draw("gamma", generator, out, reads=(input,))

    def vjp(self, g, input, result):
        return {"input": g * find_op("_standard_gamma_grad")(input, result)}


class SampleDirichlet(Sampling):
    """Draws of the Dirichlet distribution with concentrations along the last dim."""

    schema = "_sample_dirichlet(Tensor input, Generator? generator=None) -> Tensor"

    def run(self, input, generator):
        if input.dtype not in gamma_types(input.device):
            refuse_dtype("_sample_dirichlet", input.dtype)
        share = draw(
            "dirichlet", generator, fresh(input, tuple(input.shape), None, _C.float64, input.device), reads=(input,)
        )
        limits = finfo(input.dtype)
        # The largest number below one, so that log1p(-x) stays finite.
        return share.to(input.dtype).clamp_(limits.tiny, 1 - limits.eps / 2)

    def vjp(self, g, input, result):
        total = input.sum(-1, keepdim=True).expand(input.shape)
        # A share gains from its own concentration, and every share loses in proportion to what the others gain.
        return {"input": find_op("_dirichlet_grad")(result, input, total) * (g - (result * g).sum(-1, keepdim=True))}


class Multinomial(Composite):
    """Indices drawn with probability proportional to the weights in each row of `input`."""

    batch = "random"
    body = False
    is_composite = False     # drawing is no op of the body: recorders must see this one
    schema = (
        "multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None, "
        "Tensor? out=None) -> Tensor"
    )
    out = False
    differentiable = False

    def compute(self, input, num_samples, replacement, generator, out):
        input = input.detach()
        check_multinomial(input, num_samples, replacement, out)
        shape = (*input.shape[:-1], num_samples)
        target = empty_target("multinomial", shape, out, None, None, None) if out is not None else None
        if input.is_meta or 0 in shape:
            result = fresh(input, shape, None, _C.int64, input.device)
        elif not replacement or num_samples == 1:
            result = race(input, num_samples, generator)
        else:
            rows = input if input.ndim == 2 else input.unsqueeze(0)
            own = own_or_reported("random_multinomial", input.device)
            result = _C.empty((rows.shape[0], num_samples), None, _C.int64, "cpu" if own is None else input.device)
            if own is None:
                _C.sample(generator, "multinomial", (result, rows.to("cpu")), rows.shape[1])
            else:
                own(result, generator, rows)
            result = result.view(shape).to(input.device)
        return result if target is None else target.copy_(result)


def check_multinomial(input: Any, num_samples: int, replacement: bool, out: Any) -> None:
    """PyTorch's conditions on the arguments."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"multinomial: expected a floating-point dtype for input, got {input.dtype.name}.")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: expected input of 1 or 2 dims, got {input.ndim}.")
    if input.shape[-1] > 2**24:
        raise RuntimeError(f"multinomial: the number of categories cannot exceed 2^24, got {input.shape[-1]}.")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}.")
    if not replacement and num_samples > input.shape[-1]:
        most = input.shape[-1]
        raise RuntimeError(
            f"multinomial: cannot sample more than {most} samples without replacement, got {num_samples}."
        )
    if replacement and num_samples > 1 and input.shape[-1] == 0 and (input.ndim == 1 or input.shape[0]):
        raise RuntimeError("multinomial: invalid distribution (sum of probabilities <= 0).")
    if out is not None and out.dtype is not _C.int64:
        raise RuntimeError(f"multinomial: expected an int64 out, got {out.dtype.name}.")


def race(weights: Any, num_samples: int, generator: Any) -> Any:
    """Sampling without replacement as a race: category i arrives at an exponential time of rate w_i,
    first come first drawn."""
    valid = ((weights >= 0) & (weights < float("inf"))).all().item()
    if not valid:
        raise RuntimeError("multinomial: the probability tensor contains either `inf`, `nan` or an element < 0.")
    if not (weights.sum(-1) > 0).all().item():
        raise RuntimeError("multinomial: invalid distribution (sum of probabilities <= 0).")
    times = fill_exponential(find_op("empty_like")(weights), 1.0, generator)
    speed = weights / times
    if num_samples == 1:
        return speed.argmax(-1, keepdim=True)
    values, places = speed.topk(num_samples)
    order = own_function("random_order", weights.device)
    return places if order is None else order(values, places)
