"""Ops whose kernels differ by size, layout and type: every form against NumPy."""

from __future__ import annotations

import itertools

import pytest

import rushlight

np = pytest.importorskip("numpy")


def laid(array: np.ndarray, layout: str) -> rushlight.Tensor:
    """The array as a tensor that lies in memory in one of several ways."""
    given = rushlight.from_numpy(np.ascontiguousarray(array))
    if layout == "turned":
        return given.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "strided":
        return rushlight.stack((given, given), -1)[..., 0]
    if layout == "channels last":
        return given.contiguous(memory_format=rushlight.channels_last)
    return given


LAYOUTS = ("plain", "turned", "strided", "channels last")


@pytest.mark.parametrize("shape", [(2, 8, 4, 6), (3, 72, 1, 5), (1, 4, 4, 4), (0, 8, 2, 2)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shuffles_move_every_element(shape: tuple[int, ...], layout: str) -> None:
    n, c, h, w = shape
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    image = laid(array, layout)
    up = rushlight.pixel_shuffle(image, 2)
    wanted = array.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)
    assert np.array_equal(up.numpy(), wanted)
    assert np.array_equal(rushlight.pixel_unshuffle(up, 2).numpy(), array)
    dealt = array.reshape(n, 4, c // 4, h, w).swapaxes(1, 2).reshape(shape)
    assert np.array_equal(rushlight.channel_shuffle(image, 4).numpy(), dealt)
    if layout == "channels last" and n and min(h, w) > 1:
        assert up.is_contiguous(memory_format=rushlight.channels_last)


def test_shuffles_have_gradients_and_maps() -> None:
    image = rushlight.randn(2, 8, 3, 4, dtype=rushlight.float64, requires_grad=True)
    for op, factor in (("pixel_shuffle", 2), ("channel_shuffle", 2)):
        function = getattr(rushlight, op)
        assert rushlight.autograd.gradcheck(lambda x, f=function, k=factor: f(x, k), (image,))
        many = rushlight.randn(3, 2, 8, 3, 4)
        mapped = rushlight.vmap(lambda x, f=function, k=factor: f(x, k))(many)
        assert rushlight.equal(mapped, rushlight.stack([function(one, factor) for one in many]))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int64", "int32", "uint8"])
@pytest.mark.parametrize("shape, count", [((3, 2000), 5), ((2, 5000), 200), ((1, 70001), 40), ((3, 1025), 1)], ids=str)
def test_first_of_long_rows_are_those_of_a_stable_sort(kind: str, shape: tuple[int, int], count: int) -> None:
    array = (np.random.default_rng(0).standard_normal(shape) * 100).astype(np.float32)
    array = array.astype(kind) if kind != "uint8" else np.abs(array).astype(kind)
    array[0, 100:300] = array[0, 7]                     # equals, whose order is their place
    if kind.startswith("float"):
        array[0, [3, 9, 11]] = np.inf, -np.inf, np.nan
    elif kind == "int64":
        array[0, [3, 9, 11]] = 2**63 - 1, -(2**63), 2**63 - 1
    x = rushlight.from_numpy(array)
    for largest in (True, False):
        values, places = x.topk(count, 1, largest)
        order = rushlight.sort(x, dim=1, descending=largest, stable=True)[1][:, :count]
        assert rushlight.equal(places, order)
        assert np.array_equal(values.numpy(), x.gather(1, order).numpy(), equal_nan=kind.startswith("float"))


def test_as_many_equals_as_are_wanted() -> None:
    x = rushlight.full((2, 3000), 2**63 - 1)            # the highest key there is, everywhere
    assert x.topk(100, largest=False)[1].tolist() == [list(range(100))] * 2


SMALL = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [1, 20])
def test_products_of_small_matrices_in_any_layout(batch: int, kind: type) -> None:
    random = np.random.default_rng(batch)
    sizes = random.choice(SMALL, (40, 3)).tolist()
    for (m, k, n), left, right in zip(sizes, itertools.cycle(LAYOUTS[:3]), itertools.cycle(LAYOUTS[1::-1])):
        a, b = random.standard_normal((batch, m, k)).astype(kind), random.standard_normal((batch, k, n)).astype(kind)
        found = laid(a, left) @ laid(b, right)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
        assert np.all(np.abs(found.numpy() - exact) <= 2 * k * np.finfo(kind).eps * bound), (m, k, n, left, right)


def test_a_right_operand_that_is_repeated_is_turned_once() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 24, 16, 16))
    for right in (laid(b, "turned"), laid(b[0], "turned").expand(24, 16, 16)):
        wanted = a @ (b if right.stride(0) else b[:1])
        assert np.allclose(rushlight.bmm(laid(a, "plain"), right).numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape, dim", [
    ((728, 4), 1), ((100, 31), 1), ((100, 32), 1), ((40, 3, 50), 1), ((40, 50, 3), 2), ((16, 5), 1), ((70, 6), 0),
    ((50, 1), 1), ((0, 4), 1),
], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_logsumexp_of_short_rows(shape: tuple[int, ...], dim: int, kind: str) -> None:
    array = (np.random.default_rng(2).standard_normal(shape) * 20).astype(kind)
    if array.size:
        array.flat[3], array.flat[9] = np.inf, np.nan
        array[len(array) // 2] = -np.inf
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.reduce(wide, axis=dim) if array.size else np.empty((0,))
    for layout in LAYOUTS[:3]:
        found = laid(array, layout).logsumexp(dim)
        assert found.dtype == getattr(rushlight, kind)
        bound = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3}[kind]
        assert np.allclose(found.double().numpy(), wanted, rtol=bound, atol=bound, equal_nan=True)


def test_distances_by_products_pass_on_what_is_no_number() -> None:
    points = rushlight.randn(60, 5)
    points[3, 2] = float("nan")
    apart = rushlight.cdist(points, points)
    exact = (points.double().unsqueeze(1) - points.double().unsqueeze(0)).square().sum(-1).sqrt()
    assert apart[3].isnan().all() and apart[:, 3].isnan().all()
    known = ~exact.isnan() & ~rushlight.eye(60, dtype=rushlight.bool)
    assert float((apart.double() - exact)[known].abs().max()) < 1e-5


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_repeated_gradient_of_skipped_pixels(dims: int) -> None:
    layer = getattr(rushlight.nn, f"Conv{dims}d")(6, 8, 1, 2)
    x = rushlight.randn(2, 6, *[9] * dims, requires_grad=True)
    by = (x, layer.weight, layer.bias)
    summed = rushlight.autograd.grad(layer(x).sum(), by)
    given = layer(x)
    for one, other in zip(summed, rushlight.autograd.grad(given, by, rushlight.ones(given.shape)), strict=True):
        assert rushlight.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_samples_of_a_grid_are_those_of_its_points(mode: str, kind: str) -> None:
    """Rows of any length on lanes: a row gives what each of its points gives alone."""
    dtype = getattr(rushlight, kind)
    image, grid = rushlight.randn(2, 3, 9, 11, dtype=dtype), rushlight.rand(2, 4, 37, 2, dtype=dtype) * 2.4 - 1.2
    image[0, 0, 4, 4] = float("inf")
    whole = rushlight.nn.functional.grid_sample(image, grid, mode, align_corners=False)
    for column in (0, 15, 16, 36):
        one = rushlight.nn.functional.grid_sample(image, grid[:, :, column:column + 1], mode, align_corners=False)
        assert rushlight.allclose(whole[..., column:column + 1], one, equal_nan=True, rtol=1e-5, atol=1e-5)
