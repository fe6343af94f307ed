"""Models spread by a plan: they learn what one process learns, and lie as PyTorch's do."""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import pytest

from .parity import both, close, part, plain, run_ours


def _network(torch: Any) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.blocks = nn.Embedding(10, 8), nn.ModuleList([Block(), Block()])
            self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 10)

        def forward(self, tokens: Any) -> Any:
            x = self.table(tokens)
            for block in self.blocks:
                x = block(x)
            return self.out(self.norm(x))

    torch.manual_seed(1)
    return Network()


def _plans(torch: Any) -> dict[str, Any]:
    tensors, p = part(torch, "distributed.tensor"), part(torch, "distributed.tensor.parallel")
    S, R = tensors.Shard, tensors.Replicate
    return {
        "columns and rows": {
            "table": p.RowwiseParallel(input_layouts=R()), "blocks.*.up": p.ColwiseParallel(),
            "blocks.*.down": p.RowwiseParallel(), "out": p.ColwiseParallel(use_local_output=False),
        },
        "columns of the table": {
            "table": p.ColwiseParallel(output_layouts=R()), "blocks.0.up": p.ColwiseParallel(),
            "blocks.0.down": p.RowwiseParallel(), "out": p.ColwiseParallel(use_local_output=False),
        },
        "sequences": {
            "table": p.RowwiseParallel(input_layouts=R(), output_layouts=S(1)), "blocks.*.norm": p.SequenceParallel(),
            "blocks.*.up": p.ColwiseParallel(input_layouts=S(1)),
            "blocks.*": p.PrepareModuleInput(input_layouts=(S(1),), desired_input_layouts=(S(1),)),
            "blocks.*.down": p.RowwiseParallel(output_layouts=S(1), use_local_output=False),
            "norm": p.SequenceParallel(), "out": p.ColwiseParallel(input_layouts=S(1), use_local_output=False),
        },
    }


def _numbers(torch: Any, step: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(step)
    return (torch.randint(0, 10, (4, 6), generator=generator) for _ in range(2))


def _trains(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    """Losses of a spread model and of the same one alone, the norms gradients were clipped by, what was learned."""
    p = part(torch, "distributed.tensor.parallel")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    loss_of, clip = torch.nn.functional.cross_entropy, torch.nn.utils.clip_grad_norm_
    found: dict[str, Any] = {}
    for name, plan in _plans(torch).items():
        alone = _network(torch)
        model = p.parallelize_module(copy.deepcopy(alone), mesh, plan)
        is_whole = name == "sequences"      # all parameters are distributed, so that lists of them can be worked on
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, foreach=is_whole) for m in (model, alone)]
        losses, same = [], True
        for step in range(3):
            tokens, target = _numbers(torch, step)
            with p.loss_parallel():
                scores = model(tokens)
                loss = loss_of(scores.flatten(0, 1), target.flatten())
                optimizers[0].zero_grad()
                loss.backward()
            single = loss_of(alone(tokens).flatten(0, 1), target.flatten())
            optimizers[1].zero_grad()
            single.backward()
            if is_whole:
                norms = [clip(m.parameters(), 0.5) for m in (model, alone)]
                found[f"{name} norm {step}"] = plain(norms[0].full_tensor())
                same = same and close(plain(norms[0].full_tensor()), plain(norms[1]))
            for optimizer in optimizers:
                optimizer.step()
            same = same and close(plain(loss.full_tensor()), plain(single))
            losses.append((str(scores.placements), str(loss.placements), plain(loss.full_tensor())))
        found[name] = losses
        found[f"{name} as alone"] = same
        found[f"{name} lies"] = {k: str(getattr(v, "placements", None)) for k, v in model.state_dict().items()}
        found[f"{name} weights"] = {
            k: plain(v.full_tensor() if hasattr(v, "full_tensor") else v) for k, v in model.state_dict().items()
        }
    return found


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_learns_as_one_process_and_as_pytorch() -> None:
    if importlib.util.find_spec("torch") is None:
        for ours in run_ours(2, _trains):
            assert all(value for name, value in ours.items() if name.endswith("as alone"))
        pytest.skip("PyTorch is what it is compared with")
    for ours, theirs in zip(*both(2, _trains), strict=True):
        assert all(value for name, value in ours.items() if name.endswith("as alone")), ours
        wrong = [name for name in theirs if not close(ours[name], theirs[name], 1e-4)]
        assert not wrong, [(name, ours[name], theirs[name]) for name in wrong]


def _on_a_part_of_the_mesh(torch: Any, rank: int, ranks: int) -> bool:
    """Two replicas of a model spread over two processes each; gradients are averaged by hand over the rest."""
    from rushlight import distributed as dist
    from rushlight.distributed import tensor as tensors
    from rushlight.distributed.tensor import parallel as p

    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    alone = _network(torch)
    model = p.parallelize_module(copy.deepcopy(alone), mesh["tp"], _plans(torch)["sequences"])
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, alone)]
    for step in range(2):
        tokens, target = _numbers(torch, step)
        half = slice(0, 2) if mesh.get_local_rank("dp") == 0 else slice(2, 4)
        with p.loss_parallel():
            loss = torch.nn.functional.cross_entropy(model(tokens[half]).flatten(0, 1), target[half].flatten())
            optimizers[0].zero_grad()
            loss.backward()
        for parameter in model.parameters():
            grad = parameter.grad.redistribute(placements=parameter.placements)
            dist.all_reduce(grad.to_local(), dist.ReduceOp.AVG, group=mesh.get_group("dp"))
            parameter.grad = grad
        single = torch.nn.functional.cross_entropy(alone(tokens).flatten(0, 1), target.flatten())
        optimizers[1].zero_grad()
        single.backward()
        for optimizer in optimizers:
            optimizer.step()
    for (name, ours), theirs in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert isinstance(ours, tensors.DTensor) and ours.device_mesh == mesh["tp"], name
        assert torch.allclose(ours.full_tensor(), theirs, atol=1e-5), name
    return True


def test_a_part_of_the_mesh_spreads_it_and_the_other_averages() -> None:
    run_ours(4, _on_a_part_of_the_mesh)


def _bad_plans(torch: Any, rank: int, ranks: int) -> bool:
    from rushlight.distributed import init_device_mesh
    from rushlight.distributed.tensor import Replicate, Shard, parallel as p

    mesh, square = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))
    with pytest.raises(ValueError, match="one dimension"):
        p.parallelize_module(torch.nn.Linear(2, 2), square, p.ColwiseParallel())
    with pytest.raises(NotImplementedError, match="Conv2d"):
        p.parallelize_module(torch.nn.Conv2d(1, 1, 1), mesh, p.ColwiseParallel())
    with pytest.raises(TypeError, match="ParallelStyle"):
        p.parallelize_module(torch.nn.Linear(2, 2), mesh, "columns")
    with pytest.warns(UserWarning, match="no submodule 'nothing'"):
        p.parallelize_module(torch.nn.Linear(2, 2), mesh, {"nothing": p.ColwiseParallel()})
    with pytest.raises(AssertionError, match="same length"):
        p.PrepareModuleInput(input_layouts=(Shard(0),), desired_input_layouts=(Shard(0), Replicate()))
    with pytest.raises(RuntimeError, match="before"):
        once = p.parallelize_module(torch.nn.Linear(2, 2), mesh, p.ColwiseParallel())
        p.parallelize_module(once, mesh, p.RowwiseParallel())
    with p.loss_parallel(), pytest.raises(IndexError, match="out of bounds"):
        from rushlight.distributed.tensor import distribute_tensor

        scores = distribute_tensor(torch.zeros(3, 4), mesh, [Shard(1)])
        torch.nn.functional.cross_entropy(scores, torch.tensor([0, 4, 1]))
    return True


def test_says_what_is_wrong_with_a_plan() -> None:
    run_ours(2, _bad_plans)


def _hooks(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    """What enters and leaves modules that are only prepared."""
    tensors, p = part(torch, "distributed.tensor"), part(torch, "distributed.tensor.parallel")
    S, R = tensors.Shard, tensors.Replicate
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))

    class Two(torch.nn.Module):
        def forward(self, a: Any, b: Any = None, *, c: Any = None) -> Any:
            seen.append([str(getattr(t, "placements", None)) for t in (a, b, c)])
            return a * 2, b

    x, found = torch.arange(8.0).view(4, 2), {}
    for name, style in {
        "input": p.PrepareModuleInput(input_layouts=(S(0), None), desired_input_layouts=(R(), None)),
        "local input": p.PrepareModuleInput(
            input_layouts=(S(0), None), desired_input_layouts=(R(), None), use_local_output=True
        ),
        "named": p.PrepareModuleInput(
            input_layouts=(S(0), None), desired_input_layouts=(S(1), None), input_kwarg_layouts={"c": R()},
            desired_input_kwarg_layouts={"c": S(0)},
        ),
        "both": p.PrepareModuleInputOutput(
            input_layouts=(S(0), None), desired_input_layouts=(R(), None), output_layouts=(R(), None),
            desired_output_layouts=(S(1), None),
        ),
    }.items():
        seen: list[Any] = []
        module = p.parallelize_module(Two(), mesh, style)
        made = module(x, x, c=x + 1)
        found[name] = seen, plain(made[0]), plain(made[1])
    return found


def test_prepares_what_enters_and_leaves_as_pytorch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what it is compared with")
    for ours, theirs in zip(*both(2, _hooks), strict=True):
        assert close(ours, theirs), (ours, theirs)
