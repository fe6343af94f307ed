"""Collectives in compiled programs: the same numbers as without, ops in graphs, work done while they are under way."""

from __future__ import annotations

from typing import Any

from .processes import all_of, results_of, run


def _eager_and_compiled(torch: Any, function: Any, x: Any) -> None:
    """The same results and gradients, twice, from one whole graph."""
    compiled = torch.compile(function, fullgraph=True)
    for scale in (1.0, 2.0):
        found = []
        for call in (function, compiled):
            leaf = (x * scale).requires_grad_()
            result = call(leaf)
            result.square().sum().backward()
            found.append((result.detach(), leaf.grad))
        for ours, compiled_ones in zip(*found, strict=True):
            torch.testing.assert_close(compiled_ones, ours)


def _functional(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed import _functional_collectives as f

    world = dist.group.WORLD
    mesh = dist.init_device_mesh("cpu", (ranks,))
    x = torch.arange(16.0).view(4, 4) / 7 + rank
    functions = [
        lambda t: f.all_reduce(t * 2, "sum", world).sin(),
        lambda t: f.wait_tensor(f.all_reduce(t.t(), dist.ReduceOp.SUM, mesh)) + 1,
        lambda t: f.broadcast(t, 0, world) @ t,
        lambda t: f.all_gather_tensor(t, 1, (mesh, 0)).sin(),
        lambda t: f.all_gather_tensor(t.sin(), 0, "0" if world.group_name == "0" else world.group_name),
        lambda t: f.reduce_scatter_tensor(t * t, "sum", 1, mesh),
        lambda t: f.all_to_all_single(t.cos(), [1, 1] if rank == 0 else [3, 3], [1, 3], world),
        lambda t: f.permute_tensor(t.flatten(), [1, 0], world).exp(),
        lambda t: sum(f.all_reduce_coalesced([t, t + 1], "sum", world)),
    ]
    for function in functions:
        _eager_and_compiled(torch, function, x)


def _without_gradients(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed import _functional_collectives as f

    x = torch.arange(6.0) + rank
    function = lambda t: (f.all_reduce(t, "max", dist.group.WORLD), f.all_reduce(t, "avg", dist.group.WORLD))  # noqa: E731
    for ours, compiled in zip(function(x), torch.compile(function, fullgraph=True)(x), strict=True):
        torch.testing.assert_close(compiled, ours)


def _ops(rank: int, ranks: int) -> None:
    """The ops themselves: what they begin is done when it is waited for."""
    import rushlight as torch
    from rushlight import distributed as dist

    c10d, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
    x = torch.full((1000,), float(rank))
    results = [c10d.all_reduce(x + i, "sum", name) for i in range(100)]      # more than are remembered
    for i, t in enumerate(results):
        assert c10d.wait_tensor(t).tolist() == [1.0 + 2 * i] * 1000
    assert c10d.wait_tensor(c10d.all_gather_into_tensor(x[:2], 2, name)).tolist() == [0, 0, 1, 1]
    assert c10d.wait_tensor(c10d.all_reduce_(x, "sum", name)) is x and x[0] == 1
    try:
        c10d.all_reduce(x, "sum", "nobody's")
    except ValueError as error:
        assert "nobody's" in str(error)
    else:
        raise AssertionError("a group that there is not")


def test_functional_collectives_compiled() -> None:
    results_of(run(2, all_of, [_functional, _without_gradients, _ops]))


def _steps(function: Any, *inputs: Any) -> list[str]:
    """What a compiled graph does, in order."""
    from rushlight.fx.experimental.proxy_tensor import make_fx
    from rushlight.inductor.compile_fx import compile_graph

    made = compile_graph(make_fx(function, _own_ops=True)(*inputs), list(inputs))
    return [label.split(" ")[0] for label in made.labels]


def _order(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed import _functional_collectives as f

    world = dist.group.WORLD

    def waits_late(a: Any, b: Any) -> Any:
        total = f.all_reduce(a, "sum", world)
        return total @ b, b @ b

    reduce, wait = "call[_c10d_functional::all_reduce]", "call[_c10d_functional::wait_tensor]"
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    assert _steps(waits_late, x, y) == [reduce, "steps[matmul]", wait, "steps[matmul]"]

    def begins_early(a: Any, b: Any) -> Any:
        other = b @ b @ b
        return f.all_reduce(a @ a, "sum", world), f.all_reduce(a + 1, "sum", world), other

    found = _steps(begins_early, x, y)
    assert found.index(reduce) <= 1 and found[-2:] == [wait, wait] and found.count(reduce) == 2
    assert found.index(reduce) < found.index("steps[matmul]", found.index(reduce))


def test_begin_early_wait_late() -> None:
    results_of(run(1, all_of, [_order]))


def _data_parallel(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import nn
    from rushlight.nn.parallel import DistributedDataParallel

    def model() -> Any:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))

    x = torch.arange(12.0).view(3, 4) * (rank + 1) / 10
    gradients = []
    for wrap in (
        lambda m: DistributedDataParallel(m),
        lambda m: torch.compile(DistributedDataParallel(m, bucket_cap_mb=0.0001)),
        lambda m: DistributedDataParallel(torch.compile(m), bucket_cap_mb=0.0001),
    ):
        plain = model()
        wrapped = wrap(plain)
        for _ in range(2):
            wrapped(x).square().sum().backward()
        gradients.append([p.grad for p in plain.parameters()])
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0])


def _sharded(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import nn
    from rushlight.distributed.fsdp import fully_shard

    def model() -> Any:
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        for part in (made[0], made[2], made):
            fully_shard(part)
        return made

    x = torch.arange(12.0).view(3, 4) * (rank + 1) / 10
    plain, inside, outside = model(), model(), model()
    inside[0].compile()
    inside[2].compile()
    found = []
    for call, made in ((plain, plain), (inside, inside), (torch.compile(outside), outside)):
        optimizer = torch.optim.SGD(made.parameters(), 0.1)
        for _ in range(3):
            call(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append([p.full_tensor() for p in made.parameters()])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


def test_data_parallel_and_compile() -> None:
    results_of(run(2, all_of, [_data_parallel, _sharded]))


def _distributed_tensors(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    weight = distribute_tensor(torch.randn(5, 4), mesh, [Shard(0)]).requires_grad_()      # 3 rows here, 2 there
    count = distribute_tensor(torch.zeros(3), mesh, [Replicate()])

    def function(x: Any, w: Any) -> Any:
        count.add_(1)
        y = (x @ w.t()).relu()
        if y.placements == (Shard(1),):
            y = y * 2
        local = y.to_local() + 1
        whole = DTensor.from_local(local, mesh, [Shard(1)], shape=y.shape, stride=y.stride())
        return whole.redistribute(placements=[Replicate()]).sin(), y.square().sum(), y.full_tensor()

    compiled = torch.compile(function, fullgraph=True)
    for lies in (Replicate(), Shard(0), Shard(0)):      # the second is another graph, the third is not
        x = distribute_tensor(torch.arange(12.0).view(3, 4), mesh, [lies])
        found = []
        for call in (function, compiled):
            results = call(x, weight)
            (results[0].sum() + results[1]).full_tensor().backward(retain_graph=True)
            results[2].sum().backward()
            found.append(([r.full_tensor() if isinstance(r, DTensor) else r for r in results], weight.grad))
            assert results[0].placements == (Replicate(),)
            weight.grad = None
        torch.testing.assert_close(found[1][0], found[0][0])
        assert found[0][1].placements == found[1][1].placements
        torch.testing.assert_close(found[1][1].full_tensor(), found[0][1].full_tensor())
    assert count.to_local().tolist() == [6.0] * 3
    terms = DTensor.from_local(torch.ones(2) * (rank + 1), mesh, [Partial()])
    doubled = torch.compile(lambda t: t * 2, fullgraph=True)(terms)
    assert doubled.placements == (Partial(),) and doubled.full_tensor().tolist() == [6.0, 6.0]


def _tensor_parallel(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist, nn
    from rushlight.distributed.tensor import Replicate, Shard
    from rushlight.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    mesh = dist.init_device_mesh("cpu", (ranks,))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x: Any) -> Any:
            return x + self.mlp(self.norm(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.block, self.head = nn.Embedding(10, 8), Block(), nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.block(self.table(x)))

    def model() -> Any:
        torch.manual_seed(0)
        return parallelize_module(Model(), mesh, {
            "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
            "block.norm": SequenceParallel(),
            "block.mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "block.mlp.0": ColwiseParallel(),
            "block.mlp.2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        })

    tokens = torch.arange(8).view(2, 4)
    losses = []
    for wrap in (lambda m: m, lambda m: torch.compile(m, fullgraph=True)):
        plain = model()
        called, optimizer = wrap(plain), torch.optim.AdamW(plain.parameters(), 0.05)
        for _ in range(3):
            loss = nn.functional.cross_entropy(called(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
    assert max(abs(a - b) for a, b in zip(losses[:3], losses[3:], strict=True)) < 1e-5 and losses[2] < losses[0], losses


def test_distributed_tensors_compiled() -> None:
    results_of(run(2, all_of, [_distributed_tensors, _tensor_parallel]))
