"""Ways of doing things that PyTorch's own distributed examples have, and nothing else here does."""

from __future__ import annotations

from typing import Any

from .parity import part
from .processes import results_of, run


def test_meshes_have_their_old_home():
    from rushlight.distributed import device_mesh
    from rushlight.distributed._tensor.device_mesh import DeviceMesh, init_device_mesh

    assert DeviceMesh is device_mesh.DeviceMesh and init_device_mesh is device_mesh.init_device_mesh


def _sharded(torch: Any) -> Any:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 3))
    for layer in model:
        part(torch, "distributed.fsdp").fully_shard(layer)
    return part(torch, "distributed.fsdp").fully_shard(model)


def _whole_state_into_a_meta_model(rank: int, ranks: int) -> list[Any]:
    """The state of one training run goes on in a model that never had elements, on every rank."""
    import rushlight as torch

    states = part(torch, "distributed.checkpoint.state_dict")
    first = _sharded(torch)
    first.to_empty(device="cpu")
    with torch.no_grad():
        for p in first.parameters():
            p.to_local().fill_(0.5 + rank)
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = states.get_model_state_dict(first, options=options)
    found = []
    for from_rank0 in (True, False):
        shared: list[Any] = [whole]
        torch.distributed.broadcast_object_list(shared, 0)
        second = _sharded(torch)
        states.set_model_state_dict(
            second, whole if from_rank0 else shared[0],
            options=states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_rank0),
        )
        for p in second.parameters():
            assert p.device.type == "cpu" and p.placements == (torch.distributed.tensor.Shard(0),)
        second.unshard()                    # as the example does before its first step
        optimizer = torch.optim.Adam(second.parameters())
        states._init_optim_state(optimizer)
        assert all(optimizer.state[p]["exp_avg"].placements == p.placements for p in second.parameters())
        second(torch.ones(2, 5)).sum().backward()
        optimizer.step()
        found.append([p.full_tensor().tolist() for p in first.parameters()])
        found.append([p.grad.full_tensor().abs().sum().item() > 0 for p in second.parameters()])
    return found


def test_a_whole_state_fills_a_model_on_the_meta_device():
    first, second = results_of(run(2, _whole_state_into_a_meta_model))
    assert first == second and all(first[1]) and all(first[3])
    assert first[0][1] == [0.5, 0.5, 1.5]       # a bias of three in parts of two and one
