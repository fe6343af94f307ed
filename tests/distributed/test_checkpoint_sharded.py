"""Checkpoints of tensors in parts: read by another number of processes, arranged in another way, and by PyTorch."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.checkpoint import state_dict as sd
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from tests.distributed.processes import results_of, run


def _whole():
    return rl.arange(35.0).reshape(7, 5)


def _save(rank, ranks, folder):
    line, square = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (2, ranks // 2))
    dcp.save(
        {
            "rows": distribute_tensor(_whole(), line, [Shard(0)]),      # 2 2 2 1 of 7
            "columns": distribute_tensor(_whole(), line, [Shard(1)]),
            "both": distribute_tensor(_whole(), square, [Shard(0), Shard(1)]),
            "copies": distribute_tensor(_whole(), square, [Replicate(), Shard(0)]),
            "plain": _whole(),
        },
        checkpoint_id=folder,
    )
    try:
        dcp.save({"sum": DTensor.from_local(rl.ones(2), line, [Partial()])}, checkpoint_id=folder + "x")
    except dcp.CheckpointException as error:
        return "terms of a sum" in str(error)


def _load(rank, ranks, folder):
    line = init_device_mesh("cpu", (ranks,))
    state = {
        name: distribute_tensor(rl.zeros(7, 5), line, [placement])
        for name, placement in {
            "rows": Shard(1), "columns": Shard(0), "both": Shard(0), "copies": Shard(1), "plain": Shard(0),
        }.items()
    }
    dcp.load(state, checkpoint_id=folder)
    return {name: rl.equal(value.full_tensor(), _whole()) for name, value in state.items()}


def test_parts_are_read_in_other_parts(tmp_path):
    assert all(results_of(run(4, _save, str(tmp_path / "c"))))
    for found in results_of(run(3, _load, str(tmp_path / "c"))):
        assert found == dict.fromkeys(found, True)
    state = {name: rl.zeros(7, 5) for name in ("rows", "columns", "both", "copies", "plain")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, checkpoint_id=tmp_path / "c")
        assert all(rl.equal(value, _whole()) for value in state.values())
        torch = pytest.importorskip("torch")
        theirs = pytest.importorskip("torch.distributed.checkpoint")
        state = {name: torch.zeros(7, 5) for name in state}
        theirs.load(state, checkpoint_id=str(tmp_path / "c"))
    for value in state.values():
        assert torch.equal(value, torch.arange(35.0).reshape(7, 5))


def _model():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(5, 7), rl.nn.Tanh(), rl.nn.Linear(7, 3))


def _step(model, optimizer):
    model(rl.ones(2, 5)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def _train_sharded(rank, ranks, folder):
    model = _model()
    fully_shard(model)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    _step(model, optimizer)
    parts = sd.get_state_dict(model, optimizer)
    dcp.save({"m": parts[0], "o": parts[1]}, checkpoint_id=folder)
    whole, _ = sd.get_state_dict(model, optimizer, options=sd.StateDictOptions(full_state_dict=True, cpu_offload=True))
    _step(model, optimizer)
    return {n: v.tolist() for n, v in whole.items()}, {
        n: v.tolist() for n, v in sd.get_model_state_dict(
            model, options=sd.StateDictOptions(full_state_dict=True)
        ).items()
    }


def _go_on(rank, ranks, folder):
    model = _model()
    fully_shard(model)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    model_state, optimizer_state = sd.get_state_dict(model, optimizer)
    state = {"m": model_state, "o": optimizer_state}
    dcp.load(state, checkpoint_id=folder)
    sd.set_state_dict(model, optimizer, model_state_dict=state["m"], optim_state_dict=state["o"])
    _step(model, optimizer)
    full = sd.StateDictOptions(full_state_dict=True)
    return {n: v.tolist() for n, v in sd.get_model_state_dict(model, options=full).items()}


def test_sharded_training_goes_on_with_other_processes(tmp_path):
    first = results_of(run(2, _train_sharded, str(tmp_path)))
    assert set(first[0][0]) == set(_model().state_dict()) and first[1][0] == {}      # offloaded: rank 0 alone has it
    model, optimizer = _model(), None
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    _step(model, optimizer)
    for name, value in model.state_dict().items():
        assert rl.allclose(rl.tensor(first[0][0][name]), value, atol=1e-6), name
    for found in results_of(run(3, _go_on, str(tmp_path))):
        for name, value in found.items():
            assert rl.allclose(rl.tensor(value), rl.tensor(first[0][1][name]), atol=1e-6), name


def _from_whole(rank, ranks):
    model = _model()
    fully_shard(model)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    given: tuple = ({}, {})
    if rank == 0:
        plain = _model()
        plain_optimizer = rl.optim.AdamW(plain.parameters(), lr=0.1)
        _step(plain, plain_optimizer)
        given = sd.get_state_dict(plain, plain_optimizer)
    options = sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    sd.set_state_dict(model, optimizer, model_state_dict=given[0], optim_state_dict=given[1], options=options)
    _step(model, optimizer)
    full = sd.StateDictOptions(full_state_dict=True)
    return {n: v.tolist() for n, v in sd.get_model_state_dict(model, options=full).items()}


def test_a_whole_state_is_cut_for_each_rank():
    model = _model()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    _step(model, optimizer)
    _step(model, optimizer)
    for found in results_of(run(2, _from_whole)):
        for name, value in model.state_dict().items():
            assert rl.allclose(rl.tensor(found[name]), value, atol=1e-6), name
