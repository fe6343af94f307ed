"""Numbers given to ops: which fit the dtype they become elements of, which are refused, and how they are rounded.

`scalar_answers.txt` holds what PyTorch 2.13 answers, one letter for each number of `scalar_calls.VALUES`: `.` for a
result, else the exception's first letter. Where PyTorch is installed results are compared as well.
"""

from __future__ import annotations

import functools
import math
import operator
import pathlib

import pytest
import scalar_calls

import rushlight as rl

pytestmark = pytest.mark.share(2)   # of each test that has several cases

LETTERS = {
    "!RuntimeError": "R", "!OverflowError": "O", "!NotImplementedError": "N", "!TypeError": "T", "!ValueError": "V"
}
HALVES = ("float16", "bfloat16")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ROUNDED_FIRST = """
x + v|v - x|x - v|T.rsub(x, v)|T.add(x, x, alpha=v)|T.clamp(x, v)|T.clamp(x, max=v)|x == v|x != v|x < v|x <= v|v > x
T.fmod(x, v)|T.remainder(x, v)|x.clone().add_(v)|F.hardshrink(x, v)|T._foreach_add([x], v)[0]|T.isin(x, v)
T.searchsorted(s, v)|T.maximum(x, w)|T.minimum(x, w)|x + w|w - x|x == w|w < x|T.hypot(x, w)|T.where(m, x, w)
""".replace("\n", "|").strip("|").split("|")
EXACT = """
x * v|v * x|x / v|T.div(x, v, rounding_mode='floor')|x // v|T.addcmul(x, x, x, value=v)|F.leaky_relu(x, v)|F.elu(x, v)
F.softplus(x, v)|T.lerp(x, 2 * x, v)|x.clone().mul_(v)|x * w|x / w|T._foreach_mul([x], v)[0]|F.threshold(x, v, 1)
""".replace("\n", "|").strip("|").split("|")


def stored() -> dict[tuple[str, str], str]:
    lines = (pathlib.Path(__file__).parent / "scalar_answers.txt").read_text().splitlines()
    return {(call, dtype): codes for codes, dtype, call in (line.split(" ", 2) for line in lines)}


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", scalar_calls.VALUES)
def test_numbers_are_refused_where_pytorch_refuses_them(dtype: str) -> None:
    answers, wrong = stored(), []
    for call in scalar_calls.CALLS:
        for value, code in zip(scalar_calls.VALUES[dtype], answers[call, dtype], strict=True):
            got = scalar_calls.outcome(rl, call, dtype, value)
            if LETTERS.get(got, "." if got[0] != "!" else "?") != code:
                wrong.append((call, value, code, got))
    assert not wrong


@pytest.mark.parametrize("dtype", scalar_calls.VALUES)
def test_numbers_give_what_pytorch_makes_of_them(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    wrong = []
    for call in scalar_calls.CALLS:
        for value in scalar_calls.VALUES[dtype]:
            # PyTorch adds a product of complex numbers there, and infinity times 0 is not a number.
            if dtype == "complex64" and abs(value) > 1e38 and "add" in call.replace("x + v", "add"):
                continue
            want, got = (scalar_calls.outcome(m, call, dtype, value) for m in (torch, rl))
            if want != got:
                wrong.append((call, value, want, got))
    assert not wrong


def test_ints_of_more_than_64_bits_are_no_arguments() -> None:
    x = rl.tensor([1, 2])
    for value in (2**64, -(2**63) - 1, 10**400):
        for call in (operator.add, operator.eq, operator.pow, rl.fmod, rl.full_like):
            with pytest.raises(OverflowError):
                call(x, value)
    assert (x + (2**64 - 1)).tolist() == [0, 1]


def test_refusals_name_op_value_and_type_and_leave_the_tensor() -> None:
    x = rl.arange(3, dtype=rl.uint8)
    with pytest.raises(RuntimeError, match=r"fill_: value 300 cannot be converted to type uint8 without overflow"):
        x.fill_(300)
    with pytest.raises(RuntimeError, match=r"masked_fill_: value 300"):
        x.masked_fill_(rl.tensor([True, True, False]), rl.tensor(300))
    assert x.tolist() == [0, 1, 2]
    assert x.fill_(-1).tolist() == [255] * 3 and (x + 300).tolist() == [43] * 3


def test_planned_calls_check_every_number() -> None:
    x = rl.zeros(4, dtype=rl.int8)
    for value in (1, 100, 127):     # the plan of the first call serves the others
        assert x.clamp(max=value).tolist() == [0] * 4 and rl.linspace(0, value, 2, dtype=rl.int8).tolist() == [0, value]
    for value in (128, 1000):
        with pytest.raises(RuntimeError, match="without overflow"):
            x.clamp(max=value)
        with pytest.raises(RuntimeError, match="without overflow"):
            rl.linspace(0, value, 2, dtype=rl.int8)


def test_transforms_and_compiled_functions_refuse_them_too() -> None:
    x, half = rl.zeros(3, dtype=rl.uint8), rl.ones(3, dtype=rl.float16, requires_grad=True)
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.func.vmap(lambda row: row.clamp(max=300))(x)
    with pytest.raises(RuntimeError, match="without overflow"):
        half.masked_fill(rl.tensor([True, False, True]), 70000.0)
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.compile(lambda t: t.masked_fill(t == 0, 300) + 1)(x)


# --- rounding ---------------------------------------------------------------------------------------------------------


def arguments(T, dtype: str, v: float) -> dict:
    x = T.linspace(-2, 2, 65).to(getattr(T, dtype))
    x[::7] = v
    return {"T": T, "F": T.nn.functional, "x": x, "s": x.sort().values, "v": v, "w": T.tensor(v), "m": x > 0}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("call", [*ROUNDED_FIRST, *EXACT])
def test_wider_operands_are_rounded_to_the_common_type_first(dtype: str, call: str) -> None:
    """But for the factors and divisors of products, which keep what they have."""
    differs = False
    for v in (0.1, 1 / 3, -0.7, 1.2345678):
        held = rl.tensor(v).to(getattr(rl, dtype)).item()
        got, other = (eval(call, arguments(rl, dtype, n)) for n in (v, held))
        differs |= not rl.equal(got, other)
    assert differs == (call in EXACT and call != "F.threshold(x, v, 1)") or call in ("x // v", "F.threshold(x, v, 1)")


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_of_operands_is_pytorchs(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    wrong = []
    for call in (*ROUNDED_FIRST, *EXACT):
        for v in (0.1, 1 / 3, -0.7, 1.2345678):
            want, got = (eval(call, arguments(T, dtype, v)).double().reshape(-1).tolist() for T in (torch, rl))
            worst = max(map(abs, map(operator.sub, want, got)))
            if worst > (0.01 if call in ("F.elu(x, v)", "F.softplus(x, v)") else 0):
                wrong.append((call, v, worst))
    assert not wrong


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_half_made_from_a_number_equals_it(dtype: str, compiled: bool) -> None:
    x = rl.tensor([0.1, 1 / 3, 0.7], dtype=getattr(rl, dtype))
    for name, want in zip(COMPARISONS, (True, False, False, True, False, True), strict=True):
        compare = functools.partial(lambda op, t, n: op(t, n), getattr(operator, name))
        compare = rl.compile(compare) if compiled else compare
        for k, number in enumerate((0.1, 1 / 3, 0.7)):
            assert compare(x, number)[k].item() is want
            assert compare(x, rl.tensor(number))[k].item() is want
            assert compare(x, rl.tensor(number, dtype=rl.float64))[k].item() is want
    assert 0.1 in x and rl.isin(x, 0.1).tolist() == [True, False, False]


def test_limits_of_a_gradient_are_rounded_as_those_of_the_result() -> None:
    x = rl.tensor([0.1, 0.2], dtype=rl.float16, requires_grad=True)
    x.clamp(min=0.1).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_floats_to_uint64_wrap_below_zero() -> None:
    got = rl.tensor([-2.0, 1e19, 3e9]).to(rl.uint64).tolist()
    assert got[1:] == [9999999980506447872, 3000000000]
    assert got[0] in (2**64 - 2, 0)     # other processors than x86 stop at 0, PyTorch's builds for them too
    assert not math.isnan(got[0])
