"""Attention over keys and values that lie in pages, and what serves such models beside it: turned pairs by position.

Enters: queries [tokens, heads, width], each of a sequence and at a position in it; pages of keys and of values [pages,
positions of a page, own heads, width], shared by groups of query heads; tables [sequences, most pages] of the pages
that a sequence's positions lie in, in order. Leaves: for each query the values of its sequence up to its own position,
weighed by softmax(query @ key^T * scale); zeros for a token at a negative position, which belongs to nothing. Refuses:
derivatives, sequences and pages that do not exist. On devices with an attention of their own over pages that one
serves,

    _paged_attention(out, query, keys, values, tables, rows, positions, window, scale, cap)

which fills its first argument or returns False; elsewhere keys and values are gathered.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...loops.expr import cast, const, idiv, lt, select
from ...loops.lowered import ZERO, compute_code
from ...op import Library, Spec, find_op
from ...op.extern import own_function
from ...op.indexed import Indexed
from ...op.step import Step
from ...planners.attention.paged import LONGEST_PAGE, WIDEST, paged_schedule
from .scaled import repeat_heads

NAME = "_paged_attention"


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"{NAME}: {what}")


class PagedAttention(Library):
    """Attention of single tokens over the pages of their sequences. With a `window` above 0 a token sees as many of the
    last positions, its own among them. With a `cap` above 0 scores are bent so that they stay below it: cap *
    tanh(score / cap)."""

    schema = (
        f"{NAME}(Tensor query, Tensor keys, Tensor values, Tensor tables, Tensor rows, Tensor positions, *, int"
        " window=0, float? scale=None, float cap=0.) -> Tensor"
    )
    batch = "loop"
    function = method = out = differentiable = False

    def meta(self, query, keys, values, tables, rows, positions, window, scale, cap):
        expect(query.ndim == 3, f"expected query [tokens, heads, width], got shape {list(query.shape)}")
        expect(
            keys.ndim == 4 and keys.shape == values.shape,
            f"expected keys and values of one shape [pages, positions, heads, width], got {list(keys.shape)} and"
            f" {list(values.shape)}",
        )
        expect(
            query.dtype is keys.dtype is values.dtype and query.dtype.is_floating_point,
            f"expected one floating dtype, got {query.dtype.name}, {keys.dtype.name} and {values.dtype.name}",
        )
        own, width = keys.shape[2:]
        expect(
            width == query.shape[2] and own and query.shape[1] % own == 0,
            f"query {list(query.shape)} and keys {list(keys.shape)} do not fit together",
        )
        expect(
            tables.ndim == 2 and rows.ndim == positions.ndim == 1 and
            rows.shape[0] == positions.shape[0] == query.shape[0],
            f"expected tables [sequences, pages] and a row and a position of each token, got {list(tables.shape)},"
            f" {list(rows.shape)} and {list(positions.shape)}",
        )
        wrong = [t.dtype.name for t in (tables, rows, positions) if t.dtype is not _C.int64]
        expect(not wrong, f"expected tables, rows and positions of dtype int64, got {wrong}")
        expect(window >= 0, f"window must not be negative, got {window}")
        expect(0 <= cap < math.inf, f"cap must be 0 or a number above it, got {cap}")
        return Spec(tuple(query.shape), query.dtype)

    def is_planned(self, args):
        query, keys = args[:2]
        if query.device.type != "cpu":
            return own_function(NAME, query.device) is not None
        whole = all(t.stride(-1) == 1 for t in args[:3]) and all(t._is_contiguous() for t in args[3:6])
        return whole and query.shape[2] <= WIDEST and keys.shape[1] <= LONGEST_PAGE and 0 not in keys.shape

    def launches(self, args):
        query, keys, values, tables, _, _, window, scale, cap = args
        sizes = (*query.shape[:2], keys.shape[2], query.shape[2], keys.shape[1], keys.shape[0], *tables.shape)
        strides = (*query.stride()[:2], *keys.stride()[:3], *values.stride()[:3])
        factor = 1.0 / math.sqrt(query.shape[2]) if scale is None else scale
        return paged_schedule(query.dtype.code, sizes, strides, window, factor, cap)

    def steps(self, args, room):
        query, window, scale, cap = args[0], *args[6:]
        if query.device.type == "cpu":
            return super().steps(args, room)
        own = own_function(NAME, query.device)
        factor = 1.0 / math.sqrt(query.shape[2]) if scale is None else scale

        def run(*tensors: Any) -> None:
            if not own(tensors[-1], *tensors[:-1], window, factor, cap):
                tensors[-1].copy_(gathered(*tensors[:-1], window, factor, cap))

        return [Step(run, list(range(room.next)), [], 1, 1, -1)]

    def on_error(self, args):
        pages, sequences, most = args[1].shape[0], *args[3].shape
        block = args[1].shape[1]

        def on_error(code: int) -> None:
            if code == 1:
                what = f"a row must be in [0, {sequences}) and a position below {most * block}, which its table has"
            else:
                what = f"a table names a page that is not in [0, {pages})"
            raise IndexError(f"{NAME}: {what}")

        return on_error

    def run(self, query, keys, values, tables, rows, positions, window, scale, cap):
        if 0 in query.shape or query.device.type == "meta":
            return query.new_empty(query.shape)
        factor = 1.0 / math.sqrt(query.shape[2]) if scale is None else scale
        return gathered(query, keys, values, tables, rows, positions, window, factor, cap)


def gathered(
    query: Any, keys: Any, values: Any, tables: Any, rows: Any, positions: Any, window: int, scale: float,
    cap: float = 0.0,
) -> Any:
    """The same by other ops, with the keys and values of every token side by side."""
    (tokens, _, width), (_, block, own, _) = query.shape, keys.shape
    code = compute_code(query.dtype.code)
    wide = query.dtype if code == query.dtype.code else _C.float32
    table = tables.index_select(0, rows.clamp(min=0))
    if 0 in (*keys.shape, table.shape[1]):
        return query.new_zeros(query.shape)
    table = table.clamp(min=0) if query.device.type != "cpu" else table
    length = table.shape[1] * block

    def of(pages: Any) -> Any:
        found = pages.index_select(0, table.reshape(-1)).reshape(tokens, length, own, width).to(wide)
        return repeat_heads(query.unsqueeze(2), found.transpose(1, 2))

    places = find_op("arange")(length, device=query.device)
    ends = positions.unsqueeze(1)
    seen = places <= ends
    if window > 0:
        seen = seen & (places > ends - window)
    scores = (query.to(wide).unsqueeze(2) * scale) @ of(keys).transpose(-2, -1)
    scores = (scores / cap).tanh() * cap if cap else scores
    weights = find_op("_safe_softmax")(scores.masked_fill(~seen.reshape(tokens, 1, 1, length), -math.inf), -1)
    return (weights @ of(values)).squeeze(2).to(query.dtype)


class Rotated(Indexed):
    """Pairs of elements of `input` [tokens, heads, width], half a turned part apart, turned by what `cosines` and
    `sines` [positions, turned part] have at each token's position; elements behind that part stay."""

    schema = "_rotated(Tensor input, Tensor cosines, Tensor sines, Tensor positions) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, input, cosines, sines, positions):
        if input.ndim != 3 or cosines.ndim != 2 or cosines.shape != sines.shape or positions.ndim != 1:
            raise RuntimeError(
                "_rotated: expected input [tokens, heads, width], tables [positions, turned part] and positions"
                f" [tokens], got {list(input.shape)}, {list(cosines.shape)}, {list(sines.shape)} and"
                f" {list(positions.shape)}"
            )
        if positions.shape[0] != input.shape[0] or cosines.shape[1] > input.shape[2] or cosines.shape[1] % 2:
            raise RuntimeError(
                f"_rotated: input {list(input.shape)}, tables {list(cosines.shape)} and positions"
                f" {list(positions.shape)} do not fit together"
            )
        return Spec(tuple(input.shape), input.dtype)

    def loops(self, at, input, cosines, sines, positions):
        token, head, k = at
        place = at.bounded(positions[token], cosines.shape[0], dim=0)
        turned = cosines.shape[1]
        half = idiv(turned, const(2, "i64"))
        lower, inside = lt(k, half), lt(k, turned)
        other = select(inside, select(lower, k + half, k - half), k)
        angle = select(inside, k, ZERO)
        own = input[token, head, k]
        code = compute_code(own.dtype)
        y = input[token, head, other]
        x, y, c, s = (cast(v, code) for v in (own, y, cosines[place, angle], sines[place, angle]))
        result = x * c + select(lower, -y, y) * s
        return cast(select(inside, result, x), own.dtype)

    def index_error(self, index: int, dim: int, args: tuple) -> Exception:
        return IndexError(f"_rotated: position {index} is beyond the {args[1].shape[0]} that tables have")
