"""Covariances, membership, and reductions over runs of rows.

Enters: tensors. Leaves: composites of sums, products, searches and scatters. Refuses: weights that are negative or of
another length, and runs that do not cover the data.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight import _C
from rushlight.base.promotion import rank, result_type_of
from rushlight.base.shape import is_below
from rushlight.base.tracebacks import users_level
from rushlight.definitions.indexed.reduce_into import MODES
from rushlight.loops.expr import cast, eq, not_
from rushlight.loops.lowered import Fold, Folding, Lowered, Memory, compute_code
from rushlight.op import Composite, Loops, find_op, wrap_dim
from rushlight.rules.batching import expanded, wrapped


class Cov(Composite):
    """The covariances of the rows of `input`, whose columns are observations."""

    schema = "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"
    views = "keep"
    out = False

    def compute(self, input, correction, fweights, aweights):
        if input.ndim > 2:
            raise RuntimeError(f"cov: expected an input with at most 2 dimensions, got {input.ndim}")
        if input.dtype is _C.bool:
            raise RuntimeError("cov: expected numbers as input, got bool")
        x = input.reshape(1, -1) if input.ndim < 2 else input
        count = x.shape[1]
        weights = check_weights("fweights", fweights, count)
        if aweights is not None:
            aweights = check_weights("aweights", aweights, count)
            weights = aweights if weights is None else weights * aweights
        total = count if weights is None else weights.sum()
        if weights is not None and not total.is_meta and total.item() == 0:
            raise RuntimeError("cov: the weights sum to zero")
        weighted = x if weights is None else x * weights
        mean = weighted.sum(1) / total
        norm = total - correction
        if aweights is not None and correction:
            norm = total - correction * (weights * aweights).sum() / total
        known = norm.item() if isinstance(norm, _C.Tensor) and not norm.is_meta else norm
        if not isinstance(known, _C.Tensor) and known <= 0:
            warnings.warn(
                f"cov(): degrees of freedom is {known}, so the result is not finite; correction should be less than the"
                " number of observations.",
                UserWarning,
                stacklevel=users_level(),
            )
            norm = 0
        x = x - mean.unsqueeze(1)
        other = (x if weights is None else x * weights).t()
        return (x.matmul(other.conj() if other.is_complex() else other) / norm).squeeze()


def check_weights(name: str, weights: Any, count: int) -> Any:
    """Weights of observations: one each, counts as integers and importances as floats, none negative."""
    if weights is None:
        return None
    wanted, what = (1, "integral") if name == "fweights" else (2, "floating point")
    if weights.ndim > 1:
        raise RuntimeError(f"cov: expected {name} with at most 1 dimension, got {weights.ndim}")
    if rank(weights.dtype) != wanted:
        raise RuntimeError(
            f"cov(): expected {name} to have {what} dtype but got {name} with {weights.dtype.name} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov: expected {name} to have an element for each of the {count} observations, got {weights.numel()}"
        )
    if count and not weights.is_meta and weights.min().item() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return weights


class CorrCoef(Composite):
    """The correlations of the rows of `input`: covariances over standard deviations."""

    schema = "corrcoef(Tensor input) -> Tensor"
    out = False

    def compute(self, input):
        if input.ndim > 2:
            raise RuntimeError(f"corrcoef: expected an input with at most 2 dimensions, got {input.ndim}")
        c = input.cov()
        if c.ndim == 0:
            return c / c
        variance = c.diagonal()
        deviation = (find_op("real")(variance) if c.is_complex() else variance).sqrt()
        c = c / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
        if c.is_complex():
            return find_op("complex")(find_op("real")(c).clamp(-1, 1), find_op("imag")(c).clamp(-1, 1))
        return c.clamp(-1, 1)


class Either(Fold):
    """Whether one of the elements is true."""

    def init(self, s, code):
        return (s.const(False, "b1"),)

    def merge(self, s, a, b):
        return (a[0] | b[0],)


class OccursIn(Loops):
    """Whether each element is one of a few others: it is compared with each of them, many elements at a time."""

    schema = "_occurs_in(Tensor elements, Tensor test_elements, bool invert) -> Tensor"
    function = method = out = differentiable = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Others of its own for each example."""
        elements, test = (expanded(t, level) for t in args[:2])
        test = test.reshape((test.shape[0], *(1,) * (elements.ndim - 1), test.shape[1]))
        same = elements.unsqueeze(-1) == test
        found = same.any(-1)
        return wrapped(~found if args[2] else found, level)

    def lower(self, args: tuple) -> Lowered:
        elements, test, invert = args
        shape, last = tuple(elements.shape), elements.ndim
        common = result_type_of((elements, test)).code
        reads = (
            Memory("elements", elements.dtype.code, shape, elements.stride(), (*range(last), None)),
            Memory("test_elements", test.dtype.code, tuple(test.shape), test.stride(), (*[None] * last, 0)),
        )

        def body(at: Any, sources: Any) -> tuple:
            return (eq(*[cast(cast(source.read(at), common), compute_code(common)) for source in sources]),)

        def epilogue(sources: Any, results: Any) -> tuple:
            return (not_(results[0]) if invert else results[0],)

        folding = Folding(EITHER, "b1", frozenset((last,)), epilogue)
        key = (self, common, invert)
        return Lowered(self.spec.name, key, (*shape, test.shape[0]), shape, ("b1",), reads, body, folding=folding)


EITHER = Either()
FEW = 100                # elements that are compared with sooner than sorted
FEW_PAIRS = 1 << 17      # comparisons that take less than to sort and to search


class IsIn(Composite):
    """Whether each element occurs among `test_elements`."""

    schema = (
        (
            "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False)"
            " -> Tensor"
        ),
        (
            "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False)"
            " -> Tensor"
        ),
        (
            "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False)"
            " -> Tensor"
        ),
    )
    replays = True
    method = False
    differentiable = False

    def compute(self, elements, test_elements, assume_unique, invert):
        if not isinstance(test_elements, _C.Tensor):
            return elements != test_elements if invert else elements == test_elements
        if not isinstance(elements, _C.Tensor):
            elements = find_op("scalar_tensor")(
                elements, device=test_elements.device, dtype=result_type_of((elements, test_elements))
            )
        for t in (elements, test_elements):
            if t.dtype in (_C.bool,) or t.dtype.is_complex:
                raise RuntimeError(f"Unsupported input type encountered for isin(): {t.dtype.name}")
        return self.search(elements.detach(), test_elements.detach().reshape(-1), invert)

    def search(self, elements: Any, test: Any, invert: bool) -> Any:
        count = test.numel()
        if not count:
            return find_op("full")(elements.shape, invert, dtype=_C.bool, device=elements.device)
        # of symbolic sizes nothing is asked
        if is_below(count, FEW) or is_below(count * elements.numel(), FEW_PAIRS):
            return find_op("_occurs_in")(elements, test, invert)
        dtype = result_type_of((elements, test))
        elements, ordered = elements.to(dtype), test.to(dtype).sort()[0]
        place = find_op("searchsorted")(ordered, elements).clamp(max=count - 1)
        return ordered[place] != elements if invert else ordered[place] == elements


# --- runs of rows -----------------------------------------------------------------------------------------------------

EMPTY = {"sum": 0.0, "prod": 1.0, "mean": math.nan, "max": -math.inf, "min": math.inf}
NAMES = {"amax": "max", "amin": "min"}


class SegmentReduce(Composite):
    """Runs along `axis`, given by their lengths or by offsets, each reduced to one row."""

    schema = (
        "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None,"
        " int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor"
    )
    method = False
    out = False
    aliases = ("_segment_reduce",)

    def compute(self, data, reduce, lengths, indices, offsets, axis, unsafe, initial):
        if reduce not in (*MODES, "max", "min"):
            raise RuntimeError(f"reduce: expected 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce}")
        reduce = NAMES.get(reduce, reduce)
        if indices is not None:
            raise RuntimeError("segment_reduce: indices are not supported. Pass lengths or offsets.")
        if lengths is None and offsets is None:
            raise RuntimeError("segment_reduce: expected lengths or offsets, got neither.")
        if rank(data.dtype) != 2:
            raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype.name} tensors')
        axis = wrap_dim("segment_reduce", axis, data.ndim)
        offsets = self.check(data, lengths, offsets, axis, unsafe)
        counts = offsets.narrow(-1, 1, offsets.shape[-1] - 1) - offsets.narrow(-1, 0, offsets.shape[-1] - 1)
        return reduce_runs(data, reduce, offsets, counts, axis, initial)

    def check(self, data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Any:
        """Offsets of the runs' starts and the last one's end."""
        given = lengths if lengths is not None else offsets
        what = "lengths" if lengths is not None else "offsets"
        if given.dtype not in (_C.int64, _C.int32):
            raise NotImplementedError(f'"segment_reduce" not implemented for {what} of {given.dtype.name}')
        if given.ndim != axis + 1 or tuple(given.shape[:-1]) != tuple(data.shape[:axis]):
            raise RuntimeError(
                f"segment_reduce(): expected {what} to have the data's sizes before axis {axis} and one more, got"
                f" {list(given.shape)} for data {list(data.shape)}"
            )
        if lengths is None:
            return offsets.to(_C.int64)
        if not unsafe and not data.is_meta:
            if lengths.numel() and lengths.min().item() < 0:
                raise RuntimeError("lengths contains negative value!")
            if not (lengths.sum(-1) == data.shape[axis]).all().item():
                raise RuntimeError(
                    "segment_reduce: expected lengths that add up to the size of data along axis, unless unsafe=True."
                )
        ends = lengths.cumsum(-1)
        return find_op("cat")([ends.new_zeros((*ends.shape[:-1], 1)), ends], -1)


def reduce_runs(data: Any, reduce: str, offsets: Any, counts: Any, axis: int, initial: Any) -> Any:
    """Every element combined into the row of its run."""
    # One row more than there are runs: it takes the elements behind the last run, which belong to none.
    sizes = (*data.shape[:axis], counts.shape[-1] + 1, *data.shape[axis + 1 :])
    start = initial if initial is not None else {"mean": 0.0}.get(reduce, EMPTY[reduce])
    place = find_op("arange")(data.shape[axis], device=data.device).expand(data.shape[: axis + 1])
    runs = find_op("searchsorted")(offsets.contiguous(), place.contiguous(), right=True) - 1
    trailing = (1,) * (data.ndim - axis - 1)
    runs = runs.reshape((*runs.shape, *trailing)).expand(data.shape)
    mode = {"max": "amax", "min": "amin", "mean": "sum"}.get(reduce, reduce)
    result = data.new_full(sizes, start).scatter_reduce(axis, runs, data, mode).narrow(axis, 0, counts.shape[-1])
    if reduce != "mean":
        return result
    counts = counts.reshape((*counts.shape, *trailing))
    mean = result / counts.clamp(min=1)
    return mean.masked_fill(counts == 0, math.nan) if initial is None else mean
