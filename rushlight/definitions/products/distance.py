"""Distances between vectors: cdist, pdist, pairwise_distance, dist, cosine_similarity, renorm.

Enters: tensors of vectors (the last dim, or `dim`). Leaves: their p-norm distances; where a distance is 0 its gradient
is 0. Refuses: integer and complex vectors, negative p, vectors of different lengths.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd import is_grad_enabled, no_grad
from ...base.promotion import result_type_of
from ...loops.expr import Value
from ...loops.lowered import Folding, Lowered, Memory, Number
from ...op import Composite, Library, Loops, Pointwise, Spec, find_op
from ...op.pointwise import scalars
from ...planners.distances import (
    LARGEST,
    TOTAL,
    pairs_schedule,
    root_of,
    slope_of,
    slopes_schedule,
    term_of,
    usual_order,
)
from ...rules.batching import expanded, wrapped
from ...rules.levels import readable
from .matmul import broadcast_batch

MM_IF_LARGE, MM_ALWAYS, MM_NEVER = 0, 1, 2
COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": MM_IF_LARGE,
    "use_mm_for_euclid_dist": MM_ALWAYS,
    "donot_use_mm_for_euclid_dist": MM_NEVER,
}
LARGE = 25               # points on one side from which a matrix product pays


# --- the kernel -------------------------------------------------------------------------------------------------------


class SetDistances(Loops):
    """[B, P, R]: distances of sets of points [B, P, M] from others, given as [B, M, R]: lanes are points, which may
    have few numbers."""

    schema = "_set_distances(Tensor others, Tensor input, float p) -> Tensor"
    function = method = out = differentiable = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples are more sets."""
        sets = (expanded(t, level).flatten(0, 1).contiguous() for t in args[:2])
        return wrapped(overload.call(*sets, args[2]).unflatten(0, (level.batch_size, -1)), level)

    def lower(self, args: tuple) -> Lowered:
        others, input, p = args
        batch, points, width = input.shape
        shape, code, usual = (batch, points, others.shape[2]), input.dtype.code, usual_order(p)
        reads = [
            Memory("others", code, tuple(others.shape), others.stride(), (0, None, 2, 1)),
            Memory("input", code, tuple(input.shape), input.stride(), (0, 1, None, 2)),
        ]
        if usual is None:
            reads.append(Number("p", code, float(p)))

        def body(at: Any, sources: Any) -> tuple[Value]:
            gap = scalars.abs(sources[0].read(at) - sources[1].read(at))
            return (term_of(gap, usual, sources[-1].read(at) if usual is None else None),)

        def epilogue(sources: Any, results: Any) -> tuple[Value]:
            return (root_of(results[0], usual, sources[-1].value if usual is None else None),)

        folding = Folding(LARGEST if usual == float("inf") else TOTAL, code, frozenset((3,)), epilogue)
        return Lowered(
            self.spec.name, (self, usual), (*shape, width), shape, (code,), tuple(reads), body, folding=folding
        )


class SetSlopes(Loops):
    """Gradients of points, [B, M, P]: slopes of their distances to others, [B, R, M], weighted by [B, R, P] and added
    up: lanes are points, which may have few numbers."""

    schema = "_set_slopes(Tensor input, Tensor others, Tensor weight, Tensor distance, float p) -> Tensor"
    function = method = out = differentiable = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples are more sets."""
        sets = (expanded(t, level).flatten(0, 1).contiguous() for t in args[:4])
        return wrapped(overload.call(*sets, args[4]).unflatten(0, (level.batch_size, -1)), level)

    def lower(self, args: tuple) -> Lowered:
        *given, p = args
        shape, code, usual = tuple(given[0].shape), given[0].dtype.code, usual_order(p)
        places = ((0, 1, 2, None), (0, 2, None, 1), (0, None, 2, 1), (0, None, 2, 1))
        reads = [
            Memory(name, code, tuple(t.shape), t.stride(), dims)
            for name, t, dims in zip(("input", "others", "weight", "distance"), given, places, strict=True)
        ]
        if usual is None:
            reads.append(Number("p", code, float(p)))

        def body(at: Any, sources: Any) -> tuple[Value]:
            one, other, weight, distance, *order = (source.read(at) for source in sources)
            return (slope_of(one - other, usual, order[0] if order else None, weight, distance),)

        key, ranges = (self, usual), (*shape, given[1].shape[1])
        folding = Folding(TOTAL, code, frozenset((3,)))
        return Lowered(self.spec.name, key, ranges, shape, (code,), tuple(reads), body, folding=folding)


class PairDistances(Library):
    """Distances of all pairs i < j of rows of a dense [N, M], read row by row: a row of distances for each i, so that
    nobody has to find out which pair a number is of. `turned` is the same as [M, N]: lanes are points."""

    schema = "_pair_distances(Tensor input, Tensor turned, float p) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, input, turned, p):
        return Spec((input.shape[0] * (input.shape[0] - 1) // 2,), input.dtype)

    def launches(self, args):
        input, _, p = args
        return pairs_schedule(input.dtype.code, *input.shape, p)


class PairSlopes(Library):
    """Gradients of points, [M, N]: slopes of the distances of pairs i < j, weighted and added up. Threads share
    coordinates, as a pair has a part in the gradients of both its points."""

    schema = "_pair_slopes(Tensor turned, Tensor weight, Tensor distance, float p) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, turned, weight, distance, p):
        return Spec(tuple(turned.shape), turned.dtype)

    def launches(self, args):
        turned, *_, p = args
        return slopes_schedule(turned.dtype.code, *turned.shape, p)


# --- every point of one set to every point of another -----------------------------------------------------------------


class CdistForward(Composite):
    """Distances between all rows of x1 and all rows of x2, batched."""

    schema = "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor"
    replays = True
    method = out = False

    def compute(self, x1, x2, p, compute_mode):
        check_sets(x1, x2, p, compute_mode)
        points, others, width = x1.shape[-2], x2.shape[-2], x1.shape[-1]
        batch = broadcast_batch("cdist", tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
        if 0 in (points, others, width) or 0 in batch:
            return x1.new_zeros((*batch, points, others))
        if p == 2 and (
            compute_mode == MM_ALWAYS or (compute_mode in (None, MM_IF_LARGE) and max(points, others) > LARGE)
        ):
            return by_product(x1, x2)
        sets = [x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]).contiguous() for x in (x1, x2)]
        first, second = (s.to(wide(s.dtype)) for s in sets)
        distances = find_op("_set_distances")(second.transpose(1, 2).contiguous(), first, p)
        return distances.to(x1.dtype).reshape(*batch, points, others)

    def vjp(self, g, x1, x2, p, result):
        return dict(zip(("x1", "x2"), cdist_gradients(g, x1, x2, p, result), strict=True))


def check_sets(x1: Any, x2: Any, p: float, compute_mode: Any) -> None:
    """Two sets of floating vectors of one length."""
    for label, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {label} got: {x.dtype.name}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist: expected {label} with at least 2 dimensions, got {x.ndim}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"cdist: expected as many columns in x1 as in x2, got {x1.shape[-1]} and {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError(f"cdist: expected p of at least 0, got {p}")
    if compute_mode is not None and compute_mode not in (MM_IF_LARGE, MM_ALWAYS, MM_NEVER):
        raise RuntimeError(f"cdist: possible modes: 0, 1, 2, but was: {compute_mode}")


def wide(dtype: Any) -> Any:
    """The type distances of `dtype` are computed in."""
    return _C.float32 if dtype.itemsize < 4 else dtype


def by_product(x1: Any, x2: Any) -> Any:
    """Euclidean distances by |a|^2 + |b|^2 - 2ab, which is one matrix product."""
    squares = [(x * x).sum(-1, keepdim=True) for x in (x1, x2)]
    return find_op("_apart")(x1.matmul(x2.transpose(-2, -1)), squares[0], squares[1].transpose(-2, -1))


class Apart(Pointwise):
    """How far vectors are apart, from their products and their squares."""

    schema = "_apart(Tensor product, Tensor first, Tensor second) -> Tensor"
    function = method = inplace = out = False

    def expr(self, s, product, first, second):
        return s.sqrt(s.maximum(first + second - 2 * product, s.like(0, product)))


def cdist_gradients(g: Any, x1: Any, x2: Any, p: float, distance: Any) -> tuple[Any, Any]:
    """Gradients for both sets; a pair at distance 0 has none."""
    if p == 0 or 0 in distance.shape or 0 in x1.shape:
        return x1.new_zeros(x1.shape), x2.new_zeros(x2.shape)
    weight = shared_slopes(g, p, distance)
    if p == 2:
        transposed = weight.transpose(-2, -1)
        d1 = x1 * weight.sum(-1, keepdim=True) - weight.matmul(x2)
        d2 = x2 * transposed.sum(-1, keepdim=True) - transposed.matmul(x1)
        return d1.sum_to_size(x1.shape), d2.sum_to_size(x2.shape)
    if is_grad_enabled():     # gradients that have gradients: by ops that do
        share = own_slopes(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, distance.unsqueeze(-1)) * weight.unsqueeze(-1)
        return share.sum(-2).sum_to_size(x1.shape), -share.sum(-3).sum_to_size(x2.shape)
    batch = tuple(distance.shape[:-2])
    sets = [x.expand(*batch, *x.shape[-2:]) for x in (x1, x2)]
    d1 = set_slopes(*sets, weight, distance, p)
    d2 = set_slopes(*sets[::-1], weight.transpose(-2, -1), distance.transpose(-2, -1), p)
    return d1.sum_to_size(x1.shape), d2.sum_to_size(x2.shape)


def shared_slopes(g: Any, p: float, distance: Any) -> Any:
    """The gradients of distances times what the slopes of all their coordinates share; 0 for equal points."""
    same = distance == 0
    if p not in (1, float("inf")):
        safe = distance.masked_fill(same, 1)
        g = g / safe if p == 2 else g * safe.pow(1 - p)
    return g if p == 1 else g.masked_fill(same, 0)


def own_slopes(difference: Any, p: float, distance: Any) -> Any:
    """The rest of the slopes, as `slope_of` has them."""
    if p == 1:
        return difference.sign()
    if p == float("inf"):
        return difference.sign() * (difference.abs() == distance)
    same = difference == 0                     # whose power would have no derivative
    return difference.abs().masked_fill(same, 1).pow(p - 1).masked_fill(same, 0) * difference.sign()


def set_slopes(x1: Any, x2: Any, weight: Any, distance: Any, p: float) -> Any:
    """Gradients of the first of two sets, [..., P, M], by one kernel."""
    given = (x1.mT, x2, weight.mT, distance.mT)
    dense = [t.reshape(-1, *t.shape[-2:]).to(wide(t.dtype)).contiguous() for t in given]
    result = find_op("_set_slopes")(*dense, p)
    return result.mT.to(x1.dtype).reshape(x1.shape)


class Cdist(Composite):
    """Distances between all rows of x1 and all rows of x2, by the p-norm."""

    schema = (
        "cdist(Tensor x1, Tensor x2, float p=2.0, str compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
        "cdist.mode(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    )
    replays = True
    method = out = False

    def compute(self, x1, x2, p, compute_mode):
        if isinstance(compute_mode, str):
            if compute_mode not in COMPUTE_MODES:
                raise ValueError(f"cdist: {compute_mode} is not a valid value for compute_mode")
            compute_mode = COMPUTE_MODES[compute_mode]
        return find_op("_cdist_forward")(x1, x2, p, compute_mode)


class Pdist(Composite):
    """Distances between all pairs of rows, as the upper triangle read row by row."""

    schema = "pdist(Tensor input, float p=2.0) -> Tensor"
    replays = True
    aliases = ("nn.functional.pdist",)
    method = out = False

    def compute(self, input, p):
        if input.ndim != 2:
            raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
        if input.dtype not in (_C.float32, _C.float64):
            raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype.name}")
        if p < 0:
            raise RuntimeError(f"pdist: expected p of at least 0, got {p}")
        count = input.shape[0]
        if count < 2:
            return input.reshape(-1).narrow(0, 0, 0).clone()
        return find_op("_pdist_forward")(input, p)


class PdistForward(Composite):
    """pdist with its derivative."""

    schema = "_pdist_forward(Tensor input, float p=2.0) -> Tensor"
    replays = True
    function = method = out = False

    def compute(self, input, p):
        if not readable(input):
            pairs = find_op("triu_indices")(input.shape[0], input.shape[0], 1, device=input.device)
            return (input.index_select(0, pairs[0]) - input.index_select(0, pairs[1])).norm(p, -1)
        return find_op("_pair_distances")(input.contiguous(), input.t().contiguous(), p)

    def vjp(self, g, input, p, result):
        count = input.shape[0]
        if p == 0:
            return {"input": input.new_zeros(input.shape)}
        if not is_grad_enabled() and readable(input) and input.device.type == "cpu":
            weight = shared_slopes(g, p, result).contiguous()
            slopes = find_op("_pair_slopes")(input.t().contiguous(), weight, result.contiguous(), p)
            return {"input": slopes.t().contiguous()}
        pairs = find_op("triu_indices")(count, count, 1, device=input.device)
        place = pairs[0] * count + pairs[1]
        full = [v.new_zeros((count * count,)).scatter(0, place, v).reshape(count, count) for v in (g, result)]
        first, second = cdist_gradients(full[0], input, input, p, full[1])
        return {"input": first + second}


# --- pair by pair -----------------------------------------------------------------------------------------------------


class PairwiseDistance(Composite):
    """The p-norm of x1 - x2 along the last dim; `eps` keeps it away from 0."""

    schema = "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor"
    replays = True
    aliases = ("nn.functional.pairwise_distance",)
    method = out = False

    def compute(self, x1, x2, p, eps, keepdim):
        return (x1 - x2 + eps).norm(p, max(x1.ndim, x2.ndim) - 1, keepdim)


class CosineSimilarity(Composite):
    """Cosine of the angle between x1 and x2 along `dim`; lengths count as at least `eps`."""

    schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"
    replays = True
    aliases = ("nn.functional.cosine_similarity",)
    method = out = False

    def compute(self, x1, x2, dim, eps):
        if eps < 0:
            raise RuntimeError(f"cosine_similarity: eps must be non-negative, got {eps}")
        common = result_type_of([x1, x2])
        if not (common.is_floating_point or common.is_complex):
            raise RuntimeError(
                f"cosine_similarity: expected floating point inputs, got ones of common dtype {common.name}"
            )
        shape = broadcast_batch("cosine_similarity", tuple(x1.shape), tuple(x2.shape))
        x1, x2 = x1.to(common).expand(shape), x2.to(common).expand(shape)
        unit = []
        for x in (x1, x2):
            length = x.norm(2, dim, True).clone()
            with no_grad():   # the floor does not stop the gradient
                length.clamp_(min=eps)
            unit.append(x / length)
        return (unit[0] * unit[1]).sum(dim)


class Dist(Composite):
    """The p-norm of input - other, over all elements."""

    schema = "dist(Tensor input, Tensor other, Scalar p=2) -> Tensor"
    replays = True

    def compute(self, input, other, p):
        return (input - other).norm(p)


class Renorm(Composite):
    """input with every slice along `dim` shortened to a p-norm of at most `maxnorm`."""

    schema = "renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor"
    replays = True
    inplace = True

    def compute(self, input, p, dim, maxnorm):
        if input.ndim < 2:
            raise RuntimeError(f"renorm: expected an input with 2 dimensions or more, got {input.ndim}")
        if not (input.is_floating_point() or input.is_complex()):
            raise RuntimeError(f"renorm: expected a floating or complex tensor, got {input.dtype.name}")
        for label, value in (("p", p), ("maxnorm", maxnorm)):
            if isinstance(value, complex):
                raise RuntimeError(f"renorm: {label} must be real-valued")
        if p <= 0:
            raise RuntimeError(f"renorm: non-positive-norm not supported, got p = {p}")
        if maxnorm < 0:
            raise RuntimeError(f"renorm: expected maxnorm of at least 0, got {maxnorm}")
        if not -input.ndim <= dim < input.ndim:
            raise IndexError(f"renorm: dim {dim} is out of range for a tensor of {input.ndim} dims")
        dim %= input.ndim
        others = tuple(d for d in range(input.ndim) if d != dim)
        wide = _C.float32 if input.dtype in (_C.float16, _C.bfloat16) else None
        read = input.clone() if self.is_inplace else input      # what a rule keeps must not be written
        lengths = find_op("linalg_vector_norm")(read, p, others, True, dtype=wide)
        factor = find_op("where")(lengths > maxnorm, maxnorm / (lengths + 1e-7), lengths.new_ones(())).to(input.dtype)
        return input.copy_(read * factor) if self.is_inplace else find_op("_mul_rows")(input, factor)


class Normalize(Composite):
    """input divided by its p-norm along `dim`, or by `eps` where that is smaller."""

    schema = "normalize(Tensor input, float p=2.0, any dim=1, float eps=1e-12) -> Tensor"
    replays = True
    namespace = "nn.functional"
    method = False

    def compute(self, input, p, dim, eps):
        return input / input.norm(p, dim, True).clamp_min(eps)
