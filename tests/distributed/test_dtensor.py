"""DTensor: how tensors lie on a mesh, from one layout to another, in and out; the same as PyTorch's."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import pytest

from .parity import both, cases, close, part, plain, run_ours


def _layouts(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    """Every layout of tensors of even and uneven sizes, and from each to each."""
    from_ = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    S, R, P = from_.Shard, from_.Replicate, from_.Partial
    found: dict[str, Any] = {}
    for shape in ((6, 4), (5, 3), (1, 7), (2, 3, 5)):
        whole = torch.arange(float(torch.Size(shape).numel())).view(shape) + 1
        layouts = [S(d) for d in range(len(shape))] + [R(), S(-1)]
        for a, b in itertools.product(layouts, layouts):
            t = from_.distribute_tensor(whole, mesh, [a])
            moved = t.redistribute(placements=[b])
            assert torch.equal(moved.full_tensor(), whole), (shape, a, b)
            found[f"{shape} {a} {b}"] = plain(t), plain(moved), str(moved.placements)
        for kind, b in itertools.product(("sum", "avg", "max", "min"), layouts):
            t = from_.DTensor.from_local(whole * (rank + 1), mesh, [P(kind)])
            found[f"{shape} {kind} {b}"] = plain(t.redistribute(placements=[b])), str(t.placements)
    return found


def _two_dims(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    """The same on a 2 by 2 mesh, where one tensor dimension may be cut twice."""
    from_ = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    S, R, P = from_.Shard, from_.Replicate, from_.Partial
    found: dict[str, Any] = {}
    whole = torch.arange(35.0).view(7, 5)
    layouts = [S(0), S(1), R()]
    for a, b, c, d in itertools.product(layouts, layouts, layouts, layouts):
        t = from_.distribute_tensor(whole, mesh, [a, b])
        moved = t.redistribute(placements=[c, d])
        assert torch.equal(moved.full_tensor(), whole), (a, b, c, d)
        found[f"{a}{b} {c}{d}"] = plain(t), plain(moved)
    for c, d in itertools.product(layouts, layouts):
        t = from_.DTensor.from_local(whole * (rank + 1), mesh, [P(), P()])
        found[f"PP {c}{d}"] = plain(t.redistribute(placements=[c, d]))
    strided = from_.placement_types._StridedShard(0, split_factor=2)
    for whole in (torch.arange(16.0).view(8, 2),):
        t = from_.distribute_tensor(whole, mesh, [strided, S(0)])
        assert torch.equal(t.full_tensor(), whole)
        found[f"strided {len(whole)}"] = plain(t)[2]
        info = from_._utils.compute_local_shape_and_global_offset(whole.shape, mesh, [strided, S(0)])
        found[f"offsets {len(whole)}"] = [list(part) for part in info]
    return found


def _gradients(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    from_ = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    S, R, P = from_.Shard, from_.Replicate, from_.Partial
    found: dict[str, Any] = {}
    for a, b in itertools.product((S(0), S(1), R(), P()), (S(0), S(1), R())):
        local = torch.arange(6.0).view(2, 3).requires_grad_()
        t = from_.DTensor.from_local(local, mesh, [a])
        moved = t.redistribute(placements=[b])
        own = moved.to_local()
        (own * (own + rank)).sum().backward()
        found[f"{a} {b}"] = plain(local.grad)
    sensible = [(S(0), None), (S(0), [S(0)]), *itertools.product((R(), P()), (None, [R()], [P()]))]
    for a, back in sensible:
        local = torch.arange(8.0).view(4, 2).requires_grad_()
        t = from_.DTensor.from_local(local, mesh, [a])
        (t.to_local(grad_placements=back) * (rank + 2)).sum().backward()
        found[f"to_local {a} {back}"] = plain(local.grad)
        local.grad = None
        if a == R():
            (from_.DTensor.from_local(local, mesh, [a]).full_tensor(grad_placements=back) * (rank + 2)).sum().backward()
            found[f"full {a} {back}"] = plain(local.grad)
    return found


def _refusals(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    from_ = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    S, R, P = from_.Shard, from_.Replicate, from_.Partial
    whole = torch.ones(4, 4)
    t = from_.distribute_tensor(whole, mesh, [S(0)])
    return cases(torch, {
        "local of a DTensor": lambda _: from_.DTensor.from_local(t, mesh, [S(0)]),
        "too many placements": lambda _: from_.distribute_tensor(whole, mesh, [S(0), S(1)]),
        "to partial": lambda _: t.redistribute(placements=[P()]),
        "no placements": lambda _: t.redistribute(mesh),
        "again, otherwise": lambda _: from_.distribute_tensor(t, mesh, [R()]),
        "mixed": lambda _: t + whole,
        "mixed reductions": lambda _: from_.DTensor.from_local(
            whole, torch.distributed.init_device_mesh("cpu", (1, ranks)), [P("sum"), P("max")]
        ),
        "no leaf": lambda _: from_.distribute_tensor(whole.clone().requires_grad_() * 2, mesh, [S(0)]),
    })


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("program,ranks", [(_layouts, 3), (_two_dims, 4), (_gradients, 2), (_refusals, 2)])
def test_says_what_pytorch_says(program: Any, ranks: int) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what it is compared with")
    for rank, (ours, theirs) in enumerate(zip(*both(ranks, program), strict=True)):
        assert ours.keys() - {k for k in ours if k.endswith("because")} == theirs.keys() - {
            k for k in theirs if k.endswith("because")
        }
        for name in theirs:
            if not name.endswith("because"):
                said = ours[name], theirs[name], ours.get(name + " because")
                assert close(ours[name], theirs[name]), (rank, name, *said)


def _carried(torch: Any, rank: int, ranks: int) -> bool:
    """Copies and files: elements, layout, and what they were marked with."""
    import copy
    import io

    from_ = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    whole = torch.arange(10.0).view(5, 2)
    p = torch.nn.Parameter(from_.distribute_tensor(whole, mesh, [from_.Shard(0)]))
    (p * 2).sum().backward()
    assert isinstance(p, torch.nn.Parameter) and isinstance(p, from_.DTensor) and p.is_leaf and p.requires_grad
    copied = copy.deepcopy(p)
    assert isinstance(copied, torch.nn.Parameter) and copied.placements == p.placements
    with torch.no_grad():
        copied.zero_()
    assert torch.equal(p.full_tensor(), whole) and torch.equal(p.grad.full_tensor(), torch.full((5, 2), 2.0))
    file = io.BytesIO()
    torch.save({"weight": p}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["weight"]
    assert isinstance(loaded, from_.DTensor) and loaded.placements == p.placements and loaded.device_mesh == mesh
    assert torch.equal(loaded.full_tensor(), whole)
    assert "Shard(dim=0)" in repr(p) and "device_mesh" in repr(p)
    module = torch.nn.Linear(2, 5)
    module.weight = p
    assert dict(module.named_parameters())["weight"] is p
    assert module.state_dict()["weight"].placements == p.placements
    assert module.half().weight.dtype == torch.float16 and module.weight.placements == p.placements
    return True


def test_is_copied_saved_and_a_parameter() -> None:
    run_ours(2, _carried)
