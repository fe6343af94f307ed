"""The layers group of the benchmarks: what it counts, and that its cases run."""

from __future__ import annotations

import sys
from pathlib import Path

import rushlight as rl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.layers import LAYERS, PASSES, Floor, convolution, linear  # noqa: E402
from benchmarks.worker import compile_case  # noqa: E402


def test_flops_and_bytes_of_layers() -> None:
    stem = convolution("model", 3, 64, 224, 7, 2)(2)
    assert stem.flops == 2 * 2 * 112 * 112 * 64 * 147
    assert stem.bytes == 4 * (2 * (3 * 224 * 224 + 64 * 112 * 112) + 64 * 147)
    assert convolution("model", 16, 16, 10, 3, groups=16)(1).flops == 2 * 100 * 16 * 9
    assert convolution("model", 8, 4, 5, 2, 2, transposed=True)(1).flops == 2 * 25 * 8 * 4 * 4
    assert linear("model", 128, 256, 1024)(8).flops == 2 * 1024 * 256 * 1024
    assert Floor(1e-9, 1e-6).seconds(stem) == max(stem.flops * 1e-9, stem.bytes * 1e-6)


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
        cases = list(at(2).cases())
        assert [case.name.removeprefix(at(2).name + " ") for case in cases] == list(PASSES)
        for case in cases:
            assert compile_case(rl, vars(case))(1) > 0
