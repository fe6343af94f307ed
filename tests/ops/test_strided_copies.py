"""Copies of tensors with gaps: `clone` and `to` keep the order of what they copy, whatever was copied before."""

from __future__ import annotations

import sys

import pytest

import rushlight as rl
from rushlight.codegen.schedule.forms.pieces import boxed
from rushlight.loops.lowered import Piece


def strided(dtype):
    """Tensors with gaps, and the strides of their copies."""
    x = (rl.arange(240) % 2 if dtype is rl.bool else rl.arange(240)).reshape(4, 6, 10).to(dtype)
    return [
        (x[:, :, ::2], (30, 5, 1)), (x[:, 1:3], (20, 10, 1)), (x[..., 3], (6, 1)), (x[1:, 0, 2:4].t(), (1, 2)),
        (x[:, :, :4].permute(2, 0, 1), (1, 24, 4)), (x[:1].expand(4, 6, 10), (60, 10, 1)),
        (x[:, :1, :1].expand(4, 6, 10), (60, 10, 1)), (x[0].diagonal(), (1,)), (x.view(-1)[7], ()),
        (x.view(-1).as_strided((4, 5), (1, 2)), (1, 4)), (x[:0, :, ::2], None), (x[:, 2:2], None),
        (x.view(2, 2, 6, 10)[:, :, :, 1:].permute(0, 3, 1, 2), (108, 1, 54, 9)),
    ]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.int64, rl.bool, rl.complex64], ids=str)
def test_copies_have_the_elements_and_the_order(dtype):
    for x, strides in strided(dtype):
        wider = rl.complex128 if dtype is rl.complex64 else rl.float64
        for copy in (x.clone(), x.to(dtype, copy=True), x.to(wider)):
            assert copy.shape == x.shape and copy.tolist() == x.tolist()
            assert strides is None or copy.stride() == strides
            assert copy.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_numbers_that_are_none_pass_unchanged():
    bits = rl.tensor([0x7FC00001, -0x400001, 0x7F800000, -0x80000000] * 2, dtype=rl.int32)
    x = bits.view(rl.float32)[::2]
    assert x.clone().view(rl.int32).tolist() == bits[::2].tolist()
    assert x.to(rl.float64).isnan().tolist() == [True, False, True, False]


def test_copies_of_gaps_run_without_python():
    x = rl.randn(6, 10)[:, ::3]
    others = x[1:], x.t(), x[:, 1], rl.randn(3, 1).expand(3, 4)
    for _ in range(3):
        x.clone(), x.to(rl.float64)
    called: list[str] = []
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        copies = [(t.clone(), t.to(rl.float64)) for t in others]
    finally:
        sys.setprofile(None)
    assert set(called) <= {"<listcomp>"}
    for t, (copy, wider) in zip(others, copies, strict=True):
        assert copy.tolist() == wider.tolist() == t.tolist()


def test_gradients_pass_through_copies_of_gaps():
    x = rl.randn(4, 6, requires_grad=True)
    (x[:, ::2].clone() + x[:, 1::2].to(rl.float64)).sum().backward()
    assert x.grad.tolist() == rl.ones(4, 6).tolist()


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.uint8, rl.complex128], ids=str)
def test_rows_put_in_another_order(dtype):
    for length in (1, 2, 3, 5, 8, 15, 16, 17, 31, 40, 64, 65, 129, 300):
        for count in (1, 3, 70):
            x = (rl.arange(2 * count * 5 * length) % 251).to(dtype).reshape(2, count, 5, length)
            for dims in ((0, 2, 1, 3), (2, 1, 0, 3), (1, 0, 2, 3)):
                seen = x.permute(dims)
                copy = seen.contiguous()
                assert copy.is_contiguous() and copy.equal(seen), (length, count, dims)
            assert x[:, :, ::2, : length - 1].contiguous().tolist() == x[:, :, ::2, : length - 1].tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_put_in_another_order_by_several_threads(threads):
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        x = rl.arange(150 * 200 * 24, dtype=rl.int32).reshape(150, 200, 24)
        copy = x.transpose(0, 1).contiguous()
        rows = (rl.arange(150) * 200 + rl.arange(200).unsqueeze(1)) * 24
        assert copy.equal((rows.unsqueeze(2) + rl.arange(24)).to(rl.int32))
        wider = x.transpose(0, 1).to(rl.int64, memory_format=rl.contiguous_format)
        assert wider.is_contiguous() and wider.equal(copy.to(rl.int64))
    finally:
        rl.set_num_threads(before)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.uint8, rl.bool, rl.complex64], ids=str)
def test_elements_the_other_way_round(dtype):
    for shape in ((3, 1, 5), (2, 3, 17), (2, 2, 70), (2, 1, 9000)):
        x = (rl.arange(shape[0] * shape[1] * shape[2]) % 97).to(dtype).reshape(shape)
        for seen in (x, x.transpose(1, 2), x.permute(2, 1, 0), x[:, :, ::2]):
            for dims in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
                places = [[n - 1 - i if d in dims else i for i in range(n)] for d, n in enumerate(seen.shape)]
                want = seen
                for d, place in enumerate(places):
                    want = want.index_select(d, rl.tensor(place))
                assert seen.flip(dims).equal(want), (shape, seen.stride(), dims)


def test_boxes_are_walked_as_the_result_lies():
    turned = Piece(0, (0, 0), (3000, 50), (1, 3000), 0, frozenset({0}))
    assert boxed(turned, (1, 3000), True) == [[50, 3000, 3000], [3000, 1, -1]]
    assert boxed(turned.but(backwards=frozenset({0, 1})), (1, 3000), True) == [[150000, 1, -1]]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.int64, rl.bool, rl.complex64], ids=str)
def test_diagonals_over_zeros(dtype):
    x = (1 + rl.arange(240) % 7).to(dtype)
    for vectors in (x[:5], x[:40], x[::6], x[:120].view(3, 40), x.view(40, 6), x.view(40, 6).t(), x.view(2, 3, 40)):
        n, rank = vectors.shape[-1], vectors.ndim
        for offset in (0, 2, -3):
            for dims in ((-2, -1), (-1, -2), (0, rank)):
                wide = rl.zeros([*vectors.shape[:-1], *[n + abs(offset)] * 2], dtype=dtype)
                for k in range(n):
                    wide[..., k + max(0, -offset), k + max(0, offset)] = vectors[..., k]
                got = vectors.diag_embed(offset, *dims)
                assert got.is_contiguous() and got.equal(wide.movedim((-2, -1), dims)), (vectors.shape, offset, dims)
        if rank == 1:
            assert vectors.diag(1).equal(vectors.diag_embed(1)) and vectors.diagflat().equal(vectors.diag())


def test_diagonals_of_any_length_run_without_python():
    for n in (40, 41, 5, 7, 60):
        rl.randn(n).diag(), rl.randn(3, n).diag_embed(1)
    called: list[str] = []
    vectors, rows_ = rl.randn(77), rl.randn(4, 55)
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        a, b = vectors.diag(), rows_.diag_embed(1)
    finally:
        sys.setprofile(None)
    assert not called and a.sum().item() == pytest.approx(vectors.sum().item(), abs=1e-4)
    assert b.diagonal(1, 1, 2).equal(rows_) and b.count_nonzero().item() == rows_.count_nonzero().item()
