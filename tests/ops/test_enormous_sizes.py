"""Calls whose result no memory holds, or whose order is enormous, are refused or answered at once."""

from __future__ import annotations

import time

import pytest

import rushlight as rl
import rushlight.nn.functional as F

HUGE = {
    "nearest": lambda: F.interpolate(rl.zeros(1, 1, 2, 2), size=(2**40, 2)),
    "bilinear": lambda: F.interpolate(rl.zeros(1, 1, 2, 2), size=(2**40, 2**40), mode="bilinear"),
    "scale": lambda: F.interpolate(rl.zeros(1, 1, 2, 2), scale_factor=1e12),
    "bytes": lambda: F.interpolate(rl.zeros(1, 1, 2, 2, dtype=rl.uint8), size=(2**50, 2), mode="bilinear"),
    "adaptive_avg_pool3d": lambda: F.adaptive_avg_pool3d(rl.zeros(1, 1, 2, 2, 2), (2**45, 2, 2)),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(rl.zeros(1, 1, 2, 2), (2**45, 2)),
    "pad replicate": lambda: F.pad(rl.zeros(1, 1, 2, 2), (2**45, 2, 1, 1), mode="replicate"),
    "tril_indices": lambda: rl.tril_indices(2**31, 2**31),
    "affine_grid": lambda: F.affine_grid(rl.ones(1, 2, 3), (1, 1, 2**31, 2**31), align_corners=False),
    "repeat_interleave": lambda: rl.ones(2).repeat_interleave(2**45),
}


@pytest.mark.parametrize("name", HUGE)
def test_result_that_memory_cannot_hold_is_refused_at_once(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="memory|overflow|too large"):
        HUGE[name]()
    assert time.monotonic() - start < 20


def test_windows_are_not_tabulated_without_end() -> None:
    """Where memory is promised without limit, the result exists before its windows do."""
    from rushlight.definitions.window.axes import ADAPTIVE, Axis, table_of

    with pytest.raises(RuntimeError, match="memory"):
        table_of(Axis(rule=ADAPTIVE, size=2, out=2**40))


KINDS = [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]


@pytest.mark.parametrize("name", KINDS)
def test_chebyshev_polynomials_of_high_degree(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = [0.3, 0.9, -0.5, 1.0, -1.0, 1.0001, -1.0001, 0.0]
    for degree in (513, [700, 3] * 4):
        wanted = getattr(torch.special, name)(torch.tensor(x, dtype=torch.float64), torch.tensor(degree)).tolist()
        found = getattr(rl.special, name)(rl.tensor(x, dtype=rl.float64), rl.tensor(degree)).tolist()
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6, nan_ok=True)


def test_enormous_degrees_are_answered_at_once() -> None:
    x = rl.tensor([0.5, 1.0, -1.0])
    assert rl.special.chebyshev_polynomial_t(x, 2**40)[1:].tolist() == [1.0, 1.0]
    assert rl.special.hermite_polynomial_h(x, 2**40).isnan().all()
    assert rl.special.hermite_polynomial_he(x, 2**40).isnan().all()


@pytest.mark.parametrize("shape", [(3, 4), (5, 2), (2, 6), (0, 3), (4, 4)])
@pytest.mark.parametrize("offset", [-6, -2, -1, 0, 1, 3, 7])
def test_triangle_positions(shape: tuple[int, int], offset: int) -> None:
    for name in ("tril", "triu"):
        found = getattr(rl, f"{name}_indices")(*shape, offset)
        wanted = getattr(rl.ones(shape), name)(offset).nonzero().t()
        assert found.tolist() == wanted.tolist()


def test_rows_that_have_no_positions_take_no_time() -> None:
    start = time.monotonic()
    for function in (rl.tril_indices, rl.triu_indices):
        assert function(2**45, 0).shape == (2, 0)
    few = rl.tril_indices(2**45, 5, 3 - 2**45)
    assert few[0].tolist() == [2**45 - 3, *[2**45 - 2] * 2, *[2**45 - 1] * 3] and few[1].tolist() == [0, 0, 1, 0, 1, 2]
    assert rl.triu_indices(5, 2**45, 2**45 - 2).tolist() == [[0, 0, 1], [2**45 - 2, 2**45 - 1, 2**45 - 1]]
    assert time.monotonic() - start < 20
