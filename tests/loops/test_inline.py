"""Ops inlined into each other: one Lowered, compiled and run, gives the numbers of the ops one after the other."""

import itertools

import pytest

import rushlight as R
from rushlight import _C
from rushlight.codegen import schedule as schedules
from rushlight.definitions.resample.tables import LINEAR
from rushlight.definitions.window.axes import ADAPTIVE, AVERAGE, POOL, RESAMPLE, Axis, pack
from rushlight.fake import FakeTensorMode, ShapeEnv
from rushlight.loops.inline import inline
from rushlight.loops.lowered import NotLowerable
from rushlight.loops.show_lowered import show_lowered
from rushlight.op import ops
from rushlight.op.pack import BY_CODE, lowered_steps

pytestmark = pytest.mark.share(2)   # of each test that has several cases

FLOATS = (R.float32, R.float64, R.bfloat16)


def lowered(name, *args, **kwargs):
    """The Lowered of an op call, by the first schema that takes it."""
    for overload in ops[name].overload_list:
        definition = overload.definition
        params = definition.spec.params
        if len(args) > len(params) or any(k not in [p.name for p in params] for k in kwargs):
            continue
        bound = [kwargs.get(p.name, args[i] if i < len(args) else p.default) for i, p in enumerate(params)]
        if all(isinstance(a, R.Tensor) or p.type != "Tensor" for p, a in zip(params, bound, strict=True)):
            return definition.lower(tuple(bound))
    raise TypeError(name)


def run(result, *tensors):
    """A Lowered's results over the tensors it reads, in order."""
    slots = [("new", BY_CODE[code], tuple(result.shape), result.layout, -1, 0) for code in result.outs]
    device = R.device("cpu")
    steps = lowered_steps(result, device, {}, slots)
    return _C.Plan(len(tensors), device, slots, steps, len(result.outs) == 1, None, result.on_error)(*tensors)


def same(got, expected):
    assert got.dtype is expected.dtype and got.shape == expected.shape
    assert R.equal(got, expected)


def layouts(dtype, *shape):
    """A tensor dense, transposed, strided and expanded."""
    R.manual_seed(len(shape))
    yield R.randn(*shape).to(dtype)
    yield R.randn(*reversed(shape)).to(dtype).permute(*reversed(range(len(shape))))
    yield R.randn(*[2 * n for n in shape]).to(dtype)[tuple([slice(None, None, 2)] * len(shape))]
    yield R.randn(1, *shape[1:]).to(dtype).expand(shape)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 5)])
def test_pointwise_into_pointwise(dtype, shape):
    for x in layouts(dtype, *shape):
        for y in (
            R.randn(*shape).to(dtype),
            R.randn(shape[-1]).to(dtype),
            R.randn(shape[0], *[1] * (len(shape) - 1)).to(dtype),
        ):
            for k, order in ((0, lambda t: (t, y)), (1, lambda t: (y, t))):
                result = inline(lowered("mul", *order(x.exp())), k, lowered("exp", x))
                same(run(result, *order(x)), R.mul(*order(x.exp())))


def test_what_is_broadcast_is_computed_once_per_element_it_has():
    x, y = R.randn(4, 1), R.randn(4, 5)
    result = inline(lowered("add", y, x.exp(), alpha=3), 1, lowered("exp", x))
    same(run(result, y, x), y.add(x.exp(), alpha=3))
    twice = inline(result, 0, lowered("sub", y, 2.5))
    same(run(twice, y, x), (y - 2.5).add(x.exp(), alpha=3))


def test_intermediate_results_are_rounded_as_they_would_be_stored():
    x = R.randn(300).bfloat16()
    same(run(inline(lowered("exp", x.exp()), 0, lowered("exp", x)), x), x.exp().exp())
    n = R.randint(-100, 100, (50,), dtype=R.int8)
    same(run(inline(lowered("mul", n * n, n), 0, lowered("mul", n, n)), n, n, n), n * n * n)
    same(run(inline(lowered("exp", n < 3), 0, lowered("lt", n, 3)), n), (n < 3).exp())


@pytest.mark.parametrize("name", ["sum", "var", "argmax"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (700, 9), (3, 90000), (90000, 5)])
def test_pointwise_into_reduction(name, shape):
    for x in itertools.islice(layouts(R.float32, *shape), 4 if max(shape) < 1000 else 2):
        y = R.randn(*shape)
        for dim in range(len(shape)):
            args = ((dim,) if name not in ("argmax",) else dim, True)
            product = x * y
            made = inline(lowered(name, product, dim=args[0], keepdim=True), 0, lowered("mul", x, y))
            expected = getattr(R, name)(product, dim=args[0], keepdim=True)
            R.testing.assert_close(run(made, x, y), expected, rtol=1e-5, atol=5e-4)   # strides decide the order of sums


@pytest.mark.parametrize("dtype", FLOATS)
def test_dense_pointwise_into_reduction(dtype):
    x = R.randn(30, 50).to(dtype)
    for dim in (0, 1):
        R.testing.assert_close(
            run(inline(lowered("sum", x.exp(), dim=(dim,)), 0, lowered("exp", x)), x), x.exp().sum(dim)
        )


def views(shape):
    rows, cols = shape
    return [
        ("transpose", (0, 1)), ("permute", ((1, 0),)), ("view", ((cols, rows),)), ("unsqueeze", (1,)),
        ("select", (0, 1)), ("slice", (1, 1, 6, 2)), ("expand", ((3, rows, cols),)), ("diagonal", ()),
        ("unfold", (1, 3, 2)), ("narrow", (0, 1, 2)),
    ]


@pytest.mark.parametrize(("name", "args"), views((4, 6)))
def test_view_into_anything_and_anything_into_view(name, args):
    dense = R.randn(4, 6)
    method = getattr(R.Tensor, name, None) or (lambda t, *a: R.ops.aten.slice.Tensor(t, *a))
    try:
        seen = lowered(name, dense, *args)
    except NotLowerable:
        pytest.skip(f"{name} is no view op of its own")
    shown = method(dense, *args)
    same(run(seen, dense), shown.contiguous())
    same(run(inline(lowered("exp", shown), 0, seen), dense), shown.exp())
    R.testing.assert_close(run(inline(lowered("sum", shown, dim=(0,)), 0, seen), dense), shown.sum(0))
    for x in layouts(R.float32, 4, 6):
        behind = lowered(name, x.exp().contiguous(), *args)
        same(run(inline(behind, 0, lowered("exp", x)), x), method(x.exp().contiguous(), *args).contiguous())
        places = inline(behind, 0, lowered("index_select", x, 0, R.tensor([3, 0, 1, 2])))
        same(
            run(places, x, R.tensor([3, 0, 1, 2])),
            method(x.index_select(0, R.tensor([3, 0, 1, 2])), *args).contiguous(),
        )


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 300000), (3000, 300)])
def test_pointwise_behind_a_reduction(shape, keepdim):
    x = R.randn(*shape)
    for dim in (0, len(shape) - 1):
        total = x.sum(dim, keepdim)
        for other in (R.randn(total.shape), R.randn(total.shape[1:]), total.sigmoid().flip(0)):
            result = inline(lowered("add", other, total, alpha=2), 1, lowered("sum", x, dim=(dim,), keepdim=keepdim))
            same(run(result, x, other), other.add(total, alpha=2))
            longer = inline(lowered("mul", run(result, x, other), other), 0, result)
            same(run(longer, x, other, other), other.add(total, alpha=2) * other)


def test_everything_at_once():
    x, y, bias = R.randn(20, 31), R.randn(31), R.randn(20)
    inside = inline(lowered("sum", x * y, dim=(1,)), 0, lowered("mul", x, y))
    result = inline(lowered("add", (x * y).sum(1), bias), 0, inside)
    result = inline(lowered("relu", (x * y).sum(1) + bias), 0, result)
    R.testing.assert_close(run(result, x, y, bias), ((x * y).sum(1) + bias).relu())


def test_into_gather_and_scatter():
    x, index = R.randn(5, 6), R.tensor([3, 0, -1])
    for t in layouts(R.float32, 5, 6):
        result = inline(lowered("index_select", t.exp(), 1, index.abs()), 0, lowered("exp", t))
        same(run(result, t, index.abs()), t.exp().index_select(1, index.abs()))
    shifted = inline(lowered("index_select", x, 0, index + 1), 1, lowered("add", index, 1))
    same(run(shifted, x, index), x.index_select(0, index + 1))
    with pytest.raises(IndexError):
        run(inline(lowered("index_select", x, 0, index + 1), 1, lowered("add", index, 7)), x, index)
    gathered = inline(lowered("exp", x.index_select(0, index + 1)), 0, lowered("index_select", x, 0, index + 1))
    same(run(gathered, x, index + 1), x.index_select(0, index + 1).exp())
    with pytest.raises(IndexError):
        run(gathered, x, index + 3)


def test_into_a_scan():
    x = R.randn(4, 300000)
    same(run(inline(lowered("cumsum", x.exp(), 1), 0, lowered("exp", x)), x), x.exp().cumsum(1))
    same(run(inline(lowered("cumsum", x[0].exp(), 0), 0, lowered("exp", x[0])), x[0]), x[0].exp().cumsum(0))


def moved():
    """Ops that only move elements, with what they take after their tensor, or list of two."""
    for dims in ((0,), (1,), (0, 2)):
        yield "flip", False, (dims,)
    for shift, dim in ((1, 0), (-7, 2), (4, 1)):
        yield "_roll", False, (shift, dim)
    for pad, value in (((1, 2), 0), ((-1, 3, 2, -2), 2.5), ((0, 0, 1, 1, -1, 0), -1)):
        yield "constant_pad_nd", False, (pad, value)
    for name in ("cat", "stack"):
        for dim in (0, 1, -1):
            yield name, True, (dim,)


@pytest.mark.parametrize(("name", "is_list", "args"), list(moved()))
def test_moved_elements(name, is_list, args):
    op = ops[name]
    for x, other in zip(layouts(R.float32, 3, 4, 5), layouts(R.float64, 3, 4, 5), strict=True):
        given = (lambda t, other=other: [t, other]) if is_list else lambda t: t
        tensors = (x, other) if is_list else (x,)
        same(run(lowered(name, given(x), *args), *tensors), op(given(x), *args))
        before = inline(lowered(name, given(x.exp().contiguous()), *args), 0, lowered("exp", x))
        same(run(before, *tensors), op(given(x.exp()), *args))
        result = op(given(x), *args)
        same(run(inline(lowered("exp", result), 0, lowered(name, given(x), *args)), *tensors), result.exp())


def test_pieces_without_elements_add_nothing():
    x, empty = R.randn(2, 3), R.randn(0)
    pieces = [empty, x, x[:0], x]
    same(run(lowered("cat", pieces, 0), *pieces), R.cat([x, x]))
    same(run(lowered("cat", pieces, 0).but(pieces=None), *pieces), R.cat([x, x]))


def test_what_takes_two_loops_is_refused_with_a_reason():
    x = R.randn(4, 5)
    total = lowered("sum", x, dim=(1,), keepdim=True)
    with pytest.raises(NotLowerable, match="same shape"):
        inline(lowered("sub", x, x.sum(1, True)), 1, total)
    with pytest.raises(NotLowerable, match="loops before"):
        inline(lowered("exp", x), 0, lowered("cumsum", x, 0))
    with pytest.raises(NotLowerable, match="extern"):
        lowered("linalg_svd", x)


def test_sizes_that_are_symbols_stay_symbols():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    x, y = mode.from_tensor(R.randn(7, 9)), mode.from_tensor(R.randn(9))
    rows, cols = x.shape
    with mode:
        product = x * y
        total = inline(lowered("sum", product, dim=(1,)), 0, lowered("mul", x, y))
        (launch,) = schedules.schedule(total).launches
        assert [str(n) for n in (*total.ranges, *total.shape, launch.extent)] == [
            str(rows),
            str(cols),
            str(rows),
            str(rows),
        ]
        turned = inline(lowered("transpose", product, 0, 1), 0, lowered("mul", x, y))
        assert [[str(s) for s in m.strides] for m in turned.memories] == [["1", str(cols)], ["1", "0"]]
        flipped = inline(lowered("flip", product, (1,)), 0, lowered("mul", x, y))
        assert str(flipped.memories[0].offset) == str(cols - 1)
        joined = inline(lowered("cat", [product, x], 0), 0, lowered("mul", x, y))
        assert str(schedules.schedule(joined).launches[0].extent) == str(2 * rows)
    assert not any("==" in str(g) for g in env.guards)


def test_stages_print_themselves(monkeypatch, capfd):
    monkeypatch.setenv("RUSHLIGHT_SHOW", "lowered,schedule")
    x = R.randn(4, 5)
    schedules.schedule(lowered("sum", x, dim=(1,)))
    text = capfd.readouterr().err
    assert "sum over [4, 5] to f32 [4]" in text and "folded over i1" in text
    assert "extent 4" in text and "nest sum_rows" in text


def test_a_gather_inside_a_fold():
    x, index = R.randn(50, 40), R.randint(0, 50, (7,))
    rows, chosen = x.index_select(0, index), lowered("index_select", x, 0, index)
    close(run(inline(lowered("sum", rows, dim=(1,)), 0, chosen), x, index), rows.sum(1))
    close(run(inline(lowered("sum", rows, dim=(0,)), 0, chosen), x, index), rows.sum(0))
    same(run(inline(lowered("argmax", rows, 1), 0, chosen), x, index), rows.argmax(1))
    same(run(inline(lowered("amax", rows, (0, 1)), 0, chosen), x, index), rows.amax((0, 1)))
    with pytest.raises(IndexError, match="77 is out of bounds"):
        run(inline(lowered("sum", rows, dim=(1,)), 0, chosen), x, R.tensor([0, 1, 2, 77, 4, 5, 6]))
    with pytest.raises(NotLowerable, match="twice"):
        inline(lowered("var", rows, (1,)), 0, chosen)
    with pytest.raises(NotLowerable, match="in order"):
        inline(lowered("cumsum", rows, 1), 0, chosen)


def close(got, expected):
    assert got.dtype is expected.dtype and got.shape == expected.shape
    R.testing.assert_close(got, expected)


def test_padding_and_windows_inside_others():
    x = R.randn(3, 20, 23)
    for mode in ("reflect", "replicate", "circular"):
        padded = R.nn.functional.pad(x, (2, 3, 1, 1), mode=mode)
        stated = lowered("_pad_by_index", x, (2, 3, 1, 1), mode)
        same(run(stated, x), padded)
        same(run(inline(lowered("exp", padded), 0, stated), x), padded.exp())
        close(run(inline(lowered("sum", padded, dim=(2,)), 0, stated), x), padded.sum(2))
    columns, stated = R.nn.functional.unfold(x, 3, padding=1), lowered("im2col", x, (3, 3), (1, 1), (1, 1), (1, 1))
    same(run(inline(lowered("mul", columns, columns), 0, stated), x, columns), columns * columns)
    close(run(inline(lowered("sum", columns, dim=(0,)), 0, stated), x), columns.sum(0))


def test_ops_before_and_behind_windows():
    x = R.randn(2, 3, 20, 23)
    axes = pack([Axis(POOL, n, (n + 2 - 3) // 2 + 1, 3, 2, 1, 1) for n in (20, 23)])
    pooled = lowered("_window_max", x.exp(), axes, 64)
    values, places = run(inline(pooled, 0, lowered("exp", x)), x)
    expected = R.nn.functional.max_pool2d(x.exp(), 3, 2, 1, return_indices=True)
    same(values, expected[0])
    same(places, expected[1])
    means = R.nn.functional.avg_pool2d(x, 3, 2, 1)
    averaged = lowered("_window_sum", x, pack([Axis(AVERAGE, n, (n + 2 - 3) // 2 + 1, 3, 2, 1, 1) for n in (20, 23)]))
    same(run(averaged, x), means)
    same(run(inline(lowered("exp", means), 0, averaged), x), means.exp())
    with pytest.raises(NotLowerable, match="its own"):
        inline(averaged, 0, lowered("exp", x))


def test_channels_and_columns_of_one_range_take_no_op_behind_them():
    axes = [Axis(RESAMPLE, n, 2 * n, LINEAR, 0, 0, 32) for n in (6, 8)]
    x = R.randn(2, 3, 6, 8).contiguous(memory_format=R.channels_last)
    resampled = lowered("_window_sum", x, pack(axes))
    assert resampled.ranges[:3] == (2, 12, 48) and resampled.shape == (2, 3, 12, 16)
    expected = R.nn.functional.interpolate(x.contiguous(), (12, 16), mode="bilinear")
    assert R.allclose(run(resampled, x), expected, atol=1e-6)
    with pytest.raises(NotLowerable, match="same shape"):
        inline(lowered("mul", expected, expected), 0, resampled)


def test_what_is_stated_prints():
    x = R.randn(2, 3, 20, 23)
    for result in (
        lowered("_window_max", x, pack([Axis(POOL, n, n, 3, 1, 1, 1) for n in (20, 23)]), 32),
        lowered("_window_sum", x, pack([Axis(AVERAGE, n, n, 3, 1, 1, 1) for n in (20, 23)])),
        lowered("_window_max", x, pack([Axis(ADAPTIVE, n, 5) for n in (20, 23)]), 64),
        lowered("im2col", x, (3, 3), (1, 1), (1, 1), (2, 2)), lowered("cat", [x, x], 1), lowered("flip", x, (1,)),
    ):
        assert result.name in show_lowered(result) and "nest" in str(schedules.schedule(result))
    assert "rows of" in show_lowered(
        lowered("_window_sum", x, pack([Axis(AVERAGE, n, n, 3, 1, 1, 1) for n in (20, 23)]))
    )
