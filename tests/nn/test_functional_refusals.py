"""What the functions of nn.functional, layers and losses refuse: shapes, sizes, classes, windows, modes, probabilities.

`functional_answers.txt` holds calls with the exception that PyTorch 2.13 raises for each (`-`: none). Where PyTorch is
installed it is asked again.
"""

from __future__ import annotations

import math
import pathlib
import warnings
from typing import Any

import pytest

import rushlight as rl

LINES = (pathlib.Path(__file__).parent / "functional_answers.txt").read_text().splitlines()
ANSWERS = {call: name for name, call in (line.split(" ", 1) for line in LINES)}


def raised(T: Any, call: str) -> str:
    """The class of what a call raises, `-` where it gives a result."""
    def ones(dtype: str) -> Any:
        return lambda *sizes: T.ones(*sizes, dtype=getattr(T, dtype))

    names = {
        "T": T, "F": T.nn.functional, "nn": T.nn, "t": T.tensor, "o": T.ones, "z": T.zeros, "nan": math.nan,
        "oi": ones("int64"), "ob": ones("bool"), "oh": ones("float16"), "oc": ones("complex64"),
    }
    T.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, names)
    except Exception as error:
        return type(error).__name__
    return "-"


@pytest.mark.parametrize("part", range(8))
def test_calls_are_refused_as_pytorch_refuses_them(part: int) -> None:
    got = {call: raised(rl, call) for call in list(ANSWERS)[part::8]}
    assert {c: (ANSWERS[c], g) for c, g in got.items() if g != ANSWERS[c]} == {}


@pytest.mark.parametrize("part", range(4))
def test_stored_answers_are_pytorchs(part: int) -> None:
    torch = pytest.importorskip("torch")
    got = {call: raised(torch, call) for call in list(ANSWERS)[part::4]}
    assert {c: (ANSWERS[c], g) for c, g in got.items() if g != ANSWERS[c]} == {}


def test_groups_of_one_value_are_normalised_by_the_op_alone() -> None:
    x = rl.ones(1, 4, 1)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        rl.nn.functional.group_norm(x, 4)
    assert rl.group_norm(x, 4).tolist() == rl.zeros(1, 4, 1).tolist()
    assert rl.nn.functional.group_norm(rl.ones(2, 4, 1), 4).shape == (2, 4, 1)


def test_probabilities_are_checked_in_input_and_target() -> None:
    loss, half = rl.nn.functional.binary_cross_entropy, rl.full((2,), 0.5)
    for wrong in (half * 3, -half, half * math.nan):
        for given in ((wrong, half), (half, wrong)):
            with pytest.raises(RuntimeError, match="between 0 and 1"):
                loss(*given)
