"""Float8 types: what every code stands for, and how numbers are rounded to them."""

from __future__ import annotations

import itertools
import math

import pytest

import rushlight as rl

# mantissa bits, exponent bias, largest number, what lies beyond it, whether the sign of 0 is kept
FORMATS = {
    "float8_e4m3fn": (3, 7, 448.0, "largest", True),
    "float8_e5m2": (2, 15, 57344.0, "infinite", True),
    "float8_e4m3fnuz": (3, 8, 240.0, "nan", False),
    "float8_e5m2fnuz": (2, 16, 57344.0, "nan", False),
}
OTHERS = "bool uint8 int16 int64 float16 bfloat16 float32 float64 complex64".split()


def codes(T, name: str):
    return T.arange(256, dtype=T.uint8).view(getattr(T, name))


def points(name: str) -> list[float]:
    """All numbers of a format, the middles between them, and their neighbours in float32."""
    held = sorted({abs(v) for v in codes(rl, name).float().tolist() if math.isfinite(v)})
    places = {*held, *((a + b) / 2 for a, b in itertools.pairwise(held)), held[-1] * 1.03, held[-1] * 1.25}
    near = [n for p in places for n in (p, p * (1 - 2**-23), p * (1 + 2**-23))]
    return [float(n) for n in rl.tensor([*near, *(-n for n in near), math.inf, -math.inf, 0.0, 1e-45]).tolist()]


def nearest(v: float, name: str) -> float:
    mantissa, bias, largest, beyond, _ = FORMATS[name]
    if not math.isfinite(v):
        step, near = 0.0, v
    else:
        exponent = max(math.frexp(v)[1] - 1, 1 - bias)
        step = 2.0 ** (exponent - mantissa)
        near = round(v / step) * step     # halves to even
    if abs(near) <= largest:
        return near
    return {"largest": math.copysign(largest, v), "infinite": math.copysign(math.inf, v), "nan": math.nan}[beyond]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_become_the_nearest_of_the_format(name: str) -> None:
    given = points(name)
    got = rl.tensor(given).to(getattr(rl, name)).float().tolist()
    wrong = [(v, w, g) for v, g in zip(given, got, strict=True)
             if not ((w := nearest(v, name)) == g or (math.isnan(w) and math.isnan(g)))]
    assert not wrong
    zero = rl.tensor([-0.0]).to(getattr(rl, name)).view(rl.uint8).item()
    assert zero == (0x80 if FORMATS[name][4] else 0)


@pytest.mark.parametrize("name", [*FORMATS, "float8_e8m0fnu"])
def test_single_numbers_and_kernels_round_alike(name: str) -> None:
    dtype, given = getattr(rl, name), points(name)[::5]
    want = rl.tensor(given).to(dtype).view(rl.uint8).tolist()
    assert [rl.tensor(v, dtype=dtype).view(rl.uint8).item() for v in given] == want
    assert rl.tensor([math.nan]).to(dtype).float().isnan().item()


def test_powers_of_two_have_an_exponent_alone() -> None:
    dtype = rl.float8_e8m0fnu
    given = [0.0, 1.0, -2.0, 1.5, 3.0, 1.4, 2.0**127, 2.0**-127, 1.5 * 2.0**-127, math.inf]
    got = rl.tensor(given).to(dtype)
    assert got.view(rl.uint8).tolist() == [0, 127, 128, 128, 129, 127, 254, 0, 1, 255]
    assert got.to(rl.bool).all().item() and got[0].item() == 2.0**-127


def test_beyond_the_largest_number_there_is_none() -> None:
    got = rl.tensor([240.0, 300.0]).to(rl.float8_e4m3fnuz)
    assert got.float()[0].item() == 240.0 and got.float()[1].isnan().item()
    assert rl.finfo(rl.float8_e4m3fnuz).max == 240.0 and rl.finfo(rl.float8_e8m0fnu).tiny == 2.0**-127


@pytest.mark.parametrize("name", [*FORMATS, "float8_e8m0fnu"])
def test_conversions_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    for other in (*OTHERS, *FORMATS, "float8_e8m0fnu"):
        want, got = (codes(T, name).to(getattr(T, other)).to(T.complex128).tolist() for T in (torch, rl))
        held = codes(rl, name).float().tolist()
        wrong = [(v, a, b) for v, a, b in zip(held, want, got, strict=True)
                 if a != b and not (a != a and b != b) and not (math.isnan(v) and "int" in other)]
        assert not wrong, other
    for source in ("float32", "float64", "float16", "int64"):
        given = points(name)
        if source == "int64":
            given = [float(round(v)) for v in given if abs(v) < 1e9]
        want, got = (
            T.tensor(given).to(getattr(T, source)).to(getattr(T, name)).view(T.uint8).tolist() for T in (torch, rl)
        )
        assert want == got, source


def test_types_that_are_only_stored_are_refused_by_a_public_class() -> None:
    packed = rl.zeros(4, dtype=rl.uint8).view(rl.float4_e2m1fn_x2)
    for call in (lambda: packed.to(rl.float32), lambda: packed.sum(), lambda: packed + packed):
        with pytest.raises((NotImplementedError, RuntimeError)) as caught:
            call()
        assert caught.type.__module__ == "builtins"
