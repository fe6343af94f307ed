"""Convolutions as processors with vectors of 64 bytes compute them, on this one: kernels that load and store under
masks and read weights by rows, and the planners' choices for such vectors. Results against float64."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight.codegen.library import interface  # noqa: E402
from rushlight.codegen.schedule.forms.wishes import NONE, Wishes  # noqa: E402
from rushlight.inductor.tune import kept_plan  # noqa: E402
from rushlight.op.registry import find_op  # noqa: E402
from rushlight.planners.convolutions import (
    convolve,
    pixels as convolve_pixels,
    tiles as convolve_tiles,
    windows as convolve_windows,
)  # noqa: E402

PLANNERS = (interface, convolve, convolve_pixels, convolve_tiles, convolve_windows)
SHAPES = ((8, 3), (12, 2), (4, 6))       # of vectors of 64 bytes
BOUND = 1e-6
PASSES = ("forward", "input", "weight")


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tiles as wide vectors have them, of vectors as this processor has them."""
    own = interface.tile_of.__wrapped__

    @functools.cache
    def tile_of(code: str, shape: int = 0, bits: int | None = None) -> interface.Tile:
        tile, (rows, vectors) = own(code, 0, bits), SHAPES[shape]
        columns = vectors * tile.lanes
        block = 256 // columns * columns
        return tile._replace(by_lane=False, masked=True, rows=rows, vectors=vectors, block=block)

    for module in PLANNERS:
        monkeypatch.setattr(module, "tile_of", tile_of)
        if hasattr(module, "tile_shapes"):
            monkeypatch.setattr(module, "tile_shapes", lambda bits=None: range(len(SHAPES)))
    monkeypatch.setattr(interface, "_loaded", {})
    yield


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of forms as for vectors of 64 bytes."""
    for module in (convolve_pixels, convolve_windows):
        monkeypatch.setattr(module, "vector_bits", lambda: 512)


def plans(
    n: int, channels: int, size: int, outs: int, kernel: int, stride: int, padding: int, biased: bool = False,
    wishes: Wishes = NONE,
):
    """By pass: the plan, its operands, and the result in float64."""
    generator = torch.Generator().manual_seed(n * channels + outs)
    x, w = (torch.randn(s, generator=generator) for s in ((n, channels, size, size), (outs, channels, kernel, kernel)))
    y = torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding)
    g = torch.randn(y.shape, generator=generator)
    pairs = [[v] * 2 for v in (stride, padding, 1)]
    dx, dw, _ = torch.ops.aten.convolution_backward(
        g.double(), x.double(), w.double(), None, *pairs, False, [0, 0], 1, [True, True, False]
    )
    bias = torch.randn(channels, generator=generator) if biased else None
    extra = [size - ((y.shape[2] - 1) * stride - 2 * padding + kernel)] * 2
    given = [None if t is None else rl.from_numpy(t.numpy()) for t in (x, w, g, bias)]
    calls = {
        "forward": ("convolution", (given[0], given[1], None, *pairs, False, [0, 0], 1), y),
        "input": ("convolution", (given[2], given[1], given[3], *pairs, True, extra, 1), dx),
        "weight": ("_convolution_weight", (given[2], given[0], [kernel] * 2, *pairs, 1), dw),
    }
    if biased:
        calls["input"] = (*calls["input"][:2], dx + bias.double().reshape(1, -1, 1, 1))
    for name, (op, args, expected) in calls.items():
        yield name, kept_plan(find_op(op).overload_list[0].definition, args, wishes), args, expected


def error(plan: Any, args: tuple, expected: Any) -> float:
    """The root mean square error of a plan's result, relative to the expected one's."""
    result = plan.timed(*[a for a in args if isinstance(a, rl.Tensor)])[0]
    result = result[0] if isinstance(result, (tuple, list)) else result
    result = torch.from_numpy(result.numpy()).double()
    assert result.shape == expected.shape
    return float((result - expected).pow(2).mean().sqrt() / expected.pow(2).mean().sqrt())


@pytest.mark.parametrize("form", [None, 0, 1, 2])
@pytest.mark.parametrize(
    "sizes",
    [
        (2, 16, 21, 24, 3, 1, 1), (2, 16, 20, 16, 1, 2, 0), (1, 64, 15, 32, 3, 2, 1), (2, 3, 39, 16, 7, 2, 3),
        (3, 48, 7, 33, 1, 1, 0), (2, 64, 28, 24, 1, 1, 0), (1, 272, 14, 40, 1, 1, 0), (2, 20, 9, 12, 1, 1, 1),
    ],
)
def test_masked_kernels(masked: None, form: int | None, sizes: tuple[int, ...]) -> None:
    errors = {name: error(*rest) for name, *rest in plans(*sizes, wishes=Wishes(form=form))}
    assert max(errors.values()) < BOUND, errors


@pytest.mark.parametrize(
    "sizes",
    [(1, 96, 7, 320, 1, 1, 0, True), (2, 130, 9, 260, 1, 1, 0), (1, 160, 13, 200, 1, 2, 0), (2, 130, 13, 260, 3, 2, 1)],
)
def test_input_gradients_of_few_pixels(wide: None, sizes: tuple[Any, ...]) -> None:
    """Products that read weights where they lie, transposed, spread or added up after."""
    errors = {name: error(*rest) for name, *rest in plans(*sizes)}
    assert max(errors.values()) < BOUND, errors


@pytest.mark.parametrize(
    ("plane", "images", "block"), [(784, 1, 196), (784, 8, 112), (196, 8, 98), (49, 8, 120), (3136, 1, 224)]
)
def test_blocks_of_weight_gradients_do_not_cross_images(plane: int, images: int, block: int) -> None:
    assert convolve.weight_block(interface.tile_of("f32", 0, 512), plane, images) == block


def test_few_pixels_are_turned(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = convolve.turned_steps
    monkeypatch.setattr(convolve, "turned_steps", lambda *args: seen.append(args[1].pixels) or real(*args))
    list(plans(1, 96, 7, 333, 1, 1, 0))
    list(plans(1, 96, 17, 333, 1, 1, 0))
    assert seen == [49]
