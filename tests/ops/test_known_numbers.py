"""Numbers that ops compile in are one table, in the core: plan keys and Python agree on which they are."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import _C

KNOWN = (-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4)


@pytest.mark.parametrize("number", KNOWN)
def test_known_numbers(number):
    assert _C.is_known_number(number) and _C.is_known_number(float(number))


@pytest.mark.parametrize(
    "number",
    [True, False, 5, -3, 0.25, 2.5, float("nan"), float("inf"), 2**2000, -(2**2000), 2 + 0j, "2", None, 4 + 1e-15],
)
def test_other_values(number):
    assert not _C.is_known_number(number)


def test_a_plan_of_one_known_number_does_not_serve_another():
    x = rushlight.tensor([0.25, 1.0, 4.0], dtype=rushlight.float64)
    for number in (*KNOWN, 5, -3, 0.25, 2.5, *reversed(KNOWN), *map(float, KNOWN)):
        assert x.pow(number).tolist() == pytest.approx([v**number for v in (0.25, 1.0, 4.0)], rel=1e-14)
