"""cumsum of long rows within registers, as processors with wide vectors compute it, here on all."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.library.prefix_sums import PrefixSums
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.schedule.cpu import walk_chunks
from rushlight.codegen.text.targets import find_target
from rushlight.freestanding.kernels import kernel_text


@pytest.fixture(autouse=True)
def in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of these lengths are written here first."""
    monkeypatch.setattr(walk_chunks, "WIDE", True)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(262144,), (262151,), (2, 300007), (1, 1000003)])
def test_sums_are_exact_to_rounding_and_the_same_for_all_threads(shape: tuple[int, ...], kind: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(kind)
    exact = np.cumsum(x.astype(np.longdouble), -1)
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            found.append(rl.cumsum(rl.from_numpy(x), -1).numpy().copy())
    finally:
        rl.set_num_threads(before)
    assert all((f == found[0]).all() for f in found)
    bound = 2.0**-24 * abs(exact).max() if kind == "f4" else 2.0**-50 * x.shape[-1] ** 0.5 * abs(exact).max()
    assert abs(found[0] - exact).max() <= bound


def test_what_is_not_finite_stays_behind_its_element() -> None:
    x = rl.ones(262161)
    x[100], x[70001], x[262155] = math.inf, -math.inf, math.nan
    y = rl.cumsum(x, 0)
    assert y[:100].tolist() == list(range(1, 101))
    assert y[100:70001].isposinf().all() and y[70001:].isnan().all()


@pytest.mark.parametrize("name", ["x86-64-avx2", "x86-64-avx512", "aarch64", "wasm32"])
@pytest.mark.parametrize("form", ["whole", "folds", "walks"])
def test_kernels_go_to_other_machines(form: str, name: str) -> None:
    target = find_target(name)
    function, text = kernel_text(PrefixSums("f32", form, 65536).compiled().address, target)
    assert f"{function}:" in compile_ir(text, target, "asm")
