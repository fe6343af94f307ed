"""Checkpoints of several processes: written once together, read by as many others."""

from __future__ import annotations

import os
import warnings

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.checkpoint import state_dict as sd
from tests.distributed.processes import Raised, results_of, run


def _model():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Linear(8, 2))


def _save(rank, ranks, folder):
    state = {"shared": rl.arange(10.0), f"own{rank}": rl.full((3,), float(rank)), "step": 5}
    table = dcp.save(state, checkpoint_id=folder)
    return sorted(table.state_dict_metadata), [info.relative_path for info in table.storage_data.values()]


def test_what_all_have_is_written_once(tmp_path):
    tables = results_of(run(3, _save, str(tmp_path)))
    assert all(table == tables[0] for table in tables)
    names, files = tables[0]
    assert names == ["own0", "own1", "own2", "shared", "step"]
    assert len(files) == 5 and len({f.split("_")[2] for f in files}) > 1      # spread over ranks
    state = {"shared": rl.zeros(10), "own1": rl.zeros(3), "own2": rl.zeros(3), "step": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, checkpoint_id=tmp_path)
    assert rl.equal(state["shared"], rl.arange(10.0)) and state["own2"].sum() == 6 and state["step"] == 5


def _fail_on_one(rank, ranks, folder):
    class Planner(dcp.DefaultSavePlanner):
        def resolve_data(self, item):
            if rank == 1:
                raise OSError("no space left on device")
            return super().resolve_data(item)

    try:
        dcp.save({"a": rl.ones(3), f"b{rank}": rl.ones(3)}, checkpoint_id=folder, planner=Planner())
    except dcp.CheckpointException as error:
        return sorted(error.failures), str(error)


def test_a_rank_that_fails_fails_on_all_by_name(tmp_path):
    for failures, text in results_of(run(2, _fail_on_one, str(tmp_path))):
        assert failures == [1] and "no space left" in text
    assert not (tmp_path / ".metadata").exists()


def _die_while_writing(rank, ranks, folder):
    dcp.save({"w": rl.full((4,), 1.0), f"own{rank}": rl.full((2,), 1.0)}, checkpoint_id=folder)

    class Planner(dcp.DefaultSavePlanner):
        def resolve_data(self, item):
            data = super().resolve_data(item)
            if rank == 1:
                os._exit(9)
            return data

    dcp.save({"w": rl.full((4,), 2.0), f"own{rank}": rl.full((2,), 2.0)}, checkpoint_id=folder, planner=Planner())


def test_a_rank_that_dies_leaves_the_last_checkpoint_whole(tmp_path):
    first, second = run(2, _die_while_writing, str(tmp_path), timeout=20)
    assert isinstance(first, Raised) and second is None
    state = {"w": rl.zeros(4), "own0": rl.zeros(2), "own1": rl.zeros(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, checkpoint_id=tmp_path)
    assert all(float(v.min()) == float(v.max()) == 1.0 for v in state.values())


def _ranks_apart(rank, ranks, folder):
    dcp.save({"w": rl.full((2,), float(rank))}, checkpoint_id=folder, use_collectives=False)
    state = {"w": rl.zeros(2)}
    dcp.load(state, checkpoint_id=folder)
    return state["w"].tolist()


def test_each_rank_by_itself(tmp_path):
    assert results_of(run(2, _ranks_apart, str(tmp_path))) == [[0.0, 0.0], [1.0, 1.0]]


def _data_parallel(rank, ranks, folder):
    model = rl.nn.parallel.DistributedDataParallel(_model())
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    model(rl.full((2, 4), rank + 1.0)).square().sum().backward()
    optimizer.step()
    model_state, optimizer_state = sd.get_state_dict(model, optimizer)
    own = dist.new_group()
    dcp.async_save({"m": model_state, "o": optimizer_state}, checkpoint_id=folder, process_group=own).result()
    return sorted(model_state)


def test_data_parallel_state_loads_into_a_bare_model(tmp_path):
    names = results_of(run(2, _data_parallel, str(tmp_path)))
    assert names[0] == sorted(_model().state_dict())
    model = _model()
    before = model[0].weight.detach().clone()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    model_state, optimizer_state = sd.get_state_dict(model, optimizer)
    state = {"m": model_state, "o": optimizer_state}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, checkpoint_id=tmp_path)
    sd.set_state_dict(model, optimizer, model_state_dict=state["m"], optim_state_dict=state["o"])
    assert not rl.equal(model[0].weight, before)
    assert all(row["step"] == 1 for row in optimizer.state.values())


def _broadcast(rank, ranks):
    model = _model()
    optimizer = rl.optim.Adam(model.parameters(), lr=0.5 if rank == 0 else 0.1)
    states = ({}, {})
    if rank == 0:
        with rl.no_grad():
            for parameter in model.parameters():
                parameter.fill_(3.0)
        model(rl.ones(1, 4)).sum().backward()
        optimizer.step()
        states = sd.get_state_dict(model, optimizer)
    sd.set_state_dict(
        model, optimizer, model_state_dict=states[0], optim_state_dict=states[1],
        options=sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    moments = [row["exp_avg"].sum().item() for row in optimizer.state.values()]
    return [p.sum().item() for p in model.parameters()], moments, optimizer.param_groups[0]["lr"]


def test_rank_0_gives_its_state_to_all():
    first, second = results_of(run(2, _broadcast))
    assert first == second and first[2] == 0.5 and first[1][0] != 0


def _torch_reads(folder):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.checkpoint")
    state = {"shared": torch.zeros(10), "own1": torch.zeros(3), "step": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.load(state, checkpoint_id=str(folder))
    return state["shared"].tolist(), state["own1"].tolist(), state["step"]


def test_torch_reads_what_several_wrote(tmp_path):
    pytest.importorskip("torch")
    results_of(run(2, _save, str(tmp_path)))
    shared, own, step = _torch_reads(tmp_path)
    assert shared == list(range(10)) and own == [1.0] * 3 and step == 5
