"""The last calls of every process, and where they part ways."""

from __future__ import annotations

import pickle

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import flight_recorder
from tests.distributed.processes import Raised, results_of, run


def _part_ways(rank, ranks, folder):
    for _ in range(3):
        dist.all_reduce(rl.ones(2))
    if rank == 0:
        dist.broadcast(rl.ones(4), 1)
    else:
        dist.all_reduce(rl.ones(4))


def test_ranks_that_part_ways_are_told_where(tmp_path):
    environment = {"TORCH_FR_BUFFER_SIZE": "100", "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "trace_")}
    found = run(2, _part_ways, str(tmp_path), timeout=10, environment=environment)
    assert all(isinstance(result, Raised) for result in found)
    files = sorted(tmp_path.glob("trace_*"))
    assert [file.name for file in files] == ["trace_0", "trace_1"]
    (line,) = flight_recorder.compare(files)
    assert "collective 4" in line and "rank 0: broadcast of [[4]]" in line and "rank 1: allreduce of [[4]]" in line
    assert "test_flight_recorder.py:" in line
    trace = pickle.loads(files[0].read_bytes())      # as PyTorch's tools do
    assert [e["state"] for e in trace["entries"]] == ["completed"] * 3 + ["started"]
    assert trace["entries"][0]["input_dtypes"] == ["Float32"] and trace["pg_config"]["0"]["ranks"] == "[0, 1]"


def _record(rank, ranks, folder):
    flight_recorder.start(3, rank)
    for size in range(1, 6):
        dist.all_reduce(rl.ones(size), async_op=True).wait()
    dist.barrier()
    flight_recorder.dump(f"{folder}/trace_{rank}")
    names = [e["profiling_name"] for e in flight_recorder.current.contents()["entries"]]
    flight_recorder.start(0)
    return names


def test_only_the_last_calls_are_kept(tmp_path):
    for names in results_of(run(2, _record, str(tmp_path))):
        assert names == ["gloo:allreduce", "gloo:allreduce", "gloo:barrier"]
    assert flight_recorder.compare(sorted(tmp_path.glob("trace_*"))) == []


class _Harm:
    def __reduce__(self):
        return print, ("harm",)


def test_what_is_read_is_not_run(tmp_path):
    (tmp_path / "bad").write_bytes(pickle.dumps(_Harm(), protocol=2))
    with pytest.raises(pickle.UnpicklingError):
        flight_recorder.compare([tmp_path / "bad"])
    with pytest.raises(RuntimeError, match="TORCH_FR_BUFFER_SIZE"):
        flight_recorder.dump(tmp_path / "none")
