"""use_deterministic_algorithms: fresh memory is filled, and the ops PyTorch refuses on the CPU are refused."""

from __future__ import annotations

import math

import pytest

import rushlight as rl

F = rl.nn.functional


@pytest.fixture
def deterministic():
    rl.use_deterministic_algorithms(True)
    yield
    rl.use_deterministic_algorithms(False)
    rl.utils.deterministic.fill_uninitialized_memory = True


FRESH = {
    "empty": lambda: rl.empty(3), "empty_like": lambda: rl.empty_like(rl.ones(3)),
    "new_empty": lambda: rl.ones(1).new_empty(3), "strided": lambda: rl.empty_strided((2, 2), (3, 1)),
    "permuted": lambda: rl.empty_permuted((2, 3), (1, 0)), "large": lambda: rl.empty(100_000),
}


@pytest.mark.parametrize("name", FRESH)
def test_fresh_memory_is_filled(name, deterministic):
    assert FRESH[name]().isnan().all()


def test_values_by_dtype(deterministic):
    torch = pytest.importorskip("torch")
    torch.use_deterministic_algorithms(True)
    try:
        for name in ("int8", "uint8", "int16", "int32", "int64", "bool"):
            assert rl.empty(2, dtype=getattr(rl, name)).tolist() == torch.empty(2, dtype=getattr(torch, name)).tolist()
    finally:
        torch.use_deterministic_algorithms(False)
    for name in ("float16", "bfloat16", "float64"):
        assert math.isnan(rl.empty(1, dtype=getattr(rl, name)).item())


def test_growing_fills_only_what_is_new(deterministic):
    x = rl.tensor([1.0, 2.0])
    x.resize_(4)
    assert x[:2].tolist() == [1.0, 2.0]
    assert x[2:].isnan().all()


def test_filling_can_be_switched_off(deterministic):
    rl.utils.deterministic.fill_uninitialized_memory = False
    assert rl.utils.deterministic.fill_uninitialized_memory is False
    rl.empty(8).fill_(3.0)
    with pytest.raises(TypeError):
        rl.utils.deterministic.fill_uninitialized_memory = 1


REFUSED = {
    "put_": lambda: rl.ones(4).put_(rl.tensor([0, 0]), rl.ones(2)),
    "max_unpooling2d_forward_out": lambda: F.max_unpool2d(
        *F.max_pool2d(rl.rand(1, 1, 4, 4), 2, return_indices=True), 2
    ),
    "max_unpooling3d_forward_out": lambda: F.max_unpool3d(
        *F.max_pool3d(rl.rand(1, 1, 4, 4, 4), 2, return_indices=True), 2
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_undetermined_ops_are_refused(name, deterministic):
    for _ in range(2):   # the second call would find a plan
        with pytest.raises(RuntimeError, match=f"{name} does not have a deterministic implementation"):
            REFUSED[name]()
    rl.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=name):
        REFUSED[name]()
    rl.use_deterministic_algorithms(False)
    REFUSED[name]()


def test_accumulating_is_fine(deterministic):
    assert rl.zeros(2).put_(rl.tensor([0, 0]), rl.ones(2), accumulate=True).tolist() == [2.0, 0.0]


def test_modes_and_types():
    assert rl.get_deterministic_debug_mode() == 0
    rl.set_deterministic_debug_mode("warn")
    assert (rl.are_deterministic_algorithms_enabled(), rl.is_deterministic_algorithms_warn_only_enabled()) == (
        True,
        True,
    )
    rl.set_deterministic_debug_mode("default")
    assert not rl.are_deterministic_algorithms_enabled()
    with pytest.raises(TypeError):
        rl.use_deterministic_algorithms(1)
