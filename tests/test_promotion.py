"""Type promotion against PyTorch: every pair of dtypes, as dimensioned tensors, 0-d tensors and Python numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
)
WIDE = ("uint16", "uint32", "uint64")
NUMBERS: tuple[Any, ...] = (True, 2, 2.5, 1 + 2j)
OPERATIONS: dict[str, Callable] = {
    "add": lambda m, a, b: m.add(a, b),
    "sub": lambda m, a, b: a - b,
    "mul": lambda m, a, b: m.mul(a, b),
    "div": lambda m, a, b: m.div(a, b),
    "floor_divide": lambda m, a, b: m.floor_divide(a, b),
    "pow": lambda m, a, b: m.pow(a, b),
    "lt": lambda m, a, b: m.lt(a, b),
    "eq": lambda m, a, b: m.eq(a, b),
    "maximum": lambda m, a, b: m.maximum(a, b),
    "where": lambda m, a, b: m.where(m.tensor([True, False]), a, b),
    "result_type": lambda m, a, b: m.result_type(a, b),
    "bitwise_and": lambda m, a, b: m.bitwise_and(a, b),
    "atan2": lambda m, a, b: m.atan2(a, b),
    "logical_and": lambda m, a, b: m.logical_and(a, b),
}
IN_PLACE: dict[str, Callable] = {
    "add_": lambda m, a, b: a.add_(b), "mul_": lambda m, a, b: a.mul_(b), "div_": lambda m, a, b: a.div_(b),
    "pow_": lambda m, a, b: a.pow_(b), "lt_": lambda m, a, b: a.lt_(b),
    "floor_divide_": lambda m, a, b: a.floor_divide_(b), "copy_": lambda m, a, b: a.copy_(b),
    "isub": lambda m, a, b: operator.isub(a, b),
    "out": lambda m, a, b: m.add(m.ones(2), b, out=a),
}


def operand(m: Any, kind: str, what: Any) -> Any:
    """A dimensioned or 0-d tensor of ones, or the number itself."""
    if kind == "number":
        return what
    return m.ones((2,) if kind == "dim" else (), dtype=getattr(m, what))


def result(fn: Callable, m: Any, a: tuple, b: tuple) -> str:
    """The name of the result's dtype, or of the exception's class."""
    try:
        answer = fn(m, operand(m, *a), operand(m, *b))
    except Exception as error:   # noqa: BLE001  any class is compared
        return type(error).__name__
    return str(getattr(answer, "dtype", answer)).rpartition(".")[2]


def pairs(dtypes: tuple[str, ...]) -> list[tuple[tuple, tuple]]:
    """Every combination of operands with at least one tensor."""
    tensors = [(kind, d) for kind in ("dim", "zero") for d in dtypes]
    numbers = [("number", n) for n in NUMBERS]
    return [
        (a, b) for a in tensors + numbers for b in tensors + numbers if "number" not in (a[0], b[0]) or a[0] != b[0]
    ]


def check(name: str, fn: Callable, combinations: list[tuple[tuple, tuple]]) -> None:
    wrong = []
    for a, b in combinations:
        want, got = result(fn, torch, a, b), result(fn, rl, a, b)
        # PyTorch lacks a kernel: nothing to compare with
        if want not in (got, "NotImplementedError") and (want, got) != ("RuntimeError", "NotImplementedError"):
            wrong.append(f"{name}({a}, {b}): wanted {want}, got {got}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:25])


def test_promote_types_and_can_cast_over_all_pairs() -> None:
    every = DTYPES + WIDE
    wrong = []
    for a in every:
        for b in every:
            for fn in (lambda m, x, y: m.promote_types(x, y), lambda m, x, y: m.can_cast(x, y)):
                answers = []
                for m in (torch, rl):
                    try:
                        answers.append(str(fn(m, getattr(m, a), getattr(m, b))).rpartition(".")[2])
                    except Exception as error:   # noqa: BLE001
                        answers.append(type(error).__name__)
                if answers[0] != answers[1]:
                    wrong.append(f"{a}, {b}: wanted {answers[0]}, got {answers[1]}")
    assert not wrong, "\n".join(wrong[:30])


@pytest.mark.parametrize("name", [n for n in OPERATIONS if n in ("add", "div", "result_type")])
def test_full_table(name: str) -> None:
    check(name, OPERATIONS[name], pairs(DTYPES))


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [n for n in OPERATIONS if n not in ("add", "div", "result_type")])
def test_part_of_the_table(name: str) -> None:
    # Every third combination, from a different one on for each op: the rules are shared, the kernels are not.
    start = list(OPERATIONS).index(name) % 4
    check(
        name,
        OPERATIONS[name],
        pairs(("bool", "uint8", "int32", "float16", "float32", "float64", "complex64"))[start::4],
    )


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_refuses_what_the_target_cannot_hold(name: str) -> None:
    small = ("bool", "uint8", "int64", "bfloat16", "float32", "complex64")
    combinations = [
        (("dim", a), b)
        for a in small
        for b in [*(("dim", d) for d in small), ("zero", "float64"), *(("number", n) for n in NUMBERS)]
    ]
    if name == "copy_":   # PyTorch drops the imaginary part of a number with a warning, and refuses the same in fill_
        combinations = [c for c in combinations if not isinstance(c[1][1], complex)]
    check(name, IN_PLACE[name], combinations)


def test_polynomials_promote_both_operands() -> None:
    def laguerre(m: Any, a: Any, b: Any) -> Any:
        return m.special.laguerre_polynomial_l(a, b)

    kinds = [(k, d) for k in ("dim", "zero") for d in ("int32", "float32", "float64")]
    check("laguerre", laguerre, [(a, b) for a in kinds for b in kinds])


def test_wide_unsigned_types_meet_few_others() -> None:
    some = [("dim", d) for d in WIDE] + [("dim", "uint8"), ("dim", "int64"), ("dim", "float32"), ("dim", "bool")]
    for name in ("add", "eq"):
        check(
            name,
            OPERATIONS[name],
            [(a, b) for a in some for b in some]
            + [(("dim", "uint16"), ("number", 2)), (("dim", "uint64"), ("number", 2.5))],
        )


def test_the_default_dtype_takes_part() -> None:
    for default in ("float64", "bfloat16"):
        try:
            torch.set_default_dtype(getattr(torch, default))
            rl.set_default_dtype(getattr(rl, default))
            check(
                "add",
                OPERATIONS["add"],
                [
                    (("dim", "int32"), ("number", n))
                    for n in NUMBERS
                    if default == "float64" or not isinstance(n, complex)
                ],
            )
            check("div", OPERATIONS["div"], [(("dim", "int32"), ("dim", "int64")), (("zero", "uint8"), ("number", 3))])
            assert rl.tensor(1.5).dtype is getattr(rl, default)
        finally:
            torch.set_default_dtype(torch.float32)
            rl.set_default_dtype(rl.float32)
    for bad in ("int64", "complex64"):
        with pytest.raises(TypeError):
            torch.set_default_dtype(getattr(torch, bad))
        with pytest.raises(TypeError):
            rl.set_default_dtype(getattr(rl, bad))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(["dim", "zero"]), st.sampled_from([d for d in DTYPES if d != "complex32"])),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from(["add", "mul", "cat", "stack"]),
)
def test_chains_of_operands(operands: list[tuple[str, str]], how: str) -> None:
    answers = []
    for m in (torch, rl):
        values = [operand(m, *o) for o in operands]
        if how in ("cat", "stack"):
            result = (
                m.cat([v.reshape(-1) for v in values])
                if how == "cat"
                else m.stack([v.sum().to(v.dtype) for v in values])
            )
        else:
            result = values[0]
            for v in values[1:]:
                result = getattr(m, how)(result, v)
        answers.append((str(result.dtype).rpartition(".")[2], [complex(x) for x in result.reshape(-1).tolist()]))
    assert answers[0] == answers[1]
