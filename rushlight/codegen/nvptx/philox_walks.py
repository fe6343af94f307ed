"""Laws whose numbers take as many draws as chance wants: Poisson, gamma, binomial; and choices among weights.

Enters: the types of the elements. Leaves: nests. A thread walks along its own sequence of words, as PyTorch's does on
CUDA devices, so numbers are PyTorch's where its laws are known: products of uniforms for small Poisson rates and a
rounded normal for large ones, Marsaglia and Tsang's gamma, and for binomials waiting times or Hoermann's transformed
rejection (1993). Poisson rates from 64 to 4000 go through the latter too; PyTorch's numbers there are the vendor's own.

    parameters of a nest        n, counter, seed, and what its function says

Loops have bounds that nothing passes: what is refused is a share of each turn that is never near one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...loops.expr import (
    Value,
    abs_,
    and_,
    call,
    cast,
    ceil,
    const,
    eq,
    floor,
    fma,
    ge,
    gt,
    idiv,
    irem,
    le,
    load,
    lt,
    max_,
    min_,
    ne,
    not_,
    or_,
    select,
    sqrt,
    table,
    var,
)
from ...loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, rows
from .philox import normals, number, philox, uniform

KNUTH, NORMAL = 64.0, 4000.0       # Poisson rates below and above which PyTorch's laws are used
TURNS = 64                         # of a rejection
PRODUCTS = 384                     # factors of a Poisson number below the rate 64
WAITS = 192                        # waiting times of a binomial with a mean below 10
ISLAND = 64                        # equal keys of a permutation
ZERO, ONE = number(0), number(1)
# what Stirling's formula leaves of log(k!) for k up to 9
TAILS = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
         0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273,
         0.00833056343336287)
yes = const(True, "b1")


def log(x: Value) -> Value:
    return call("log" if x.dtype == "f64" else "cuda_log", x)


class Words:
    """A thread's sequence of words: `used` of them are drawn."""

    def __init__(self, sequence: Value) -> None:
        self.sequence = sequence
        self.begin: list[Statement] = [Local("used", ZERO)]

    def draw(self, name: str) -> list[Statement]:
        """The next word, called `name`, in 64 bits."""
        words = philox(var("counter") + idiv(var("used"), number(4)), self.sequence, var("seed"))
        at, result = irem(var("used"), number(4)), [var(f"{name}.{k}") for k in range(4)]
        chosen = select(lt(at, number(2)), select(eq(at, ZERO), result[0], result[1]),
                        select(eq(at, number(2)), result[2], result[3]))
        return [*[Local(f"{name}.{k}", word) for k, word in enumerate(words)], Local(name, chosen),
                Assign("used", var("used") + ONE)]


def until(name: str, turns: int, body: Sequence[Statement]) -> list[Statement]:
    """The body again and again until it sets `name`."""
    again = If(not_(var(name, "b1")), tuple(body))
    return [Local(name, const(False, "b1")), For(f"{name}.turn", ZERO, number(turns), (again,))]


def real(x: float, code: str) -> Value:
    return const(x, code)


def wide_of(code: str) -> str:
    """The type a law computes in."""
    return "f64" if code == "f64" else "f32"


# --- Poisson ----------------------------------------------------------------------------------------------------------


def poisson_nest(code: str) -> Nest:
    """Numbers of events, given the rates: a thread an element."""
    words = Words(var("i"))
    rate, result = var("rate", "f64"), var("result", "f64")
    small, large = lt(rate, real(KNUTH, "f64")), gt(rate, real(NORMAL, "f64"))
    body = [
        *words.begin, Local("rate", cast(cast(load(0, var("i"), code), wide_of(code)), "f64")),
        Local("result", real(0.0, "f64")),
        If(small, tuple(by_products(words)), (If(large, tuple(by_normal()), tuple(by_transformed(words))),)),
        Store(1, var("i"), cast(cast(result, wide_of(code)), code)),
    ]
    return Nest("random_poisson", operands([code], [code]), ("n", "counter", "seed"), rows(*body))


def by_products(words: Words) -> list[Statement]:
    """How many uniforms can be multiplied before exp(rate) times their product falls to one."""
    product, u = var("product", "f32"), uniform(var("word"))
    step = [
        *words.draw("word"), Assign("product", product * u),
        If(le(product, real(1.0, "f32")), (Assign("done", yes),),
           (Assign("result", var("result", "f64") + real(1.0, "f64")),)),
    ]
    return [Local("product", call("cuda_exp", cast(var("rate", "f64"), "f32"))), *until("done", PRODUCTS, step)]


def by_normal() -> list[Statement]:
    """A normal number, scaled and rounded."""
    rate = var("rate", "f64")
    first = normals(philox(var("counter"), var("i"), var("seed")), "f64")[0]
    return [Assign("result", floor(fma(sqrt(rate), first, rate) + real(0.5, "f64")))]


def by_transformed(words: Words) -> list[Statement]:
    """Hoermann's PTRS."""
    f64, rate, us, k = "f64", var("rate", "f64"), var("us", "f64"), var("k", "f64")
    b, v = var("b", f64), var("v", f64)
    inverse = real(1.1239, f64) + real(1.1328, f64) / (b - real(3.4, f64))
    quick = and_(ge(us, real(0.07, f64)), le(v, real(0.9277, f64) - real(3.6224, f64) / (b - real(2.0, f64))))
    bound = k * call("log", rate) - rate - call("lgamma", k + real(1.0, f64))
    within = le(call("log", v * inverse / (var("a", f64) / (us * us) + b)), bound)
    outside = or_(lt(k, real(0.0, f64)), and_(lt(us, real(0.013, f64)), gt(v, us)))
    step = [
        *words.draw("first"), *words.draw("second"),
        Local("u", cast(uniform(var("first")), f64) - real(0.5, f64)), Local("v", cast(uniform(var("second")), f64)),
        Local("us", max_(real(0.5, f64) - abs_(var("u", f64)), real(2.0**-40, f64))),
        Local("k", floor((real(2.0, f64) * var("a", f64) / us + b) * var("u", f64) + rate + real(0.43, f64))),
        If(or_(quick, and_(not_(outside), within)), (Assign("result", k), Assign("done", yes))),
    ]
    return [
        Local("b", real(0.931, f64) + real(2.53, f64) * sqrt(rate)),
        Local("a", real(-0.059, f64) + real(0.02483, f64) * b), *until("done", TURNS, step),
    ]


# --- gamma ------------------------------------------------------------------------------------------------------------


def gamma_nest(code: str, least: float) -> Nest:
    """Gamma numbers, given the shapes: a thread an element."""
    wide, words = wide_of(code), Words(var("i"))
    shape, d, c, scale = var("shape", wide), var("d", wide), var("c", wide), var("scale", wide)
    one = real(1.0, wide)
    boost = [
        *words.draw("word"),
        Assign("scale", call("pow", one - cast(uniform(var("word")), wide), one / shape)),
        Assign("shape", cast(cast(shape + one, code), wide)),
    ]
    body = [
        *words.begin, Local("shape", cast(load(0, var("i"), code), wide)), Local("scale", one),
        Local("is_zero", eq(shape, real(0.0, wide))), Local("result", real(0.0, wide)),
        Local("spare", real(0.0, "f32")), Local("has_spare", const(False, "b1")),
        If(lt(shape, one), tuple(boost)),
        Local("d", shape - cast(real(1.0, "f32") / real(3.0, "f32"), wide)),
        Local("c", one / sqrt(real(9.0, wide) * d)),
        *until("done", TURNS, gamma_turn(words, wide, d, c, scale)),
        If(var("is_zero", "b1"), (Assign("result", real(0.0, wide)),)),
        Store(1, var("i"), cast(max_(var("result", wide), real(least, wide)), code)),
    ]
    return Nest("random_gamma", operands([code], [code]), ("n", "counter", "seed"), rows(*body))


def draw_normal(words: Words) -> list[Statement]:
    """`x`: the next normal number, of pairs."""
    pair = normals([var("first"), var("second"), ZERO, ZERO], "f32")
    fresh = [*words.draw("first"), *words.draw("second"), Assign("x", pair[0]), Assign("spare", pair[1])]
    return [
        Local("x", var("spare", "f32")), If(not_(var("has_spare", "b1")), tuple(fresh)),
        Assign("has_spare", not_(var("has_spare", "b1"))),
    ]


def gamma_turn(words: Words, wide: str, d: Value, c: Value, scale: Value) -> list[Statement]:
    """A normal number, cubed; refused by a uniform one now and then."""
    one, x, y, v, u = real(1.0, wide), var("wide_x", wide), var("y", wide), var("v", wide), var("u", wide)
    square = x * x
    small = cast(real(0.0331, "f32"), wide)
    quick = lt(u, fma(small * square * real(-1.0, wide), square, one))
    slow = lt(log(u), fma(real(0.5, wide), square, d * (one - v + log(v))))
    take = (Assign("result", scale * d * v), Assign("done", yes))
    inside = [
        Local("v", y * y * y), *words.draw("word"), Local("u", one - cast(uniform(var("word")), wide)),
        If(or_(quick, slow), take),
    ]
    return [*draw_normal(words), Local("wide_x", cast(var("x", "f32"), wide)), Local("y", fma(c, x, one)),
            If(gt(y, real(0.0, wide)), tuple(inside))]


# --- binomial ---------------------------------------------------------------------------------------------------------

BLOCK, EACH = 128, 4            # threads of a block and elements of a thread


def binomial_nest(code: str) -> Nest:
    """Successes, given counts and probabilities: a thread takes elements a block apart, from one sequence."""
    lane, block = irem(var("i"), number(BLOCK)), idiv(var("i"), number(BLOCK))
    words = Words(var("i"))
    at = block * number(BLOCK * EACH) + var("turn") * number(BLOCK) + lane
    inside = binomial_element(words, code)
    turn = (Local("at", at), If(lt(var("at"), var("n")), tuple(inside)))
    body = [*words.begin, For("turn", ZERO, number(EACH), turn)]
    return Nest("random_binomial", operands([code, code], [code]), ("n", "counter", "seed"), rows(*body))


def fraction(word: Value, wide: str) -> Value:
    """24 bits of a word in [0, 1)."""
    return cast(cast(and_(word, number((1 << 24) - 1)), "f32") * real(2.0**-24, "f32"), wide)


def binomial_element(words: Words, code: str) -> list[Statement]:
    wide = wide_of(code)
    count, given, p, result = var("count", wide), var("given", wide), var("p", wide), var("result", wide)
    zero, one = real(0.0, wide), real(1.0, wide)
    nothing, all_ = or_(le(count, zero), le(given, zero)), ge(given, one)
    few = lt(cast(count * p, "f64"), real(10.0, "f64"))
    draw = If(few, tuple(by_waiting(words, wide)), tuple(by_rejection(words, wide)))
    unknown = ne(given, given)
    mirrored = gt(given, real(0.5, wide))
    return [
        Local("count", cast(load(0, var("at"), code), wide)), Local("given", cast(load(1, var("at"), code), wide)),
        Local("p", select(mirrored, one - given, given)), Local("result", zero),
        If(and_(not_(or_(nothing, all_)), not_(unknown)), (draw,)),
        Assign("result", select(mirrored, count - result, result)),
        Assign("result", select(nothing, zero, select(all_, count, select(unknown, given, result)))),
        Store(2, var("at"), cast(result, code)),
    ]


def by_waiting(words: Words, wide: str) -> list[Statement]:
    """Geometric waiting times until they exceed the count."""
    past, result = var("past", wide), var("result", wide)
    wait = ceil(log(fraction(var("word"), wide)) / var("rate", wide))
    step = [
        *words.draw("word"), Assign("past", past + wait),
        If(gt(past, var("count", wide)), (Assign("done", yes),), (Assign("result", result + real(1.0, wide)),)),
    ]
    rate = Local("rate", call("log1p", var("p", wide) * real(-1.0, wide)))
    return [rate, Local("past", real(0.0, wide)), *until("done", WAITS, step)]


def tail(k: Value) -> Value:
    """What Stirling's formula leaves of log(k!)."""
    wide, after = k.dtype, k + real(1.0, k.dtype)
    squared = after * after
    inner = real(1.0 / 360, wide) - real(1.0 / 1260, wide) / squared
    known = table(cast(max_(min_(k, real(9.0, wide)), real(0.0, wide)), "i64"), TAILS, wide)
    return select(le(k, real(9.0, wide)), known, (real(1.0 / 12, wide) - inner / squared) / after)


def by_rejection(words: Words, wide: str) -> list[Statement]:
    """Hoermann's BTRS."""
    def v(name: str) -> Value:
        return var(name, wide)

    def c(x: float) -> Value:
        return real(x, wide)

    n, p, one, half = v("count"), v("p"), c(1.0), c(0.5)
    start = {
        "spread": sqrt(n * p * (one - p)), "b": fma(c(2.53), v("spread"), c(1.15)),
        "a": fma(c(0.01), p, fma(c(0.0248), v("b"), c(-0.0873))), "center": fma(n, p, half),
        "tight": c(0.92) - c(4.2) / v("b"), "odds": p / (one - p),
        "alpha": (c(2.83) + c(5.1) / v("b")) * v("spread"), "mode": floor((n + one) * p),
    }
    us, k, m, odds = v("us"), v("k"), v("mode"), v("odds")
    bound = (
        (m + half) * log((m + one) / (odds * (n - m + one))) + (n + one) * log((n - m + one) / (n - k + one))
        + (k + half) * log(odds * (n - k + one) / (k + one)) + tail(m) + tail(n - m) - tail(k) - tail(n - k)
    )
    ratio = log(v("v") * v("alpha") / (v("a") / (us * us) + v("b")))
    possible = and_(ge(k, c(0.0)), le(k, n))
    quick = and_(ge(us, c(0.07)), le(v("v"), v("tight")))
    step = [
        *words.draw("first"), *words.draw("second"),
        Local("u", fraction(var("first"), wide) - half), Local("v", fraction(var("second"), wide)),
        Local("us", half - abs_(v("u"))),
        Local("k", floor(fma(c(2.0) * v("a") / us + v("b"), v("u"), v("center")))),
        If(and_(possible, or_(quick, le(ratio, bound))), (Assign("result", k), Assign("done", yes))),
    ]
    return [*[Local(name, value) for name, value in start.items()], *until("done", TURNS, step)]


# --- choices and permutations -----------------------------------------------------------------------------------------


def choice_nest(code: str) -> Nest:
    """Categories, with replacement, given running sums of each row's weights and the weights: operands ends, weights,
    out; parameters also the categories, samples, and threads of a row."""
    row, sample = idiv(var("i"), var("samples")), irem(var("i"), var("samples"))
    word = philox(var("counter"), row * var("lanes") + sample, var("seed"))[0]
    wide = wide_of(code)
    base, size, at = row * var("categories"), var("categories"), var("at")
    middle = var("at") + idiv(var("above") - at, number(2))
    look = If(gt(var("above"), at), (
        Local("middle", middle),
        If(lt(cast(load(0, var("base") + var("middle"), code), wide), var("u", wide)),
           (Assign("at", var("middle") + ONE),), (Assign("above", var("middle")),)),
    ))
    impossible = and_(gt(at, ZERO), eq(cast(load(1, var("base") + at, code), wide), real(0.0, wide)))
    back = If(impossible, (Assign("at", at - ONE),), (Assign("stuck", yes),))
    body = [
        Local("base", base), Local("u", cast(cast(uniform(word), code), wide)), Local("at", ZERO), Local("above", size),
        For("turn", ZERO, number(25), (look,)), Assign("at", min_(at, size - ONE)),
        Local("stuck", const(False, "b1")), Local("most", select(impossible, at, ZERO)),      # turns, mostly none
        For("step", ZERO, var("most"), (If(not_(var("stuck", "b1")), (back,)),)),
        Store(2, var("i"), at),
    ]
    return Nest("random_choice", operands([code, code], ["i64"]),
                ("n", "counter", "seed", "categories", "samples", "lanes"), rows(*body))


def island_nest() -> Nest:
    """Runs of equal keys shuffled in place: operands keys (in order) and what they order."""
    i, n = var("i"), var("n")

    def key(at: Value) -> Value:
        return load(0, at, "i64")

    before = and_(gt(i, ZERO), eq(key(max_(i - ONE, ZERO)), key(i)))
    begins = and_(lt(i, n - ONE), not_(before))
    grow = If(and_(lt(i + var("size"), n), eq(key(min_(i + var("size"), n - ONE)), key(i))),
              (Assign("size", var("size") + ONE),), (Assign("ended", yes),))
    words = Words(i)
    last = var("size") - var("k")
    swap = [
        *words.draw("word"), Local("other", i + irem(var("word"), last + ONE)), Local("mine", i + last),
        Local("here", load(1, var("mine"), "i64")), Local("there", load(1, var("other"), "i64")),
        Store(1, var("mine"), var("there")), Store(1, var("other"), var("here")),
    ]
    body = [
        *words.begin, Local("size", ONE), Local("ended", const(False, "b1")),
        For("step", ZERO, number(ISLAND), (If(not_(var("ended", "b1")), (grow,)),)),
        For("k", ONE, var("size"), tuple(swap)),
    ]
    return Nest("random_islands", operands(["i64"], ["i64"]), ("n", "counter", "seed"), rows(If(begins, tuple(body))))


__all__ = ["BLOCK", "EACH", "binomial_nest", "choice_nest", "gamma_nest", "island_nest", "poisson_nest"]
