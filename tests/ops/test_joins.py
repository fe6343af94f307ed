"""cat and stack: any number of pieces of any lengths, put together without a kernel of their own."""

from __future__ import annotations

import itertools
import sys

import pytest

import rushlight as rl

DTYPES = [rl.float32, rl.bfloat16, rl.int64, rl.bool, rl.complex128]


def numbered(shape, dtype, start=0):
    count = 1
    for n in shape:
        count *= n
    values = (rl.arange(count) + start) % (2 if dtype is rl.bool else 113)
    return values.reshape(shape).to(dtype)


def joined(tensors, dim):
    """What cat gives, an assignment at a time."""
    sizes = list(tensors[0].shape)
    sizes[dim] = sum(t.shape[dim] for t in tensors)
    result, start = rl.zeros(sizes, dtype=tensors[0].dtype), 0
    for t in tensors:
        result.narrow(dim, start, t.shape[dim]).copy_(t)
        start += t.shape[dim]
    return result


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cat_of_any_lengths(dtype):
    for lengths in ((3, 0, 2), (5, 70, 1), tuple(range(40))):
        for dim, others in itertools.product((0, 1, -1), ((2, 3), (70, 1))):
            at = dim % 3
            shapes = [(*others[:at], n, *others[at:]) for n in lengths]
            tensors = [numbered(shape, dtype, k) for k, shape in enumerate(shapes)]
            found = rl.cat(tensors, dim)
            assert found.is_contiguous() and rl.equal(found, joined(tensors, dim))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stack_of_any_number(dtype):
    for count, shape in itertools.product((1, 3, 17), ((), (0,), (7,), (70, 2))):
        tensors = [numbered(shape, dtype, k) for k in range(count)]
        for dim in range(-len(shape) - 1, len(shape) + 1):
            found = rl.stack(tensors, dim)
            assert found.is_contiguous() and rl.equal(found, joined([t.unsqueeze(dim) for t in tensors], dim))


def test_pieces_that_lie_in_no_rows():
    x = rl.randn(6, 8, 10)
    pieces = (
        (x[:, :, 2:5], x[:, :, 5:], x[:, :, :1]),
        (x[::2], x[1::2]),
        (x[:6, :6].transpose(0, 1), x[:6, :6]),
        (x[:1].expand(6, 8, 10), x),
        (x[..., ::2], x[..., 1::2]),
        (x.view(-1).as_strided((6, 8, 10), (3, 2, 1)), x, x),
    )
    for tensors in pieces:
        for dim in range(3):
            if all(t.shape[d] == tensors[0].shape[d] for t in tensors for d in range(3) if d != dim):
                assert rl.equal(rl.cat(tensors, dim), joined(tensors, dim))
        if len({t.shape for t in tensors}) == 1:
            assert rl.equal(rl.stack(tensors, 1), joined([t.unsqueeze(1) for t in tensors], 1))


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 4, 2, 2)])
def test_channels_stay_last_where_all_have_them_so(shape):
    x, form = rl.randn(shape), rl.channels_last if len(shape) == 4 else rl.channels_last_3d
    last = rl.empty(shape, memory_format=form).copy_(x)
    assert last.stride(1) == 1
    for tensors in ([x, x], [x, last], [last, x], [last, last], [last, last[:, :0]], [last] * 12):
        for dim in (1,) if any(not t.numel() for t in tensors) else (0, 1, -1):
            found = rl.cat(tensors, dim)
            assert rl.equal(found, joined(tensors, dim))
            assert found.is_contiguous() or all(t.is_contiguous(memory_format=form) for t in tensors)
    assert rl.cat([last] * 12, 1).is_contiguous(memory_format=form)


def test_numbers_that_are_none_pass_unchanged():
    x = rl.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    assert rl.equal(rl.cat([x, x]).view(rl.int32), rl.cat([x.view(rl.int32)] * 2))
    assert rl.stack([x, x]).view(rl.int32).tolist() == [x.view(rl.int32).tolist()] * 2


def test_a_new_number_of_pieces_asks_nothing_of_python():
    lists = [[rl.full((2, n), float(k)) for k in range(n)] for n in (29, 31, 701)]   # of the last no key has room
    called: list[str] = []
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        found = [(rl.cat(pieces), rl.cat(pieces, 1), rl.stack(pieces)) for pieces in lists]
    finally:
        sys.setprofile(None)
    assert set(called) <= {"<listcomp>"}
    for pieces, (rows, columns, stacked) in zip(lists, found, strict=True):
        wanted = [float(k) for k in range(len(pieces))]
        assert rows[::2, 0].tolist() == columns[1, :: len(pieces)].tolist() == stacked[:, 0, 0].tolist() == wanted


def test_long_joins_are_the_same_on_any_number_of_threads():
    before = rl.get_num_threads()
    rows, flat = [rl.randn(700, n) for n in (300, 7, 513)], [rl.randn(n) for n in (400_000, 3, 77_777)]
    try:
        results = []
        for threads in (1, 2, 5):
            rl.set_num_threads(threads)
            results.append((rl.cat(rows, 1), rl.cat(flat), rl.stack(rows[:1] * 3, 1)))
    finally:
        rl.set_num_threads(before)
    for found in results:
        assert all(rl.equal(a, b) for a, b in zip(found, results[0], strict=True))
    assert rl.equal(results[0][0], joined(rows, 1)) and rl.equal(results[0][1], joined(flat, 0))


def test_gradients_views_and_modes_pass_through():
    x, y = rl.randn(2, 3, requires_grad=True), rl.randn(4, 3, requires_grad=True)
    (rl.cat([x, y]) * rl.arange(18.0).reshape(6, 3)).sum().backward()
    assert x.grad.tolist() == rl.arange(6.0).reshape(2, 3).tolist() and y.grad[0].tolist() == [6.0, 7.0, 8.0]
    with rl.inference_mode():
        assert rl.cat([x, y]).is_inference()
    assert rl.equal(rl.cat([rl.ones(2, dtype=rl.complex64).mul(1j).conj(), rl.ones(1, dtype=rl.complex64)]),
                    rl.tensor([-1j, -1j, 1]))
    assert rl.func.vmap(lambda a: rl.cat([a, a]))(rl.arange(4).reshape(2, 2)).tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert rl.cat([rl.ones(2), rl.ones(1, dtype=rl.int64)]).dtype is rl.float32
    assert rl.cat([rl.ones(0), rl.ones(2, 3), rl.ones(0)], 1).shape == (2, 3) and rl.cat([rl.ones(0)] * 3).shape == (0,)
    out = rl.empty(5)
    assert rl.cat([rl.ones(2), rl.zeros(3)], out=out) is out and out.tolist() == [1, 1, 0, 0, 0]


def test_mistakes_are_told_as_before():
    with pytest.raises(RuntimeError, match="sizes must match except in dimension 0"):
        rl.cat([rl.ones(2, 3), rl.ones(2, 4)])
    with pytest.raises(RuntimeError, match="zero-dimensional"):
        rl.cat([rl.tensor(1.0), rl.tensor(2.0)])
    with pytest.raises(RuntimeError, match="expected one number of dimensions"):
        rl.cat([rl.ones(2, 3), rl.ones(2)])
    with pytest.raises(RuntimeError, match="equal size"):
        rl.stack([rl.ones(2), rl.ones(3)])
    with pytest.raises(IndexError):
        rl.cat([rl.ones(2), rl.ones(2)], 1)
    with pytest.raises(IndexError):
        rl.stack([rl.ones(2), rl.ones(2)], -3)
    with pytest.raises((ValueError, RuntimeError)):
        rl.cat([])
    with pytest.raises(RuntimeError, match="memory|too large|overflow"):
        rl.cat([rl.ones(1).expand(1 << 61), rl.ones(1).expand(1 << 61)])
