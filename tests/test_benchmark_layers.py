"""The layers group of the benchmarks: what it counts, and that its cases run."""

from __future__ import annotations

import sys
from pathlib import Path

import rushlight as rl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.layers import LAYERS, PASSES, Floor, attention, convolution, linear, lstm  # noqa: E402
from benchmarks.worker import compile_case  # noqa: E402


def test_flops_and_bytes_of_layers() -> None:
    stem = convolution("model", 3, 64, 224, 7, 2)(2)
    assert stem.flops == 2 * 2 * 112 * 112 * 64 * 147
    assert stem.bytes == 4 * (2 * (3 * 224 * 224 + 64 * 112 * 112) + 64 * 147)
    assert convolution("model", 16, 16, 10, 3, groups=16)(1).flops == 2 * 100 * 16 * 9
    assert convolution("model", 8, 4, 5, 2, 2, transposed=True)(1).flops == 2 * 25 * 8 * 4 * 4
    assert linear("model", 128, 256, 1024)(8).flops == 2 * 1024 * 256 * 1024
    assert convolution("model", 3, 8, 32, 16, 16, padding=0)(2).flops == 2 * 2 * 4 * 8 * 3 * 256
    assert attention("model", 4, 10, 8)(2).flops == 2 * 2 * (2 * 4 * 10 * 10 * 8)
    assert attention("model", 4, 10, 8, causal=True)(2).flops == 2 * 2 * (2 * 4 * 55 * 8)
    assert lstm("model", 5, 16)(3).flops == 2 * 5 * 3 * 32 * 64
    assert Floor(0.25, 0.5).seconds(5.0, 7.0) == 3.5 and Floor(0.5, 0.25).seconds(5.0, 7.0) == 2.5


def test_layers_have_names_of_their_own() -> None:
    names = [at(1).name for at in LAYERS]
    assert len(names) == len(set(names)) > 60


def test_every_pass_runs() -> None:
    makers = (
        convolution("m", 3, 4, 9, 3, 2),
        convolution("m", 4, 4, 6, 3, groups=4),
        convolution("m", 4, 2, 5, 2, 2, transposed=True),
        linear("m", 3, 4, 5),
    )
    for at in makers:
        cases = [case for case, _ in at(2).passes()]
        assert [case.name.removeprefix(at(2).name + " ") for case in cases] == list(PASSES)
        for case in cases:
            assert compile_case(rl, vars(case))(1) > 0
    for at in (attention("m", 2, 5, 8, causal=True), lstm("m", 3, 8)):
        (forward, flops), (gradients, more) = at(2).passes()
        assert forward.name.endswith("forward") and gradients.name.endswith("gradients") and more >= 2 * flops
        assert compile_case(rl, vars(forward))(1) > 0 and compile_case(rl, vars(gradients))(1) > 0
