"""What `test_backends.py` runs under mpiexec: every collective, on values whose results are known."""

from __future__ import annotations

import rushlight as rl
from rushlight import distributed as dist


def main() -> None:
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "mpi" and size == 3
    for dtype in (rl.float32, rl.int64, rl.bfloat16):       # the last one MPI does not know
        x = rl.full((5,), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert x.tolist() == [6] * 5
    x = rl.full((4,), float(rank))
    dist.broadcast(x, 2)
    assert x.tolist() == [2.0] * 4
    x = rl.full((4,), float(rank))
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.tolist() == [2.0] * 4
    x = rl.full((2,), float(rank + 1))
    dist.reduce(x, 1)
    assert rank != 1 or x.tolist() == [6.0, 6.0]
    parts = [rl.zeros(2) for _ in range(size)]
    dist.all_gather(parts, rl.full((2,), float(rank)))
    assert [p[0].item() for p in parts] == [0, 1, 2]
    out = rl.zeros(1)
    dist.reduce_scatter(out, [rl.full((1,), float(r)) for r in range(size)])
    assert out.item() == 3 * rank
    out = rl.zeros(3)
    dist.all_to_all_single(out, rl.arange(3.0) + 10 * rank)
    assert out.tolist() == [rank, 10 + rank, 20 + rank]
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects[2] == {"rank": 2}
    if rank == 0:
        dist.send(rl.arange(100_000.0), 1, tag=7)
    elif rank == 1:
        big = rl.zeros(100_000)
        dist.recv(big, 0, tag=7)
        assert big[-1] == 99_999
    pair = dist.new_group([0, 2])
    if rank != 1:
        x = rl.ones(1)
        dist.all_reduce(x, group=pair)
        assert x.item() == 2
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} is content", flush=True)


if __name__ == "__main__":
    main()
