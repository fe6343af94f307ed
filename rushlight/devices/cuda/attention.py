"""Attention by cuDNN: products, mask and softmax as one graph, so that scores never reach memory.

Enters: query, key and value [batch, heads, length, width] of a half type, with rows of whole 16 bytes; fewer heads of
key and value are shared by groups of query heads; a mask says which scores count, or is added to them. Leaves: the
result and, per query, the logarithm of its summed exponentials in single precision; backward, the three gradients.
Answers NotImplemented for what the library does not do: callers then hold all scores.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ..._C import Tensor
from . import single_query
from .cudnn import Graph, GraphCache, Prepared, find, installed
from .driver import Driver

WIDEST = 256
LOWEST = {_C.float16: -6e4, _C.bfloat16: -1e30, _C.float32: -1e30}      # what stands for -inf, which has no difference
Layout = tuple[tuple[int, ...], tuple[int, ...]]     # sizes and strides


def fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether these tensors can go to the library."""
    return query.shape[2] > 1 and is_read_whole(query, key, value) and find() is not None


def is_read_whole(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether they are of a half type, in rows of whole 16 bytes."""
    return (
        query.dtype in (_C.float16, _C.bfloat16)
        and query.shape[3] % 8 == 0
        and value.shape[3] % 8 == 0
        and 0 < query.shape[3] <= WIDEST
        and 0 < value.shape[3] <= WIDEST
        and all(readable(t) for t in (query, key, value))
    )


def readable(t: Tensor) -> bool:
    """Whether rows lie whole in memory, at 16 bytes."""
    *outer, last = t.stride()
    return last == 1 and all(s % 8 == 0 for s in outer) and t.data_ptr() % 16 == 0


def aligned(t: Tensor) -> Any:
    """The tensor, or a copy that can be read."""
    return t if readable(t) else t.contiguous()


def layout(t: Tensor) -> Layout:
    return tuple(t.shape), tuple(t.stride())


def exchanged(of: Layout) -> Layout:
    """Rows and columns of each matrix exchanged."""
    (*a, n, m), (*b, s, t) = of
    return (*a, m, n), (*b, t, s)


def added(mask: Tensor | None, query: Tensor, keys: int) -> tuple[Any, Any]:
    """A mask as numbers added to the scores, in rows of whole 16 bytes, and which queries see any key at all (None: all
    do)."""
    if mask is None:
        return None, None
    sizes = (1,) * (4 - mask.ndim) + tuple(mask.shape)
    sizes = (*sizes[:2], query.shape[2], keys)
    counts = mask if mask.dtype is _C.bool else mask > -math.inf
    kind = query.dtype if mask.dtype is _C.bool else mask.dtype
    room = _C.empty((*sizes[:3], -(-keys // 8) * 8), None, kind, query.device)
    bias = room[..., :keys]
    if mask.dtype is _C.bool:
        bias.zero_()
        bias.masked_fill_(~mask, LOWEST[kind])
    else:
        bias.copy_(mask.clamp(min=LOWEST[kind]))
    return bias, counts.any(-1, keepdim=True)


def named(seeds: Any) -> list[Any]:
    """The two numbers that name noise, where there is some: each at 16 bytes."""
    return [] if seeds is None else [seeds[:1], seeds[2:3]]


def forward(
    driver: Driver, outs: tuple, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float,
    mask: Any = None, keep: float = 1.0, seeds: Any = None,
) -> Any:
    """Fill (result, logarithms). A single query has kernels of its own. With `seeds`, which name the noise, weights are
    kept with probability `keep`."""
    if seeds is None and query.shape[2] == 1 and not causal and is_read_whole(query, key, value):
        served = single_query.forward(driver, outs, query, key, value, scale, mask)
        return outs if served else NotImplemented
    if not fits(query, key, value) or not readable(outs[0]):
        return NotImplemented
    bias, seen = added(mask, query, key.shape[2])
    prepared = forward_graph(
        query.device, query.dtype.code, layout(query), layout(key), layout(value), layout(outs[0]), causal, scale,
        None if bias is None else (bias.dtype.code, layout(bias)), keep,
    )
    if prepared is None:
        return NotImplemented
    prepared.run(query, key, value, *([] if bias is None else [bias]), *named(seeds), *outs)
    if seen is not None:
        outs[0].masked_fill_(~seen, 0.0)
    return outs


def backward(
    outs: tuple, grad: Any, query: Any, key: Any, value: Any, out: Any, log: Any, causal: bool, scale: float,
    mask: Any = None, keep: float = 1.0, seeds: Any = None,
) -> Any:
    """Fill the gradients of query, key and value. As many heads of key as of query."""
    grad, out = aligned(grad), aligned(out)
    if not fits(query, key, value) or not all(readable(t) for t in outs):
        return NotImplemented
    bias, seen = added(mask, query, key.shape[2])
    if seen is not None:      # queries that see nothing have no part in any gradient
        grad = aligned(grad.masked_fill(~seen, 0.0))
    prepared = backward_graph(
        query.device, query.dtype.code, layout(query), layout(key), layout(value), layout(out), layout(grad),
        tuple([layout(t) for t in outs]), causal, scale, None if bias is None else (bias.dtype.code, layout(bias)),
        keep,
    )
    if prepared is None:
        if all(t.is_contiguous() for t in outs):
            return NotImplemented
        dense = tuple([_C.empty(tuple(t.shape), None, t.dtype, t.device) for t in outs])
        if backward(dense, grad, query, key, value, out, log, causal, scale, mask, keep, seeds) is NotImplemented:
            return NotImplemented
        for target, source in zip(outs, dense, strict=True):
            target.copy_(source)
        return outs
    space = _C.empty((*query.shape[:3], 1), None, _C.float32, query.device)
    sums = _C.empty(tuple(query.shape), None, _C.float32, query.device)
    sums.zero_()      # blocks add to it
    added_to = [] if bias is None else [bias]
    prepared.run(query, key, value, *added_to, *named(seeds), out, grad, log, space, sums, *outs)
    return outs


@GraphCache
def forward_graph(
    device: _C.device, code: str, query: Layout, key: Layout, value: Layout, out: Layout, causal: bool, scale: float,
    bias: tuple[str, Layout] | None, keep: float,
) -> Prepared | None:
    """The graph of a geometry; None where the library has no engine for it."""
    g = Graph(installed())
    (batch, heads, length, _), keys = query[0], key[0][2]
    scores, row = (batch, heads, length, keys), (batch, heads, length, 1)
    q, k, v = g.tensor(code, *query), g.tensor(code, *exchanged(key)), g.tensor(code, *value)
    more = None if bias is None else g.tensor(bias[0], *bias[1])
    seeds = numbers(g, keep)
    result, log = g.tensor(code, *out), g.tensor("f32", row)

    def virtual(sizes: tuple[int, ...] = scores, of: str = "f32") -> Any:
        return g.tensor(of, sizes, virtual=True)

    s = g.point("mul", g.matmul(q, k, virtual()), virtual(), g.value(scale))
    if more is not None:
        s = g.point("add", s, virtual(), more)
    if causal:
        s = below_diagonal(g, s, scores)
    top = g.reduce("max", s, virtual(row))
    e = g.point("exp", g.point("sub", s, virtual(), top), virtual())
    total = g.reduce("sum", e, virtual(row))
    g.point("add", top, log, g.point("log", total, virtual(row)))
    if seeds is None:
        weights = g.point("div", e, virtual(of=code), total)
    else:
        noise = g.chosen(keep, *seeds, virtual())
        weights = g.point("mul", g.point("div", e, virtual(), total), virtual(), noise)
        weights = g.point("mul", weights, virtual(of=code), g.value(1.0 / keep))
    g.matmul(weights, v, result)
    return prepared(g, device)


def numbers(g: Graph, keep: float) -> tuple[Any, Any] | None:
    """What names the noise of dropout, where there is dropout."""
    return None if keep == 1.0 else (g.tensor("i64", (1, 1, 1, 1)), g.tensor("i64", (1, 1, 1, 1)))


def below_diagonal(g: Graph, s: Any, scores: tuple[int, ...]) -> Any:
    """Scores of keys behind the query become -inf."""
    row = g.point("index", s, g.tensor("i32", scores, virtual=True), axis=2)
    col = g.point("index", s, g.tensor("i32", scores, virtual=True), axis=3)
    seen = g.point("ge", row, g.tensor("b1", scores, virtual=True), col)
    return g.point("select", s, g.tensor("f32", scores, virtual=True), g.value(-math.inf), t=seen)


@GraphCache
def backward_graph(
    device: _C.device, code: str, query: Layout, key: Layout, value: Layout, out: Layout, grad: Layout,
    outs: tuple[Layout, ...], causal: bool, scale: float, bias: tuple[str, Layout] | None, keep: float,
) -> Prepared | None:
    """The graph of the gradients of a geometry."""
    g = Graph(installed())
    (batch, heads, length, width), keys, wide = query[0], key[0][2], value[0][3]
    scores, row = (batch, heads, length, keys), (batch, heads, length, 1)
    q, k, v = g.tensor(code, *query), g.tensor(code, *exchanged(key)), g.tensor(code, *exchanged(value))
    more = None if bias is None else g.tensor(bias[0], *bias[1])
    seeds = numbers(g, keep)
    o, d_o, log = g.tensor(code, *out), g.tensor(code, *grad), g.tensor("f32", row)
    inner, sums = g.tensor("f32", row), g.tensor("f32", query[0])
    d_q, d_k, d_v = [g.tensor(code, *one) for one in outs]
    factor = g.value(scale)

    def virtual(sizes: tuple[int, ...] = scores) -> Any:
        return g.tensor("f32", sizes, virtual=True)

    def flipped(x: Any) -> Any:
        sizes, strides = exchanged((scores, (heads * length * keys, length * keys, keys, 1)))
        return g.turn(x, g.tensor(code, sizes, strides, virtual=True))

    products = g.point("mul", d_o, virtual((batch, heads, length, wide)), o)
    g.point("mul", g.reduce("sum", products, virtual(row)), inner, g.value(keep))
    s = g.point("mul", g.matmul(q, k, virtual()), virtual(), factor)
    if more is not None:
        s = g.point("add", s, virtual(), more)
    s = g.point("sub", s, virtual(), log)
    if causal:
        s = below_diagonal(g, s, scores)
    weights = kept = g.point("exp", s, virtual())
    if seeds:
        noise, less = g.chosen(keep, *seeds, virtual()), g.value(1.0 / keep)
        kept = g.point("mul", g.point("mul", weights, virtual(), noise), virtual(), less)
    g.matmul(flipped(kept), d_o, d_v)
    slopes = g.matmul(d_o, v, virtual())
    if seeds:
        slopes = g.point("mul", slopes, virtual(), noise)
    slopes = g.point("sub", slopes, virtual(), inner)
    slopes = g.point("mul", slopes, virtual(), weights)
    if seeds:
        slopes = g.point("mul", slopes, virtual(), less)
    slopes = g.point("mul", slopes, virtual(), factor)
    g.matmul(flipped(slopes), q, d_k)
    rows = g.turn(k, g.tensor("f32", (batch, key[0][1], keys, width), key[1], virtual=True))
    g.matmul(slopes, rows, sums)
    g.point("identity", sums, d_q)
    return prepared(g, device)


def prepared(g: Graph, device: _C.device) -> Prepared | None:
    try:
        return g.prepare(device)
    except RuntimeError:
        return None
