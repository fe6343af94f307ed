"""View ops: new sizes, strides and offset over the same elements.

Enters: a definition with `geometry`. Leaves: plans that only alias, so the core makes the view without running a
kernel. The tape follows views and in-place writes through them. Refuses to copy: that is `reshape`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from .. import _C
from ..loops.lowered import At, Lowered, Memory, NotLowerable
from ..loops.record import Record
from .definition import KIND_PLANNED, OpDefinition
from .registry import find_op


class Geometry(Record):
    """Where a view's elements are; `offset` counts elements (of `dtype`) from the source's first."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    dtype: Any = None
    flips: int = 0      # bits (base/bits.py) that the view has where its source has not, and the other way round


class View(OpDefinition):
    """A definition whose body computes geometry. `geometry` may return a list for ops with many results."""

    kind = KIND_PLANNED
    out = False
    # the op that makes the same elements in memory of their own, of a view that shows others than lie there
    written: ClassVar[str | None] = None
    cacheable: bool = True   # False where legality depends on more than sizes and strides (offset, storage)

    def geometry(self, t: Any, *args: Any) -> Geometry | list[Geometry]:
        """The result's geometry, from the source tensor and the other arguments."""
        raise NotImplementedError

    def is_view(self) -> bool:
        return True

    def inverse(self, base: Any, new: Any, which: int, *args: Any) -> Any:
        """`base` with the elements that this view of it shows exchanged for `new`, as a tensor of its own;
        `which` of several results.

        By default through the geometry, as bytes lie; a view that knows an op for it says so.
        """
        dense = base.contiguous()
        result = self.geometry(dense, *args)
        g = result[which] if isinstance(result, list) else result
        if g.dtype not in (None, base.dtype):
            return self.bytes_inverse(dense, new, g)
        return find_op("as_strided_scatter")(dense, new, g.sizes, g.strides, dense.storage_offset() + g.offset)

    def bytes_inverse(self, dense: Any, new: Any, g: Geometry) -> Any:
        """`inverse` where the view has another type: a copy of the base is written through it."""
        result = dense.clone()
        result.view(g.dtype).as_strided(g.sizes, g.strides, g.offset).copy_(new)
        return result

    def run(self, *args: Any) -> Any:
        t = args[0]
        g = self.geometry(*args)
        assert isinstance(g, Geometry), "uncacheable views have one result"
        own = t.storage_offset() * t.itemsize // (g.dtype or t.dtype).itemsize
        result = _C.alias(t, g.sizes, g.strides, own + g.offset, g.dtype or t.dtype)
        result._keys ^= g.flips
        return result

    def plan(self, args: tuple) -> Any:
        if not self.cacheable:
            return None
        t = args[0]
        result = self.geometry(t, *args[1:])
        found = result if isinstance(result, list) else [result]
        slots = [
            ("view", g.dtype or t.dtype, g.sizes, g.strides, 0, g.offset, *((g.flips,) if g.flips else ()))
            for g in found
        ]
        return _C.Plan(1, t.device, slots, [], not isinstance(result, list))

    def lower(self, args: tuple) -> Lowered:
        """The elements themselves, at the places the view finds them;
        `view` is the rule for other layouts of the same sizes."""
        t = args[0]
        g = self.geometry(*args)
        if not self.cacheable or not isinstance(g, Geometry):
            raise NotLowerable(
                f"{self.name}: its places depend on more than sizes and strides, or it has several results"
            )
        code = (g.dtype or t.dtype).code
        memory = Memory(
            self.spec.params[0].name, code, tuple(g.sizes), tuple(g.strides), tuple(range(len(g.sizes))), g.offset
        )

        def rule(sizes: Sequence[Any], strides: Sequence[Any], offset: int) -> tuple:
            result = self.geometry(stand_in(t, sizes, strides), *args[1:])
            assert isinstance(result, Geometry), "as it had one result before"
            return result.sizes, result.strides, offset + result.offset

        return elements(self.name, memory, rule if g.dtype in (None, t.dtype) else None)


def elements(name: str, memory: Memory, rule: Any = None) -> Lowered:
    """The elements of a tensor as they are; `rule` is what changed its layout, for layouts of other tensors."""

    def body(at: At, sources: Sequence[Any]) -> tuple:
        return (sources[0].read(at),)

    return Lowered(name, ("elements",), memory.sizes, memory.sizes, (memory.code,), (memory,), body, view=rule)


def stand_in(t: _C.Tensor, sizes: Sequence[Any], strides: Sequence[Any]) -> _C.Tensor:
    """A tensor of another layout and no data, of which a rule may ask what it asks of `t`."""
    if all(isinstance(n, int) for n in (*sizes, *strides)):
        return _C.empty(tuple(sizes), tuple(strides), t.dtype, _C.device("meta"))
    return t.new_empty_strided(sizes, strides)      # symbolic sizes: `t` is a tensor that can have them


def wrap_dim(name: str, dim: int, ndim: int) -> int:
    """`dim` counted from the front; IndexError outside [-ndim, ndim)."""
    limit = ndim or 1
    if not -limit <= dim < limit:
        raise IndexError(f"{name}: Dimension out of range: expected one in [{-limit}, {limit - 1}], got {dim}")
    return dim + limit if dim < 0 else dim


def wrap_dims(name: str, dims: Iterable[int], ndim: int) -> tuple[int, ...]:
    """Every dim counted from the front; RuntimeError on repeats."""
    wrapped = tuple(wrap_dim(name, d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
        raise RuntimeError(f"{name}: dim {twice} is given more than once")
    return wrapped
