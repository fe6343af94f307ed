"""Complex functions at zeros, infinities and NaN, with the signs of zero and infinity.

What C's Annex G and the array API standard fix is held against the C library through NumPy; the rest against PyTorch.
Every function runs on vectors long enough for the vectorised kernel, and on single elements.
"""

from __future__ import annotations

import math

import pytest

import rushlight as rl

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

EDGE = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, -200.0, math.inf, -math.inf, math.nan]
GRID = [complex(a, b) for a in EDGE for b in EDGE]
PAIR = [
    complex(a, b)
    for a in (0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan)
    for b in (0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan)
]

# name here: name in NumPy
NUMPY = {"exp": "exp", "log": "log", "sqrt": "sqrt", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "acos": "arccos",
         "asin": "arcsin", "atan": "arctan", "acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh", "sin": "sin",
         "cos": "cos", "tan": "tan"}
TORCH = (*NUMPY, "exp2", "log2", "log10", "rsqrt", "sigmoid", "square", "reciprocal", "abs", "angle", "expm1", "log1p")
# Where PyTorch leaves the standard, and what the standard says.
STANDARD = {
    "acos": "an argument with imaginary part +0 gives -0",
    "expm1": "inf + 0j stays real, -inf gives -1 in every direction",
    "log2": "an infinite logarithm keeps its angle, which some builds of PyTorch make NaN",
    "log1p": "-0 + 0j gives +0, and the modulus of an infinity is infinite whatever the other part",
}


def part(x: float) -> str:
    if x != x:
        return "nan"
    if x == 0 or math.isinf(x):
        return f"{'-' if math.copysign(1, x) < 0 else '+'}{abs(x)}"
    return f"{x:+.3g}"


def spelled(z: complex) -> tuple[str, str]:
    z = complex(z)
    return part(z.real), part(z.imag)


def both_lengths(function, dtype, *numbers):
    """Results of the vectorised kernel; those of one-element calls are checked to be the same."""
    columns = [rl.tensor(list(column), dtype=dtype) for column in numbers]
    long = function(*(rl.cat([c, c[:64]]) for c in columns)).tolist()[: len(columns[0])]
    step = 1 if len(columns[0]) < 500 else 17
    for i in range(0, len(columns[0]), step):
        assert spelled(function(*(c[i : i + 1].clone() for c in columns)).item()) == spelled(long[i]), [
            c[i] for c in columns
        ]
    return long


def one_by_one(function, *columns):
    """PyTorch's scalar loop: its vectorised ones differ from machine to machine."""
    return [function(*(c[i : i + 1] for c in columns)).item() for i in range(len(columns[0]))]


def differences(inputs, wanted, found):
    return [
        (z, spelled(w), spelled(g)) for z, w, g in zip(inputs, wanted, found, strict=True) if spelled(w) != spelled(g)
    ]


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NUMPY)
def test_special_values_follow_annex_g(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY[name])(np.array(GRID, dtype=dtype)).tolist()
    found = both_lengths(getattr(rl, name), getattr(rl, dtype), GRID)
    assert differences(GRID, wanted, found) == []


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", TORCH)
def test_special_values_agree_with_torch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    wanted = one_by_one(getattr(torch, name), torch.tensor(GRID, dtype=getattr(torch, dtype)))
    found = both_lengths(getattr(rl, name), getattr(rl, dtype), GRID)
    wrong = differences(GRID, wanted, found)
    if name in STANDARD:
        wrong = [w for w in wrong if w[2] != standard(name, w[0])]
    assert wrong == []


def standard(name: str, z: complex) -> tuple[str, str]:
    """What the standard says where PyTorch gives something else; see STANDARD."""
    a, b = z.real, z.imag
    if name == "acos" and b == 0:
        return part(math.acos(a)), part(math.copysign(0.0, -b))
    if name == "log1p":
        return (
            ("+inf", "nan") if math.isinf(a) or math.isinf(b) else ("+0.0", part(b)) if a == 0 and b == 0 else ("", "")
        )
    if name == "log2":      # the logarithm's parts, each scaled
        with np.errstate(all="ignore"):
            log = np.log(np.complex128(z))
        return part(log.real / math.log(2)), part(log.imag / math.log(2))
    if name == "expm1":
        if b == 0:
            return part(a), part(b)
        return ("+inf", "nan") if a > 0 else ("-1", part(math.copysign(0.0, b)))
    return "", ""


def test_expm1_and_log1p_follow_the_standard() -> None:
    inf, nan = math.inf, math.nan
    expected = {
        "expm1": {complex(inf, 0.0): ("+inf", "+0.0"), complex(-inf, inf): ("-1", "+0.0"),
                  complex(-inf, nan): ("-1", "+0.0"), complex(inf, inf): ("+inf", "nan"),
                  complex(inf, nan): ("+inf", "nan"), complex(nan, 0.0): ("nan", "+0.0"),
                  complex(0.0, nan): ("nan", "nan"), complex(-inf, 1.0): ("-1", "+0.0")},
        "log1p": {complex(-1.0, 0.0): ("-inf", "+0.0"), complex(1.0, inf): ("+inf", "+1.57"),
                  complex(-inf, 1.0): ("+inf", "+3.14"), complex(inf, nan): ("+inf", "nan"),
                  complex(nan, inf): ("+inf", "nan"), complex(-inf, inf): ("+inf", "+2.36"),
                  complex(nan, 1.0): ("nan", "nan"), complex(-0.0, 0.0): ("+0.0", "+0.0")},
    }
    for name, cases in expected.items():
        found = both_lengths(getattr(rl, name), rl.complex128, list(cases))
        assert [spelled(g) for g in found] == list(cases.values()), name


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["mul", "div"])
def test_products_and_quotients_agree_with_torch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    # z / z: rounding, not rules
    pairs = [(a, b) for a in PAIR for b in PAIR if not (a == b and a == a and name == "div")]
    left, right = zip(*pairs, strict=True)
    wanted = one_by_one(
        getattr(torch, name),
        torch.tensor(left, dtype=getattr(torch, dtype)),
        torch.tensor(right, dtype=getattr(torch, dtype)),
    )
    found = both_lengths(getattr(rl, name), getattr(rl, dtype), left, right)
    assert differences(pairs, wanted, found) == []


def test_atanh_of_large_numbers_keeps_its_real_part() -> None:
    z = rl.tensor([1e25 + 0j, 3e30 + 4e30j], dtype=rl.complex64).atanh()
    assert z.real.tolist() == pytest.approx([1e-25, 3e30 / 25e60], rel=1e-6)


def test_tanh_far_out_keeps_its_small_imaginary_part() -> None:
    found = rl.tensor([30 + 1j, -200 + 0.5j], dtype=rl.complex128).tanh().imag.tolist()
    assert found == pytest.approx(
        [4 * math.sin(1) * math.cos(1) * math.exp(-60), 4 * math.sin(0.5) * math.cos(0.5) * math.exp(-400)], rel=1e-12
    )
