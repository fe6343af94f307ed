"""Pointwise kernels against NumPy: dtypes, casts, strides, tails, aliasing."""

from __future__ import annotations

import numpy as np
import pytest
from harness import NUMPY, run_pointwise
from hypothesis import given, settings, strategies as st

from rushlight.codegen.text.quotients import by_floats
from rushlight.loops import expr as e
from rushlight.loops.nest import pointwise_nest
from rushlight.loops.vocabulary import Scalars

pytestmark = pytest.mark.share(2)   # of each test that has several cases

INTS = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"]
PLAIN = [*INTS, "f16", "f32", "f64"]
RNG = np.random.default_rng(0)


def sample(code: str, shape: tuple[int, ...]) -> np.ndarray:
    if code == "b1":
        return RNG.integers(0, 2, shape).astype(bool)
    if code in INTS:
        limits = np.iinfo(NUMPY[code])
        return RNG.integers(limits.min, limits.max, shape, dtype=NUMPY[code], endpoint=True)
    if code in ("c64", "c128"):
        return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(NUMPY[code])
    return RNG.normal(size=shape, scale=4).astype(NUMPY[code])


def unary(name: str, source: str, target: str, rule) -> tuple:
    return pointwise_nest(name, [source], [target], [rule(e.arg(0, source))])


@pytest.mark.parametrize("code", ["b1", *PLAIN, "c64", "c128"])
def test_add_every_dtype_and_tail(code):
    nest = pointwise_nest("add", [code, code], [code], [e.add(e.arg(0, code), e.arg(1, code))])
    for count in [*range(0, 71, 3), 70, 300]:
        x, y = sample(code, (3, count)), sample(code, (3, count))
        out = sample(code, (3, count + 1))
        guard = out[:, count].copy()
        run_pointwise(nest, [x, y], [out[:, :count]])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(out[:, :count], x + y)
        np.testing.assert_array_equal(out[:, count], guard)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 33, 64, 70])
def test_broadcast_reversed_and_strided_inputs(count):
    nest = pointwise_nest("sub", ["f32", "f32"], ["f32"], [e.arg(0, "f32") - e.arg(1, "f32")])
    base, wide = sample("f32", (5, 2 * count)), sample("f32", (5, count))
    other = sample("f32", (count, 5)).T
    cases = [base[:, ::2], base[:, :count][:, ::-1], wide[:, :1], wide[0], wide[:1, :1], other, wide[::-1]]
    for x in cases:
        for y in cases:
            out = np.zeros((5, count), np.float32)
            run_pointwise(nest, [x, y], [out])
            np.testing.assert_array_equal(out, np.broadcast_to(x, out.shape) - np.broadcast_to(y, out.shape))
    strided = np.zeros((5, 3 * count), np.float32)
    run_pointwise(nest, [wide, base[:, :count]], [strided[:, ::3]])
    np.testing.assert_array_equal(strided[:, ::3], wide - base[:, :count])
    assert not strided[:, 1::3].any()


@pytest.mark.parametrize("code", ["f16", "f32", "f64", "i16", "i64", "c64", "c128"])
def test_long_bodies_take_elements_that_lie_apart(code):
    """Bodies worth a loop of single vectors for any stride: the same elements, and nothing written between them."""
    body = e.arg(0, code)
    for _ in range(8):
        body = body * body + e.arg(1, code)
    nest = pointwise_nest("long", [code, code], [code], [body])
    for count in (1, 3, 4, 7, 8, 15, 16, 17, 33, 70):
        x, y = sample(code, (3, 2 * count)), sample(code, (count, 3)).T
        if code[0] in "fc":
            x, y = x / 16, y / 16
        expected = np.zeros((3, count), NUMPY[code])
        run_pointwise(nest, [np.ascontiguousarray(x[:, ::2]), np.ascontiguousarray(y)], [expected])
        assert np.count_nonzero(expected)
        for lies, apart in ((x[:, ::2], 1), (np.ascontiguousarray(x[:, ::2]), 3), (x[:, ::2], 2)):
            out = np.zeros((3, apart * count), NUMPY[code])
            run_pointwise(nest, [lies, y], [out[:, ::apart]])
            np.testing.assert_array_equal(out[:, ::apart], expected)
            assert apart == 1 or not out[:, 1::apart].any()
        run_pointwise(nest, [x[:, ::2], y], [x[:, ::2]])
        np.testing.assert_array_equal(x[:, ::2], expected)


def test_in_place_and_two_outputs():
    x, y = e.arg(0, "f32"), e.arg(1, "f32")
    nest = pointwise_nest("rotate", ["f32", "f32"], ["f32", "f32"], [y, e.neg(x)])
    for count in (3, 16, 50):
        a, b = sample("f32", (2, count)), sample("f32", (2, count))
        first, second = a.copy(), b.copy()
        run_pointwise(nest, [a, b], [a, b])
        np.testing.assert_array_equal(a, second)
        np.testing.assert_array_equal(b, -first)


@pytest.mark.parametrize("code", ["c64", "c128"])
def test_complex_product_broadcast(code):
    nest = pointwise_nest("mul", [code, code], [code], [e.arg(0, code) * e.arg(1, code)])
    x, y = sample(code, (3, 37)), sample(code, (3, 1))
    out = np.zeros((3, 37), NUMPY[code])
    run_pointwise(nest, [x, y], [out])
    np.testing.assert_allclose(out, x * y, rtol=1e-5)


@pytest.mark.parametrize("source", ["b1", *PLAIN])
@pytest.mark.parametrize("target", ["b1", *PLAIN])
def test_casts_in_range(source, target):
    nest = unary("cast", source, target, lambda x: e.cast(x, target))
    values = np.array([[0, 1, 2, 3, 5, 7, 100, 127] * 5 + [0, 1]])
    if target[0] in "if" and source[0] in "if":
        values = values * np.array([1, -1] * 21)
    if source[0] == "f":
        values = values + 0.75 * np.sign(values) * (np.abs(values) < 100)
    x = values.astype(NUMPY[source])
    out = np.zeros(x.shape, NUMPY[target])
    run_pointwise(nest, [x], [out])
    np.testing.assert_array_equal(out, x.astype(NUMPY[target]))


def test_float_to_int_out_of_range_does_not_trap():
    for target in INTS:
        nest = unary("cast", "f32", target, lambda x, target=target: e.cast(x, target))
        x = np.array([[np.nan, np.inf, -np.inf, 1e30, -1e30, 3.0] * 8], np.float32)
        out = np.zeros(x.shape, NUMPY[target])
        run_pointwise(nest, [x], [out])
        assert (out[0, 5::6] == 3).all()


def test_casts_of_narrow_floats_match_torch():
    torch = pytest.importorskip("torch")
    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
    bits = RNG.integers(0, 2**32, (1, 20000), dtype=np.uint64).astype(np.uint32)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 464.1, 480, 57344, 61440, 65504, 65520, 1e-9, 2**-9,
                      2**-10, 1.5 * 2**-10, 2**-16, 2**-17, 3 * 2**-17, 2**-24, 2**-25, 3.3895e38], np.float32)
    x = np.concatenate([bits.view(np.float32), RNG.normal(size=(1, 5000)).astype(np.float32) * 100, edges[None]], 1)
    for code, kind in kinds.items():
        out = np.zeros(x.shape, NUMPY[code])
        run_pointwise(unary("cast", "f32", code, lambda v, code=code: e.cast(v, code)), [x], [out])
        reference = torch.from_numpy(x).to(kind).float().numpy()
        back = np.zeros(x.shape, np.float32)
        run_pointwise(unary("cast", code, "f32", lambda v: e.cast(v, "f32")), [out], [back])
        np.testing.assert_array_equal(back, reference)
        every = np.arange(256 if code[:2] == "f8" else 65536).astype(np.uint8 if code[:2] == "f8" else np.uint16)[None]
        back = np.zeros(every.shape, np.float32)
        run_pointwise(unary("cast", code, "f32", lambda v: e.cast(v, "f32")), [every.view(NUMPY[code])], [back])
        signed = every.view(np.int8 if code[:2] == "f8" else np.int16)
        np.testing.assert_array_equal(back, torch.from_numpy(signed).view(kind).float().numpy())


@pytest.mark.parametrize("code", INTS)
def test_integer_division_never_traps(code):
    x, y = e.arg(0, code), e.arg(1, code)
    nest = pointwise_nest("divide", [code, code], [code, code], [e.idiv(x, y), e.irem(x, y)])
    limits = np.iinfo(NUMPY[code])
    edges = np.array([0, 1, 2, 7, limits.max, limits.min, limits.max - 1, limits.min + 1], NUMPY[code])
    if code[0] == "i":
        edges = np.concatenate([edges, np.array([-1, -2, -7], NUMPY[code])])
    a, b = (np.ascontiguousarray(g.reshape(1, -1)) for g in np.meshgrid(edges, edges))
    quotient, rest = np.zeros_like(a), np.zeros_like(a)
    run_pointwise(nest, [a, b], [quotient, rest])
    for i in range(a.size):
        n, d = int(a[0, i]), int(b[0, i])
        q = 0 if d == 0 else int(abs(n) // abs(d)) * (1 if (n < 0) == (d < 0) else -1)
        r = 0 if d == 0 else n - q * d
        assert int(quotient[0, i]) == e.round_to(q, code) and int(rest[0, i]) == r


UNARY_FLOAT = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "abs": np.abs,
               "neg": np.negative}


@pytest.mark.parametrize("code", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op", UNARY_FLOAT)
def test_float_primitives(op, code):
    nest = unary(op, code, code, e.BUILD[op] if op in e.BUILD else None)
    x = np.abs(sample("f64", (2, 41))) if op == "sqrt" else sample("f64", (2, 41))
    if code == "bf16":
        x = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        out = np.zeros_like(x)
        run_pointwise(nest, [x], [out])
        wide = UNARY_FLOAT[op]((x.astype(np.uint32) << 16).view(np.float32))
        np.testing.assert_allclose((out.astype(np.uint32) << 16).view(np.float32), wide, rtol=2**-8)
        return
    x = x.astype(NUMPY[code])
    out = np.zeros_like(x)
    run_pointwise(nest, [x], [out])
    np.testing.assert_array_equal(out, UNARY_FLOAT[op](x))


@pytest.mark.parametrize("code", ["b1", *PLAIN])
def test_comparisons_and_select(code):
    x, y = e.arg(0, code), e.arg(1, code)
    names = ["lt", "le", "gt", "ge", "eq", "ne"]
    nest = pointwise_nest("compare", [code, code], ["b1"] * 6, [e.BUILD[n](x, y) for n in names])
    a, b = sample(code, (2, 45)), sample(code, (2, 45))
    b[0] = a[0]
    if code[0] == "f":
        a[1, ::5] = np.nan
    outs = [np.zeros((2, 45), bool) for _ in names]
    run_pointwise(nest, [a, b], outs)
    rules = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]
    for out, rule in zip(outs, rules, strict=True):
        np.testing.assert_array_equal(out, rule(a, b))
    flag = e.arg(2, "b1")
    nest = pointwise_nest("where", [code, code, "b1"], [code], [e.select(flag, x, y)])
    mask, out = sample("b1", (2, 45)), np.zeros_like(a)
    run_pointwise(nest, [a, b, mask], [out])
    np.testing.assert_array_equal(out, np.where(mask, a, b))


@pytest.mark.parametrize("code", INTS)
def test_bits(code):
    x = e.arg(0, code)
    shifts = [e.shl(x, 3), e.shr(x, 3), e.not_(x), e.and_(x, 21), e.or_(x, 21), e.xor(x, 21)]
    nest = pointwise_nest("bits", [code], [code] * 6, shifts)
    a = sample(code, (1, 50))
    outs = [np.zeros_like(a) for _ in shifts]
    run_pointwise(nest, [a], outs)
    k, three = NUMPY[code](21), NUMPY[code](3)
    for out, ref in zip(outs, [a << three, a >> three, ~a, a & k, a | k, a ^ k], strict=True):
        np.testing.assert_array_equal(out, ref)


def test_rare_select_and_table():
    x = e.arg(0, "f32")
    slow = e.sqrt(e.abs_(x)) + 1000.0
    picked = e.table(e.cast(e.min_(e.abs_(x), 3.0), "i32"), [10.0, 20.0, 30.0, 40.0], "f32")
    nest = pointwise_nest("rare", ["f32"], ["f32", "f32"], [e.select(e.gt(x, 5.0), slow, x * 2.0, rare=True), picked])
    for scale in (1.0, 10.0):
        a = (RNG.normal(size=(2, 77)) * scale).astype(np.float32)
        outs = [np.zeros_like(a), np.zeros_like(a)]
        run_pointwise(nest, [a], outs)
        np.testing.assert_allclose(outs[0], np.where(a > 5, np.sqrt(np.abs(a)) + 1000, a * 2), rtol=1e-6)
        np.testing.assert_array_equal(outs[1], np.array([10, 20, 30, 40])[np.minimum(np.abs(a), 3).astype(int)])


@pytest.mark.parametrize("code", ["f16", "f32", "f64"])
def test_maximum_and_minimum_keep_nan(code):
    x, y = e.arg(0, code), e.arg(1, code)
    nest = pointwise_nest("extremes", [code, code], [code, code], [e.call("maximum", x, y), e.call("minimum", x, y)])
    a, b = sample(code, (2, 45)), sample(code, (2, 45))
    a[0, ::7] = np.nan
    b[0, ::5] = np.nan
    high, low = np.zeros_like(a), np.zeros_like(a)
    run_pointwise(nest, [a, b], [high, low])
    np.testing.assert_array_equal(high, np.maximum(a, b))
    np.testing.assert_array_equal(low, np.minimum(a, b))


def test_deep_expression_needs_no_recursion():
    x = e.arg(0, "f32")
    value = x
    for k in range(3000):
        value = e.add(value, x) if k % 2 else e.mul(value, 0.5)
    nest = pointwise_nest("deep", ["f32"], ["f32"], [value])
    out = np.zeros((1, 5), np.float32)
    run_pointwise(nest, [np.ones((1, 5), np.float32)], [out])
    assert np.isfinite(out).all() and (out == out[0, 0]).all()


LAYOUTS = st.lists(st.sampled_from(["full", "row", "column", "one", "flip", "step"]), min_size=3, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(0, 70), LAYOUTS, st.sampled_from(["f32", "f64", "i16", "u8"]))
def test_any_layout(rows, cols, layouts, code):
    a, b, c = (e.arg(k, code) for k in range(3))
    nest = pointwise_nest("layout", [code] * 3, [code], [a * b + c])

    def make(layout: str) -> np.ndarray:
        full = RNG.integers(0, 9, (rows, 2 * cols)).astype(NUMPY[code])
        return {"full": full[:, :cols], "row": full[:1, :cols], "column": full[:, :1], "one": full[:1, :1],
                "flip": full[:, :cols][:, ::-1], "step": full[:, ::2]}[layout]

    inputs = [make(layout) for layout in layouts]
    if any(0 in x.shape for x in inputs) and rows * cols:
        return
    out = np.zeros((rows, cols), NUMPY[code])
    if out.size:
        run_pointwise(nest, inputs, [out])
        x, y, z = inputs
        np.testing.assert_array_equal(out, np.broadcast_to(x * y + z, out.shape))


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (16, 16), (17, 33), (100, 31)])
def test_copies_of_transposed_arrays_go_in_tiles(shape):
    for source, target in (("f32", "f32"), ("f32", "f64"), ("c64", "c64"), ("b1", "b1")):
        nest = unary("copy", source, target, lambda x, target=target: e.cast(x, target))
        x = sample(source, shape)
        for view in (x, x.T, x[::-1].T, x.T[::-1]):
            out = np.zeros(view.shape, NUMPY[target])
            run_pointwise(nest, [view], [out])
            np.testing.assert_array_equal(out, view.astype(NUMPY[target]))


def test_zero_sizes_touch_nothing():
    nest = pointwise_nest("neg", ["f32"], ["f32"], [e.neg(e.arg(0, "f32"))])
    from harness import run_nest

    x, out = np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32)
    run_nest(nest, [x, out], [0, 4, 4, 16, 16], 0, 1)
    run_nest(nest, [x, out], [4, 4, 4, 16, 16], 3, 3)
    assert not out.any()


EDGES = {"i16": (-32768, -32767, -1, 0, 1, 32767), "u16": (0, 1, 65535), "i32": (-(2**31), -1, 0, 1, 2**31 - 1),
         "u32": (0, 1, 2**32 - 1), "i64": (-(2**63), -1, 0, 1, 2**63 - 1)}


def divided(code: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, what they are divided by, and what comes out: towards zero, by zero 0, the lowest by -1 wraps."""
    if code in ("i8", "u8"):
        a, b = (x.ravel() for x in np.meshgrid(*[np.arange(256, dtype=np.uint8).view(NUMPY[code])] * 2))
    else:
        a, b = sample(code, (20000,)), sample(code, (20000,)) >> np.array(RNG.integers(0, 40, 20000) % 16, NUMPY[code])
        a[: 20000 // 4] = b[: 20000 // 4] * sample(code, (5000,))   # multiples, where rounding would show
        edges = np.array(EDGES[code], NUMPY[code])
        a, b = (np.concatenate([x, y.ravel()]) for x, y in zip((a, b), np.meshgrid(edges, edges), strict=True))
    tops, bottoms = a.tolist(), b.tolist()
    signs = [1 if (x < 0) == (y < 0) else -1 for x, y in zip(tops, bottoms)]
    exact = [[y and sign * (abs(x) // abs(y)) for x, y, sign in zip(tops, bottoms, signs)]]
    exact.append([y and x - q * y for x, y, q in zip(tops, bottoms, exact[0])])
    limit = np.iinfo(NUMPY[code])
    wrapped = [[x if x <= limit.max else limit.min for x in part] for part in exact]
    return a[None], b[None], *(np.array([part], NUMPY[code]) for part in wrapped)


@pytest.mark.parametrize("code", ["i8", "u8", "i16", "u16", "i32", "u32", "i64"])
def test_integers_divide_exactly_on_lanes(code):
    a, b, quotients, rests = divided(code)
    x, y = e.arg(0, code), e.arg(1, code)
    nest = pointwise_nest("divide", [code, code], [code, code], [e.idiv(x, y), e.irem(x, y)])
    found = [np.zeros_like(a), np.zeros_like(a)]
    run_pointwise(nest, [a, b], found)
    np.testing.assert_array_equal(found[0], quotients)
    np.testing.assert_array_equal(found[1], rests)


@pytest.mark.parametrize(("code", "wide"), [("i32", "f64"), ("u32", "f64"), ("i16", "f32"), ("u8", "f32")])
def test_quotients_of_floats_are_the_integers(code, wide):
    """As targets with long registers take them, whatever this machine's are."""
    a, b, quotients, rests = divided(code)
    x, y = e.arg(0, code), e.arg(1, code)
    values = [by_floats(v, wide) for v in (e.idiv(x, y), e.irem(x, y))]
    found = [np.zeros_like(a), np.zeros_like(a)]
    run_pointwise(pointwise_nest("divide", [code, code], [code, code], values), [a, b], found)
    np.testing.assert_array_equal(found[0], quotients)
    np.testing.assert_array_equal(found[1], rests)


@pytest.mark.parametrize("code", ["u8", "i32", "i64"])
def test_integer_powers_wrap_for_exponents_of_any_size(code):
    x, n = sample(code, (1, 600)), sample(code, (1, 600))
    n >>= (np.arange(600) % np.iinfo(NUMPY[code]).bits).astype(NUMPY[code])    # of every length
    x[0, ::3] = np.arange(200) % 5 if code == "u8" else np.arange(200) % 5 - 2
    found = np.zeros_like(x)
    powers = Scalars().pow(e.arg(0, code), e.arg(1, code))
    run_pointwise(pointwise_nest("pow", [code, code], [code], [powers]), [x, n], [found])
    bits = np.iinfo(NUMPY[code]).bits
    for base, exponent, result in zip(x[0].tolist(), n[0].tolist(), found[0].tolist()):
        if exponent < 0:
            assert result == (base**-exponent if abs(base) == 1 else 0)
        else:
            assert (result - pow(base, exponent, 2**bits)) % 2**bits == 0
