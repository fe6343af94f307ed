"""Jobs whose processes are Ray's, on a Ray of one machine."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import pytest

ray = pytest.importorskip("ray")

from rushlight.distributed import ray as on_ray  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])      # which workers cannot import
    yield
    ray.shutdown()


def train(steps):
    """A step of data parallel training; the loss of each step and where this process is."""
    import rushlight as rl
    from rushlight import distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rl.manual_seed(0)
    model = rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(3, 1))
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(rl.ones(2, 3) * (rank + 1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = [p.tolist() for p in model.module.parameters()]
    dist.destroy_process_group()
    return rank, os.environ["LOCAL_RANK"], os.environ["COLOUR"], weights, losses


def test_a_job_runs_and_its_results_come_by_rank():
    options = {"environment": {"COLOUR": "blue"}, "timeout": timedelta(seconds=120)}
    found = on_ray.run(train, args=(2,), workers=2, placement="STRICT_PACK", **options)
    assert [row[:3] for row in found] == [(0, "0", "blue"), (1, "1", "blue")]
    assert found[0][3] == found[1][3] and found[0][4] != found[1][4] and found[0][4][1] < found[0][4][0]


def fail(kind):
    from rushlight import distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    if dist.get_rank() == 1:
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("no such file: data.bin")
    dist.barrier()


@pytest.mark.parametrize(("kind", "words"), [("raises", "no such file: data.bin"), ("dies", "the process died")])
def test_a_worker_that_fails_is_named_and_ends_the_others(kind, words):
    with on_ray.Workers(2, timeout=timedelta(seconds=120)) as workers:
        began = time.monotonic()
        with pytest.raises(on_ray.WorkerFailed, match="rank 1 on ") as error:
            workers.run(fail, (kind,))
        assert error.value.rank == 1 and words in error.value.what and time.monotonic() - began < 15
        with pytest.raises(RuntimeError, match="have been closed"):
            workers.run(fail, (kind,))


def serve():
    import torch

    return torch.__name__, hasattr(torch, "ones"), "rushlight" in torch.__version__


def test_programs_may_import_torch():
    ((_, has_ones, is_ours),) = on_ray.run(serve, workers=1, serves_torch=True, timeout=timedelta(seconds=120))
    assert has_ones and is_ours


def test_what_cannot_be_placed_is_said():
    with pytest.raises(RuntimeError, match=r"2 workers with .*'CPU': 40.* were not placed within 1 s"):
        on_ray.Workers(2, cpus_per_worker=40, timeout=timedelta(seconds=1))
    with pytest.raises(ValueError, match="placement must be one of"):
        on_ray.Workers(1, placement="ANYWHERE")
    with pytest.raises(ValueError, match="positive number"):
        on_ray.Workers(0)
