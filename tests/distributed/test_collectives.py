"""Every collective between real processes, on both transports, against what it is by definition."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist

from .processes import results_of, run

TRANSPORTS = {"shared": {}, "tcp": {"RUSHLIGHT_DISTRIBUTED_TRANSPORT": "tcp"}}
LONG = 300_001      # elements: more than one piece of a slot, and no multiple of anything


def _each(rank: int, i: int = 0) -> rl.Tensor:
    return rl.arange(5.0) + 10 * rank + 100 * i


def _equal(got: rl.Tensor, want: rl.Tensor) -> None:
    rl.testing.assert_close(got, want, rtol=0, atol=0)


def collectives(rank: int, size: int) -> str:
    everyone = [_each(r) for r in range(size)]
    x = _each(rank)
    assert dist.all_reduce(x) is None
    _equal(x, sum(everyone))
    for op, want in (
        (dist.ReduceOp.MAX, everyone[-1]), (dist.ReduceOp.MIN, everyone[0]),
        (dist.ReduceOp.PRODUCT, rl.stack(everyone).prod(0)), (dist.ReduceOp.AVG, sum(everyone) / size),
    ):
        x = _each(rank)
        dist.all_reduce(x, op)
        rl.testing.assert_close(x, want)
    for root in range(size):
        x = _each(rank)
        dist.broadcast(x, root)
        _equal(x, everyone[root])
        x = _each(rank)
        dist.reduce(x, root)
        _equal(x, sum(everyone) if rank == root else everyone[rank])
        parts = [rl.empty(5) for _ in range(size)] if rank == root else None
        dist.gather(_each(rank), parts, root)
        if parts:
            _equal(rl.stack(parts), rl.stack(everyone))
        x = rl.empty(5)
        dist.scatter(x, [_each(root, i) for i in range(size)] if rank == root else None, root)
        _equal(x, _each(root, rank))
    parts = [rl.empty(5) for _ in range(size)]
    dist.all_gather(parts, _each(rank))
    _equal(rl.stack(parts), rl.stack(everyone))
    whole = rl.empty(size, 5)
    dist.all_gather_into_tensor(whole, _each(rank))
    _equal(whole, rl.stack(everyone))
    x = rl.empty(5)
    dist.reduce_scatter(x, [_each(rank, i) for i in range(size)])
    _equal(x, sum(_each(r, rank) for r in range(size)))
    dist.reduce_scatter_tensor(x, rl.cat([_each(rank, i) for i in range(size)]))
    _equal(x, sum(_each(r, rank) for r in range(size)))
    parts = [rl.empty(5) for _ in range(size)]
    dist.all_to_all(parts, [_each(rank, i) for i in range(size)])
    _equal(rl.stack(parts), rl.stack([_each(r, rank) for r in range(size)]))
    dist.barrier()
    return "done"


def uneven(rank: int, size: int) -> str:
    sizes = [rank + i for i in range(size)]         # rank r sends r + i rows to rank i
    sent = rl.cat([rl.full((n, 2), float(10 * rank + i)) for i, n in enumerate(sizes)])
    expected = [r + rank for r in range(size)]
    got = rl.empty(sum(expected), 2)
    dist.all_to_all_single(got, sent, expected, sizes)
    _equal(got, rl.cat([rl.full((n, 2), float(10 * r + rank)) for r, n in enumerate(expected)]))
    return "done"


def long_ones(rank: int, size: int) -> str:
    base = rl.arange(LONG, dtype=rl.int64)
    x = base + rank
    dist.all_reduce(x)
    _equal(x, base * size + sum(range(size)))
    x = base + rank
    dist.broadcast(x, size - 1)
    _equal(x, base + size - 1)
    parts = [rl.empty(LONG, dtype=rl.int64) for _ in range(size)]
    dist.all_gather(parts, base * rank)
    for r, part in enumerate(parts):
        _equal(part, base * r)
    x = rl.empty(LONG, dtype=rl.int64)
    dist.reduce_scatter(x, [base + i for i in range(size)])
    _equal(x, (base + rank) * size)
    dist.all_to_all(parts, [base + 7 * rank + i for i in range(size)])
    for r, part in enumerate(parts):
        _equal(part, base + 7 * r + rank)
    y = rl.rand(LONG, generator=rl.Generator().manual_seed(rank))
    dist.all_reduce(y)
    copies = [rl.empty(LONG) for _ in range(size)]
    dist.all_gather(copies, y)
    for copy in copies:
        _equal(copy, y)       # the same bits on every rank
    return "done"


def types_and_layouts(rank: int, size: int) -> str:
    for dtype in (rl.float64, rl.float16, rl.bfloat16, rl.int8, rl.uint8, rl.int32, rl.bool, rl.complex64):
        x = rl.ones(7, dtype=dtype)
        dist.all_reduce(x)
        _equal(x, rl.full((7,), True if dtype == rl.bool else size, dtype=dtype))
    x = rl.ones(4, 6)
    part = x.t()[1:3]           # not dense: only its own elements are written
    dist.all_reduce(part)
    assert x.sum() == 24 + 8 * (size - 1)
    for empty in (rl.empty(0), rl.empty(3, 0)):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
    x = rl.tensor(2.0 * rank)
    dist.all_reduce(x)
    assert float(x) == 2.0 * sum(range(size))
    x = rl.ones(3, requires_grad=True)
    dist.all_reduce(x)
    _equal(x.detach(), rl.full((3,), float(size)))
    x = rl.tensor([rank], dtype=rl.int64)
    dist.all_reduce(x, dist.ReduceOp.BOR)
    assert int(x) == functools.reduce(operator.or_, range(size))
    i, v = rl.tensor([[rank, size]]), rl.tensor([1.0, 2.0])
    sparse = rl.sparse_coo_tensor(i, v, (size + 1,))
    dist.all_reduce(sparse)
    _equal(sparse.to_dense(), rl.tensor([1.0] * size + [2.0 * size]))
    return "done"


def messages(rank: int, size: int) -> str:
    after, before = (rank + 1) % size, (rank - 1) % size
    for n in (1, LONG):
        sending = dist.isend(rl.full((n,), float(rank)), after)
        got = rl.empty(n)
        assert dist.recv(got, before) == before
        sending.wait()
        _equal(got, rl.full((n,), float(before)))
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, rl.full((LONG,), rank + 0.5), after), dist.P2POp(dist.irecv, got, before)]
    )
    for work in works:
        work.wait()
    _equal(got, rl.full((LONG,), before + 0.5))
    if rank == 0:               # by tag, in another order than they were sent
        a, b = rl.empty(1), rl.empty(1)
        dist.recv(b, 1, tag=2)
        dist.recv(a, 1, tag=1)
        assert (float(a), float(b)) == (1.0, 2.0)
        senders = {dist.recv(a) for _ in range(size - 1)}
        assert senders == set(range(1, size))
    else:
        if rank == 1:
            dist.send(rl.tensor([1.0]), 0, tag=1)
            dist.send(rl.tensor([2.0]), 0, tag=2)
        dist.send(rl.tensor([5.0]), 0)
    return "done"


def objects(rank: int, size: int) -> str:
    got: list[Any] = [None] * size
    dist.all_gather_object(got, {"rank": rank, "long": "x" * 1000 * rank})
    assert [g["rank"] for g in got] == list(range(size)) and len(got[-1]["long"]) == 1000 * (size - 1)
    items = [1, "two", rl.ones(3)] if rank == 1 else [None] * 3
    dist.broadcast_object_list(items, 1)
    assert items[:2] == [1, "two"] and items[2].tolist() == [1, 1, 1]
    own: list[Any] = [None]
    dist.scatter_object_list(own, [f"for {r}" * (r + 1) for r in range(size)] if rank == 0 else None, 0)
    assert own == [f"for {rank}" * (rank + 1)]
    places: list[Any] = [None] * size
    dist.gather_object((rank,), places if rank == 0 else None, 0)
    if rank == 0:
        assert places == [(r,) for r in range(size)]
        dist.send_object_list([1, {"a": 2}], 1)
    if rank == 1:
        two: list[Any] = [None, None]
        assert dist.recv_object_list(two) == 0 and two == [1, {"a": 2}]
    return "done"


def groups(rank: int, size: int) -> str:
    odd = dist.new_group(list(range(1, size, 2)))
    first = dist.new_group([0, 1])
    x = rl.ones(3)
    if rank % 2:
        dist.all_reduce(x, group=odd)
        assert dist.get_rank(odd) == rank // 2 and dist.get_global_rank(odd, rank // 2) == rank
    else:
        assert dist.get_rank(odd) == -1
        with pytest.warns(UserWarning, match="not in the group"):
            dist.all_reduce(x, group=odd)
    assert float(x[0]) == (len(range(1, size, 2)) if rank % 2 else 1)
    if rank < 2:
        dist.broadcast(x, 1, group=first)
        assert dist.get_process_group_ranks(first) == [0, 1]
        dist.destroy_process_group(first)
    own, made = dist.new_subgroups_by_enumeration([[0, 1], [2]])
    x = rl.ones(1)
    dist.all_reduce(x, group=own)
    assert float(x) == (2 if rank < 2 else 1) and len(made) == 2
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    return "done"


def in_the_background(rank: int, size: int) -> str:
    tensors = [rl.full((1000,), float(i)) for i in range(20)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    last = rl.ones(1)
    dist.all_reduce(last)            # waits for its turn
    assert float(last) == size
    for i, (work, tensor) in enumerate(zip(works, tensors)):
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
        assert work.result()[0] is tensor
        _equal(tensor, rl.full((1000,), float(i * size)))
    work = dist.all_reduce(last, async_op=True)
    seen = work.get_future().then(lambda future: float(future.value()[0]))
    assert seen.wait() == size * size
    return "done"


CASES = {f.__name__: f for f in (collectives, uneven, long_ones, types_and_layouts, messages, objects, groups,
                                 in_the_background)}


@pytest.mark.share(2)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", CASES)
def test_between_three_processes(name: str, transport: str) -> None:
    outcome = run(3, CASES[name], environment=TRANSPORTS[transport])
    assert results_of(outcome) == ["done"] * 3


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_other_numbers_of_processes(ranks: int) -> None:
    assert results_of(run(ranks, collectives)) == ["done"] * ranks


def wrong_arguments(rank: int, size: int) -> str:
    for call, error, words in (
        (lambda: dist.all_reduce([1.0]), TypeError, "tensor must be a Tensor"),
        (lambda: dist.all_reduce(rl.ones(2), "sum"), TypeError, "ReduceOp"),
        (lambda: dist.all_gather([rl.empty(2)], rl.ones(2)), ValueError, "per rank of the group"),
        (lambda: dist.all_gather([rl.empty(3)] * size, rl.ones(2)), ValueError, "does not match"),
        (lambda: dist.all_gather([rl.empty(2, dtype=rl.int32)] * size, rl.ones(2)), ValueError, "one dtype"),
        (lambda: dist.broadcast(rl.ones(2), 9), ValueError, "not a rank of the group"),
        (lambda: dist.broadcast(rl.ones(2)), ValueError, "src is missing"),
        (lambda: dist.send(rl.ones(2), rank), ValueError, "itself"),
        (lambda: dist.all_reduce(rl.ones(2, device="meta")), RuntimeError, "no back end for tensors on 'meta'"),
        (lambda: dist.all_reduce(rl.ones(2), dist.ReduceOp.BAND), RuntimeError, "integers"),
        (lambda: dist.new_group([0, 99]), ValueError, "99"),
        (lambda: dist.init_process_group("gloo"), ValueError, "called before"),
        (lambda: dist.all_to_all_single(rl.empty(3), rl.empty(3)), ValueError, "evenly"),
    ):
        with pytest.raises(error, match=words):
            call()
    x = rl.ones(1)
    dist.all_reduce(x)      # the group is of use afterwards
    assert float(x) == size
    return "done"


def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    assert results_of(run(2, wrong_arguments)) == ["done"] * 2
