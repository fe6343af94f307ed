"""Errors of convolutions against float64: for every algorithm the bound that docs/accuracy.md states.

The bound does not depend on the machine. It is twice the error of plain sums in blocks of 144 products (16 channels of
a 3x3 kernel), as PyTorch forms them on x86-64 with AVX-512: a rounding error of 0.3 units per addition, growing with
the square root of a sum's length.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import rushlight.planners.convolutions.convolve as planner  # noqa: E402
import rushlight.planners.convolutions.lanes as lanes  # noqa: E402
import rushlight.planners.convolutions.plan as plan  # noqa: E402
import rushlight.planners.convolutions.tiles as tiles  # noqa: E402
from benchmarks.conv_accuracy import PARTS, Conv, errors  # noqa: E402
from rushlight.codegen.library.interface import tile_of, tile_shapes  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

UNIT = 2.0**-24
BLOCK = 144

# Sizes that no other test uses: a plan is made once per geometry, and the tests watch it being made.
CASES = (
    *(Conv("tiles", n, c, s, c + 1) for n, c, s in ((2, 17, 69), (1, 63, 39), (2, 129, 23), (1, 255, 15))),
    Conv("tiles", 1, 511, 11, 512),
    Conv("tiles", 1, 65, 38, 67, positive=True),
    Conv("tiles", 1, 257, 15, 131, positive=True),
    Conv("tiles", 1, 66, 37, 65, channels_last=True),
    Conv("tiles", 2, 33, 35, 35, transposed=True),
    Conv("tiles", 2, 34, 37, 70, padding=0),
    Conv("panels", 2, 3, 67, 37, 7, 2, 3),
    Conv("panels", 2, 65, 37, 69, 3, 2),
    Conv("panels", 1, 257, 15, 131, 3, 2),
    Conv("panels", 1, 517, 13, 259, 1, padding=0),
    Conv("panels", 2, 1031, 7, 67, 1, padding=0),
    Conv("panels", 2, 65, 29, 67, dilation=2, padding=2),
    Conv("panels", 2, 68, 29, 76, groups=4),
    Conv("panels", 1, 257, 13, 65, 2, 2, 0, transposed=True),
    Conv("panels", 2, 130, 15, 131, 3, 2, channels_last=True),
    Conv("panels", 3, 83, 101, 97, dims=1),
    Conv("panels", 2, 19, 13, 33, dims=3),
    # few pixels, strides of transposed ones: matrix products where vectors are short
    Conv("products", 1, 511, 7, 513),
    Conv("products", 1, 515, 13, 513, 3, 2),
    Conv("products", 2, 517, 13, 65, 3, 2, 1, transposed=True),
    *(
        Conv("depthwise", 2, c, s, c, k, stride, k // 2, groups=c)
        for c, s, k, stride in ((31, 113, 3, 1), (97, 57, 3, 2), (129, 14, 5, 1), (131, 7, 7, 1))
    ),
    *(
        Conv("lanes", 2, c, s, c, k, stride, k // 2, groups=c)
        for c, s, k, stride in ((19, 59, 3, 1), (17, 57, 3, 2), (125, 14, 5, 1), (133, 7, 5, 1), (130, 15, 5, 2))
    ),
    Conv("lanes", 2, 40, 13, 40, 3, 1, 2, dilation=2, groups=40),
    Conv("lanes", 1, 21, 9, 21, 4, 2, 1, groups=21, transposed=True),
    Conv("overlap", 2, 65, 27, 3, 4, 2, 1, transposed=True),
)


def terms(case: Conv) -> tuple[int, int, int]:
    """Products in a sum: of the result, of the input's gradient (at most), of the weight's."""
    taps, reach = case.kernel**case.dims, case.dilation * (case.kernel - 1) + 1
    sides = (case.channels // case.groups * taps, case.outs // case.groups * taps)
    # windows of a transposed convolution hold every stride-th tap
    strided = tuple(max(1, n // case.stride**case.dims) for n in sides)
    steps = case.size if case.transposed else (case.size + 2 * case.padding - reach) // case.stride + 1
    pixels = case.images * steps**case.dims
    return (strided[0], sides[1], pixels) if case.transposed else (sides[0], strided[1], pixels)


def bound(count: int) -> float:
    """Twice the error of a sum of `count` products in blocks."""
    return 2 * 0.3 * UNIT * (min(count, BLOCK) + count / BLOCK) ** 0.5


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the algorithms that plans made during the test use for results."""
    found: set[str] = set()
    for module, name, algorithm in (
        (planner, "tile_steps", "tiles"),
        (planner, "depthwise_step", "depthwise"),
        (planner, "lanes_step", "lanes"),
        (plan, "overlap_steps", "overlap"),
        (plan, "lined_steps", "overlap"),
    ):
        result = getattr(module, name)

        def watched(*args: Any, result: Any = result, algorithm: str = algorithm) -> Any:
            steps = result(*args)
            if steps is not None:
                found.add(algorithm)
            return steps

        monkeypatch.setattr(module, name, watched)
    return found


@pytest.fixture
def tiles_wherever_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors differ in where tiles pay; their error is measured on all."""
    monkeypatch.setattr(tiles, "FEW_WEIGHTS", 0)
    suits = lambda code, walk: walk.pixels >= tiles.MANY and tiles.suits_tiles(code, walk)  # noqa: E731
    monkeypatch.setattr(planner, "weight_suits_tiles", suits)


@pytest.fixture
def lanes_of_channels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set that channels are in lanes wherever they can be, or nowhere: processors differ in where that pays."""

    def chosen(everywhere: bool) -> None:
        for name in ("NARROW", "NARROW_STRIDED"):
            monkeypatch.setattr(lanes, name, dict.fromkeys((4, 8, 16), 1 << 20 if everywhere else 0))

    return chosen


@pytest.mark.share(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(str(case).split()))
def test_error_stays_within_the_stated_bound(
    case: Conv, planned: set[str], tiles_wherever_they_fit: None, lanes_of_channels: Any
) -> None:
    lanes_of_channels(case.algorithm == "lanes")
    found = errors(case)
    if case.algorithm != "products":       # wide vectors have tiles and panels for them
        assert (case.algorithm in planned) if case.algorithm != "panels" else not planned - {"overlap"}
    for part, count, (mine, _) in zip(PARTS, terms(case), found, strict=True):
        assert mine.rms <= bound(count), f"{part}: {mine.rms / UNIT:.2f} units, {bound(count) / UNIT:.2f} allowed"
        assert mine.largest <= 16 * bound(count), f"{part}: largest error {mine.largest / UNIT:.1f} units"


@pytest.mark.parametrize("shape", tile_shapes())
def test_every_register_tile_of_tiles(
    shape: int, planned: set[str], tiles_wherever_they_fit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "fullest_tile", lambda outs, count: shape)
    for case in (Conv("tiles", 2, 19 + shape, 41, 23), Conv("tiles", 3, 37 + shape, 11, 50, padding=0)):
        mine, _ = errors(case)[0]
        assert mine.largest <= 16 * bound(terms(case)[0])
    assert planned == {"tiles"}


def test_tiles_are_filled() -> None:
    """Register tiles that fit the number of tiles multiply no zeros where another would."""
    for shape in tile_shapes():
        own = tile_of("f32", shape)
        chosen = tile_of("f32", tiles.fullest_tile(own.rows, own.columns))
        assert (own.rows % chosen.rows, own.columns % chosen.columns) == (0, 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_rounded_once(dtype: str) -> None:
    unit = 2.0**-9 if dtype == "bfloat16" else 2.0**-12
    for case in (
        Conv("tiles", 2, 35, 36, 37, dtype=dtype),
        Conv("panels", 2, 37, 19, 35, 1, padding=0, dtype=dtype),
        Conv("depthwise", 2, 37, 19, 37, groups=37, dtype=dtype),
    ):
        for part, (mine, _) in zip(PARTS, errors(case), strict=True):
            assert mine.rms < unit, part


@pytest.mark.parametrize(
    "case",
    [
        Conv("tiles", 1, 62, 57, 66),
        Conv("tiles", 1, 258, 14, 254),
        Conv("panels", 1, 66, 57, 130, 3, 2),
        Conv("panels", 1, 254, 14, 510, 1, padding=0),
    ],
    ids=str,
)
def test_error_is_at_most_twice_pytorchs(case: Conv) -> None:
    # PyTorch picks its algorithm by the machine; where it sums in shorter blocks than most,
    # the stated bound holds instead.
    for part, count, (mine, other) in zip(PARTS, terms(case), errors(case), strict=True):
        assert mine.rms <= max(2 * other.rms, bound(count)), part
