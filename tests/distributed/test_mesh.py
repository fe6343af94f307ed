"""DeviceMesh: who stands where, in which groups, and parts of meshes; the same as PyTorch's."""

from __future__ import annotations

import importlib.util
import pickle
from typing import Any

import pytest

from .parity import both, cases, close, run_ours


def _seen(torch: Any, mesh: Any) -> list[Any]:
    """All that can be asked of a mesh."""
    groups = [torch.distributed.get_process_group_ranks(g) for g in mesh.get_all_groups()]
    return [
        mesh.mesh.tolist(), list(mesh.mesh_dim_names or ()), list(mesh.shape), mesh.ndim, mesh.size(),
        [mesh.size(d) for d in range(mesh.ndim)], list(mesh.get_coordinate() or ()), mesh.get_rank(), groups,
        [mesh.get_local_rank(d) for d in range(mesh.ndim)], mesh.device_type,
    ]


def _meshes(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    dist = torch.distributed
    init, DeviceMesh = dist.init_device_mesh, dist.DeviceMesh
    square = init("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    cube = init("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    line = init("cpu", (4,), mesh_dim_names=("world",))

    def total(group: Any) -> float:
        value = torch.tensor(float(rank + 1))
        dist.all_reduce(value, group=group)
        return value.item()

    return cases(torch, {
        "line": lambda t: _seen(t, init("cpu", (4,))),
        "square": lambda t: _seen(t, square),
        "square dp": lambda t: _seen(t, square["dp"]),
        "square tp": lambda t: _seen(t, square["tp"]),
        "sums": lambda t: [total(square.get_group("dp")), total(square.get_group(1)), total(square["tp"].get_group())],
        "local ranks": lambda t: [square.get_local_rank("dp"), square["tp"].get_local_rank()],
        "cube": lambda t: _seen(t, cube),
        "cube parts": lambda t: _seen(t, cube["a", "c"]),
        "cube c": lambda t: _seen(t, cube["c"]),
        "flat": lambda t: _seen(t, square["dp", "tp"]._flatten()),
        "flat, named": lambda t: [
            _seen(t, cube["a", "b"]._flatten("ab")), _seen(t, cube["ab"]), total(cube.get_group("ab")),
        ],
        "unflattened": lambda t: _seen(t, line._unflatten(0, (2, 2), ("x", "y"))),
        "unflattened sum": lambda t: total(line._unflatten(0, (2, 2), ("x", "y"))["y"].get_group()),
        "of a list": lambda t: _seen(t, DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("x", "y"))),
        "of a tensor": lambda t: _seen(t, DeviceMesh("cpu", t.arange(4))),
        "of a group": lambda t: _seen(t, DeviceMesh.from_group(dist.group.WORLD, "cpu")),
        "of two groups": lambda t: _seen(t, DeviceMesh.from_group(
            [square.get_group("dp"), square.get_group("tp")], "cpu", [[0, 1], [2, 3]], mesh_dim_names=("r", "s"))),
        "same": lambda t: [
            square == init("cpu", (2, 2), mesh_dim_names=("dp", "tp")), square == cube, square["dp"] == square["tp"],
        ],
        "no such name": lambda t: square["pp"],
        "twice": lambda t: square["dp", "dp"],
        "names and dims": lambda t: init("cpu", (2, 2), mesh_dim_names=("x",)),
        "names alike": lambda t: init("cpu", (2, 2), mesh_dim_names=("x", "x")),
        "an index": lambda t: init("cpu:0", (2, 2)),
        "too large": lambda t: init("cpu", (4, 4)),
        "which group": lambda t: square.get_group(),
        "which rank": lambda t: square.get_local_rank(),
    })


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_says_what_pytorch_says() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what it is compared with")
    for ours, theirs in zip(*both(4, _meshes), strict=True):
        wrong = [k for k in theirs if not k.endswith("because") and not close(ours[k], theirs[k])]
        assert not wrong, [(k, ours[k], ours.get(f"{k} because"), theirs[k], theirs.get(f"{k} because")) for k in wrong]


def _kept(torch: Any, rank: int, ranks: int) -> bool:
    """A mesh in a file finds its groups again; without them it says so."""
    from rushlight import distributed as dist
    from rushlight.distributed.device_mesh import current_mesh

    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))
    for part in (mesh, mesh["b"]):
        again = pickle.loads(pickle.dumps(part))
        assert again == part and again.get_all_groups() == part.get_all_groups()
    lonely = dist.DeviceMesh("cpu", [[1, 0]], mesh_dim_names=("c", "d"), _init_backend=False)
    with pytest.raises(RuntimeError, match="no process groups"):
        lonely.get_group("c")
    with pytest.raises(RuntimeError, match="none is active"):
        current_mesh()
    with mesh:
        assert current_mesh() is mesh
    other = dist.DeviceMesh("cpu", [1])
    assert (other.get_coordinate() is None) == (rank == 0)
    if rank == 0:
        with pytest.raises(RuntimeError, match="rank 0 is not in"):
            other.get_local_rank()
    with pytest.raises(RuntimeError, match="once"):
        dist.DeviceMesh("cpu", [0, 0])
    with pytest.raises(RuntimeError, match="not one of the world's 2"):
        dist.DeviceMesh("cpu", [0, 2])
    return True


def test_is_kept_in_files_and_entered() -> None:
    run_ours(2, _kept)


def _chosen(torch: Any, rank: int, ranks: int) -> bool:
    dist = torch.distributed
    mesh = dist.init_device_mesh("cpu", (1, ranks), mesh_dim_names=("a", "b"), backend_override={"b": "fake"})
    assert dist.get_backend(mesh.get_group("b")) == "fake" and dist.get_backend(mesh.get_group("a")) == "gloo"
    assert dist.init_device_mesh("cpu", (ranks,), backend_override={0: ("gloo", None)}).get_group() is not None
    pair = dist.init_device_mesh("cpu", (ranks,))._unflatten(0, (ranks, 1), ("x", "y"), {"x": "fake"})
    assert dist.get_backend(pair.get_group("x")) == "fake"
    for wrong in ({"c": "gloo"}, {3: "gloo"}, {"b": "gloo", 1: "fake"}):
        try:
            dist.init_device_mesh("cpu", (1, ranks), mesh_dim_names=("a", "b"), backend_override=wrong)
        except RuntimeError as error:
            assert "backend_override" in str(error)
        else:
            raise AssertionError(wrong)
    return True


def test_back_ends_of_dimensions() -> None:
    assert run_ours(2, _chosen) == [True, True]
