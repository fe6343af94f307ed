"""Trigonometric functions and their inverses as primitives, for every finite argument.

Arguments are reduced by multiples of pi/2. Up to a limit pi/2 is subtracted in three parts with fused
multiply-adds; beyond it (`select` marked rare) the argument is multiplied by the bits of 2/pi that matter, taken
from a table, so sin(1e300) is as good as sin(1).
"""

from __future__ import annotations

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import (
    Value,
    abs_,
    and_,
    bitcast,
    cast,
    const,
    copysign,
    eq,
    fma,
    ge,
    gt,
    lt,
    max_,
    min_,
    ne,
    neg,
    rint,
    select,
    shl,
    shr,
    sqrt,
    table as lookup,
    xor,
)
from rushlight.loops.math.exponential import nearest_integer
from rushlight.loops.pairs import (
    INTEGER,
    Pair,
    horner,
    like,
    pair_add,
    pair_divide,
    pair_divide_any,
    pair_multiply,
    power_of_two,
    quick_sum,
    two_product,
    two_sum,
)

# Up to here n * (pi/2 in three parts) leaves r accurate even next to a multiple of pi/2.
SIMPLE_LIMIT = {"f32": 2.0**16, "f64": 2.0**29}


def reduce_simple(x: Value, with_tail: bool = False) -> tuple[Value, Value, Value]:
    """(r, tail, quadrant) with x = quadrant * pi/2 + r + tail, for |x| below the limit; f32 may do without a tail."""
    one, two, three = (like(x, -part) for part in table.HALF_PI[x.dtype])
    n, k = nearest_integer(x, table.TWO_OVER_PI[x.dtype][0])
    exact = fma(n, one, x)
    if x.dtype == "f32" and not with_tail:
        return fma(n, three, fma(n, two, exact)), like(x, 0), k
    product, lost = two_product(n, two)
    r, tail = two_sum(exact, product)
    return *quick_sum(r, tail + fma(n, three, lost)), k


def reduce_exact(x: Value) -> tuple[Value, Value, Value]:
    """The same for any finite x above the limit, x positive: the product with 2/pi, modulo 4, in exact pieces."""
    wide = cast(x, "f64")
    # m = x / 2**(32 k) is an integer, so 2/pi * 2**(32 k) may be reduced modulo 4 in advance.
    k = shr(bitcast(wide, "i64"), 52) - (1023 + 52) >> 5
    k = max_(const(-2, "i64"), min_(const(30, "i64"), k))
    m = wide * power_of_two(shl(neg(k), 5), "f64")
    parts = [table.TURNS[f"part{j}"] for j in range(3 if x.dtype == "f32" else 4)]
    turn = [lookup(k + 2, column, "f64") for column in parts]
    (h0, e0), (h1, e1), (h2, e2) = (two_product(m, part) for part in turn[:3])
    # These three reach above 4; only their remainders count.
    total, lost = two_sum(_modulo_four(h0), _modulo_four(e0))
    total, more = two_sum(total, _modulo_four(h1))
    n = rint(total)
    head, tail = total - n, fma(m, turn[3], e2) if x.dtype == "f64" else e2
    for piece in (e1, lost, more, h2):
        head, rest = two_sum(head, piece)
        tail = tail + rest
    half_pi, beyond, _ = table.HALF_PI["f64"]
    r, tail = pair_multiply(quick_sum(head, tail), (like(wide, half_pi), like(wide, beyond)))
    quadrant = cast(n, INTEGER[x.dtype])
    if x.dtype == "f32":
        short = cast(r, "f32")
        return short, cast(r - cast(short, "f64"), "f32"), quadrant
    return r, tail, quadrant


def _modulo_four(x: Value) -> Value:
    return x - rint(x * 0.25) * 4


def reduce_far(x: Value) -> tuple[Value, Value, Value]:
    """`reduce_exact` for either sign; an infinity gives NaN."""
    size = abs_(x)
    r, tail, k = reduce_exact(size)
    r = select(eq(size, float("inf")), like(x, float("nan")), r)
    back = lt(x, 0)
    return select(back, neg(r), r), select(back, neg(tail), tail), select(back, neg(k), k)


def is_far(x: Value) -> Value:
    """Whether |x| needs `reduce_far`; almost never true."""
    return gt(abs_(x), SIMPLE_LIMIT[x.dtype])


def sine_kernel(r: Value, tail: Value) -> Value:
    """sin(r + tail), |r| <= pi/4."""
    z = r * r
    poly = horner(z, table.SIN[r.dtype])
    if r.dtype == "f32":
        return fma(r * z, poly, r)
    return r + (fma(r * z, poly, fma(z * -0.5, tail, tail)))


def cosine_kernel(r: Value, tail: Value) -> Value:
    """cos(r + tail), |r| <= pi/4."""
    z = r * r
    poly = horner(z, table.COS[r.dtype])
    if r.dtype == "f32":
        return fma(z, fma(z, poly, like(r, -0.5)), like(r, 1))
    half = z * 0.5
    head = 1 - half
    return head + (((1 - head) - half) + fma(z * z, poly, neg(r * tail)))


def _turn(value: Value, quadrant: Value, bit: int) -> Value:
    """`value`, negated where the bit of the quadrant is set: the bit moved onto the sign."""
    integer = INTEGER[value.dtype]
    width = 32 if integer == "i32" else 64
    sign = shl(quadrant & (1 << bit), width - 1 - bit)
    return bitcast(xor(bitcast(value, integer), sign), value.dtype)


def sine_from(r: Value, tail: Value, k: Value) -> Value:
    odd = ne(k & 1, 0)
    return _turn(select(odd, cosine_kernel(r, tail), sine_kernel(r, tail)), k, 1)


def cosine_from(r: Value, tail: Value, k: Value) -> Value:
    odd = ne(k & 1, 0)
    return _turn(select(odd, sine_kernel(r, tail), cosine_kernel(r, tail)), k + 1, 1)


@expansion("sin")
def sin(x: Value) -> Value:
    # sin(-0.0) is -0.0, which r = x - 0 * pi/2 loses.
    near = select(eq(x, 0), x, sine_from(*reduce_simple(x)))
    return select(is_far(x), sine_from(*reduce_far(x)), near, rare=True)


@expansion("cos")
def cos(x: Value) -> Value:
    return select(is_far(x), cosine_from(*reduce_far(x)), cosine_from(*reduce_simple(x)), rare=True)


def sine_pair(r: Value, tail: Value) -> Pair:
    z = r * r
    return quick_sum(r, fma(r * z, horner(z, table.SIN[r.dtype]), fma(z * -0.5, tail, tail)))


def cosine_pair(r: Value, tail: Value) -> Pair:
    z, lost = two_product(r, r)
    half = z * 0.5
    head = 1 - half
    rest = ((1 - head) - half) + fma(z * z, horner(z, table.COS[r.dtype]), neg(fma(lost, like(r, 0.5), r * tail)))
    return quick_sum(head, rest)


@expansion("tan")
def tan(x: Value) -> Value:
    near = select(eq(x, 0), x, tangent_from(*reduce_simple(x, with_tail=True)))
    return select(is_far(x), tangent_from(*reduce_far(x)), near, rare=True)


def tangent_from(r: Value, tail: Value, k: Value) -> Value:
    sine, cosine = sine_pair(r, tail), cosine_pair(r, tail)
    odd = ne(k & 1, 0)
    top = select(odd, neg(cosine[0]), sine[0]), select(odd, neg(cosine[1]), sine[1])
    down = select(odd, sine[0], cosine[0]), select(odd, sine[1], cosine[1])
    head, rest = pair_divide(top, down)
    return head + rest


# Inverses


def atan_pair(t: Value, tail: Value) -> Pair:
    """atan(t + tail), |t| <= tan(pi/8), as a pair."""
    z = t * t
    return quick_sum(t, fma(t * z, horner(z, table.ATAN[t.dtype]), tail * (1 - z)))


def atan_of_quotient(y: Value, x: Value) -> Pair:
    """atan(y / x) for y, x >= 0, not both 0 or both inf, as a pair."""
    swap = gt(y, x)
    large, small = select(swap, y, x), select(swap, x, y)
    # q = small / large in [0, 1]; above tan(pi/8) use atan q = pi/4 + atan((q - 1) / (q + 1)).
    middle = gt(small, large * 0.41421356237309503)
    zero = like(x, 0)
    top = two_sum(small, select(middle, neg(large), zero))
    down = two_sum(large, select(middle, small, zero))
    top = select(middle, top[0], small), select(middle, top[1], zero)
    down = select(middle, down[0], large), select(middle, down[1], zero)
    angle = atan_pair(*pair_divide_any(top, down))
    head, low, _ = table.HALF_PI[x.dtype]
    quarter = (select(middle, like(x, head / 2), zero), select(middle, like(x, low / 2), zero))
    angle = pair_add(quarter, angle)
    transposed = pair_add((like(x, head), like(x, low)), (neg(angle[0]), neg(angle[1])))
    return select(swap, transposed[0], angle[0]), select(swap, transposed[1], angle[1])


@expansion("atan")
def atan(x: Value) -> Value:
    size = abs_(x)
    swap, middle = gt(size, 2.414213562373095), gt(size, 0.4142135623730951)
    # One of x, (x - 1) / (x + 1), -1 / x, by one division whose remainder is kept.
    top = select(swap, like(x, -1), select(middle, size - 1, size))
    down = select(swap, size, select(middle, size + 1, like(x, 1)))
    t = top / down
    tail = fma(neg(t), down, top) / down
    tail = select(gt(size, 1e30), like(x, 0), tail)
    z = t * t
    poly = fma(t * z, horner(z, table.ATAN[x.dtype]), tail)
    head, low, _ = table.HALF_PI[x.dtype]
    base = select(swap, like(x, head), select(middle, like(x, head / 2), like(x, 0)))
    rest = select(swap, like(x, low), select(middle, like(x, low / 2), like(x, 0)))
    total, lost = quick_sum(base, t)
    result = copysign(total + (lost + (poly + rest)), x)
    return select(eq(x, 0), x, result)


@expansion("atan2")
def atan2(y: Value, x: Value) -> Value:
    """The angle of (x, y); zeros and infinities as C's atan2."""
    dtype = x.dtype
    up, right = abs_(y), abs_(x)
    both_infinite = and_(eq(up, float("inf")), eq(right, float("inf")))
    right_zero = and_(eq(up, 0), eq(right, 0))
    # Scale so that neither the remainder of the division nor its inputs leave the normal range.
    up1 = select(both_infinite, like(x, 1), up)
    right1 = select(both_infinite | right_zero, like(x, 1), right)
    big = max_(up1, right1)
    shrink = gt(big, 2.0**60) if dtype == "f32" else gt(big, 2.0**500)
    grow = lt(big, 2.0**-60) if dtype == "f32" else lt(big, 2.0**-500)
    step = 2.0**40 if dtype == "f32" else 2.0**400
    factor = select(shrink, like(x, 1 / step), select(grow, like(x, step), like(x, 1)))
    angle = atan_of_quotient(up1 * factor, right1 * factor)
    # An infinity makes the remainder NaN; the quotient alone is right there. So is a quotient that underflows.
    exact = and_(lt(big, float("inf")), gt(min_(up1, right1), 0))
    head, low, _ = table.HALF_PI[dtype]
    plain = select(eq(up1, float("inf")) | (eq(right1, 0) & gt(up1, 0)), like(x, head), like(x, 0))
    first = select(exact, angle[0], plain)
    second = select(exact, angle[1], like(x, 0))
    back = lt(copysign(like(x, 1), x), 0)
    transposed = pair_add((like(x, 2 * head), like(x, 2 * low)), (neg(first), neg(second)))
    # Far right, y / x may be denormal: the plain quotient rounds once.
    ratio = up1 / right1
    tiny = and_(lt(ratio, 2.0**-60 if dtype == "f32" else 2.0**-500), lt(right1, float("inf")))
    forward = select(tiny, ratio, first + second)
    result = copysign(select(back, transposed[0] + transposed[1], forward), y)
    return select(ne(x, x) | ne(y, y), x + y, result)


def asin_small(t: Value) -> Value:
    """(asin(t) - t) for |t| <= 1/2."""
    z = t * t
    return t * z * horner(z, table.ASIN[t.dtype])


def _root_parts(size: Value) -> tuple[Value, Value, Value]:
    """sqrt((1 - size) / 2) as (head, tail), and its square; sizes above 1 give NaN."""
    z = fma(size, like(size, -0.5), like(size, 0.5))
    root = sqrt(z)
    tail = fma(neg(root), root, z) / (root + root)
    return root, select(eq(z, 0), like(size, 0), tail), z


@expansion("asin")
def asin(x: Value) -> Value:
    size = abs_(x)
    root, tail, z = _root_parts(size)
    small = x + asin_small(x)
    # pi/2 - 2 asin(root)
    head, low, _ = table.HALF_PI[x.dtype]
    inside = root * z * horner(z, table.ASIN[x.dtype]) + tail
    total, lost = quick_sum(like(x, head), root * -2)
    large = total + (lost + (like(x, low) - inside * 2))
    return select(lt(size, 0.5), small, copysign(large, x))


@expansion("acos")
def acos(x: Value) -> Value:
    size = abs_(x)
    root, tail, z = _root_parts(size)
    head, low, _ = table.HALF_PI[x.dtype]
    # |x| < 1/2: pi/2 - asin(x).
    total, lost = quick_sum(like(x, head), neg(x))
    middle = total + (lost + (like(x, low) - asin_small(x)))
    inside = root * z * horner(z, table.ASIN[x.dtype]) + tail
    right = (root + inside) * 2
    total, lost = quick_sum(like(x, 2 * head), root * -2)
    left = total + (lost + (like(x, 2 * low) - inside * 2))
    return select(lt(size, 0.5), middle, select(ge(x, 0), right, left))


@expansion("sinc")
def sinc(x: Value) -> Value:
    """sin(pi x) / (pi x), 1 at 0; x modulo 2 is exact, so every argument is good."""
    head, low = table.PI[x.dtype]
    value = sin_pi(x)
    below = two_product(x, like(x, head))
    quotient, rest = pair_divide_any((value[0], value[1]), quick_sum(below[0], fma(x, like(x, low), below[1])))
    result = quotient + rest
    return select(eq(x, 0), like(x, 1), result)


def sin_pi(x: Value) -> Pair:
    """sin(pi x) as a pair: the reduction by half turns is exact."""
    n, k = nearest_half_turn(x)
    left = x - n
    head, low = table.PI[x.dtype]
    r, lost = two_product(left, like(x, head))
    sine = sine_pair(*quick_sum(r, fma(left, like(x, low), lost)))
    cosine = cosine_pair(*quick_sum(r, fma(left, like(x, low), lost)))
    odd = ne(k & 1, 0)
    picked = select(odd, cosine[0], sine[0]), select(odd, cosine[1], sine[1])
    return _turn(picked[0], k, 1), _turn(picked[1], k, 1)


def nearest_half_turn(x: Value) -> tuple[Value, Value]:
    """(n, k): n = k / 2 nearest to x modulo 2, k the integer count of half units."""
    twice = rint(x * 2)
    # Only the low bits of the count matter; the parity of huge numbers is even.
    inside = twice - rint(twice * 0.25) * 4
    limited = select(lt(abs_(twice), 2.0**50), inside, like(x, 0))
    return twice * 0.5, cast(limited, INTEGER[x.dtype])

