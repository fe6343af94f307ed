"""Sequences: what they count, and how far."""

import pytest

import rushlight as rl


@pytest.mark.parametrize("bounds", [
    (2**31 - 5, 2**31 + 5), (-(2**31) - 3, -(2**31) + 9), (0, 2**31 + 10, 2**29), (2**40, 2**40 + 3), (7, -8, -3),
    (-(2**31), 2**31 - 1, 2**30), (0, 3 * 2**31, 2**31 - 1),
])
def test_arange_counts_beyond_32_bits(bounds):
    assert rl.arange(*bounds).tolist() == list(range(*bounds))
    assert rl.arange(*bounds, dtype=rl.float64).tolist() == [float(n) for n in range(*bounds)]
