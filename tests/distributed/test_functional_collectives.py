"""Collectives that give new tensors: the same as PyTorch's, with the same gradients."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from .parity import both, cases, close, part, plain, run_ours


def _collectives(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    f, dist = part(torch, "distributed._functional_collectives"), torch.distributed
    mesh = dist.init_device_mesh("cpu", (ranks,))
    world = dist.group.WORLD
    x = torch.arange(12.0).view(4, 3) * (rank + 1) + rank

    def with_gradient(call: Any) -> Any:
        leaf = x.clone().requires_grad_()
        made = f.wait_tensor(call(leaf))
        made = made * 1.0
        (made * made * (rank + 1)).sum().backward()
        return plain(made), plain(leaf.grad)

    done = f.wait_tensor
    found = cases(torch, {
        **{f"all_reduce {op}": lambda _, op=op: done(f.all_reduce(x, op, world)) for op in ("sum", "max", "min")},
        "a mesh": lambda _: done(f.all_reduce(x, "sum", mesh)),
        "a dimension of a mesh": lambda _: done(f.all_reduce(x, "sum", (mesh, 0))),
        "ranks": lambda _: done(f.all_reduce(x, "sum", list(range(ranks)))),
        "not contiguous": lambda _: done(f.all_reduce(x.t(), "sum", world)),
        "broadcast": lambda _: done(f.broadcast(x, 1, world)),
        "all_gather 0": lambda _: done(f.all_gather_tensor(x, 0, world)),
        "all_gather 1": lambda _: done(f.all_gather_tensor(x, 1, world)),
        "reduce_scatter 0": lambda _: done(f.reduce_scatter_tensor(x, "sum", 0, world)),
        "reduce_scatter of columns": lambda _: done(f.reduce_scatter_tensor(x.t().contiguous(), "sum", 1, world)),
        "all_to_all": lambda _: done(f.all_to_all_single(x, None, None, world)),
        "all_to_all uneven": lambda _: done(
            f.all_to_all_single(x, [1, 1] if rank == 0 else [3, 3], [1, 3], world)
        ),
        "permute": lambda _: done(f.permute_tensor(x.flatten(), [1, 0], world)),
        "several sums": lambda _: [done(t) for t in f.all_reduce_coalesced([x, x + 1], "sum", world)],
        "several gatherings": lambda _: [done(t) for t in f.all_gather_into_tensor_coalesced([x, x + 1], world)],
        "several scatterings": lambda _: [
            done(t) for t in f.reduce_scatter_tensor_coalesced([x, x + 1], "sum", [0, 0], world)
        ],
        "gradient of a sum": lambda _: with_gradient(lambda t: f.all_reduce(t, "sum", world)),
        "gradient of a gathering": lambda _: with_gradient(lambda t: f.all_gather_tensor_autograd(t, 0, world)),
        "gradient of a gathering of columns": lambda _: with_gradient(
            lambda t: f.all_gather_tensor_autograd(t, 1, world)
        ),
        "gradient of a scattering": lambda _: with_gradient(
            lambda t: f.reduce_scatter_tensor_autograd(t, "sum", 0, world)
        ),
        "gradient of an exchange": lambda _: with_gradient(
            lambda t: f.all_to_all_single_autograd(t, None, None, world)
        ),
        "gradient of a maximum": lambda _: with_gradient(lambda t: f.all_reduce(t, "max", world)),
    })
    found["given"] = plain(x)
    return found


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_say_what_pytorchs_say() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what they are compared with")
    for ours, theirs in zip(*both(2, _collectives), strict=True):
        wrong = [k for k in theirs if not k.endswith("because") and not close(ours[k], theirs[k])]
        assert not wrong, [(k, ours[k], ours.get(f"{k} because"), theirs[k]) for k in wrong]


def _refuses(torch: Any, rank: int, ranks: int) -> bool:
    from rushlight.distributed import _functional_collectives as f

    x = torch.arange(6.0).view(3, 2)
    with pytest.raises(ValueError, match="cannot be cut into 2 equal parts"):
        f.reduce_scatter_tensor(x, "sum", 0, None)
    with pytest.raises(ValueError, match="none of"):
        f.all_reduce(x, "middle", None)
    with pytest.raises(ValueError, match="no process group of ranks"):
        f.all_reduce(x, "sum", [1])
    with pytest.raises(ValueError, match="once"):
        f.permute_tensor(x, [0, 0], None)
    with pytest.raises(ValueError, match="no process group called"):
        f.all_reduce(x, "sum", "nobody's")
    assert x.equal(torch.arange(6.0).view(3, 2))
    return True


def test_refuse_what_cannot_be() -> None:
    run_ours(2, _refuses)
