"""Back ends other than gloo: made up ranks, MPI, and those that programs bring."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import distributed as dist
from tests.distributed.processes import results_of, run


@pytest.fixture
def fake_world():
    dist.init_process_group("fake", rank=1, world_size=8)
    yield
    dist.destroy_process_group()


def test_made_up_ranks(fake_world):
    assert dist.get_rank() == 1 and dist.get_world_size() == 8 and dist.get_backend() == "fake"
    x = rl.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [1, 1, 1]
    out = rl.zeros(8, 2)
    dist.all_gather_into_tensor(out, rl.full((2,), 4.0))
    assert out.unique().tolist() == [4.0]
    part = rl.zeros(2)
    dist.reduce_scatter_tensor(part, rl.arange(16.0))
    assert part.tolist() == [2.0, 3.0]
    dist.send(x, 5)
    dist.recv(x, 5)
    dist.barrier()
    group = dist.new_group([0, 1, 2])
    assert dist.get_world_size(group) == 3 and dist.get_rank(group) == 1


def test_sharded_training_in_one_process(fake_world):
    from rushlight.distributed.device_mesh import init_device_mesh
    from rushlight.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (8,))
    x = distribute_tensor(rl.ones(16, 4), mesh, [Shard(0)])
    assert tuple(x.to_local().shape) == (2, 4) and tuple(x.shape) == (16, 4)
    model = rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(4, 2))
    model(rl.ones(2, 4)).sum().backward()
    assert model.module.weight.grad is not None


class _Counting(dist.ProcessGroup):
    """A program's own: adds a number instead of reducing."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.calls = []

    def allreduce(self, tensors, options=None):
        self.calls.append("allreduce")
        tensors[0].add_(100)
        work = dist.Work()
        work._finish()
        return work


def _own_backend(rank, ranks):
    dist.Backend.register_backend("counting", lambda store, rank, size, timeout: _Counting(rank, size), devices="cpu")
    with pytest.raises(RuntimeError, match="already"):
        dist.Backend.register_backend("fake", None)
    group = dist.new_group(backend="counting")
    x = rl.ones(2)
    dist.all_reduce(x, group=group)
    return x.tolist(), dist.get_backend(group), dist.is_backend_available("counting")


def test_a_back_end_of_a_programs_own():
    for found in results_of(run(2, _own_backend)):
        assert found == ([101.0, 101.0], "counting", True)


def test_mpi_is_asked_for_by_name_when_missing():
    if dist.is_mpi_available():
        pytest.skip("mpi4py is installed")
    with pytest.raises(RuntimeError, match="mpi4py"):
        dist.init_process_group("mpi")


def test_mpi_collectives():
    mpiexec = shutil.which("mpiexec")
    if not dist.is_mpi_available() or mpiexec is None:
        pytest.skip("needs mpi4py and mpiexec")
    program = Path(__file__).with_name("mpi_program.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([mpiexec, "-n", "3", sys.executable, str(program)], capture_output=True, text=True,
                          timeout=100, env=environment)
    assert done.returncode == 0 and done.stdout.count("is content") == 3, done.stderr
