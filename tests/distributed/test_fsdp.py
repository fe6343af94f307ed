"""`fully_shard`: what one process learns from all the data, several learn from their shares, with a part of it each."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn
from rushlight.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from .parity import both, part as module
from .processes import all_of, results_of, run


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Sizes that two and three processes do not divide, an embedding whose input needs no gradient."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 11, bias=False)
        self.register_buffer("scale", rl.full((1,), 0.5))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        y = self.embed(x) * self.scale
        for block in self.blocks:
            y = block(y)
        return self.head(y)

    def embedded(self, x: rl.Tensor) -> rl.Tensor:
        return self.embed(x)


def net() -> Net:
    rl.manual_seed(7)
    return Net()


def data(step: int, size: int) -> tuple[rl.Tensor, rl.Tensor]:
    generator = rl.Generator().manual_seed(step)
    return rl.randint(0, 11, (2 * size, 5), generator=generator), rl.randint(0, 11, (2 * size, 5), generator=generator)


def share(tensor: rl.Tensor, rank: int) -> rl.Tensor:
    return tensor[2 * rank : 2 * rank + 2]


def loss_of(model: Any, x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())


def sharded(model: Any, **options: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def assert_same(alone: Any, together: Any, **tolerances: Any) -> None:
    for (name, a), (other, b) in zip(alone.named_parameters(), together.named_parameters(), strict=True):
        assert name == other
        whole = b.full_tensor() if isinstance(b, DTensor) else b
        rl.testing.assert_close(whole, a, msg=lambda text, name=name: f"{name}: {text}", **tolerances)


def trains(rank: int, size: int, options: dict[str, Any], steps: int = 3) -> str:
    alone, together = net(), sharded(net(), **options)
    assert isinstance(together, FSDPModule) and isinstance(together, Net)
    kept = sum(p.to_local().numel() for p in together.parameters())
    assert kept < 1.3 * sum(p.numel() for p in alone.parameters()) / size + 20
    optimizers = [rl.optim.AdamW(m.parameters(), lr=0.05) for m in (alone, together)]
    for step in range(steps):
        x, y = data(step, size)
        losses = []
        for model, optimizer, part in zip((alone, together), optimizers, (lambda t: t, lambda t: share(t, rank))):
            optimizer.zero_grad()
            loss = loss_of(model, part(x), part(y))
            loss.backward()
            losses.append(loss.detach())
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            losses.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
            optimizer.step()
        dist.all_reduce(losses[2])
        rl.testing.assert_close(losses[2] / size, losses[0])
        rl.testing.assert_close(losses[3], losses[1])
        assert_same(alone, together)
    return "done"


@pytest.mark.parametrize(
    "options", [{}, {"reshard_after_forward": False}, {"offload_policy": CPUOffloadPolicy()}],
    ids=lambda o: ",".join(o) or "plain",
)
def test_training_equals_one_process(options: dict[str, Any]) -> None:
    assert results_of(run(3, trains, options)) == ["done"] * 3


def step_of(model: Any, rank: int, size: int, step: int = 0) -> None:
    x, y = data(step, size)
    loss_of(model, share(x, rank), share(y, rank)).backward()


def whole_gradients(model: Any) -> dict[str, rl.Tensor]:
    return {n: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for n, p in model.named_parameters()}


def gradients_alone(size: int, *steps: int) -> dict[str, rl.Tensor]:
    model = net()
    for step in steps or (0,):
        loss_of(model, *data(step, size)).backward()
    return {n: p.grad for n, p in model.named_parameters()}


def hybrid(rank: int, size: int) -> str:
    """Two copies, each cut in two."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(net(), mesh=mesh)
    assert model.head.weight.placements[1] == Shard(0) and model.head.weight.to_local().shape[0] in (5, 6)
    step_of(model, rank, size)
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size))
    model.zero_grad()
    model.set_requires_all_reduce(False)
    step_of(model, rank, size, 0)
    assert model.head.weight.grad is None
    model.set_requires_all_reduce(True)
    step_of(model, rank, size, 1)
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size, 0, 1))
    return "done"


def test_copies_of_parts() -> None:
    assert results_of(run(4, hybrid)) == ["done"] * 4


def accumulates(rank: int, size: int) -> None:
    model = sharded(net())
    model.set_requires_gradient_sync(False)
    step_of(model, rank, size, 0)
    assert all(p.grad is None for p in model.parameters())
    model.set_requires_gradient_sync(True)
    step_of(model, rank, size, 1)
    step_of(model, rank, size, 2)       # reduced gradients are added up, too
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size, 0, 1, 2))
    model.zero_grad()
    model.set_is_last_backward(False)
    step_of(model, rank, size, 0)
    model.set_is_last_backward(True)
    step_of(model, rank, size, 1)
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size, 0, 1))


def whole_and_cut(rank: int, size: int) -> None:
    model = sharded(net(), reshard_after_forward=True)
    block = model.blocks[1]
    memory = block._get_fsdp_state().unit.memories
    assert all(m.nbytes() == 0 for m, _ in memory()) and isinstance(block.up.weight, DTensor)
    handle = block.unshard(async_op=True)
    handle.wait()
    assert not isinstance(block.up.weight, DTensor) and tuple(block.up.weight.shape) == (18, 6)
    rl.testing.assert_close(block.up.weight, net().blocks[1].up.weight)
    block.reshard()
    assert all(m.nbytes() == 0 for m, _ in memory()) and isinstance(block.up.weight, DTensor)
    with rl.no_grad():
        model(data(0, size)[0])
    assert all(isinstance(p, DTensor) for p in model.parameters())
    model.set_reshard_after_forward(False)
    with rl.no_grad():
        model(data(0, size)[0])
    assert not any(isinstance(p, DTensor) for p in model.parameters())
    assert all(isinstance(v, DTensor) for k, v in model.state_dict().items() if k != "scale")
    model.set_reshard_after_backward(False)
    step_of(model, rank, size)
    assert not isinstance(block.up.weight, DTensor)
    for part in (model, *model.blocks):
        part.reshard()
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size))


def ahead(rank: int, size: int) -> None:
    """Gathering ahead changes nothing but the order."""
    model = sharded(net())
    for a, b in zip(model.blocks, model.blocks[1:]):
        a.set_modules_to_forward_prefetch([b])
        b.set_modules_to_backward_prefetch([a])
    model.set_reduce_scatter_max_input_buffers(3)
    for _ in range(2):
        model.zero_grad()
        step_of(model, rank, size)
        rl.testing.assert_close(whole_gradients(model), gradients_alone(size))
    with pytest.raises(ValueError, match="sharded"):
        model.set_modules_to_forward_prefetch([nn.Linear(1, 1)])
    with pytest.raises(TypeError, match="int"):
        model.set_reduce_scatter_max_input_buffers(True)


def other_dimensions(rank: int, size: int) -> None:
    model = net()
    frozen = model.head.weight.requires_grad_(False)
    fully_shard(model.blocks[0], shard_placement_fn=lambda p: Shard(p.dim() - 1) if p.dim() > 1 else None)
    assert model.blocks[0].up.weight.placements == (Shard(1),)
    assert tuple(model.blocks[0].up.weight.to_local().shape) == (18, 3)
    fully_shard([model.blocks[1], model.blocks[2]])
    fully_shard(model, ignored_params={frozen})
    assert model.head.weight is frozen
    step_of(model, rank, size)
    expected = gradients_alone(size)
    got = {n: p.grad.full_tensor() for n, p in model.named_parameters() if p.grad is not None}
    assert sorted(set(expected) - set(got)) == ["head.weight"]
    rl.testing.assert_close(got, {n: expected[n] for n in got})


def recomputes(rank: int, size: int) -> None:
    from rushlight.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        model = net()
        for block in model.blocks:
            original = block.forward
            block.forward = lambda x, f=original, r=reentrant: checkpoint(f, x, use_reentrant=r)
        sharded(model)
        step_of(model, rank, size)
        rl.testing.assert_close(whole_gradients(model), gradients_alone(size))
    model = net()
    for block in model.blocks:
        fully_shard(block)
        block.forward = lambda x, f=block.forward: f(x)
    fully_shard(model)
    cls = type(model.blocks[0])
    with_hooks = cls.__call__
    cls.__call__ = lambda self, x: checkpoint(lambda y: with_hooks(self, y), x, use_reentrant=False)
    try:
        step_of(model, rank, size)          # hooks run again with what they surround
    finally:
        del cls.__call__
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size))


def from_meta(rank: int, size: int) -> None:
    with rl.device("meta"):
        model = Net()
    sharded(model)
    assert all(p.device.type == "meta" and isinstance(p, DTensor) for p in model.parameters())
    with pytest.raises(RuntimeError, match="to_empty"):
        model(data(0, size)[0])
    model.to_empty(device="cpu")
    model.scale.fill_(0.5)
    source = net().state_dict()
    state = {
        n: distribute_tensor(source[n], p.device_mesh, p.placements) if isinstance(p, DTensor) else source[n]
        for n, p in model.state_dict().items()
    }
    model.load_state_dict(state)
    step_of(model, rank, size)
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size))
    model.zero_grad()
    model.load_state_dict({n: v.clone() for n, v in state.items()}, assign=True)
    step_of(model, rank, size)
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size))
    optimizer = rl.optim.Adam(model.parameters(), lr=0.1)
    optimizer.step()
    assert all(isinstance(s["exp_avg"], DTensor) for s in optimizer.state_dict()["state"].values())


def half(rank: int, size: int) -> None:
    model = net()
    for block in model.blocks:
        fully_shard(block, mp_policy=MixedPrecisionPolicy(rl.bfloat16, rl.float32))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(rl.bfloat16, rl.float32, output_dtype=rl.float32))
    seen = []
    model.blocks[1].up.register_forward_hook(lambda m, args, out: seen.append((args[0].dtype, m.weight.dtype)))
    out = model(share(data(0, size)[0], rank))
    assert out.dtype == rl.float32 and seen == [(rl.bfloat16, rl.bfloat16)]
    step_of(model, rank, size)
    assert {p.grad.dtype for p in model.parameters()} == {rl.float32} == {p.dtype for p in model.parameters()}
    rl.testing.assert_close(whole_gradients(model), gradients_alone(size), atol=0.02, rtol=0.1)
    by_hand = net().to(rl.bfloat16)
    x, y = data(0, size)
    loss_of(by_hand, share(x, rank), share(y, rank)).backward()
    mean = by_hand.blocks[1].up.weight.grad.float() / size
    dist.all_reduce(mean)
    rl.testing.assert_close(model.blocks[1].up.weight.grad.full_tensor(), mean)


def methods(rank: int, size: int) -> None:
    model = sharded(net())
    register_fsdp_forward_method(model, "embedded")
    x = share(data(0, size)[0], rank)
    rl.testing.assert_close(model.embedded(x), net().embedded(x))
    with pytest.raises(ValueError, match="no method"):
        register_fsdp_forward_method(model, "nothing")
    model = sharded(net())
    model.set_gradient_divide_factor(1.0)
    for block in model.blocks:
        block.set_gradient_divide_factor(1.0)
    parts = []
    model.set_all_reduce_hook(lambda flat: parts.append(flat.numel()))
    step_of(model, rank, size)
    expected = {n: g * size for n, g in gradients_alone(size).items()}
    rl.testing.assert_close(whole_gradients(model), expected)
    assert len(parts) == 1
    model.zero_grad()
    with pytest.raises(ZeroDivisionError):
        model.blocks[2].down.register_forward_hook(lambda *_: 1 / 0)
        step_of(model, rank, size)
    model.blocks[2].down._forward_hooks.clear()
    model.reset_iter_state()
    step_of(model, rank, size)
    rl.testing.assert_close(whole_gradients(model), expected)
    copied = copy.copy(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    fully_shard(copied)
    assert type(copied[:1]) is nn.Sequential


def tied(rank: int, size: int) -> None:
    """One parameter in two places, and one that this pass does not use."""
    model = net()
    model.head.weight = model.embed.weight
    plain = net()
    plain.head.weight = plain.embed.weight
    sharded(model)
    assert model.head.weight is model.embed.weight
    step_of(model, rank, size)
    loss_of(plain, *data(0, size)).backward()
    rl.testing.assert_close(model.embed.weight.grad.full_tensor(), plain.embed.weight.grad)
    model = sharded(net())
    model.set_reduce_scatter_unused_params(True)
    model.blocks[0](rl.ones(1, 6)).sum().backward()
    assert model.blocks[0].up.weight.grad is not None and model.blocks[1].up.weight.grad is None


def refuses(rank: int, size: int) -> None:
    number = nn.Module()
    number.p = nn.Parameter(rl.tensor(1.0))
    mixed = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2).half()})
    holder = nn.Sequential(mixed["a"], mixed["b"])
    for call, error, words in (
        (lambda: fully_shard(number), ValueError, "no dimensions"),
        (lambda: fully_shard(nn.ModuleList([nn.Linear(1, 1)])), ValueError, "no forward"),
        (lambda: fully_shard(holder), ValueError, "one dtype"),
        (lambda: fully_shard(3), TypeError, "int"),
        (lambda: fully_shard([]), ValueError, "empty"),
        (lambda: fully_shard(nn.Linear(3, 3), shard_placement_fn=lambda p: Shard(5)), ValueError, "gave S"),
        (lambda: fully_shard(nn.Linear(3, 3), shard_placement_fn=lambda p: Shard(1) if p.dim() > 1 else None),
         NotImplementedError, "unevenly"),
        (lambda: fully_shard(nn.Linear(3, 3), reshard_after_forward=7), ValueError, "divide"),
        (lambda: fully_shard(fully_shard(nn.Linear(3, 3))), AssertionError, "already"),
    ):
        with pytest.raises((error, TypeError) if words == "int" else error, match=words):
            call()


def with_tensor_parallel(rank: int, size: int) -> str:
    """Weights that are spread over one dimension of a mesh, and cut again over the other."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    whole, model = nn.Linear(4, 8), nn.Linear(4, 8)
    model.load_state_dict(whole.state_dict())
    for name, p in list(model.named_parameters()):
        setattr(model, name, nn.Parameter(distribute_tensor(p.detach(), mesh["model"], [Shard(0)])))
    fully_shard(model, mesh=mesh["data"])
    assert model.weight.to_local().shape == (2, 4) and tuple(model.weight.shape) == (8, 4)
    rl.testing.assert_close(model.weight.full_tensor(), whole.weight)
    x = rl.randn(4, 4, generator=rl.Generator().manual_seed(3))
    place = mesh.get_local_rank("data")
    part = DTensor.from_local(x[2 * place : 2 * place + 2], mesh["model"], [Replicate()])
    out = model(part)
    out.to_local().square().sum().backward()
    (whole(x).square().sum() / 2).backward()
    rl.testing.assert_close(model.weight.grad.full_tensor(), whole.weight.grad)
    rl.testing.assert_close(model.bias.grad.full_tensor(), whole.bias.grad)
    return "done"


def test_tensors_that_are_spread_already() -> None:
    assert results_of(run(4, with_tensor_parallel)) == ["done"] * 4


@pytest.mark.parametrize(
    "names", [["accumulates", "whole_and_cut", "ahead"], ["other_dimensions", "recomputes", "from_meta"],
              ["half", "methods", "tied", "refuses"]],
    ids=lambda names: "-".join(names),
)
def test_what_else_a_sharded_module_can_do(names: list[str]) -> None:
    assert results_of(run(2, all_of, [globals()[name] for name in names])) == ["done"] * 2


def in_either(lib: Any, rank: int, size: int) -> dict[str, list[float]]:
    """Losses and norms of gradients of a few steps, with the same data, seeds and settings."""
    shard = module(lib, "distributed.fsdp")
    results = {}
    for name, policy in (("plain", {}), ("sixteen", {"reduce_dtype": lib.float16})):
        lib.manual_seed(4)
        layer = lib.nn.TransformerEncoderLayer
        model = lib.nn.Sequential(
            lib.nn.Embedding(13, 16), *[layer(16, 2, 24, dropout=0.0, batch_first=True) for _ in range(2)],
            lib.nn.Linear(16, 13),
        )
        for block in (model[1], model[2], model):
            shard.fully_shard(block, mp_policy=shard.MixedPrecisionPolicy(**policy))
        optimizer = lib.optim.AdamW(model.parameters(), lr=0.02)
        results[name] = []
        for step in range(4):
            lib.manual_seed(100 * step + rank)
            x = lib.randint(0, 13, (3, 7))
            optimizer.zero_grad()
            loss = lib.nn.functional.cross_entropy(model(x)[:, :-1].flatten(0, 1).float(), x[:, 1:].flatten())
            loss.backward()
            norm = lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
            optimizer.step()
            results[name] += [loss.item(), norm.item()]
    return results


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_losses_equal_pytorch() -> None:
    for mine, theirs in zip(*both(2, in_either), strict=True):
        rl.testing.assert_close(rl.tensor(mine["plain"]), rl.tensor(theirs["plain"]), atol=1e-5, rtol=1e-5)
        rl.testing.assert_close(rl.tensor(mine["sixteen"]), rl.tensor(theirs["sixteen"]), atol=2e-3, rtol=2e-3)
