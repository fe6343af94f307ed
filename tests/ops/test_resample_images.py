"""Interpolation, grids, padding and columns where the op records do not look: sizes, memory orders, bytes,
second gradients."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = [
    ((10, 12), (7, 5)),
    ((10, 12), (23, 31)),
    ((64, 50), (20, 13)),
    ((5, 5), (5, 9)),
    ((8, 9), (16, 27)),
    ((24, 40), (48, 20)),
    ((40, 12), (10, 48)),
    ((9, 1), (4, 3)),
]
CORNERS = {"nearest": (None,), "nearest-exact": (None,), "area": (None,), "lanczos": (False,)}


def image(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def bytes_image(*shape: int) -> Any:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.uint8)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "lanczos", "area"])
def test_interpolation_in_both_memory_orders(mode: str) -> None:
    for (size, out), corners in product(SIZES, CORNERS.get(mode, (False, True))):
        for antialias in {"bilinear": (False, True), "bicubic": (False, True), "lanczos": (True,)}.get(mode, (False,)):
            for x in (image(2, 3, *size), image(1, 9, *size).contiguous(memory_format=torch.channels_last)):
                def call(m: Any, x: Any, out=out, corners=corners, antialias=antialias) -> Any:
                    return m.nn.functional.interpolate(x, out, mode=mode, align_corners=corners, antialias=antialias)

                agree(call, x, rtol=1e-11, what=f"{size} {out} {corners} {antialias}")
                assert call(rl, ours(x)).stride() == call(torch, x).stride()
    gradients_agree(
        lambda m, x: m.nn.functional.interpolate(x, (9, 30), mode=mode, antialias=mode == "lanczos"),
        image(1, 2, 12, 17),
    )
    for out in (40, 10):
        gradients_agree(
            lambda m, x, out=out: m.nn.functional.interpolate(x, (5, out), mode=mode, antialias=mode == "lanczos"),
            image(1, 2, 4, 20),
        )


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("channels", [2, 3, 7, 8, 12, 17, 24, 40, 72])
def test_any_number_of_channels_may_lie_last(channels: int, dtype: str) -> None:
    rtol = {"float64": 1e-11, "float32": 1e-5, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    cases = [("bilinear", (2, channels, 9, 10), (4, 5)), ("bilinear", (2, channels, 5, 6), (9, 13)),
             ("bicubic", (1, channels, 8, 8), (16, 16)), ("nearest", (2, channels, 6, 6), (6, 12)),
             ("bilinear", (2, channels, 4, 7), (1, 2)), ("trilinear", (2, channels, 3, 4, 5), (5, 9, 6)),
             ("nearest", (2, channels, 3, 4, 5), (5, 9, 6))]
    for mode, shape, out in cases:
        x = image(*shape).to(getattr(torch, dtype))
        x = x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)

        def call(m: Any, x: Any, mode=mode, out=out) -> Any:
            return m.nn.functional.interpolate(x, out, mode=mode)

        agree(call, x, rtol=rtol, what=f"{mode} {shape}")
        assert call(rl, ours(x)).stride() == call(torch, x).stride()
        if dtype == "float64":
            gradients_agree(call, x, rtol=rtol, what=f"{mode} {shape}")


@pytest.mark.parametrize("channels", [3, 9, 24])
def test_elements_outside_of_a_window_count_nothing(channels: int) -> None:
    """Elements that a window gives a weight of 0 do: 0 times what is no number is none."""
    for memory_format, size, corners in product(
        (torch.contiguous_format, torch.channels_last), ((9, 9), (5, 17), (3, 3)), (True, False)
    ):
        x = torch.ones(1, channels, 5, 9).contiguous(memory_format=memory_format)
        x[0, 1, 2, 4] = float("nan")
        call = rl.nn.functional.interpolate
        got = call(ours(x), size, mode="bilinear", align_corners=corners).isnan().tolist()
        expected = torch.nn.functional.interpolate(x, size, mode="bilinear", align_corners=corners).isnan().tolist()
        assert got == expected, (memory_format, size, corners)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_bytes_are_interpolated_exactly(mode: str) -> None:
    for (size, out), antialias in product(SIZES, (False, True)):
        if antialias and mode == "nearest":
            continue
        for x in (bytes_image(2, 3, *size), bytes_image(1, 9, *size).contiguous(memory_format=torch.channels_last)):
            agree(
                lambda m, x, out=out, antialias=antialias: m.nn.functional.interpolate(
                    x, out, mode=mode, antialias=antialias
                ),
                x,
                what=f"{size} {out} {antialias}",
            )


@pytest.mark.parametrize("factor", [2, 3, 4, 0.5, 1.7, 0.31])
def test_scale_factors_decide_where_samples_lie(factor: float) -> None:
    for mode, dims in (
        ("nearest", 1),
        ("nearest", 3),
        ("linear", 1),
        ("trilinear", 3),
        ("bilinear", 2),
        ("bicubic", 2),
        ("area", 2),
    ):
        for recompute in (None, True):
            gradients_agree(
                lambda m, x, mode=mode, r=recompute: m.nn.functional.interpolate(
                    x, scale_factor=factor, mode=mode, recompute_scale_factor=r
                ),
                image(1, 2, *(9, 7, 11)[:dims]),
                second=False,
                what=f"{mode} {recompute}",
            )
    agree(lambda m, x: m.nn.functional.interpolate(x, scale_factor=factor), image(1, 2, 40, 33).float())


def test_interpolation_refuses_what_has_no_meaning() -> None:
    x = image(1, 1, 4, 4)
    for kwargs in ({}, {"size": 3, "scale_factor": 2}, {"size": (3,)}, {"size": 3, "mode": "linear"},
                   {"size": 3, "mode": "wrong"}, {"size": (3, 2.5)}, {"size": 3, "align_corners": True},
                   {"size": 3, "mode": "area", "antialias": True}, {"size": 0}, {"size": 3, "mode": "lanczos"},
                   {"size": 3, "recompute_scale_factor": True}, {"scale_factor": (2.0,)}):
        agree(lambda m, x, k=kwargs: m.nn.functional.interpolate(x, **k), x, what=str(kwargs))
    agree(lambda m, x: m.nn.functional.interpolate(x, 3, mode="bilinear"), torch.ones(1, 1, 4, 4, dtype=torch.int32))


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grids_far_outside_the_image(mode: str, padding: str) -> None:
    for corners in (False, True):
        def call(m: Any, x: Any, grid: Any, corners=corners) -> Any:
            return m.nn.functional.grid_sample(x, grid, mode, padding, corners)

        for shape, grid in (
            ((2, 3, 5, 7), (2, 4, 6, 2)),
            ((1, 1, 1, 1), (1, 2, 2, 2)),
            ((2, 9, 4, 5, 6), (2, 3, 4, 5, 3)),
        ):
            if mode == "bicubic" and (len(shape) == 5 or shape[-1] == 1):   # of a constant: all rounding
                continue
            gradients_agree(call, image(*shape), image(*grid) * 1.7, second=len(shape) == 4, rtol=1e-8)
        agree(call, image(2, 3, 5, 7).contiguous(memory_format=torch.channels_last), image(2, 4, 6, 2))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("channels", [3, 4, 8, 12, 17, 33, 48])
def test_grids_cut_into_lines_and_squares(channels: int, mode: str) -> None:
    """Samples go in lines of any output's rows, and channels that lie last in squares with them."""
    for memory_format in (torch.contiguous_format, torch.channels_last):
        for out in ((4, 5), (1, 257), (33, 31), (1, 2)):
            x = image(2, channels, 6, 7).contiguous(memory_format=memory_format)
            grid = image(2, *out, 2) * 0.7

            def call(m: Any, x: Any, grid: Any) -> Any:
                return m.nn.functional.grid_sample(x, grid, mode, "zeros", False)

            agree(call, x, grid, rtol=1e-11, what=f"{memory_format} {out}")
            if out[0] > 1 and channels in (3, 17):
                gradients_agree(call, x, grid, second=False, rtol=1e-8)
            single = [ours(t.float()) for t in (x, grid)]      # other vectors, and other squares of them
            wanted = call(rl, single[0].contiguous(), single[1])
            assert rl.equal(call(rl, *single), wanted), (memory_format, out)


def test_affine_grids() -> None:
    for corners, size in product((False, True), ((2, 3, 4, 5), (2, 1, 1, 6), (2, 1, 3, 4, 5))):
        count = len(size) - 2
        gradients_agree(
            lambda m, t, size=size, corners=corners: m.nn.functional.affine_grid(t, size, corners),
            image(2, count, count + 1),
        )
    agree(lambda m, t: m.nn.functional.affine_grid(t, (2, 3, 4, 5)), image(2, 3, 3))
    agree(lambda m, t: m.nn.functional.affine_grid(t, (2, 3, 4)), image(2, 2, 3))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_cuts_and_extends_in_both_memory_orders(mode: str) -> None:
    cases = [((2, 3, 7), ((2, 3), (0, 6), (-2, 3), (3, -1), (6, 6), (7, 0))),
             ((2, 9, 7, 40), ((1, 2, 3, 4), (-1, 2, 3, -4), (0, 0, 6, 6), (8, 8, 0, 0))),
             ((1, 2, 3, 4, 5), ((1, 2, 1, 2, 1, 2), (2, -1, 0, 2, 2, -1)))]
    for shape, pads in cases:
        for pad in pads:
            x = image(*shape)
            orders = [x] + ([x.contiguous(memory_format=torch.channels_last)] if len(shape) == 4 else [])
            for x in orders:
                agree(lambda m, x, pad=pad: m.nn.functional.pad(x, pad, mode), x, what=f"{shape} {pad}")
            if mode != "reflect" or pad[0] < shape[-1]:
                gradients_agree(lambda m, x, pad=pad: m.nn.functional.pad(x, pad, mode), x, what=f"{shape} {pad}")
    agree(lambda m, x: m.nn.functional.pad(x, (1, 1), mode, 2.0), image(2, 3, 4))
    agree(lambda m, x: m.nn.functional.pad(x, (1, 1, 1), mode), image(2, 3, 4))
    agree(lambda m, x: m.nn.functional.pad(x, (9, 9), mode), image(2, 3, 4))


def test_columns_and_back() -> None:
    for shape, kwargs in (((2, 3, 7, 9), {"kernel_size": (2, 3), "dilation": 2, "padding": (1, 3), "stride": (2, 1)}),
                          ((3, 17, 40), {"kernel_size": 3, "padding": 1}),
                          ((1, 1, 2, 2), {"kernel_size": 2, "padding": 5, "stride": 3})):
        gradients_agree(lambda m, x, k=kwargs: m.nn.functional.unfold(x, **k), image(*shape))
        columns = torch.nn.functional.unfold(image(*shape), **kwargs)
        gradients_agree(lambda m, x, s=shape, k=kwargs: m.nn.functional.fold(x, s[-2:], **k), columns)
    agree(lambda m, x: m.nn.functional.fold(x, (4, 4), 3), image(1, 10, 4))
    agree(lambda m, x: m.nn.functional.fold(x, (4, 4), 2), image(1, 8, 4))
    agree(lambda m, x: m.nn.functional.unfold(x, 9), image(1, 2, 4, 4))


def test_examples_of_a_batch_are_resampled_together() -> None:
    x = ours(image(3, 2, 4, 9, 9))
    functions = [lambda v: rl.nn.functional.max_pool2d(v, 3, 2, 1),
                 lambda v: rl.nn.functional.interpolate(v, (5, 12), mode="bicubic"),
                 lambda v: rl.nn.functional.pad(v, (1, 2, 3, 1), "reflect"), lambda v: rl.nn.functional.unfold(v, 3),
                 lambda v: rl.nn.functional.pixel_shuffle(v, 2)]
    for f in functions:
        assert bool((rl.func.vmap(f)(x) == rl.stack([f(v) for v in x])).all())


FLAT, VOLUME = [(2, 3, 5, 7), (1, 19, 4, 6)], (2, 5, 3, 4, 5)


@pytest.mark.parametrize(
    ("mode", "shape"),
    [(m, s) for m in ("bilinear", "nearest") for s in (*FLAT, VOLUME)] + [("bicubic", s) for s in FLAT],
)
def test_images_with_channels_last_have_the_same_samples(mode: str, shape: tuple[int, ...]) -> None:
    count = len(shape) - 2
    x = rl.linspace(-2, 3, rl.Size(shape).numel()).sin().reshape(shape)
    grid = rl.linspace(-1.3, 1.4, shape[0] * 3**count * count).cos().mul(1.2).reshape(shape[0], *[3] * count, count)
    last = x.contiguous(memory_format=rl.channels_last if count == 2 else rl.channels_last_3d)
    for padding in ("zeros", "border", "reflection"):
        plain = rl.nn.functional.grid_sample(x, grid, mode, padding, align_corners=False)
        found = rl.nn.functional.grid_sample(last, grid, mode, padding, align_corners=False)
        assert found.is_contiguous() and found.equal(plain)
