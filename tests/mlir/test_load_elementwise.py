"""`mlir.load`: what works one by one gives what XLA gives, for every type, at ordinary numbers and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")
pytest.importorskip("torch_mlir")

from tests.mlir import loading

FLOATS, COMPLEX = ["f16", "bf16", "f32", "f64"], ["complex<f32>", "complex<f64>"]
SIGNED, UNSIGNED, BOOL = ["i8", "i16", "i32", "i64"], ["ui8", "ui16", "ui32", "ui64"], ["i1"]
INTEGERS, INEXACT = SIGNED + UNSIGNED, FLOATS + COMPLEX

UNARY = {
    **dict.fromkeys("""cosine sine tan tanh exponential exponential_minus_one logistic log log_plus_one sqrt rsqrt
                       """.split(), INEXACT),
    **dict.fromkeys("ceil floor round_nearest_even round_nearest_afz cbrt".split(), FLOATS),
    **dict.fromkeys(("abs", "sign"), FLOATS + SIGNED + COMPLEX), "negate": INEXACT + INTEGERS,
    "not": INTEGERS + BOOL, "popcnt": INTEGERS, "count_leading_zeros": INTEGERS, "is_finite": FLOATS,
    "real": COMPLEX, "imag": COMPLEX,
}
BINARY = {
    **dict.fromkeys(("add", "multiply"), INEXACT + INTEGERS + BOOL),
    **dict.fromkeys(("subtract", "divide", "power"), INEXACT + INTEGERS),
    **dict.fromkeys(("maximum", "minimum"), FLOATS + INTEGERS + BOOL),
    **dict.fromkeys(("and", "or", "xor"), INTEGERS + BOOL), "remainder": FLOATS + INTEGERS, "atan2": INEXACT,
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic"), INTEGERS), "complex": ["f32",
        "f64"],
}
CASES = [(name, kind, count) for count, table in ((1, UNARY), (2, BINARY)) for name, kinds in table.items()
         for kind in kinds]
LOOSE = {"f16": 4e-3, "bf16": 3e-2}


def result_of(name: str, kind: str) -> str:
    if name == "is_finite":
        return "i1"
    if name == "complex":
        return f"complex<{kind}>"
    return kind[8:-1] if name in ("abs", "real", "imag") and kind in COMPLEX else kind


def program(name: str, kind: str, count: int, result: str, size: int) -> str:
    given = [f"tensor<{size}x{kind}>"] * count
    operands = ", ".join(f"%a{i}" for i in range(count))
    body = f"%r = stablehlo.{name} {operands} : ({', '.join(given)}) -> tensor<{size}x{result}>"
    return loading.function(given, [f"tensor<{size}x{result}>"], body)


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "kind", "count"), CASES, ids=lambda v: str(v))
def test_ordinary_numbers(name, kind, count):
    arrays = [loading.array((15,), kind, seed) for seed in range(count)]
    loading.compare(program(name, kind, count, result_of(name, kind), 15), arrays, LOOSE.get(kind, 2e-5), forms=False)


def edges(kind: str) -> np.ndarray:
    if kind in BOOL:
        return np.array([False, True])
    if kind in INTEGERS:
        info = np.iinfo(loading.NAMES[kind])
        return np.array([0, 1, 2, 3, 7, 31, 63, 64, 100, info.max, info.max - 1, info.min, *(
            [-1, -2, -8, info.min + 1] if info.min else [])]).astype(info.dtype)
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3e38, np.inf, -np.inf, np.nan, 1e-30, 0.49999997, 300.0,
              -129.0, 2147483648.0, -2147483904.0, 4294967296.0, 1e19]
    with np.errstate(over="ignore"):
        if kind == "bf16":
            import ml_dtypes

            return np.array(values).astype(ml_dtypes.bfloat16)
        return np.array(values).astype(loading.NAMES[kind])


EXACT = [(n, k, c) for n, k, c in CASES if n in """ceil floor round_nearest_even round_nearest_afz abs sign negate
  not popcnt
    count_leading_zeros is_finite add subtract multiply divide remainder maximum minimum and or xor shift_left
    shift_right_logical shift_right_arithmetic power""".split() and k not in COMPLEX]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "kind", "count"), EXACT, ids=lambda v: str(v))
def test_edges(name, kind, count):
    values = edges(kind)
    pairs = [values] if count == 1 else [a.reshape(-1) for a in np.meshgrid(values, values)]
    if name == "power" and kind in INTEGERS:      # of larger powers XLA looks at the last six bits
        pairs = [p[pairs[1] < 64] for p in pairs]
    text = program(name, kind, count, result_of(name, kind), pairs[0].size)
    wanted, got = loading.numbers(loading.by_xla(text, pairs)[0]), loading.by_us(text, pairs)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-6 if kind in ("f32", "f64") else 1e-2, atol=1e-37)
    if name in ("ceil", "floor", "round_nearest_even", "round_nearest_afz", "sign"):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


ALL = INEXACT + INTEGERS + BOOL


@pytest.mark.share(8)
@pytest.mark.parametrize(("source", "target"), [(a, b) for a in ALL for b in ALL if a not in COMPLEX or b in COMPLEX])
def test_conversions(source, target):
    values = edges(source) if source not in COMPLEX else loading.array((15,), source, 0)
    if source in FLOATS and target in FLOATS:
        values = values[np.abs(values.astype(np.float64)) < 1e30]
    text = program("convert", source, 1, target, values.size)
    wanted, got = loading.numbers(loading.by_xla(text, [values])[0]), loading.by_us(text, [values])[0]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("how", ["", ", FLOAT", ", TOTALORDER"])
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparisons_of_numbers_that_are_none(direction, how):
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    a, b = (x.reshape(-1) for x in np.meshgrid(values, values))
    kind = f"tensor<{a.size}xf32>"
    text = loading.function([kind, kind], [kind.replace("f32", "i1")], f"%r = stablehlo.compare {direction}, %a0,"
        f" %a1{how}"
                            f" : ({kind}, {kind}) -> tensor<{a.size}xi1>")
    loading.compare(text, [a, b])


@pytest.mark.parametrize(("kind", "how"), [("ui8", ", UNSIGNED"), ("i1", ", UNSIGNED"), ("i64", ", SIGNED"), ("bf16",
    "")])
def test_comparisons_of_other_types(kind, how):
    values = edges(kind)
    a, b = (x.reshape(-1) for x in np.meshgrid(values, values))
    given = f"tensor<{a.size}x{kind}>"
    for direction in ("EQ", "LT", "GE"):
        text = loading.function([given, given], [f"tensor<{a.size}xi1>"], f"%r = stablehlo.compare {direction}, %a0,"
            f" %a1"
                                f"{how} : ({given}, {given}) -> tensor<{a.size}xi1>")
        loading.compare(text, [a, b], forms=False)


def test_a_clamp_keeps_numbers_that_are_none():
    kind = "tensor<5xf32>"
    text = loading.function([kind] * 3, [kind], f"%r = stablehlo.clamp %a0, %a1, %a2 : {kind}")
    nan, inf = np.nan, np.inf
    loading.compare(text, [np.array(v, np.float32) for v in ([0, 0, nan, 3, -inf], [nan, -5, 1, 2, inf], [1, 1, 2, 1,
        9])])


@pytest.mark.parametrize("form", ["e5m10", "e8m7", "e4m3", "e2m1"])
def test_precision_is_reduced_at_the_edges_too(form):
    values = np.concatenate([edges("f32"), np.float32(65519.9) * np.array([1, -1, 2], np.float32)])
    kind = f"tensor<{values.size}xf32>"
    loading.compare(loading.function([kind], [kind], f"%r = stablehlo.reduce_precision %a0, format = {form} : {kind}"),
                    [values])
