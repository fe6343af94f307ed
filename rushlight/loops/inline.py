"""One Lowered from two: a producer computed where its consumer reads it.

Enters: a consumer, the number of one of its reads, and the Lowered of the op whose result that is. Leaves: one Lowered
over the memory that both read, with the results of the consumer. Intermediate results are rounded to the type the
producer would have stored, so the numbers are those of the two ops one after the other, but for the order in which a
fold adds. Refuses, with NotLowerable and a reason: what takes two loops.

    producer        consumer
    pointwise       pointwise, fold, walk     the body in the body; operands expanded as the consumer expands the result
    gather          pointwise, fold           the body at every position of the consumer
    pointwise       view                      the view's rule applied to every operand; positions worked out where
                                              it has no strides
    view            anything                  the same elements, read where the view finds them
    any body        gather, scatter           computed at the places that are read
    fold, windows   pointwise, same shape     an epilogue: where the result would be stored
    pointwise       contraction               in the factor that reads it, which tiles are packed from
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .expr import Value, cast, idiv, irem
from .lowered import (
    HERE,
    At,
    Computed,
    Elements,
    Folding,
    Given,
    Lowered,
    Memory,
    NotLowerable,
    Number,
    Read,
    Scatter,
    Staged,
    Table,
    TwoPass,
    Window,
    body_of,
    dims_of,
    folding_of,
)

Own = Callable[[Sequence[Any], list], list[Any]]     # sources of one op among those of the joined one, and its checks


def inline(consumer: Lowered, operand: int, producer: Lowered) -> Lowered:
    """`consumer` with its read number `operand` computed by `producer` instead of loaded."""
    read = consumer.reads[operand]
    if isinstance(read, (Staged, Table)):
        raise NotLowerable(f"{consumer.name}: read {operand} is its own, not a tensor it is given")
    if not isinstance(read, Memory) or read.code != producer.outs[0] or len(producer.outs) != 1:
        raise NotLowerable(f"{consumer.name}: read {operand} is no result of {producer.name}")
    if producer.walk is not None or producer.scatter is not None:
        raise NotLowerable(f"{producer.name}: every element of its result depends on the loops before it")
    if consumer.on_error is not None and producer.on_error is not None:
        raise NotLowerable(f"{consumer.name}, {producer.name}: both check indices, and an error could not say whose")
    # Boxes, and what is said of all tensors read, were those of elements in memory.
    consumer, producer = consumer.but(pieces=None, through=frozenset()), producer.but(
        pieces=None, through=frozenset(), layout=None
    )
    if producer.folding is not None:
        return with_epilogue(consumer, operand, producer)
    producer = flat(producer)
    if consumer.view is not None:
        return seen_through(consumer, producer)
    producer = renamed(producer, f"{read.name}.")
    return (
        aligned(consumer, operand, producer)
        if consumer.aligned and producer.aligned
        else computed(consumer, operand, producer)
    )


def joined_key(consumer: Lowered, operand: int, producer: Lowered, *how: str) -> tuple:
    """What names the joined body."""
    return ("inline", consumer.key, operand, producer.key, producer.outs, len(producer.reads), *how)


def renamed(lowered: Lowered, prefix: str) -> Lowered:
    """The same with reads that no other Lowered names."""
    return lowered.but(reads=tuple([r.but(name=prefix + r.name) for r in lowered.reads]))


def joined_reads(consumer: Lowered, operand: int, inside: Sequence[Any]) -> tuple:
    """The consumer's reads, those of the producer in the place of its result."""
    return (*consumer.reads[:operand], *inside, *consumer.reads[operand + 1 :])


def parted(sources: Sequence[Any], operand: int, count: int, result: Any) -> list[Any]:
    """The consumer's sources, from the joined ones: `made` in the place of `count` of them."""
    return [*sources[:operand], result, *sources[operand + count :]]


# --- bodies in bodies -------------------------------------------------------------------------------------------------


def aligned(consumer: Lowered, operand: int, producer: Lowered) -> Lowered:
    """Both read at the loop position: so does the whole,
    with the producer's operands expanded to the consumer's ranges."""
    dims, count = dims_of(consumer.reads[operand]), len(producer.reads)
    inside = [
        r if isinstance(r, Number) else r.but(dims=tuple([None if d is None else dims_of(r)[d] for d in dims]))
        for r in producer.reads
    ]

    def own(sources: Sequence[Any], _checks: list) -> list[Any]:
        return parted(sources, operand, count, Worked(producer, sources[operand : operand + count]))

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        return body_of(consumer)(at, own(sources, []))

    folding = consumer.folding
    if folding is not None:
        late = folding.after and operand >= len(consumer.reads) - late_reads(consumer)
        after = folding.after + (sum([isinstance(r, Memory) for r in inside]) - 1 if late else 0)
        folding = folded_with(folding, own).but(after=after)
    return consumer.but(
        key=joined_key(consumer, operand, producer), reads=joined_reads(consumer, operand, inside), body=body,
        folding=folding,
    )


def late_reads(lowered: Lowered) -> int:
    """How many of the last reads, numbers included, belong to the epilogue."""
    left, count = folding_of(lowered).after, 0
    for r in reversed(lowered.reads):
        if not left:
            break
        left -= isinstance(r, Memory)
        count += 1
    return count


class Worked:
    """Another op's result at the loop position, worked out only where it is read."""

    def __init__(self, producer: Lowered, sources: Sequence[Any]) -> None:
        self.producer, self.sources, self.code = producer, sources, producer.outs[0]

    def read(self, at: At) -> Value:
        """The element here."""
        return cast(body_of(self.producer)(at, self.sources)[0], self.code)


def computed(consumer: Lowered, operand: int, producer: Lowered) -> Lowered:
    """One of them has places of its own: the producer's element is worked out wherever the consumer reads."""
    if consumer.walk is not None:
        raise NotLowerable(f"{consumer.name}: a walk reads its operand in order, and {producer.name} does not")
    if consumer.folding is not None and isinstance(consumer.folding.fold, TwoPass):
        raise NotLowerable(
            f"{consumer.name}: its elements are read twice, and working {producer.name} out twice would not pay"
        )
    read, count = consumer.reads[operand], len(producer.reads)
    assert isinstance(read, Memory), "a number is no op's result"
    extents = [Number(f"{read.name}.size{d}", "i64", n) for d, n in enumerate(read.sizes)]

    def own(sources: Sequence[Any], checks: list) -> list[Any]:
        inside = sources[operand : operand + count]
        shape = [s.value for s in sources[operand + count : operand + count + len(extents)]]
        return parted(sources, operand, count + len(extents), Computed(producer, inside, shape, read.dims, checks))

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        return body_of(consumer)(at, own(sources, at.checks))

    folding = consumer.folding
    if folding is not None:
        folding = folded_with(folding, own)
    scatter = consumer.scatter
    if scatter is not None:
        scatter = scattered_with(scatter, own)
    return consumer.but(
        key=joined_key(consumer, operand, producer, "computed"),
        reads=joined_reads(consumer, operand, [*producer.reads, *extents]), aligned=False,
        body=None if consumer.body is None else body, scatter=scatter, folding=folding,
        on_error=consumer.on_error or producer.on_error,
    )


def scattered_with(scatter: Scatter, own: Own) -> Scatter:
    """The same scatter where its sources are found among others by `own(sources, checks)`."""

    def writes(at: At, out: Elements, sources: Sequence[Any]) -> tuple[Sequence[Value], Value]:
        return scatter.writes(at, out, own(sources, at.checks))

    def combine(old: Value, new: Value, sources: Sequence[Any]) -> Value:
        unasked: list = []
        result = scatter.combine(old, new, own(sources, unasked))
        assert not unasked, "what a scatter combines with is read at no index of its own"
        return result

    return scatter.but(writes=writes, combine=combine)


def folded_with(folding: Folding, own: Own) -> Folding:
    """The same fold where its sources are found among others by `own(sources, checks)`."""
    epilogue, start, result = folding.epilogue, folding.start, folding.result

    def at(function: Callable[..., Any] | None) -> Any:
        if function is None:
            return None
        return lambda at, sources, *rest: function(at, own(sources, getattr(at, "checks", [])), *rest)

    windows = tuple([(d, Window(at(w.bounds), at(w.whole))) for d, w in folding.windows])
    late = None if epilogue is None else lambda sources, results: epilogue(own(sources, []), results)
    factors = at(folding.factors)
    return folding.but(epilogue=late, start=at(start), result=at(result), windows=windows, factors=factors)


def flat(producer: Lowered) -> Lowered:
    """A body over finer ranges than the dims of its result, which come in the same order, as one over those dims."""
    if producer.folding is not None or tuple(producer.ranges) == tuple(producer.shape):
        return producer
    sizes = [Number(f"flat.n{d}", "i64", n) for d, n in enumerate(producer.ranges)]
    dims = [Number(f"flat.s{d}", "i64", n) for d, n in enumerate(producer.shape)]
    count, rank = len(producer.reads), len(sizes)

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        numbers = [s.value for s in sources[count:]]
        place = at[0]
        for i, n in zip(at[1:], numbers[rank + 1 :], strict=True):
            place = place * n + i
        own = At(unravel(place, numbers[:rank]))
        own.checks = at.checks
        return body_of(producer)(own, sources[:count])

    return producer.but(
        key=("flat", producer.key), ranges=producer.shape, reads=(*producer.reads, *sizes, *dims), body=body
    )


# --- views ------------------------------------------------------------------------------------------------------------


def seen_through(consumer: Lowered, producer: Lowered) -> Lowered:
    """A view of a producer. Where its rule has strides for every operand, they are read in other places;
    else positions are worked out."""
    result = producer.but(
        name=consumer.name, key=joined_key(consumer, 0, producer), ranges=consumer.ranges, shape=consumer.shape
    )
    if producer.aligned:
        try:
            return result.but(
                reads=tuple(
                    [r if isinstance(r, Number) else moved(r, producer.ranges, consumer) for r in producer.reads]
                )
            )
        except RuntimeError:      # as `view` of a transposed operand: no strides make it
            pass
    assert consumer.view is not None, f"{consumer.name} is no view"
    _sizes, strides, offset = consumer.view(producer.shape, row_major(producer.shape), 0)
    given = [
        Number(f"view.{label}{d}", "i64", n)
        for label, numbers in (("n", producer.shape), ("s", strides), ("o", (offset,)))
        for d, n in enumerate(numbers)
    ]
    count, rank = len(producer.reads), len(producer.shape)

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        numbers = [s.value for s in sources[count:]]
        place = numbers[-1]
        for i, stride in zip(at, numbers[rank:-1], strict=True):
            place = place + i * stride
        own = At(unravel(place, numbers[:rank]))
        own.checks = at.checks
        return body_of(producer)(own, sources[:count])

    return result.but(
        key=joined_key(consumer, 0, producer, "places"), reads=(*producer.reads, *given), body=body, aligned=False
    )


def moved(read: Memory, ranges: Sequence[int], view: Lowered) -> Memory:
    """An operand as the view shows it."""
    assert view.view is not None, f"{view.name} is no view"
    sizes, strides, offset = view.view(tuple(ranges), read.along(), read.offset)
    return read.but(sizes=tuple(sizes), strides=tuple(strides), dims=tuple(range(len(sizes))), offset=offset)


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements in order."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step = step * n
    return tuple(reversed(strides))


def unravel(place: Value, sizes: Sequence[Value]) -> list[Value]:
    """The position of element number `place`."""
    position: list[Value] = []
    for d in range(len(sizes) - 1, -1, -1):
        position.append(irem(place, sizes[d]) if d else place)
        place = idiv(place, sizes[d]) if d else place
    position.reverse()
    return position


# --- behind a fold ----------------------------------------------------------------------------------------------------


def with_epilogue(consumer: Lowered, operand: int, producer: Lowered) -> Lowered:
    """A pointwise consumer computed where the fold's result would be stored."""
    plain = (
        consumer.aligned
        and consumer.folding is None
        and consumer.walk is None
        and consumer.scatter is None
        and consumer.view is None
    )
    folding, ranges = folding_of(producer), producer.ranges
    # else results lie beside each other in one position, or dims of the result are one range
    own_dims = (
        tuple([n for d, n in enumerate(ranges) if d not in folding.reduced]),
        tuple([1 if d in folding.reduced else n for d, n in enumerate(ranges)]),
    )
    if not plain or tuple(producer.shape) not in own_dims or tuple(consumer.ranges) != tuple(producer.shape):
        raise NotLowerable(
            f"{consumer.name}: behind the fold {producer.name} only a pointwise op over the same shape takes no further"
            " loop"
        )
    kept = [d for d in range(len(ranges)) if d not in folding.reduced]
    place = (
        {d: d for d in range(len(ranges))}
        if len(producer.shape) == len(ranges)
        else dict(zip(kept, range(len(kept)), strict=True))
    )
    others = [r for k, r in enumerate(consumer.reads) if k != operand]
    late: list[Read] = []
    for r in others:
        if isinstance(r, Number):
            late.append(r.but(name=f"then{len(producer.reads)}.{r.name}"))
        else:
            late.append(
                r.but(
                    name=f"then{len(producer.reads)}.{r.name}",
                    dims=tuple([None if d in folding.reduced else dims_of(r)[place[d]] for d in range(len(ranges))]),
                )
            )
    before, code, first = len(producer.reads), producer.outs[0], folding.epilogue
    own_factors = folding.factors

    def body(at: At, sources: Sequence[Any]) -> Sequence[Value]:
        return body_of(producer)(at, sources[:before])

    def factors(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        assert own_factors is not None, "asked for only where the fold has factors"
        return own_factors(at, sources[:before])

    def epilogue(sources: Sequence[Any], results: Sequence[Value]) -> Sequence[Value]:
        result = results if first is None else first(sources[:before], results)
        own = [*sources[before:]]
        own.insert(operand, Given(cast(result[0], code)))
        return body_of(consumer)(HERE, own)

    after = folding.after + sum([isinstance(r, Memory) for r in late])
    return producer.but(
        name=f"{producer.name}_{consumer.name}", key=joined_key(consumer, operand, producer, "epilogue"),
        shape=consumer.shape, outs=consumer.outs, reads=(*producer.reads, *late), body=body,
        folding=folding.but(epilogue=epilogue, after=after, factors=None if own_factors is None else factors),
    )


__all__ = ["inline"]
