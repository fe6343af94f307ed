"""Pipelines: losses and gradients of several processes are one process's; orders are PyTorch's."""

from __future__ import annotations

import os

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn
from rushlight.distributed import pipelining as pp
from rushlight.distributed.pipelining import orders, schedules
from rushlight.distributed.pipelining._backward import input_gradients, weight_gradients
from rushlight.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    _CustomReducer,
    _Replicate,
    merge_chunks,
    split_args_kwargs_into_chunks,
)
from tests.distributed.processes import Raised, results_of, run


class Block(nn.Module):
    """Two values in and out, one of them carried past."""

    def __init__(self, seed):
        super().__init__()
        rl.manual_seed(seed)
        self.a, self.b, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x, carried=None):
        carried = x if carried is None else carried
        return self.norm(x + self.b(rl.tanh(self.a(x)))) + 0.1 * carried, carried


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        rl.manual_seed(99)
        self.out = nn.Linear(6, 3)

    def forward(self, x, carried):
        return self.out(x + carried)


def _stages(count):
    """The model in as many parts."""
    return [Block(i) for i in range(count - 1)] + [Head()]


def _batch():
    rl.manual_seed(7)
    return rl.randn(8, 6), rl.randn(8, 3)


def _loss(output, target):
    return (output - target).square().mean()


def _alone(count, parts):
    """What one process gets: losses per part and the gradients of every stage."""
    stages = _stages(count)
    x, y = _batch()
    losses = []
    for part, target in zip(x.chunk(parts), y.chunk(parts), strict=True):
        value = (part,)
        for stage in stages:
            value = stage(*value)
            value = value if isinstance(value, tuple) else (value,)
        losses.append(_loss(value[0], target))
        (losses[-1] / parts).backward()
    grads = [[p.grad.clone() for p in stage.parameters()] for stage in stages]
    return [float(v.detach()) for v in losses], grads


def _one_step(rank, ranks, name, local, parts):
    cls = schedules.get_schedule_class(name)
    layout = orders.stage_ranks(ranks, ranks * local, cls._style)
    modules = _stages(ranks * local)
    stages = [pp.PipelineStage(modules[s], s, ranks * local, "cpu") for s, r in layout.items() if r == rank]
    is_single = issubclass(cls, schedules.PipelineScheduleSingle)
    schedule = cls(stages[0] if is_single else stages, parts, loss_fn=_loss)
    x, y = _batch()
    losses: list = []
    has_first, has_last = (any(getattr(s, which) for s in stages) for which in ("is_first", "is_last"))
    output = schedule.step(*((x,) if has_first else ()), target=y if has_last else None, losses=losses)
    grads = {s.stage_index: [p.grad.tolist() for p in s.submod.parameters()] for s in stages}
    evaluated = schedule.eval(*((x,) if has_first else ()))
    if has_last:
        assert rl.allclose(evaluated, output.detach())
    return [float(v.detach()) for v in losses], grads, None if output is None else list(output.shape)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("name", "ranks", "local", "parts"),
    [
        ("GPipe", 3, 1, 4),
        ("1f1b", 4, 1, 8),
        ("LoopedBFS", 2, 2, 4),
        ("Interleaved1F1B", 2, 2, 4),
        ("InterleavedZeroBubble", 2, 2, 8),
        ("ZBVZeroBubble", 2, 2, 4),
        ("DualPipeV", 2, 2, 8),
    ],
)
def test_losses_and_gradients_are_one_processs(name, ranks, local, parts):
    losses, grads = _alone(ranks * local, parts)
    results = results_of(run(ranks, _one_step, name, local, parts))
    found = next(row for row, _, _ in results if row)
    assert found == pytest.approx(losses, rel=1e-5)
    seen = {}
    for _, row, _ in results:
        seen.update(row)
    for stage, expected in enumerate(grads):
        for mine, his in zip(seen[stage], expected, strict=True):
            assert rl.allclose(rl.tensor(mine), his, atol=1e-6), f"stage {stage}"
    assert [8, 3] in [shape for _, _, shape in results]


class _Mock:
    """What PyTorch's schedules ask of a stage to make their orders."""

    def __init__(self, index, count, group_size, rank):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, count, group_size, rank
        self.submod, self.group, self.is_first, self.is_last = None, None, index == 0, index == count - 1
        self.stage_index_to_group_rank = {}


@pytest.mark.parametrize(
    ("name", "ranks", "local", "parts"),
    [(name, *shape) for name in ("Interleaved1F1B", "InterleavedZeroBubble", "LoopedBFS")
     for shape in ((2, 2, 4), (4, 2, 8), (4, 3, 12), (3, 2, 6), (2, 3, 8))]
    + [(name, ranks, 2, parts) for name in ("ZBVZeroBubble", "DualPipeV") for ranks, parts in ((2, 4), (4, 8), (3, 11))]
    + [("GPipe", 4, 1, 6)],
)
def test_orders_are_pytorchs(name, ranks, local, parts):
    theirs = pytest.importorskip("torch.distributed.pipelining.schedules")
    cls = theirs.get_schedule_class(name)
    stages = [_Mock(i * ranks, ranks * local, ranks, 0) for i in range(local)]
    expected = cls(stages[0] if local == 1 else stages, parts).pipeline_order
    ours = schedules.get_schedule_class(name)
    found = ours._order(ours.__new__(ours), ranks, local, parts)
    for rank in range(ranks):
        flat = []
        for action in expected[rank]:
            flat += [] if action is None else list(action.sub_actions or [action])
        assert [str(a) for a in found[rank]] == [str(a) for a in flat if "REDUCE" not in str(a)], f"rank {rank}"
    layout = orders.stage_ranks(ranks, ranks * local, ours._style)
    orders.check(found, layout, ranks * local, parts)


def test_an_order_that_cannot_end_is_refused():
    layout = orders.stage_ranks(2, 2)
    good = orders.gpipe(2, 2)
    orders.check(good, layout, 2, 2)
    with pytest.raises(ValueError, match="waits for ever at 0B0"):
        orders.check({0: [*good[0][2:], *good[0][:2]], 1: good[1]}, layout, 2, 2)
    with pytest.raises(ValueError, match="lacks B of stage"):
        orders.check({0: good[0][:2], 1: good[1][:3]}, layout, 2, 2)
    with pytest.raises(ValueError, match="twice"):
        orders.check({0: [good[0][0], *good[0]], 1: good[1]}, layout, 2, 2)
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        orders.interleaved(2, 2, 5, False)
    with pytest.raises(ValueError, match="no schedule"):
        schedules.get_schedule_class("2F2B")
    assert orders.Action.from_str("2F7") == (2, orders.F, 7) and orders.Action.from_str(" ") is None
    with pytest.raises(RuntimeError, match="2X7"):
        orders.Action.from_str("2X7")


def test_backward_in_two_parts_is_the_whole():
    model, x = nn.Sequential(Block(0).a, nn.Tanh(), Block(1).a), rl.randn(4, 6, requires_grad=True)
    tied = model[0].weight
    weights = list(model.parameters())

    def run_model():
        return (model(x) @ tied).sum() + x.sum()

    run_model().backward()
    expected = [w.grad.clone() for w in weights], x.grad.clone()
    model.zero_grad()
    found, branches = input_gradients([run_model()], [None], [x], weights)
    assert rl.allclose(found[0], expected[1], atol=1e-6) and all(w.grad is None for w in weights)
    weight_gradients(branches)
    for weight, grad in zip(weights, expected[0], strict=True):
        assert rl.allclose(weight.grad, grad, atol=1e-5)


def test_batches_are_split_and_joined():
    x, y = rl.arange(8.0).reshape(4, 2), rl.ones(2, 4)
    args, kwargs = split_args_kwargs_into_chunks((x, 3), {"y": y}, 2, None, {"y": TensorChunkSpec(1)})
    assert [a[0].tolist() for a in args] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert args[1][1] == 3 and tuple(kwargs[0]["y"].shape) == (2, 2)
    args, _ = split_args_kwargs_into_chunks((x,), None, 2, (_Replicate(),))
    assert args[1][0] is x
    assert len(split_args_kwargs_into_chunks((x,), {}, 9)[0]) == 4
    assert rl.equal(merge_chunks([(x[:2], 1), (x[2:], 1)], None)[0], x)
    assert merge_chunks([1.0, 2.0], _CustomReducer(0.0, lambda a, b: a + b)) == 3.0
    with pytest.raises(ValueError, match="cannot be split"):
        split_args_kwargs_into_chunks((3,), None, 2, (TensorChunkSpec(0),))


# --- traced models ----------------------------------------------------------------------------------------------------


class Traced(nn.Module):
    """A skip connection over two stages, and a weight that two of them use."""

    def __init__(self):
        super().__init__()
        rl.manual_seed(3)
        self.embed = nn.Linear(6, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.head = nn.Linear(6, 6, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", rl.full((6,), 0.5))

    def forward(self, x, shift=None):
        x = self.embed(x)
        skipped = x
        for layer in self.layers:
            x = rl.tanh(layer(x))
        return self.head(x * self.scale + skipped) + (0 if shift is None else shift)


_SPEC = {"layers.1": pp.SplitPoint.BEGINNING, "layers.2": pp.SplitPoint.END}


def test_a_traced_model_in_stages_is_the_model():
    model, x = Traced(), rl.randn(4, 6)
    pipe = pp.pipeline(model, (x,), {"shift": rl.ones(6)}, split_spec=_SPEC)
    assert pipe.num_stages == 3 and "forward" not in model.layers[1].__dict__
    assert rl.allclose(pipe(x, shift=rl.ones(6)), model(x, rl.ones(6)))
    names = [set(pipe.get_stage_module(i).state_dict()) for i in range(3)]
    assert {"embed.weight", "layers.0.weight"} <= names[0] and names[2] == {"scale"}
    assert pipe.get_stage_module(1).get_parameter("layers.1.weight") is model.layers[1].weight
    with pytest.raises(AttributeError, match="nowhere"):
        pp.pipeline(model, (x,), split_spec={"nowhere": pp.SplitPoint.END})
    with pytest.raises(ValueError, match="not both"):
        pp.pipeline(model, (x,), split_spec=_SPEC, split_policy=lambda m: m)


def test_pipe_split_in_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x = self.a(x)
            pp.pipe_split()
            return self.b(x)

    model, x = Model(), rl.randn(3, 4)
    pipe = pp.pipeline(model, (x,))
    assert pipe.num_stages == 2 and rl.allclose(pipe(x), model(x))
    assert set(pipe.get_stage_module(1).state_dict()) == {"b.weight", "b.bias"}


def _traced_step(rank, ranks):
    model = Traced()
    x, y = rl.arange(48.0).reshape(8, 6) / 48, rl.ones(8, 6)
    pipe = pp.pipeline(model, (x[:2],), split_spec=_SPEC)
    schedule = pp.Schedule1F1B(pipe.build_stage(rank, "cpu"), 4, loss_fn=_loss)
    losses: list = []
    schedule.step(*((x,) if rank == 0 else ()), target=y if rank == 2 else None, losses=losses)
    return [float(v.detach()) for v in losses], {
        n: p.grad.tolist() for n, p in pipe.get_stage_module(rank).named_parameters() if p.grad is not None
    }


def test_a_traced_pipeline_learns_as_one_process():
    results = results_of(run(3, _traced_step))
    model, x = Traced(), rl.arange(48.0).reshape(8, 6) / 48
    losses = [_loss(model(part), rl.ones(2, 6)) for part in x.chunk(4)]
    (sum(losses) / 4).backward()
    assert results[2][0] == pytest.approx([float(v.detach()) for v in losses], rel=1e-5)
    found = {}
    for _, grads in results:
        found.update(grads)
    for name, parameter in model.named_parameters():
        assert rl.allclose(rl.tensor(found[name]), parameter.grad, atol=1e-6), name


# --- with data parallelism, and what goes wrong -----------------------------------------------------------------------


def _data_and_pipeline(rank, ranks):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    replica, place = divmod(rank, 2)
    module = nn.parallel.DistributedDataParallel(_stages(2)[place], process_group=across[place])
    stage = pp.PipelineStage(module, place, 2, "cpu", group=pairs[replica])
    x, y = (t.chunk(2)[replica] for t in _batch())
    pp.ScheduleGPipe(stage, 2, loss_fn=_loss).step(*((x,) if place == 0 else ()), target=y if place else None)
    return place, [p.grad.tolist() for p in module.parameters()]


def test_a_pipeline_of_data_parallel_stages():
    _, grads = _alone(2, 4)
    for place, found in results_of(run(4, _data_and_pipeline)):
        for mine, his in zip(found, grads[place], strict=True):
            assert rl.allclose(rl.tensor(mine), his, atol=1e-6)


def _dies(rank, ranks):
    module = _stages(2)[rank]
    if rank == 1:
        module.forward = lambda *args: os._exit(3)
    stage = pp.PipelineStage(module, rank, 2, "cpu")
    x, y = _batch()
    pp.ScheduleGPipe(stage, 4, loss_fn=_loss).step(*((x,) if rank == 0 else ()), target=y if rank else None)


def test_a_stage_that_dies_is_named():
    first, second = run(2, _dies, timeout=5)
    assert second is None and isinstance(first, Raised) and "rank 1" in first.text


def _wrong(rank, ranks):
    stage = pp.PipelineStage(Block(0), rank, 2, "cpu", input_args=rl.ones(2, 6))
    problems = []
    for make in (
        lambda: pp.PipelineStage(Block(0), 2, 2, "cpu"),
        lambda: pp.ScheduleInterleaved1F1B([stage, stage], 4),
        lambda: pp.ScheduleZBVZeroBubble([stage], 4),
        lambda: pp.Schedule1F1B(stage, 1),
        lambda: stage.forward_one_chunk(0, (rl.ones(3, 6),)),
        lambda: stage.backward_weight_one_chunk(5),
    ):
        try:
            make()
        except (ValueError, RuntimeError) as error:
            problems.append(str(error))
    schedule = pp.ScheduleGPipe(stage, 2, loss_fn=_loss)
    with rl.no_grad():
        try:
            schedule.step()
        except RuntimeError as error:
            problems.append(str(error))
    return problems


def test_what_is_wrong_is_said():
    for problems in results_of(run(2, _wrong)):
        expected = ["stage_index", "must have the stages", "", "at least", "example", "no weights", "eval()"]
        assert len(problems) == len(expected)
        for problem, words in zip(problems, expected, strict=True):
            assert words in problem
