"""DistributedDataParallel: what one process learns from all the data, several learn from their shares."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn

from .processes import Raised, results_of, run

DDP = nn.parallel.DistributedDataParallel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.spare = nn.Linear(6, 40), nn.Linear(40, 3), nn.Linear(6, 3)
        self.register_buffer("scale", rl.ones(3))

    def forward(self, x: rl.Tensor, with_spare: bool = True) -> rl.Tensor:
        y = self.second(self.first(x).tanh()) * self.scale
        return y + self.spare(x) if with_spare else y


def _data(step: int, size: int) -> tuple[rl.Tensor, rl.Tensor]:
    generator = rl.Generator().manual_seed(step)
    return rl.randn(4 * size, 6, generator=generator), rl.randint(0, 3, (4 * size,), generator=generator)


def trains(rank: int, size: int, options: dict[str, Any]) -> str:
    rl.manual_seed(5)
    alone = Net()
    rl.manual_seed(rank)        # every process begins elsewhere; rank 0's parameters count
    together = Net() if rank else copy.deepcopy(alone)
    together = DDP(together, bucket_cap_mb=0.0005, **options)
    optimizers = [rl.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (alone, together)]
    for step in range(4):
        x, y = _data(step, size)
        share = slice(4 * rank, 4 * rank + 4)
        for model, optimizer, part in zip((alone, together), optimizers, (slice(None), share)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    for (name, a), b in zip(alone.named_parameters(), together.parameters(), strict=True):
        rl.testing.assert_close(b, a, msg=lambda text, name=name: f"{name}: {text}")
    return "done"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True},
     {"bucket_cap_mb_list": [1]}, {"batched_grad_copy": True}],
    ids=lambda o: ",".join(o) or "plain",
)
def test_training_equals_one_process(options: dict[str, Any]) -> None:
    assert results_of(run(2, trains, options)) == ["done"] * 2


def gradients(rank: int, size: int) -> str:
    rl.manual_seed(0)
    model = DDP(Net(), find_unused_parameters=True)
    x = rl.ones(1, 6) * (rank + 1)
    with model.no_sync():
        model(x).sum().backward()
        own = model.module.second.bias.grad.clone()
        model(x).sum().backward()
    assert own.tolist() == [1, 1, 1]
    model(x).sum().backward()
    assert model.module.second.bias.grad.tolist() == [3, 3, 3]      # of all three passes, averaged
    model.zero_grad()
    model(x, with_spare=rank == 0).sum().backward()                 # one process uses it: all get its share
    assert model.module.spare.bias.grad.tolist() == [0.5] * 3
    model.zero_grad()
    model(x, with_spare=False).sum().backward()                     # nobody uses it
    assert model.module.spare.bias.grad is None
    with rl.no_grad():
        model(x)
    model.zero_grad()
    model(x).sum().backward()
    return "done"


def test_gradients_are_averaged_and_unused_ones_left_alone() -> None:
    assert results_of(run(2, gradients)) == ["done"] * 2


def buffers(rank: int, size: int) -> str:
    model = DDP(Net())
    model.module.scale.fill_(rank + 1.0)
    model(rl.ones(1, 6)).sum().backward()
    assert model.module.scale.tolist() == [1, 1, 1]
    model = DDP(Net(), broadcast_buffers=False)
    model.module.scale.fill_(rank + 1.0)
    model(rl.ones(1, 6)).sum().backward()
    assert model.module.scale.tolist() == [rank + 1.0] * 3
    return "done"


def test_buffers_are_those_of_rank_0() -> None:
    assert results_of(run(2, buffers)) == ["done"] * 2


def hooked(rank: int, size: int) -> str:
    seen = []

    def halve(state: Any, bucket: Any) -> Any:
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters()), len(bucket.gradients())))
        work = dist.all_reduce(bucket.buffer().div_(2 * size), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    rl.manual_seed(0)
    model = DDP(Net(), bucket_cap_mb=0.0005)
    model(rl.ones(1, 6)).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.register_comm_hook(None, halve)
    model(rl.ones(1, 6)).sum().backward()
    for a, p in zip(plain, model.parameters(), strict=True):
        rl.testing.assert_close(p.grad, a / 2)
    assert [index for index, *_ in seen] == list(range(len(seen))) and seen[-1][1] and len(seen) > 1
    with pytest.raises(RuntimeError, match="there can be one"):
        model.register_comm_hook(None, halve)
    return "done"


def test_a_hook_reduces_in_its_own_way() -> None:
    assert results_of(run(2, hooked)) == ["done"] * 2


def forgets(rank: int, size: int) -> str:
    model = DDP(Net(), bucket_cap_mb=0.0005)
    model(rl.ones(1, 6), with_spare=False).sum().backward()
    model(rl.ones(1, 6))
    return "not an error"


def test_a_parameter_without_gradient_is_named() -> None:
    for result in run(2, forgets):
        assert isinstance(result, Raised) and "find_unused_parameters=True" in result.text, result
        assert "spare.weight" in result.text


def differs(rank: int, size: int) -> str:
    DDP(nn.Linear(3, 2 + rank))
    return "not an error"


def test_modules_that_differ_are_told() -> None:
    for result in run(2, differs):
        assert isinstance(result, Raised) and "(2, 3)" in result.text and "(3, 3)" in result.text, result


def skips(rank: int, size: int) -> str:
    """Parameters that no process uses are left alone, and nothing is sent for them."""
    rl.manual_seed(0)
    model = DDP(Net(), find_unused_parameters=True, skip_all_reduce_unused_params=True, bucket_cap_mb=1e-6)
    sent: list[int] = []
    original = model.process_group.allreduce
    model.process_group.allreduce = lambda tensors, options: (sent.append(tensors[0].numel()),
                                                              original(tensors, options))[1]
    model(rl.ones(1, 6) * (rank + 1), with_spare=False).sum().backward()
    del model.process_group.allreduce
    assert model.module.spare.weight.grad is None
    assert sum(sent) == sum(p.numel() for n, p in model.module.named_parameters() if "spare" not in n)
    assert model.module.second.bias.grad.tolist() == [1, 1, 1]
    return "done"


def test_unused_parameters_can_be_skipped() -> None:
    assert results_of(run(2, skips)) == ["done"] * 2


def delays(rank: int, size: int, all_of_them: bool) -> str:
    rl.manual_seed(0)
    alone, net = Net(), Net()
    net.load_state_dict(alone.state_dict())
    late = [(n, p) for n, p in net.named_parameters() if all_of_them or "second" in n]
    model = DDP(net, delay_all_reduce_named_params=late, param_to_hook_all_reduce=net.first.weight)
    x = rl.randn(2 * size, 6, generator=rl.Generator().manual_seed(1))
    for part, m in ((x, alone), (x[2 * rank : 2 * rank + 2], model)):
        m.zero_grad()
        m(part).square().mean().backward()
    for (name, a), b in zip(alone.named_parameters(), net.parameters(), strict=True):
        if not all_of_them or not name.startswith("first"):      # the signal, and what comes after it
            rl.testing.assert_close(b.grad, a.grad, msg=lambda text, name=name: f"{name}: {text}")
    return "done"


@pytest.mark.parametrize("all_of_them", [False, True])
def test_parameters_can_be_reduced_later(all_of_them: bool) -> None:
    assert results_of(run(2, delays, all_of_them)) == ["done"] * 2


def mixed(rank: int, size: int) -> str:
    """As if parameters and inputs were cast by hand; parameters and gradients keep their type."""
    types = nn.parallel.distributed._MixedPrecision(rl.bfloat16, rl.float32, rl.bfloat16)
    rl.manual_seed(0)
    net = Net()
    by_hand = copy.deepcopy(net).to(rl.bfloat16)
    model = DDP(net, mixed_precision=types)
    x = rl.randn(2 * size, 6, generator=rl.Generator().manual_seed(1))
    part = x[2 * rank : 2 * rank + 2]
    out = model(part)
    assert out.dtype == rl.bfloat16 and net.scale.dtype == rl.bfloat16
    assert all(p.dtype == rl.float32 and p.is_leaf for p in model.parameters())
    out.float().square().sum().backward()
    by_hand(part.to(rl.bfloat16)).float().square().sum().backward()
    for a, b in zip(by_hand.parameters(), model.parameters(), strict=True):
        mean = a.grad.float() / size
        dist.all_reduce(mean)
        assert b.grad.dtype == rl.float32
        rl.testing.assert_close(b.grad, mean)
    return "done"


def test_mixed_precision() -> None:
    assert results_of(run(2, mixed)) == ["done"] * 2


def on_a_mesh(rank: int, size: int) -> str:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = DDP(nn.Linear(2, 1), device_mesh=mesh["data"])
    assert model.process_group is mesh.get_group("data")
    model.module.weight.grad = None
    model(rl.ones(1, 2) * rank).sum().backward()
    assert model.module.weight.grad.tolist() == [[rank % 2 + 1.0] * 2]       # ranks r and r + 2
    with pytest.raises(RuntimeError, match="not both"):
        DDP(nn.Linear(2, 1), process_group=mesh.get_group("data"), device_mesh=mesh["data"])
    with pytest.raises(RuntimeError, match="one dimension"):
        DDP(nn.Linear(2, 1), device_mesh=mesh)
    with pytest.raises(ValueError, match="need each other"):
        DDP(nn.Linear(2, 1), delay_all_reduce_named_params=[])
    return "done"


def test_one_dimension_of_a_mesh() -> None:
    assert results_of(run(4, on_a_mesh)) == ["done"] * 4


def refused(rank: int, size: int) -> str:
    for arguments, error, words in (
        ((nn.ReLU(),), RuntimeError, "requires a gradient"),
        ((nn.Linear(1, 1), [0]), ValueError, "must be None"),
        ((nn.Linear(1, 1), [0, 1]), ValueError, "one device"),
    ):
        with pytest.raises(error, match=words):
            DDP(*arguments)
    return "done"


def test_bad_arguments() -> None:
    assert results_of(run(1, refused)) == ["done"]


def saved(rank: int, size: int) -> str:
    model = DDP(Net())
    names = list(model.state_dict())
    assert all(name.startswith("module.") for name in names)
    file = io.BytesIO()
    rl.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(rl.load(file))
    again = copy.deepcopy(model)
    again(rl.ones(1, 6)).sum().backward()
    return "done"


def test_state_and_copies() -> None:
    assert results_of(run(2, saved)) == ["done"] * 2


def synced(rank: int, size: int) -> str:
    """Unequal shares of a batch give what the whole batch gives to one process."""
    for dtype in (rl.float64, rl.float32):
        rl.manual_seed(3)
        x, scale = rl.randn(7, 4, 5, dtype=dtype), rl.randn(7, 4, 5, dtype=dtype)
        share = slice(0, 2) if rank == 0 else slice(2, 7)
        alone, together = nn.BatchNorm1d(4, dtype=dtype), nn.SyncBatchNorm(4, dtype=dtype)
        whole, part = x.clone().requires_grad_(), x[share].clone().requires_grad_()
        for _ in range(2):
            a, b = alone(whole), together(part)
        (a * scale).sum().backward()
        (b * scale[share]).sum().backward()
        rl.testing.assert_close(b, a[share])
        rl.testing.assert_close(part.grad, whole.grad[share])
        for p in together.parameters():
            dist.all_reduce(p.grad)
        for p, q in zip(alone.parameters(), together.parameters(), strict=True):
            rl.testing.assert_close(q.grad, p.grad)
        rl.testing.assert_close(together.state_dict(), alone.state_dict())
    with pytest.raises(ValueError, match="more than one value"):
        nn.SyncBatchNorm(2)(rl.ones(1 if rank == 0 else 0, 2))
    nn.SyncBatchNorm(2).eval()(rl.ones(1, 2))       # no process waits for another
    return "done"


def test_batches_of_all_processes_are_normalized_together() -> None:
    assert results_of(run(2, synced)) == ["done"] * 2


def test_synced_batch_norm_alone_is_batch_norm() -> None:
    x = rl.randn(6, 3)
    rl.testing.assert_close(nn.SyncBatchNorm(3)(x), nn.BatchNorm1d(3)(x))


def test_at_the_end_of_a_backward_pass() -> None:
    engine = rl.autograd.Variable._execution_engine
    order = []
    x = rl.ones(2, requires_grad=True)
    x.register_hook(lambda g: engine.queue_callback(lambda: order.append(("end", x.grad is not None))))
    (x * 2).sum().backward()
    assert order == [("end", True)]
    with pytest.raises(RuntimeError, match="no backward pass"):
        engine.queue_callback(print)
