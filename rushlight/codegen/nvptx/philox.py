"""Random numbers by Philox, a function of a seed and a counter, so that every thread draws for itself.

Enters: a law and the type of the elements. Leaves: nests that fill a tensor without gaps. Which counter an element
gets is PyTorch's rule for CUDA devices, so the numbers are too: `lanes` threads take the elements by turns, each of
them `unroll` elements `lanes` apart from one draw of four words (or of two pairs).

    parameters of a nest        n, lanes, counter, seed, and two doubles of the law by their bits

`from_memory` makes any of them one whose counter and seed lie in memory, for graphs that are run again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...loops.expr import (
    Value,
    and_,
    bitcast,
    call,
    cast,
    ceil,
    const,
    eq,
    fma,
    ge,
    gt,
    idiv,
    irem,
    le,
    load,
    lt,
    or_,
    select,
    shl,
    shr,
    sqrt,
    var,
    xor,
)
from ...loops.nest import Check, If, Local, Nest, Operand, Statement, Store, operands, rows
from ..text.primitives import SIZE

FACTORS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = (1 << 32) - 1
UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
PARAMS = ("n", "lanes", "counter", "seed", "first", "second")
Words = list[Value]
Pair = tuple[list[Statement], list[Value]]     # what is worked out first, and the numbers of a draw


def number(value: int) -> Value:
    return const(value, "i64")


def low(value: Value) -> Value:
    """The lower 32 bits, in 64."""
    return and_(value, number(LOW))


def high(value: Value) -> Value:
    return low(shr(value, number(32)))


def philox(counter: Value, sequence: Value, seed: Value) -> Words:
    """Four words of 32 bits, each in 64."""
    words = [low(counter), high(counter), low(sequence), high(sequence)]
    keys = [low(seed), high(seed)]
    for _ in range(ROUNDS):
        first, second = words[0] * number(FACTORS[0]), words[2] * number(FACTORS[1])
        mixed = xor(xor(high(second), words[1]), keys[0]), xor(xor(high(first), words[3]), keys[1])
        words = [mixed[0], low(second), mixed[1], low(first)]
        keys = [low(key + number(step)) for key, step in zip(keys, WEYL, strict=True)]
    return words


def uniform(word: Value) -> Value:
    """A word as a float32 in (0, 1]."""
    return fma(cast(word, "f32"), const(2.0**-32, "f32"), const(2.0**-33, "f32"))


def uniform_double(a: Value, b: Value, scale: float = 2.0**-53) -> Value:
    """Two words as a float64 in (0, 1], or a multiple of that."""
    bits = xor(a, shl(b, number(21)))
    return fma(cast(bits, "f64"), const(scale, "f64"), const(scale / 2, "f64"))


def uniforms(words: Words, code: str) -> list[Value]:
    """What a draw gives in (0, 1]: four float32, or two float64."""
    if code == "f64":
        return [uniform_double(words[0], words[1]), uniform_double(words[2], words[3])]
    return [uniform(word) for word in words]


def normals(words: Words, code: str) -> list[Value]:
    """Box and Muller's pairs."""
    found = []
    if code == "f64":
        length = sqrt(const(-2.0, "f64") * call("log", uniform_double(words[0], words[1])))
        angle = uniform_double(words[2], words[3], 2.0**-52) * const(math.pi, "f64")
        return [call("sin", angle) * length, call("cos", angle) * length]
    for a, b in ((words[0], words[1]), (words[2], words[3])):
        turn = const(float_of(2.0**-32) * float_of(2 * math.pi), "f32")
        angle = fma(cast(b, "f32"), turn, turn * const(0.5, "f32"))
        length = sqrt(const(-2.0, "f32") * call("cuda_log", uniform(a)))
        found += [call("cuda_sin", angle) * length, call("cuda_cos", angle) * length]
    return found


def float_of(x: float) -> float:
    """A number as float32 has it."""
    return const(x, "f32").attr


def given(name: str, code: str) -> Value:
    """A parameter that is a double's bits, in the type a law computes in."""
    return cast(bitcast(var(name), "f64"), "f64" if code == "f64" else "f32")


# --- laws: numbers of one draw, in the type of the elements -----------------------------------------------------------


def uniform_law(words: Words, code: str) -> list[Value]:
    start, end = given("first", code), given("second", code)
    low_, high_ = cast(start, code), cast(end, code)
    span = cast(high_, start.dtype) - cast(low_, start.dtype)
    results = [cast(fma(u, cast(cast(span, code), start.dtype), cast(low_, start.dtype)), code) for u in
            uniforms(words, code)]
    wide = start.dtype
    return [select(eq(cast(value, wide), cast(high_, wide)), low_, value) for value in results]


def normal_law(words: Words, code: str) -> list[Value]:
    mean, std = given("first", code), given("second", code)
    return [cast(fma(z, std, mean), code) for z in normals(words, code)]


def log_normal_law(words: Words, code: str) -> list[Value]:
    mean, std = given("first", code), given("second", code)
    exp = "exp" if code == "f64" else "cuda_exp"
    return [cast(call(exp, fma(z, std, mean)), code) for z in normals(words, code)]


def bernoulli_law(words: Words, code: str) -> list[Value]:
    p = given("first", code)
    one = cast(bitcast(var("second"), "f64"), code)
    zero = cast(const(0.0, "f64"), code)
    return [select(lt(u, p), one, zero) for u in uniforms(words, code)]


def spread_law(words: Words, code: str) -> list[Value]:
    """Uniform from `first` on, over `second`: computed as doubles."""
    start, span = bitcast(var("first"), "f64"), bitcast(var("second"), "f64")
    return [cast(fma(cast(cast(u, code), "f64"), span, start), code) for u in uniforms(words, code)]


def kept_law(words: Words, code: str) -> list[Value]:
    """Whether elements are kept: a float32 is compared with a double."""
    return [cast(lt(cast(uniform(word), "f64"), bitcast(var("first"), "f64")), code) for word in words]


def exponential_law(words: Words, code: str) -> list[Value]:
    rate = given("first", code)
    epsilon = 2.0**-52 if code == "f64" else 2.0**-23
    wide, found = rate.dtype, []
    for u in uniforms(words, code):
        log = select(ge(u, const(1.0 - epsilon / 2, wide)), const(-epsilon / 2, wide), quick_log(u))
        found.append(cast(const(-1.0, wide) / rate * log, code))
    return found


def quick_log(u: Value) -> Value:
    """The logarithm by the unit's instruction; of doubles, the exact one."""
    return call("log", u) if u.dtype == "f64" else call("cuda_log2", u) * const(math.log(2.0), "f32")


def cauchy_law(words: Words, code: str) -> list[Value]:
    median, sigma = given("first", code), given("second", code)
    wide, epsilon = median.dtype, 2.0**-52 if code == "f64" else 2.0**-23
    found = []
    for u in uniforms(words, code):
        inside = select(gt(u, const(1 - epsilon, wide)), const(1 - epsilon, wide), u)
        inside = select(lt(inside, const(epsilon, wide)), const(epsilon, wide), inside)
        angle = const(math.pi, wide) * (inside - const(0.5, wide))
        tangent = (
            call("tan", angle)
            if code == "f64"
            else call("cuda_divide", call("cuda_sin", angle), call("cuda_cos", angle))
        )
        found.append(cast(fma(sigma, tangent, median), code))
    return found


def geometric_law(words: Words, code: str) -> list[Value]:
    p = given("first", code)
    return [
        cast(ceil(quick_log(u) / quick_log(const(1.0, p.dtype) - p)), code) for u in uniforms(words, code)
    ]


def range_law(words: Words, code: str) -> list[Value]:
    return [in_range(irem(word, var("first")), code) for word in words]


def wide_range_law(words: Words, code: str) -> list[Value]:
    span = cast(var("first"), "u64")
    return [in_range(cast(irem(cast(word, "u64"), span), "i64"), code) for word in pairs(words)]


def bits_law(words: Words, code: str) -> list[Value]:
    return [cast(word, code) for word in pairs(words)]


def pairs(words: Words) -> Words:
    return [or_(shl(words[0], number(32)), words[1]), or_(shl(words[2], number(32)), words[3])]


def in_range(value: Value, code: str) -> Value:
    return cast(value + var("second"), code)


LAWS: dict[str, Callable[[Words, str], list[Value]]] = {
    "uniform": uniform_law, "normal": normal_law, "log_normal": log_normal_law, "bernoulli": bernoulli_law,
    "exponential": exponential_law, "cauchy": cauchy_law, "geometric": geometric_law, "range": range_law,
    "wide_range": wide_range_law, "spread": spread_law, "bits64": bits_law, "kept": kept_law,
}


def unroll(law: str, code: str) -> int:
    """Elements of one draw."""
    return 2 if law in ("wide_range", "bits64") or (code == "f64" and law not in ("range", "kept")) else 4


# --- nests ------------------------------------------------------------------------------------------------------------


def drawn(counter: Value, sequence: Value, name: str = "w") -> tuple[list[Statement], Words]:
    """Words worked out once."""
    words = philox(counter, sequence, var("seed"))
    names = [f"{name}{k}" for k in range(4)]
    return [Local(n, word) for n, word in zip(names, words, strict=True)], [var(n) for n in names]


def fill_nest(law: str, code: str) -> Nest:
    """Elements `lanes` apart from each draw; iteration i is turn i / lanes of lane i % lanes."""
    turn, lane, times = var("turn"), var("lane"), unroll(law, code)
    body: list[Statement] = [
        Local("turn", idiv(var("i"), var("lanes"))), Local("lane", irem(var("i"), var("lanes"))),
    ]
    first, words = drawn(var("counter") + turn, lane)
    values = LAWS[law](words, code)
    assert len(values) == times, f"{law} makes {len(values)} numbers of a draw"
    body += first
    body += [Local(f"value{k}", value) for k, value in enumerate(values)]
    for k, value in enumerate(values):
        at = (turn * number(times) + number(k)) * var("lanes") + lane
        body.append(If(lt(at, var("n")), (Store(0, at, var(f"value{k}", value.dtype)),)))
    return Nest(f"random_{law}", operands([], [code]), PARAMS, rows(*body))


def dropout_nest(vector: int, code: str = "") -> Nest:
    """Which elements are kept: `vector` neighbours from each draw, or from two, or half of one. With the `code` of a
    type, elements are read too and written behind the flags, times `second` where they are kept."""
    turn, lane = idiv(var("i"), var("lanes")), irem(var("i"), var("lanes"))
    body: list[Statement] = [Local("turn", turn), Local("lane", lane)]
    chosen: Words = []
    if vector == 2:
        first, words = drawn(var("counter") + idiv(var("turn"), number(2)), var("lane"))
        body += first
        odd = eq(irem(var("turn"), number(2)), number(1))
        chosen = [select(odd, words[2], words[0]), select(odd, words[3], words[1])]
    else:
        draws = vector // 4
        for d in range(draws):
            first, words = drawn(var("counter") + var("turn") * number(draws) + number(d), var("lane"), f"w{d}.")
            body += first
            chosen += words
    kept, at = kept_law(chosen, "b1"), [var("i") * number(vector) + number(k) for k in range(vector)]
    if not code:
        body += [Store(0, place, value) for place, value in zip(at, kept, strict=True)]
        return Nest(f"random_dropout{vector}", operands([], ["b1"]), PARAMS, rows(*body))
    return dropped_nest(vector, code, body, kept)


def dropped_nest(vector: int, code: str, body: list[Statement], kept: list[Value]) -> Nest:
    """The same with elements, read and written as words of up to eight bytes, as flags are."""
    scale, size = given("second", code), SIZE[code]
    own, flags = UNSIGNED[size], UNSIGNED[vector]
    each = min(8 // size, vector)                        # elements of a word
    word, wide, count = UNSIGNED[each * size], scale.dtype, vector // each
    places = [var("i") * number(count) + number(k) for k in range(count)]
    body = [*body, *[Local(f"word{k}", load(0, place, word)) for k, place in enumerate(places)]]
    body += [Local(f"kept{k}", value) for k, value in enumerate(kept)]
    for k in range(vector):
        bits = cast(shr(var(f"word{k // each}", word), const(8 * size * (k % each), word)), own)
        factor = select(var(f"kept{k}", "b1"), scale, const(0, wide))
        body.append(Local(f"y{k}", bitcast(cast(cast(bitcast(bits, code), wide) * factor, code), own)))
    body.append(Store(1, var("i"), joined([var(f"kept{k}", "b1") for k in range(vector)], flags, 8)))
    for k, place in enumerate(places):
        parts = [var(f"y{n}", own) for n in range(k * each, (k + 1) * each)]
        body.append(Store(2, place, joined(parts, word, 8 * size)))
    return Nest(f"random_dropped{vector}_{code}", operands([word], [flags, word]), PARAMS, rows(*body))


def joined(parts: list[Value], code: str, bits: int) -> Value:
    """Values side by side in one word, the first lowest."""
    result = cast(parts[0], code)
    for k, part in enumerate(parts[1:], 1):
        result = or_(result, shl(cast(part, code), const(bits * k, code)))
    return result


def bernoulli_nest(code: str, read: str, checked: bool) -> Nest:
    """Ones with the probabilities of another tensor: four neighbours from each draw. `checked`: the first that is no
    probability is told, by its place plus one."""
    body, words = drawn(var("counter"), var("i"))
    wide = "f64" if read == "f64" else "f32"
    for k, word in enumerate(words):
        at = var("i") * number(4) + number(k)
        p = cast(load(0, at, read), wide)
        told = [Check(and_(ge(p, const(0, wide)), le(p, const(1, wide))), 2, at + number(1))] if checked else []
        chosen = le(cast(uniform(word), wide), p)
        body.append(If(lt(at, var("n")), (*told, Store(1, at, cast(chosen, code)))))
    name = "random_bernoulli_checked" if checked else "random_bernoulli_tensor"
    return Nest(name, operands([read], [code], ["i64"] if checked else []), PARAMS, rows(*body))


def ordered_nest() -> Nest:
    """Which elements are kept: those whose number is above `first`. Numbers follow the elements' order, four neighbours
    from each draw of one sequence."""
    body, words = drawn(var("counter") + var("i"), number(0))
    for k, word in enumerate(words):
        at = var("i") * number(4) + number(k)
        body.append(If(lt(at, var("n")), (Store(0, at, lt(given("first", "f32"), uniform(word))),)))
    return Nest("random_ordered", operands([], ["b1"]), PARAMS, rows(*body))


# --- nests that are captured: seed and counter lie in memory ----------------------------------------------------------


def from_memory(nest: Nest) -> Nest:
    """The nest with one operand more, two integers: what is added to its counter, and the seed, whose parameter is not
    used then."""
    at = len(nest.operands)
    begin = (Local("seed", load(at, number(1), "i64")), Local("counter", load(at, number(0), "i64") + var("behind")))
    names = {"counter": "behind", "seed": "unused"}
    params = tuple([names.get(name, name) for name in nest.params])
    return Nest(f"{nest.name}_captured", (*nest.operands, Operand("i64")), params,
                nest.loop.but(body=(*begin, *nest.loop.body)))


def start_nest() -> Nest:
    """Writes where numbers begin: counter and seed."""
    value = select(eq(var("i"), number(0)), var("counter"), var("seed"))
    return Nest("random_start", operands([], ["i64"]), ("counter", "seed"), rows(Store(0, var("i"), value)))


__all__ = [
    "LAWS", "LOW", "PARAMS", "bernoulli_nest", "dropout_nest", "fill_nest", "from_memory", "philox", "start_nest",
    "unroll",
]
