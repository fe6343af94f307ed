"""Which dimensions of an op's tensors may be cut, from the op's kind: one rule per kind, none per op.

Enters: an overload and its bound arguments, with tensors without data in place of distributed ones. Leaves: `Axes`.
Each dimension of every tensor gets a label; dimensions with one label are cut together, those without one (None) stay
whole. A label that no result has was folded away: `folds` says how results of parts are combined. `linear` names
tensors that may be terms of a sum, and then so is the result.

    pointwise     dimensions are aligned from the last; sums and multiples of terms are terms
    reduction     kept dimensions go to the result; of folded ones parts give terms, if the fold is a sum, product or
                  extreme
    view          a dimension stays one if its stride does; merged ones are cut in their first, split ones likewise
    scan, "dim"   an op along `dim`: that one stays whole
    fused         rows stay whole, their number is free
    indexed       dimensions in which positions are those of the result are free
    extern        what is written in CONTRACTIONS: labels, as einsum writes them
    composite     its body, whose ops come one by one
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import _C
from ...loops import expr
from ...op import Pointwise, Reduction, View, find_op
from ...op.fused import Fused
from ...op.indexed import Indexed
from ...op.pointwise import PointwiseVjp, is_constant_zero, scalars, used_args
from ...op.scan import Scan
from ...op.schema import OPERAND_TYPES
from ._positions import axes_of_positions
from .placement_types import Partial, _NormPartial

Labels = tuple[Any, ...]

# Pointwise ops that only move or convert: terms stay terms.
COPIES = {"copy": (0, 1), "to": (0,), "zero": (0,)}
FOLDS = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "prod": "product", "count_nonzero": "sum"}
INSERTIONS = ("slice_scatter", "select_scatter", "diagonal_scatter")
CONTRACTIONS = {"mm": "ik,kj->ij", "bmm": "bik,bkj->bij", "mv": "ik,k->i", "dot": "k,k->", "vdot": "k,k->"}


@dataclass
class Axes:
    """What may be cut: labels of the tensors given, and of the results (None: as many as there are, all whole)."""

    inputs: list[Labels]
    outputs: list[Labels] | None = None
    folds: dict[Any, Partial] = field(default_factory=dict)
    linear: Sequence[tuple[int, ...]] = ()
    alike: str | None = None     # a reduction that results of terms under the same reduction go through
    even: frozenset = frozenset()     # labels that may be cut into parts of equal length only
    needs: dict[Any, int] = field(default_factory=dict)      # labels whose parts must divide this size
    chooses: bool = False     # any label may be cut, not only those that are: products send less so
    added: tuple[int, ...] = ()     # tensors that are added to the result: terms, where it is one


class NoRule(NotImplementedError):
    """Nothing is known of how an op may be cut."""


def axes_of(overload: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """The rule of the op's kind; NoRule where there is none."""
    definition = overload.definition
    name = definition.spec.name
    if name in NAMED:
        return NAMED[name](definition, args, results)
    if name in INSERTIONS:
        return inserted(definition, args, results)
    if name in CONTRACTIONS:
        return contraction(CONTRACTIONS[name])
    for kind, rule in KINDS:
        if isinstance(definition, kind):
            return rule(definition, args, results)
    if definition.batch in DECLARED:
        return DECLARED[definition.batch](definition, args, results)
    raise NoRule(name)


def tensors_in(args: Sequence[Any]) -> list[Any]:
    """Every tensor among the arguments, lists included, in order."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, _C.Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += [x for x in a if isinstance(x, _C.Tensor)]
    return found


def argument(definition: Any, args: tuple, name: str, default: Any = None) -> Any:
    """The argument called `name`."""
    for param, value in zip(definition.spec.params, args, strict=True):
        if param.name == name:
            return value
    return default


def whole(shape: Sequence[int]) -> Labels:
    """No dimension may be cut."""
    return (None,) * len(shape)


# --- kinds ------------------------------------------------------------------------------------------------------------


def pointwise(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Aligned from the last dimension; what is broadcast stays whole."""
    shape = results[0].shape
    ndim = len(shape)

    def labels(t: Any) -> Labels:
        lead = ndim - t.ndim
        return tuple(lead + d if t.shape[d] == shape[lead + d] else None for d in range(t.ndim))

    tensors = tensors_in(args)
    outputs = [tuple(range(ndim))] * len(results)
    return Axes([labels(t) for t in tensors], outputs, linear=linear_groups(definition, args))


def linear_groups(definition: Any, args: tuple) -> list[tuple[int, ...]]:
    """Tensors (by their number among the tensors) in which a pointwise op is linear, together: its derivatives in them
    do not depend on them, and it is 0 where they are."""
    places = [i for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
    name = definition.spec.name
    if name in COPIES:
        return [tuple(k for k, i in enumerate(places) if i in COPIES[name])]
    if not isinstance(definition, Pointwise) or not all(type(x) in (int, float, bool) for x in _numbers(args)):
        return []
    if isinstance(definition, PointwiseVjp):     # a gradient is linear in what it is the gradient of
        return [tuple(k for k, i in enumerate(places) if i < definition.num_grads)]
    key = (name, definition.spec.overload, tuple(places), tuple(map(repr, _numbers(args))))
    if key not in _groups:
        subsets = (g for count in range(1, len(places) + 1) for g in itertools.combinations(places, count))
        found = [group for group in subsets if _is_linear(definition, args, group)]
        _groups[key] = [tuple(places.index(i) for i in group) for group in found]
    return _groups[key]


_groups: dict[Any, list[tuple[int, ...]]] = {}


def _numbers(args: tuple) -> list[Any]:
    return [a for a in args if not isinstance(a, _C.Tensor) and a is not None and not isinstance(a, str)]


def _is_linear(definition: Any, args: tuple, group: tuple[int, ...]) -> bool:
    """Whether a pointwise op is linear in the parameters of a group."""
    params = definition.spec.params
    operands = [i for i, p in enumerate(params) if p.type in OPERAND_TYPES and args[i] is not None]
    leaves = [expr.arg(i, "f64") if i in operands else a for i, a in enumerate(args)]
    others = [i for i in operands if i not in group and isinstance(args[i], _C.Tensor)]
    try:
        slopes = definition.gradients(scalars, [expr.const(1.0, "f64")], leaves, None, group)
        if set(group) & used_args(slopes) or any(is_constant_zero(slope) for slope in slopes):     # steps have no slope
            return False
        for values in itertools.product((0.0, 1.7, -2.3), repeat=len(others)):
            known = dict(zip(others, values, strict=True)) | dict.fromkeys(group, 0.0)
            at = [expr.const(known.get(i, a), "f64") if i in operands else a for i, a in enumerate(args)]
            # what is no constant, as 0 / 0, says nothing
            if not all(is_constant_zero(v) or (0.0 in values and not expr.is_const(v)) for v in definition.outputs(at)):
                return False
    except (TypeError, NotImplementedError, KeyError, AttributeError, ValueError):     # not an op on such numbers
        return False
    return True


def reduction(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Kept dimensions are free; folded ones where results of parts can be combined."""
    t = args[0]
    at_dim, at_keepdim, _ = definition.positions
    gone = definition.reduced_dims(t, None if at_dim is None else args[at_dim])
    keepdim = at_keepdim is not None and args[at_keepdim]
    name = definition.spec.name
    how = _fold(name, definition, args) if len(results) == 1 else None
    labels = tuple(d if d not in gone or how is not None else None for d in range(t.ndim))
    out = tuple(None if d in gone else d for d in range(t.ndim) if keepdim or d not in gone)
    folds = dict.fromkeys(gone, how) if how is not None else {}
    linear = ((0,),) if name in ("sum", "mean") else ()
    alike = {"amax": "max", "amin": "min"}.get(name)
    others = [whole(x.shape) for x in tensors_in(args)[1:]]
    equal = frozenset(gone) if name == "mean" else frozenset()
    return Axes([labels, *others], [out] * len(results), folds, linear, alike, equal)


def _fold(name: str, definition: Any, args: tuple) -> Partial | None:
    if name == "linalg_vector_norm":
        order = float(argument(definition, args, "ord", 2))
        return Partial("max" if order > 0 else "min") if math.isinf(order) else _NormPartial(order)
    if name in ("max", "min") and len(definition.spec.params) == 1:
        return Partial(name)
    return Partial(FOLDS[name]) if name in FOLDS else None


def view(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Dimensions that come out as they went in, found by their strides."""
    t = args[0]
    if definition.spec.name == "view" and not isinstance(args[1], _C.dtype):
        return reshaped(t, results[0])
    # strides that no two dimensions share, and that no sum or multiple of others is
    marked = _C.empty(tuple(t.shape), tuple(3 ** (d + 1) * 7 for d in range(t.ndim)), t.dtype, _C.device("meta"))
    try:
        result = definition.geometry(marked, *args[1:])
    except RuntimeError as error:
        raise NoRule(definition.spec.name) from error
    geometries = result if isinstance(result, list) else [result]
    dims = {stride: d for d, stride in enumerate(marked.stride())}

    def labels(g: Any) -> Labels:
        found = []
        for size, stride in zip(g.sizes, g.strides, strict=True):
            d = dims.get(stride)
            found.append(d if d is not None and t.shape[d] == size and size > 1 else None)
        return tuple(found)

    outs = [labels(g) for g in geometries]
    kept = set(outs[0]).intersection(*outs[1:])
    outs = [tuple(d if d in kept else None for d in out) for out in outs]
    return Axes([tuple(d if d in kept else None for d in range(t.ndim))], outs, linear=((0,),))


def reshaped(t: Any, result: Any) -> Axes:
    """Runs of dimensions with as many elements: the first of a run that is longer than one stays the first."""
    source, target = tuple(t.shape), tuple(result.shape)
    inputs: list[Any] = [None] * len(source)
    outputs: list[Any] = [None] * len(target)
    needs: dict[Any, int] = {}
    i = j = label = 0
    while i < len(source) and j < len(target):
        first_i, first_j, left, right = i, j, source[i], target[j]
        while left != right:
            if left < right:
                i += 1
                left *= source[i] if i < len(source) else right
            else:
                j += 1
                right *= target[j] if j < len(target) else left
            if i >= len(source) or j >= len(target):
                return Axes([whole(source)], [whole(target)], linear=((0,),))
        a = next((k for k in range(first_i, i + 1) if source[k] != 1), None)
        b = next((k for k in range(first_j, j + 1) if target[k] != 1), None)
        if a is not None and b is not None:
            inputs[a] = outputs[b] = label
            if source[a] != target[b]:
                needs[label] = math.gcd(source[a], target[b])     # pieces must be whole in both
            label += 1
        i, j = i + 1, j + 1
    return Axes([tuple(inputs)], [tuple(outputs)], linear=((0,),), needs=needs)


def inserted(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """`slice_scatter` and its kin: a tensor with the elements of one of its views exchanged."""
    base, new, *rest = args
    looked_at = find_op(definition.spec.name.removesuffix("_scatter")).overload_list[0].definition
    found = view(looked_at, (base, *rest), [new])
    return Axes([found.inputs[0], found.outputs[0]], [found.inputs[0]], linear=((0, 1),))


def along_dim(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """All dimensions but `dim`, over tensors of one rank."""
    tensors = tensors_in(args)
    ndim = max(t.ndim for t in tensors)
    dim = argument(definition, args, "dim", argument(definition, args, "dims"))
    gone = {d % max(ndim, 1) for d in (dim if isinstance(dim, (list, tuple)) else [-1 if dim is None else dim])}

    def labels(t: Any) -> Labels:
        if t.ndim != ndim:
            return whole(t.shape)
        return tuple(d if d not in gone else None for d in range(ndim))

    is_linear = definition.spec.name in ("cat", "flip", "_roll", "cumsum")
    groups = (tuple(range(len(tensors))),) if is_linear else ()
    return Axes([labels(t) for t in tensors], [labels(r) for r in results], linear=groups)


def new_dim(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Tensors side by side along a dimension of its own."""
    tensors = tensors_in(args)
    ndim = results[0].ndim
    at = argument(definition, args, "dim", 0) % ndim
    labels = tuple(range(ndim - 1))
    out = (*labels[:at], None, *labels[at:])
    return Axes([labels] * len(tensors), [out], linear=(tuple(range(len(tensors))),))


def fused(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Rows stay whole; operands that all rows share stay whole too."""
    if argument(definition, args, "dim", ...) is not ...:
        return along_dim(definition, args, results)
    tensors = tensors_in(args)
    ndim = max(t.ndim for t in tensors)
    rows = _row_dims(definition, args)
    shared = set(definition.column_operands)
    named = [p.name for p, a in zip(definition.spec.params, args, strict=True) if isinstance(a, _C.Tensor)]

    def labels(t: Any, name: str = "") -> Labels:
        if name in shared or t.ndim != ndim:     # one row, shared by all
            return whole(t.shape)
        return tuple(d if d < ndim - rows else None for d in range(t.ndim))

    inputs = [labels(t, name) for t, name in zip(tensors, named, strict=True)]
    outputs = [labels(r) for r in results]
    if any(r.ndim != ndim for r in results):     # sums over all rows
        folds = {d: Partial() for d in range(ndim - rows)}
        return Axes(inputs, outputs, folds)
    return Axes(inputs, outputs)


def _row_dims(definition: Any, args: tuple) -> int:
    results = definition.row_dims(*args)
    return results if isinstance(results, int) else len(results)


def contraction(text: str) -> Axes:
    """Labels as einsum writes them: what only the left side has is summed."""
    left, _, right = text.partition("->")
    inputs = [tuple(part) for part in left.split(",")]
    outputs = [tuple(part) for part in right.split(",")]
    summed = {label for part in inputs for label in part} - {label for part in outputs for label in part}
    each = [(i,) for i in range(len(inputs))]
    return Axes(inputs, outputs, {label: Partial() for label in summed}, each, chooses=True)


def leading(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Any number of leading dimensions that count independent examples; here the first."""
    tensors = tensors_in(args)
    ndim = max(t.ndim for t in tensors)
    labels = [(0, *whole(t.shape[1:])) if t.ndim == ndim and ndim > 2 else whole(t.shape) for t in (*tensors, *results)]
    return Axes(labels[: len(tensors)], labels[len(tensors) :])


def random(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Numbers are drawn for each element."""
    tensors = tensors_in(args)
    ndim = results[0].ndim
    labels = [tuple(range(ndim)) if t.ndim == ndim else whole(t.shape) for t in tensors]
    return Axes(labels, [tuple(range(r.ndim)) for r in results])


def matmul(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """Products of any rank: batch dimensions are aligned as pointwise ones are."""
    a, b = tensors_in(args)[:2]
    batch = max(a.ndim - 2, b.ndim - 2, 0)
    shape = (results[0].shape[:batch]) if batch else ()

    def lead(t: Any) -> Labels:
        own = max(t.ndim - 2, 0)
        return tuple(
            f"b{batch - own + d}" if t.shape[d] == shape[batch - own + d] else None for d in range(own)
        )

    left = (*lead(a), "i", "k") if a.ndim > 1 else ("k",)
    right = (*lead(b), "k", "j") if b.ndim > 1 else ("k",)
    out = (*(f"b{d}" for d in range(batch)), *(("i",) if a.ndim > 1 else ()), *(("j",) if b.ndim > 1 else ()))
    return Axes([left, right], [out], {"k": Partial()}, [(0,), (1,)], chooses=True)


def linear(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """x @ weight.T + bias: the bias counts once, so that a sum over cut inputs leaves it out."""
    x, weight = args[0], args[1]
    lead = tuple(f"b{d}" for d in range(x.ndim - 1))
    out = (*lead, "o") if weight.ndim == 2 else lead
    inputs = [(*lead, "k"), ("o", "k") if weight.ndim == 2 else ("k",)]
    bias = argument(definition, args, "bias")
    if bias is None:
        return Axes(inputs, [out], {"k": Partial()}, [(0,), (1,)], chooses=True)
    inputs = [(*lead, "k"), inputs[1], ("o",) if bias.ndim else ()]
    return Axes(inputs, [out], {"k": Partial()}, [(0, 2), (1, 2)], added=(2,), chooses=True)


def convolution(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """The batch is free; so are the channels of results, and a sum over those of inputs, unless they are in groups."""
    x, weight, bias = args[:3]
    transposed, groups = argument(definition, args, "transposed"), argument(definition, args, "groups")
    if x.ndim != weight.ndim:
        raise NoRule("convolution of one example")
    out, into = (None, None) if groups != 1 else ("o", "c")
    rest = (None,) * (x.ndim - 2)
    inputs = [("n", into, *rest), (into, out, *rest) if transposed else (out, into, *rest)]
    folds = {"c": Partial()} if into else {}
    if bias is None:
        return Axes(inputs, [("n", out, *rest)], folds, [(0,), (1,)])
    return Axes([*inputs, (out,)], [("n", out, *rest)], folds, [(0, 2), (1, 2)], added=(2,))


def convolution_weight(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """A sum over the batch."""
    groups, rest = argument(definition, args, "groups"), (None,) * (args[0].ndim - 2)
    out, into = (None, None) if groups != 1 else ("o", "c")
    inputs = [("n", out, *rest), ("n", into, *rest)]
    return Axes(inputs, [(out, into, *rest)], {"n": Partial()}, [(0,), (1,)])


def indexed(definition: Any, args: tuple, results: Sequence[Any]) -> Axes:
    """What the loop body says."""
    found = axes_of_positions(definition, args, Axes)
    if found is None:
        raise NoRule(definition.spec.name)
    return found


KINDS: tuple[tuple[type, Callable], ...] = (
    (Pointwise, pointwise), (Reduction, reduction), (View, view), (Scan, along_dim), (Fused, fused), (Indexed, indexed),
)
DECLARED: dict[str | None, Callable] = {
    "dim": along_dim, "new dim": new_dim, "leading": leading, "fold": leading, "random": random, "pointwise": pointwise,
}
NAMED: dict[str, Callable] = {
    "matmul": matmul, "linear": linear, "convolution": convolution, "_convolution_weight": convolution_weight,
}
