"""Which dimensions of an indexed op may be cut, read off its loop body.

Enters: a definition that says at which positions each element is read (`loops`) or written (`writes`), and its
arguments. Leaves: `Axes`. The body is run once with positions that are only names. A dimension in which every read and
write is at the loop's own position can be cut: whoever has that part of the result needs that part of the tensors and
no other. Loops that are added up can be cut too: the results are terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _C
from ...loops import expr
from ...loops.lowered import At, number_value
from ...loops.walking import walk
from ...op.indexed import Scattered
from ...op.pointwise import scalars
from .placement_types import Partial

FIRST_READ = 1000      # what reads give are leaves, numbered from here


class Reads:
    """A tensor in a body, which remembers where it was read."""

    def __init__(self, tensor: Any, number: int, count: list[int]) -> None:
        self.tensor, self.code, self.ndim, self.count = tensor, tensor.dtype.code, tensor.ndim, count
        self.shape = tuple(expr.var(f"size{number}.{d}") for d in range(tensor.ndim))
        self.places: list[tuple] = []

    def __getitem__(self, at: Any) -> Any:
        self.places.append(tuple(at) if isinstance(at, tuple) else (at,))
        self.count[0] += 1
        return expr.arg(self.count[0], self.code)

    def broadcast(self, at: Sequence[Any]) -> Any:
        return self[tuple(at[len(at) - self.ndim :])]


def axes_of_positions(definition: Any, args: tuple, make: Any) -> Any:
    """`Axes` (made by `make`) of an indexed op; None where its body says nothing."""
    prepared = definition.prepare(args)
    if prepared is None:
        return None
    scatters = isinstance(definition, Scattered)
    shape = tuple(definition.space(*prepared)) if scatters else tuple(definition.meta(*prepared).shape)
    count = [FIRST_READ]
    tensors: list[Reads] = []
    given = [_seen(p, a, tensors, count, definition) for p, a in zip(definition.spec.params, prepared, strict=True)]
    at = At(expr.var(f"at{d}") for d in range(len(shape)))
    at.checks = []
    written: tuple = ()
    if scatters:
        written, value = definition.writes(at, Reads(prepared[0], -1, count), *given)
        written = tuple(written)
    else:
        value = definition.loops(at, *given)
    places = [*(place for t in tensors for place in t.places), written]
    free = [d for d in range(len(shape)) if not _is_used(d, at, value, places)]
    if scatters:
        return _scattered(definition, prepared, at, tensors, written, shape, free, make)
    links = {d: _links(d, at, tensors, shape[d]) for d in free}
    inputs = [_labels(t, k, links) for k, t in enumerate(tensors)]
    if [tuple(t.tensor.shape) for t in tensors] != [tuple(t.shape) for t in _tensors(args)]:
        return None      # a tensor without dimensions that was seen as one with
    return make(inputs, [tuple(d if links.get(d) else None for d in range(len(shape)))])


def _seen(param: Any, value: Any, tensors: list[Reads], count: list[int], definition: Any) -> Any:
    """An argument as a body sees it."""
    if isinstance(value, _C.Tensor):
        tensors.append(Reads(value, len(tensors), count))
        return tensors[-1]
    if isinstance(value, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in value):
        return [_seen(param, x, tensors, count, definition) for x in value]
    return number_value(param.name, value) if param.name in definition.runtime and value is not None else value


def _tensors(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for a in args:
        found += [a] if isinstance(a, _C.Tensor) else _tensors(a) if isinstance(a, (list, tuple)) else []
    return found


def _is_used(d: int, at: At, value: Any, places: list[tuple]) -> bool:
    """Whether a position is computed with, and does not only say where."""
    computed = [value, *(i for place in places for i in place if i is not at[d])]
    return any(v is at[d] for v in walk([v for v in computed if isinstance(v, expr.Value)]))


def _links(d: int, at: At, tensors: list[Reads], size: int) -> dict[int, int] | None:
    """Tensor -> its dimension that goes with loop d; None where that is not one, or another length."""
    found: dict[int, int] = {}
    for k, tensor in enumerate(tensors):
        dims = {tuple(i for i, index in enumerate(place) if index is at[d]) for place in tensor.places}
        if not dims or dims == {()}:
            continue
        if len(dims) != 1 or len(next(iter(dims))) != 1:
            return None
        dim = next(iter(dims))[0]
        if tensor.tensor.shape[dim] != size:
            return None
        found[k] = dim
    return found or None


def _labels(tensor: Reads, k: int, links: dict[int, Any]) -> tuple:
    labels: list[Any] = [None] * tensor.ndim
    for label, link in links.items():
        if link and k in link:
            labels[link[k]] = label
    return tuple(labels)


def _scattered(
    definition: Any, args: tuple, at: At, tensors: list[Reads], written: tuple, shape: tuple, free: list[int], make: Any
) -> Any:
    """Loops that are written where they stand, and those that are added up."""
    target = args[0]
    links, folds = {}, {}
    for d in free:
        link = _links(d, at, tensors[1:], shape[d])      # the first is the target
        dims = [i for i, index in enumerate(written) if index is at[d]]
        if len(dims) == 1 and target.shape[dims[0]] == shape[d]:
            links[d] = {0: dims[0], **{k + 1: dim for k, dim in (link or {}).items()}}
        elif not dims and link and _adds(definition, args):
            links[d] = {k + 1: dim for k, dim in link.items()}
            folds[d] = Partial()
    inputs = [_labels(t, k, links) for k, t in enumerate(tensors)]
    return make(inputs, [inputs[0]], folds, added=(0,) if folds else ())


def _adds(definition: Any, args: tuple) -> bool:
    old, new = expr.arg(0, "f64"), expr.arg(1, "f64")
    try:
        return definition.combine(scalars, old, new, *args) is old + new
    except (TypeError, KeyError, AttributeError):
        return False
