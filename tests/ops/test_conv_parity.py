"""Convolutions against PyTorch where its op records do not look: sizes that fill tiles, mirrored strides, layouts,
gradients."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours, theirs  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases


def sample(*shape: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    g = torch.Generator().manual_seed(seed + sum(shape) * 7 + len(shape))
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)


def problem(seed: int) -> tuple[tuple, list[Any]]:
    """A random geometry that PyTorch accepts: (arguments after the bias), tensors."""
    pick = random.Random(seed)
    while True:
        dims, transposed, groups = pick.choice((1, 2, 2, 3)), pick.random() < 0.4, pick.choice((1, 1, 2, 3))
        few = pick.random() < 0.8
        channels, outs = pick.choice((1, 2, 5) if few else (17, 40)), pick.choice((1, 2, 9) if few else (8, 33))
        kernel, stride, padding, dilation = (
            [pick.choice(options) for _ in range(dims)]
            for options in ((1, 2, 3, 5), (1, 1, 2, 3), (0, 1, 2), (1, 1, 2, 3))
        )
        sizes = [pick.randint(1, {1: 60, 2: 20, 3: 8}[dims]) for _ in range(dims)]
        extra = [pick.randrange(max(s, d)) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
        spatial = list(zip(sizes, kernel, stride, padding, dilation, extra, strict=True))
        results = [
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1 if transposed else n + 2 * p - d * (k - 1)
            for n, k, s, p, d, e in spatial
        ]
        if min(results) < 1:
            continue
        weight = (channels * groups, outs) if transposed else (outs * groups, channels)
        tensors = [
            sample(pick.randint(1, 4), channels * groups, *sizes),
            sample(*weight, *kernel, seed=1),
            sample(outs * groups, seed=2),
        ]
        return (stride, padding, dilation, transposed, extra, groups), tensors


@pytest.mark.parametrize("seed", range(40))
def test_random_geometries_agree_with_their_gradients(seed: int) -> None:
    rest, tensors = problem(seed)
    agree(lambda m, x, w, b: m.convolution(x, w, b, *rest), *tensors, rtol=1e-11)
    gradients_agree(lambda m, x, w, b: m.convolution(x, w, b, *rest), *tensors, second=seed % 4 == 0)


@pytest.mark.parametrize("shape", [
    (2, 64, 33, 20, 3, 1, 1, 1), (1, 3, 40, 24, 7, 2, 3, 1), (3, 96, 4, 40, 3, 1, 1, 1), (21, 96, 4, 40, 3, 1, 1, 1),
    (2, 20, 50, 33, 3, 1, 0, 1), (3, 33, 29, 17, 3, 1, 2, 1), (2, 40, 17, 3, 1, 1, 0, 1), (1, 1, 300, 5, 3, 1, 1, 1),
    (2, 12, 70, 12, 5, 2, 2, 12), (3, 3, 20, 8, 3, 1, 1, 1), (2, 3, 32, 16, 3, 2, 1, 1), (3, 16, 20, 12, 1, 1, 0, 1),
    (2, 8, 12, 24, 1, 1, 0, 2),    # short sums whose results fill cache lines, of two images in a block
])
def test_blocks_and_edges_of_single_precision(shape: tuple) -> None:
    n, c, size, o, k, s, p, groups = shape
    x, w, b = sample(n, c, size, size), sample(o, c // groups, k, k, seed=1), sample(o, seed=2)
    want = torch.nn.functional.conv2d(x, w, b, s, p, 1, groups)
    mine = [ours(t.float()).requires_grad_() for t in (x, w, b)]
    got = rl.nn.functional.conv2d(*mine, s, p, 1, groups)
    scale = want.abs().max()
    assert (theirs(got).double() - want).abs().max() < 4e-6 * scale
    g = sample(*want.shape, seed=3)
    wanted = torch.autograd.grad(
        torch.nn.functional.conv2d(*(t.requires_grad_() for t in (x, w, b)), s, p, 1, groups), (x, w, b), g
    )
    for a, e in zip(rl.autograd.grad(got, mine, ours(g.float())), wanted, strict=True):
        assert (theirs(a).double() - e).abs().max() < 4e-6 * e.abs().max()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    x, w = (ours(t.float()).requires_grad_() for t in (sample(4, 32, 30, 30), sample(48, 32, 3, 3)))
    before = rl.get_num_threads()
    found = []
    for count in (threads, 2):
        rl.set_num_threads(count)
        y = rl.conv2d(x, w, None, 1, 1)
        found.append([y, *rl.autograd.grad(y.square().sum(), (x, w))])
    rl.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        assert rl.equal(a, b)


def test_channels_last_goes_in_and_comes_out() -> None:
    for dims, order in ((2, "channels_last"), (3, "channels_last_3d")):
        x, w = sample(2, 6, *(5,) * dims, dtype=torch.float32), sample(4, 6, *(3,) * dims, dtype=torch.float32, seed=1)
        for a, b in (
            (x.contiguous(memory_format=getattr(torch, order)), w),
            (x, w.contiguous(memory_format=getattr(torch, order))),
        ):
            # what PyTorch does in 3-D depends on the library that runs it
            for transposed in (False, True)[: 4 - dims]:
                kernel = b.transpose(0, 1) if transposed else b
                rest = (None, (1,) * dims, (1,) * dims, (1,) * dims, transposed, (0,) * dims, 1)
                want, got = torch.convolution(a, kernel, *rest), rl.convolution(ours(a), ours(kernel), *rest)
                compare(want, got, 1e-5)
                if dims == 2:
                    assert want.stride() == got.stride()


def test_views_are_read_where_they_are() -> None:
    x, w = sample(3, 8, 9, 30), sample(5, 4, 3, 3, seed=1)
    for view in (x[:, ::2, :, ::3], x[:, 2:6, 1:8, 5:25], x[:, :4].transpose(-1, -2), x[:1, :1].expand(3, 4, 9, 30)):
        agree(lambda m, x, w: m.nn.functional.conv2d(x, w, padding=1), view, w, rtol=1e-12)
        agree(lambda m, x, w: m.nn.functional.conv2d(x, w.flip(0).transpose(-1, -2), padding=1), view, w, rtol=1e-12)


def test_gradient_of_an_expanded_gradient() -> None:
    x, w = sample(2, 3, 8, 8), sample(4, 3, 3, 3, seed=1)
    gradients_agree(lambda m, x, w: m.nn.functional.conv2d(x, w).sum(), x, w, second=False)


def test_what_is_outside_does_not_meet_what_is_not_finite() -> None:
    x, w = sample(1, 2, 6, 7), sample(3, 2, 3, 3, seed=1)
    x[0, 0, 2, 3], x[0, 1, 5, 6] = float("inf"), float("nan")
    agree(lambda m, x, w: m.nn.functional.conv2d(x, w, padding=2), x, w, rtol=1e-12)
    agree(lambda m, x, w: m.nn.functional.conv2d(x, w[:2, :1], padding=2, groups=2), x, w, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "complex64", "bfloat16", "float16"])
def test_other_dtypes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, w, b = ((sample(*s, seed=i) * 3).to(kind) for i, s in enumerate(((2, 4, 6, 6), (4, 2, 3, 3), (4,))))
    exact = not (kind.is_floating_point or kind.is_complex)
    for transposed in (False, True):
        rest = ((2, 1), (1, 1), (1, 2), transposed, (1, 0) if transposed else (0, 0), 2)
        wide = torch.complex128 if kind.is_complex else torch.float64
        args = (*rest[:2], rest[4], rest[5], rest[2]) if transposed else (*rest[:3], rest[5])
        name, bias = ("conv_transpose2d", None) if transposed else ("conv2d", b)
        want = getattr(torch, name)(x.to(wide), w.to(wide), None if bias is None else b.to(wide), *args)
        got = getattr(rl, name)(ours(x), ours(w), None if bias is None else ours(b), *args)
        assert got.dtype.name == dtype
        if exact:
            assert (theirs(got).to(torch.int64) - want.round().to(torch.int64)).remainder(256).eq(0).all()
        else:
            assert (theirs(got).to(wide) - want).abs().max() < {"complex64": 1e-5}.get(dtype, 2e-2) * want.abs().max()


def test_empty_batches_and_their_gradients() -> None:
    agree(
        lambda m, x, w, b: m.nn.functional.conv2d(x, w, b, padding=1), sample(0, 3, 5, 5), sample(4, 3, 3, 3), sample(4)
    )
    gradients_agree(
        lambda m, x, w, b: m.nn.functional.conv2d(x, w, b, padding=1),
        sample(0, 3, 5, 5),
        sample(4, 3, 3, 3),
        sample(4),
        second=False,
    )


def test_padding_by_name() -> None:
    x = sample(2, 3, 9, 10)
    for kernel, dilation in (((3, 3), 1), ((2, 4), 1), ((4, 3), (2, 2)), ((1, 1), 1)):
        w = sample(4, 3, *kernel, seed=1)
        for padding in ("same", "valid"):
            agree(lambda m, x, w: m.nn.functional.conv2d(x, w, padding=padding, dilation=dilation), x, w, rtol=1e-12)
            gradients_agree(
                lambda m, x, w: m.nn.functional.conv2d(x, w, padding=padding, dilation=dilation), x, w, second=False
            )
    with pytest.raises(RuntimeError, match="strided"):
        rl.conv2d(rl.ones(1, 3, 9, 9), rl.ones(4, 3, 3, 3), stride=2, padding="same")
    with pytest.raises(RuntimeError, match="Invalid padding string"):
        rl.conv2d(rl.ones(1, 3, 9, 9), rl.ones(4, 3, 3, 3), padding="full")


def test_refusals_name_the_problem() -> None:
    x, w = rl.ones(1, 4, 5, 5), rl.ones(6, 4, 3, 3)
    for call, text in (
        (lambda: rl.conv2d(x, rl.ones(6, 3, 3, 3)), "channels"),
        (lambda: rl.conv2d(x, w, rl.ones(5)), "bias"),
        (lambda: rl.conv2d(x, rl.ones(6, 4, 7, 7)), "Kernel size"),
        (lambda: rl.conv2d(x, w, groups=4), "divi[ds]"),
        (lambda: rl.conv2d(x, w, stride=(1, 2, 3)), "stride"),
        (lambda: rl.conv2d(x.double(), w), "type"),
        (lambda: rl.conv2d(rl.ones(5), w), "unbatched"),
        (lambda: rl.conv_transpose2d(x, rl.ones(4, 2, 3, 3), output_padding=1), "output_padding"),
        (lambda: rl.conv_transpose2d(rl.ones(1, 4, 1, 1), rl.ones(4, 2, 3, 3), padding=5), "too small"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_gradients_as_functions() -> None:
    for dims in (1, 2, 3):
        x, w = sample(2, 4, *(6,) * dims), sample(6, 2, *(3,) * dims, seed=1)
        rest = (2, 1, 1, 2)
        g = torch.randn_like(getattr(torch.nn.functional, f"conv{dims}d")(x, w, None, *rest))
        pairs = [(lib.nn.grad, f"conv{dims}d_input", f"conv{dims}d_weight") for lib in (torch, rl)]
        wants, gots = ([getattr(space, a)(x.shape, w_, g_, *rest), getattr(space, b)(x_, w.shape, g_, *rest)]
                       for (space, a, b),
                       (x_, w_, g_) in zip(pairs, ((x, w, g), tuple(map(ours, (x, w, g)))), strict=True))
        compare(wants, gots, 1e-12)


def test_backward_as_an_op_obeys_its_mask() -> None:
    x, w, g = sample(2, 4, 6, 6), sample(4, 3, 3, 3, seed=1), sample(2, 3, 11, 11, seed=2)
    rest = ([3], (2, 2), (1, 1), (1, 1), True, (0, 0), 1)
    for mask in ([True, True, True], [True, False, False], [False, True, True]):
        want = torch.ops.aten.convolution_backward(g, x, w, *rest, mask)
        compare(list(want), list(rl.ops.aten.convolution_backward(ours(g), ours(x), ours(w), *rest, mask)), 1e-12)


def test_time_batch_channels() -> None:
    agree(lambda m, x, w, b: m.conv_tbc(x, w, b, 2), sample(9, 2, 4), sample(3, 4, 5, seed=1), sample(5), rtol=1e-12)
    gradients_agree(lambda m, x, w, b: m.conv_tbc(x, w, b, 1), sample(9, 2, 4), sample(3, 4, 5, seed=1), sample(5))


def test_shapes_without_data() -> None:
    x, w = rl.empty(2, 4, 9, 9, device="meta", requires_grad=True), rl.empty(
        4, 2, 3, 3, device="meta", requires_grad=True
    )
    y = rl.conv2d(x, w, None, 2, 1, 1, 2)
    assert y.device.type == "meta" and tuple(y.shape) == (2, 4, 5, 5)
    result = rl.autograd.grad(y.sum(), (x, w))
    assert [tuple(t.shape) for t in result] == [(2, 4, 9, 9), (4, 2, 3, 3)]


@pytest.mark.parametrize("groups", [1, 20])
def test_large_channels_last_tensors_agree(groups: int) -> None:
    x, w, b = sample(3, 20, 33, 31), sample(20, 20 // groups, 3, 3, seed=1), sample(20, seed=2)
    x = x.contiguous(memory_format=torch.channels_last)
    for stride in (1, 2):
        rest = (stride, 1, 1, groups)
        want, got = torch.conv2d(x, w, b, *rest), rl.conv2d(ours(x), ours(w), ours(b), *rest)
        compare(want, got, 1e-12)
        assert want.stride() == got.stride()
        gradients_agree(lambda m, x, w, b: m.conv2d(x, w, b, *rest), x, w, b, second=False)
        agree(lambda m, x, w: m.conv_transpose2d(x, w, None, stride, 1, 0, groups), x, w, rtol=1e-12)


# images, channels, outputs, spatial sizes
SINGLE_PIXELS = [
    (1, 300, 70, (7, 7)), (3, 130, 200, (5, 6)), (2, 64, 2, (40, 33)), (2, 512, 33, (50,)), (1, 150, 140, (2, 3, 4)),
    (9, 160, 100, (3, 3)), (1, 1100, 24, (4, 4)), (3, 24, 40, (30, 31)), (2, 16, 16, (48, 50)), (1, 40, 20, (24, 24)),
]


@pytest.mark.parametrize("images, channels, outs, spatial", SINGLE_PIXELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_one_pixel(images: int, channels: int, outs: int, spatial: tuple[int, ...], dtype: Any) -> None:
    x, bias = sample(images, channels, *spatial, dtype=dtype), sample(outs, dtype=dtype, seed=2)
    w = sample(outs, channels, *(1 for _ in spatial), dtype=dtype, seed=1)
    call = f"conv{len(spatial)}d"
    rtol = 1e-5 if dtype is torch.float32 else 1e-12
    exact = (w.flatten(1).double() @ x.flatten(2).double()).reshape(images, outs, *spatial)
    compare(exact, getattr(rl, call)(ours(x), ours(w)).double(), rtol=rtol)
    compare(exact + bias.double().reshape(-1, *(1 for _ in spatial)),
            getattr(rl, call)(ours(x), ours(w), ours(bias)).double(), rtol=rtol)
    if dtype is torch.float64:
        gradients_agree(lambda m, x, w, b: getattr(m, call)(x, w, b), x, w, bias)
    wide = ours(sample(images, 2 * channels, *spatial, dtype=dtype))      # images apart, channels of each together
    part = wide[:, channels // 2 : channels // 2 + channels]
    compare(theirs(getattr(rl, call)(part.contiguous(), ours(w))), getattr(rl, call)(part, ours(w)), rtol=rtol)


@pytest.mark.parametrize("images, channels, outs, spatial, stride", [
    (3, 100, 20, (26, 31), (2, 2)), (1, 20, 100, (40, 35), (2, 3)), (2, 9, 70, (900,), (3,)),
    (2, 30, 9, (5, 17, 16), (1, 2, 2)), (4, 24, 16, (14, 14), (2, 2)), (8, 12, 10, (6, 13), (2, 2)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_one_pixel_some_steps_apart(
    images: int, channels: int, outs: int, spatial: tuple[int, ...], stride: tuple[int, ...], dtype: Any
) -> None:
    """Forward, both gradients, and the transposed convolution with pixels past the last one that it meets."""
    x, w = sample(images, channels, *spatial, dtype=dtype), sample(outs, channels, *[1] * len(spatial), dtype=dtype)
    small = tuple([-(-n // s) for n, s in zip(spatial, stride, strict=True)])
    g, close = sample(images, outs, *small, dtype=dtype, seed=3), 1e-4 if dtype is torch.float32 else 1e-11
    none = (0,) * len(spatial)
    rest = (stride, none, (1,) * len(spatial))
    agree(lambda m, x, w: m.convolution(x, w, None, *rest, False, none, 1), x, w, rtol=close)
    last = x.transpose(0, 1).contiguous().transpose(0, 1)      # channels further apart than images
    if dtype is torch.float64:
        gradients_agree(lambda m, x, w: m.convolution(x, w, None, *rest, False, none, 1), last, w, second=False)
    extra = tuple([s - 1 for s in stride])
    agree(lambda m, g, w: m.convolution(g, w, None, *rest, True, extra, 1), g, w, rtol=close)


@pytest.mark.parametrize("channels, outs, spatial, padding", [
    (11, 6, (26,), (2,)), (32, 24, (24, 21), (0, 4)), (8, 8, (48, 24), (1, 0)), (5, 16, (3, 4, 24), (2, 0, 0)),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_one_pixel_outside_of_the_input(
    channels: int, outs: int, spatial: tuple[int, ...], padding: tuple[int, ...], dtype: Any
) -> None:
    x, w = sample(1, channels, *spatial, dtype=dtype), sample(outs, channels, *[1] * len(spatial), dtype=dtype)
    inside = (slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, spatial, strict=True)))
    exact = torch.zeros(1, outs, *(n + 2 * p for p, n in zip(padding, spatial, strict=True)), dtype=torch.float64)
    exact[inside] = (w.flatten(1).double() @ x.flatten(2).double()).reshape(1, outs, *spatial)
    result = getattr(rl, f"conv{len(spatial)}d")(ours(x), ours(w), padding=padding)
    compare(exact, result.double(), rtol=1e-5 if dtype is torch.float32 else 1e-12)


def test_threads_do_not_change_windows_of_one_pixel() -> None:
    x, w = ours(sample(4, 300, 7, 7, dtype=torch.float32)), ours(sample(280, 300, 1, 1, dtype=torch.float32, seed=1))
    threads = rl.get_num_threads()
    try:
        rl.set_num_threads(1)
        alone = rl.conv2d(x, w)
        rl.set_num_threads(4)
        assert rl.conv2d(x, w).equal(alone)
    finally:
        rl.set_num_threads(threads)


WINDOWS = [(3, 2, 1, 1), (1, 2, 1, 1), (2, 1, 1, 2), (3, 2, 2, 2), (5, 3, 1, 1)]


@pytest.mark.parametrize("kernel, stride, dilation, groups", WINDOWS)
@pytest.mark.parametrize("channels, outs", [(16, 24), (20, 18), (8, 33)])
def test_weights_in_whole_panels_and_in_parts_of_one(
    kernel: int, stride: int, dilation: int, groups: int, channels: int, outs: int
) -> None:
    x = sample(2, channels * groups, 11, 9)
    w, bias = sample(outs * groups, channels, kernel, kernel, seed=1), sample(outs * groups, seed=2)
    for layout in (lambda t: t, lambda t: t.transpose(0, 1).contiguous().transpose(0, 1)):
        rest = (stride, 1, dilation, groups)
        agree(lambda m, x, w, b, rest=rest: m.conv2d(x, w, b, *rest), x, layout(w), bias, rtol=1e-11)
        gradients_agree(lambda m, x, w, b, rest=rest: m.conv2d(x, w, b, *rest), x, layout(w), bias)


@pytest.mark.parametrize("images, channels, outs, spatial, stride", [
    (1, 8, 8, (300, 1), 1),         # every pixel is a row of its own
    (7, 24, 13, (9, 7), 1),         # several images make a block: their gradients are laid side by side
    (5, 30, 20, (31, 17), 2),
    (2, 24, 8, (40, 33), (2, 1)),   # blocks end where images do
    (3, 24, 10, (16, 64), 1),       # rows of gradients that share the sets of a cache
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weight_gradients_in_blocks_of_pixels(
    images: int, channels: int, outs: int, spatial: tuple[int, int], stride: Any, dtype: Any
) -> None:
    weight = sample(outs, channels, 3, 3, seed=1)
    exact_gradients("conv2d", (sample(images, channels, *spatial), weight, None), (stride, 1), dtype)


def exact_gradients(name: str, tensors: tuple, rest: tuple, dtype: Any) -> None:
    """Our result and gradients in `dtype` against PyTorch's in double precision."""
    given = [None if t is None else t.to(dtype).double().requires_grad_() for t in tensors]
    result = getattr(torch.nn.functional, name)(*given, *rest)
    g = sample(*result.shape, seed=2).to(dtype).double()
    by = [t for t in given if t is not None]
    mine = [None if t is None else ours(t.detach().to(dtype)).requires_grad_() for t in given]
    own = getattr(rl.nn.functional, name)(*mine, *rest)
    found = rl.autograd.grad(own, [t for t in mine if t is not None], ours(g.to(dtype)))
    bound = 2e-5 if dtype is torch.float32 else 1e-13
    for a, b in zip((own, *found), (result, *torch.autograd.grad(result, by, g)), strict=True):
        error = (theirs(a.detach()).double() - b.detach()).abs().max()
        assert error <= bound * b.detach().pow(2).mean().sqrt(), (tuple(b.shape), float(error))


FEW_PIXELS = [
    # more weights than pixels: windows are written as a matrix, and weights read where they lie
    ("conv2d", (1, 96, 7, 7), (330, 96, 3, 3), (1, 1)),
    ("conv2d", (2, 128, 9, 6), (257, 128, 3, 3), (2, 1)),
    ("conv2d", (1, 64, 7, 5), (460, 64, 3, 3), (1, 2, 2)),
    ("conv2d", (1, 64, 9, 3), (300, 64, 5, 3), (1, (2, 1))),
    ("conv1d", (3, 150, 20), (400, 150, 5), (1, 2, 2)),
    ("conv3d", (1, 64, 5, 4, 6), (160, 64, 3, 3, 3), (2, 1)),
    # transposed ones with strides: products of all taps, added where windows overlap
    ("conv_transpose2d", (2, 40, 13, 11), (40, 35, 3, 3), (2, 1, 1)),
    ("conv_transpose2d", (9, 64, 20, 9), (64, 18, 2, 2), (2,)),
    ("conv_transpose2d", (1, 33, 9, 30), (33, 66, 5, 4), ((3, 1), (2, 0), (2, 0), 1, (1, 2))),
    ("conv_transpose1d", (2, 64, 100), (64, 31, 4), (3, 1, 2)),
    # of more pixels, or few outputs, line by line: pairs of taps, and as many as a vector has lanes
    ("conv_transpose2d", (2, 24, 24, 23), (24, 20, 3, 3), (2, 1, 1)),
    ("conv_transpose2d", (2, 16, 24, 24), (16, 9, 2, 2), (2,)),
    ("conv_transpose2d", (1, 16, 23, 25), (16, 6, 8, 8), (5, 3, 2)),
    ("conv_transpose2d", (2, 12, 14, 14), (12, 3, 16, 16), (16,)),
    ("conv_transpose1d", (2, 16, 600), (16, 9, 3), (2, 1, 1)),
    ("conv_transpose3d", (1, 8, 4, 14, 15), (8, 3, 3, 4, 4), (3, (1, 2, 2), (2, 0, 1))),
    ("conv_transpose3d", (1, 48, 5, 6, 7), (48, 25, 3, 2, 3), (2, 1)),
    ("conv_transpose2d", (1, 256, 5, 5), (256, 130, 3, 3), (1, 1)),
    # to few channels, two columns apart: products of neighbouring taps are added together
    ("conv_transpose2d", (2, 16, 12, 19), (16, 3, 7, 7), (2, 3, 1)),
    ("conv_transpose2d", (1, 8, 5, 22), (8, 2, 3, 4), ((1, 2), (1, 0))),
]


@pytest.mark.parametrize("name, shape, weight, rest", FEW_PIXELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_that_are_read_where_they_lie(name: str, shape: tuple, weight: tuple, rest: tuple, dtype: Any) -> None:
    outs = weight[1] if "transpose" in name else weight[0]
    exact_gradients(name, (sample(*shape), sample(*weight, seed=1), sample(outs, seed=3)), rest, dtype)


@pytest.mark.parametrize("name, shape, weight, rest", FEW_PIXELS[::3])
def test_threads_do_not_change_them(name: str, shape: tuple, weight: tuple, rest: tuple) -> None:
    tensors = [ours(sample(*size, dtype=torch.float32)) for size in (shape, weight)]
    for t in tensors:
        t.requires_grad_()
    threads, results = rl.get_num_threads(), []
    try:
        for count in (1, 4):
            rl.set_num_threads(count)
            y = getattr(rl.nn.functional, name)(*tensors, None, *rest)
            results.append([y, *rl.autograd.grad(y, tensors, y.detach())])
    finally:
        rl.set_num_threads(threads)
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("images, channels, outs, spatial", [
    (2, 24, 46, (20, 30)),          # rows are read where they are, and so are the four gradients past whole tiles
    (1, 40, 20, (26, 22)),          # two rows too many
    (2, 44, 15, (25, 24)),          # three of them
    (2, 26, 20, (20, 30)),          # windows that do not fill tiles
    (2, 16, 16, (24, 23)),          # images that are no whole vectors, one of which would end in the next
    (1, 20, 8, (32, 32)),           # rows that share the sets of a cache
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weight_gradients_of_single_pixels(
    images: int, channels: int, outs: int, spatial: tuple[int, int], dtype: Any
) -> None:
    tensors = (sample(images, channels, *spatial), sample(outs, channels, 1, 1, seed=1), None)
    exact_gradients("conv2d", tensors, (), dtype)
