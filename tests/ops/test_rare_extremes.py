"""cummax and cummin of long rows, where blocks without a new extreme are passed over."""

import math

import pytest

import rushlight as rl


def extremes(row, takes):
    """Values and places, one element after another; NaN, once there, stays until the next one."""
    best, where, values, places = row[0], 0, [], []
    for k, x in enumerate(row):
        if math.isnan(x) or (not math.isnan(best) and takes(x, best)):
            best, where = x, k
        values.append(best)
        places.append(where)
    return values, places


def rows(kind, length):
    rl.manual_seed(0)
    x = rl.randn(3, length, dtype=rl.float64)
    if kind == "ties":
        x = (x * 2).round()
    if kind == "rising":
        x = rl.arange(3.0 * length, dtype=rl.float64).view(3, length)
    if kind == "nan":
        x[0, 250] = x[1, 10] = x[1, 200] = x[2, length - 1] = math.nan
    if kind == "infinite":
        x[0, :] = -math.inf
        x[1, 100] = math.inf
    return x


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int32, rl.int64])
@pytest.mark.parametrize("kind", ["plain", "ties", "rising", "nan", "infinite"])
@pytest.mark.parametrize("length", [256, 333, 1000])
def test_long_rows_are_walked_as_short_ones(dtype, kind, length):
    if not dtype.is_floating_point and kind in ("nan", "infinite"):
        pytest.skip("integers have neither")
    x = rows(kind, length).to(dtype)
    for op, takes in ((rl.cummax, lambda a, b: a >= b), (rl.cummin, lambda a, b: a <= b)):
        found = op(x, 1)
        for r in range(3):
            values, places = extremes(x[r].tolist(), takes)
            assert rl.equal(found.values[r].isnan(), rl.tensor(values).isnan())
            assert found.values[r].nan_to_num(7).tolist() == rl.tensor(values, dtype=dtype).nan_to_num(7).tolist()
            assert found.indices[r].tolist() == places
