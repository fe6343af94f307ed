"""Generated loops of blocked attention: what happens to rows of scores between two matrix products.

Enters: the element type, whether attention is causal, the mask's type. Leaves: nests over rows of a block. A block of scores
is [rows, cols] with a row stride; row r of a causal block sees its first `first + r` columns. Refuses nothing: callers
choose among these by what the call needs.
"""

from __future__ import annotations

import math

from ..loops import expr
from ..loops.expr import Value, cast, const, load, var
from ..loops.nest import For, If, Local, Nest, Reduce, Statement, Store, operands, pointwise_nest, reduction, rows

ZERO = const(0, "i64")
ROW = var("i")


def scores_at(code: str, mask: str | None, mask_operand: int, j: Value) -> Value:
    """The score at column `j` of the present row, mask included."""
    score = load(0, ROW * var("row") + j, code)
    if mask is None:
        return score
    extra = load(mask_operand, ROW * var("mask_row") + j * var("mask_col"), mask)
    return expr.select(extra, score, const(-math.inf, code)) if mask == "b1" else score + cast(extra, code)


def visible(causal: bool) -> Local:
    """How many columns of the row count."""
    seen = expr.max_(ZERO, expr.min_(var("cols"), var("first") + ROW)) if causal else var("cols")
    return Local("limit", seen)


def total(name: str, init: Value, value: Value, body: list[Statement], is_max: bool = False) -> Reduce:
    """Sum (or maximum) of `value` over the columns that count."""
    fold = expr.max_ if is_max else expr.add
    return reduction(f"{name}.j", ZERO, var("limit"), [name], [init], lambda acc: [fold(acc[0], value)], lambda a, b: [fold(a[0], b[0])], body=body)


SHARED = ("cols", "row", "first", "mask_row", "mask_col")


def forward_rows(code: str, causal: bool, mask: str | None, online: bool) -> Nest:
    """Scores to exp(score - maximum), with the rows' maxima and sums.

    Operands: scores, maxima, sums, then the result so far where blocks of columns follow each other (online), then the mask.
    Online, what earlier blocks summed is rescaled to the new maximum.
    """
    codes = [code, code, code, *([code] if online else []), *([mask] if mask else [])]
    place = len(codes) - 1
    top, low = var("top", code), const(-math.inf, code)
    biggest = total("top", low, scores_at(code, mask, place, var("top.j")), [], is_max=True)
    newest = expr.max_(load(1, ROW, code), top) if online else top
    safe = Local("safe", expr.select(expr.eq(newest, low), const(0, code), newest))
    power = expr.call("exp", scores_at(code, mask, place, var("sum.j")) - var("safe", code))
    sum_ = total("sum", const(0, code), var("e", code), [Local("e", power), Store(0, ROW * var("row") + var("sum.j"), var("e", code))])
    body: list[Statement] = [visible(causal), biggest, safe]
    if online:
        shrink = expr.call("exp", load(1, ROW, code) - var("safe", code))
        at = ROW * var("out_row") + var("c")
        rescale = For("c", ZERO, var("width"), (Store(3, at, load(3, at, code) * var("shrink", code)),), vector=True)
        body += [Local("newest", newest), Local("shrink", shrink), sum_, Store(1, ROW, var("newest", code))]
        body += [Store(2, ROW, load(2, ROW, code) * var("shrink", code) + var("sum", code)), If(expr.ne(var("shrink", code), const(1, code)), (rescale,))]
    else:
        body += [sum_, Store(1, ROW, top), Store(2, ROW, var("sum", code))]
    body += cleared(code, causal, 0)
    return Nest("attention_rows", operands(codes, []), (*SHARED, "out_row", "width"), rows(*body))


def cleared(code: str, causal: bool, *targets: int) -> list[Statement]:
    """Zeros in the columns a causal row does not see."""
    if not causal:
        return []
    at = ROW * var("row") + var("z")
    return [For("z", var("limit"), var("cols"), tuple(Store(t, at, const(0, code)) for t in targets), vector=True)]


def begin_rows(code: str) -> Nest:
    """Nothing summed yet. Operands: result, maxima, sums."""
    clear = For("c", ZERO, var("width"), (Store(0, ROW * var("out_row") + var("c"), const(0, code)),), vector=True)
    return Nest("attention_begin", operands([], [code, code, code]), ("width", "out_row"), rows(clear, Store(1, ROW, const(-math.inf, code)), Store(2, ROW, const(0, code))))


def finish_rows(code: str) -> Nest:
    """Divide by the sums; a row that saw nothing stays 0. Operands: result, maxima, sums, logarithms of the summed exponentials."""
    sum_ = load(2, ROW, code)
    nothing = Local("nothing", expr.eq(sum_, const(0, code)))
    inverse = Local("inverse", expr.select(var("nothing", "b1"), const(0, code), const(1, code) / sum_))
    at = ROW * var("out_row") + var("c")
    scale = For("c", ZERO, var("width"), (Store(0, at, load(0, at, code) * var("inverse", code)),), vector=True)
    log = expr.select(var("nothing", "b1"), const(0, code), load(1, ROW, code) + expr.call("log", sum_))
    return Nest("attention_finish", operands([code, code, code], [code]), ("width", "out_row"), rows(nothing, inverse, scale, Store(3, ROW, log)))


def inner_rows(code: str) -> Nest:
    """Per row, the inner product of result and gradient. Operands: gradient, result, products."""
    x = load(0, ROW * var("grad_row") + var("dot.j"), code) * load(1, ROW * var("out_row") + var("dot.j"), code)
    dot = reduction("dot.j", ZERO, var("width"), ["dot"], [const(0, code)], lambda acc: [acc[0] + x], lambda a, b: [a[0] + b[0]])
    return Nest("attention_inner", operands([code, code], [code]), ("width", "grad_row", "out_row"), rows(dot, Store(2, ROW, var("dot", code))))


def backward_rows(code: str, causal: bool, mask: str | None) -> Nest:
    """Scores to weights, gradients of weights to gradients of scores.

    Operands: scores, gradients of the weights, logarithms of the summed exponentials, inner products, mask.
    """
    codes = [code, code, code, code, *([mask] if mask else [])]
    j = var("j")
    at = ROW * var("row") + j
    weight = expr.call("exp", scores_at(code, mask, 4, j) - var("log", code))
    made = (Local("p", weight), Store(1, at, var("p", code) * (load(1, at, code) - var("inner", code))), Store(0, at, var("p", code)))
    loop = For("j", ZERO, var("limit"), made, vector=True)
    body = [visible(causal), Local("log", load(2, ROW, code)), Local("inner", load(3, ROW, code)), loop, *cleared(code, causal, 0, 1)]
    return Nest("attention_rows_backward", operands(codes, []), SHARED, rows(*body))


def zero_rows(code: str) -> Nest:
    """Rows of zeros."""
    clear = For("c", ZERO, var("width"), (Store(0, ROW * var("out_row") + var("c"), const(0, code)),), vector=True)
    return Nest("attention_zero", operands([], [code]), ("width", "out_row"), rows(clear))


def copy_rows(code: str) -> Nest:
    """Rows copied as they are; strides in bytes, as all pointwise kernels take them."""
    return pointwise_nest("copy", [code], [code], [expr.arg(0, code)])
