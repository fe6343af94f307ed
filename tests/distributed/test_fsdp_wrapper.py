"""`FullyShardedDataParallel`: the wrapper trains as one process does, whatever is spread, and saves as that would."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn
from rushlight.distributed.algorithms._checkpoint import checkpoint_wrapper as again
from rushlight.distributed.algorithms._comm_hooks import default_hooks as hooks
from rushlight.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel as FSDP,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardingStrategy,
    StateDictType,
    wrap as wrapping,
)
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.tensor import DTensor

from .processes import all_of, results_of, run
from .test_fsdp import Block, Net, data, loss_of, net, share

BY_BLOCK = wrapping.ModuleWrapPolicy({Block})
STRATEGIES = [s for s in ShardingStrategy if not s.name.startswith("_")]


def step_of(model: Any, rank: int, size: int, step: int = 0) -> rl.Tensor:
    x, y = data(step, size)
    loss = loss_of(model, share(x, rank), share(y, rank))
    loss.backward()
    return loss.detach()


def trains(rank: int, size: int, options: dict[str, Any]) -> str:
    alone = net()
    rl.manual_seed(7 + rank)
    together = FSDP(Net(), auto_wrap_policy=BY_BLOCK, sync_module_states=True, **options)
    alone.load_state_dict(together.state_dict())
    assert len(FSDP.fsdp_modules(together)) == 4 and FSDP.fsdp_modules(together, root_only=True) == [together]
    optimizers = [rl.optim.AdamW(m.parameters(), lr=0.05) for m in (alone, together)]
    for step in range(3):
        x, y = data(step, size)
        optimizers[0].zero_grad()
        expected = loss_of(alone, x, y)
        expected.backward()
        norm = nn.utils.clip_grad_norm_(alone.parameters(), 0.7)
        optimizers[0].step()
        optimizers[1].zero_grad()
        loss = step_of(together, rank, size, step)
        rl.testing.assert_close(together.clip_grad_norm_(0.7), norm)
        optimizers[1].step()
        dist.all_reduce(loss)
        rl.testing.assert_close(loss / size, expected.detach())
        rl.testing.assert_close(dict(together.state_dict()), dict(alone.state_dict()))
    kept = sum(p.numel() for p in together.parameters())
    total = sum(p.numel() for p in alone.parameters())
    is_spread = options.get("sharding_strategy") is not ShardingStrategy.NO_SHARD
    assert kept <= total / size + 16 if is_spread else kept >= total
    names = [n for n, _ in together.named_parameters()]
    if options.get("use_orig_params"):
        assert [n.replace("_fsdp_wrapped_module.", "") for n in names] == [n for n, _ in alone.named_parameters()]
    else:
        assert sorted(names)[0].endswith("_flat_param") and len(names) == 4
    return "done"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "options",
    [{"sharding_strategy": s, "use_orig_params": s.value % 2 == 0} for s in STRATEGIES]
    + [{"use_orig_params": True, "backward_prefetch": BackwardPrefetch.BACKWARD_POST, "forward_prefetch": True},
       {"cpu_offload": CPUOffload(True), "backward_prefetch": None}],
    ids=lambda o: "-".join(getattr(v, "name", k) for k, v in o.items()),
)
def test_training_equals_one_process(options: dict[str, Any]) -> None:
    assert results_of(run(2, trains, options)) == ["done"] * 2


def hybrid(rank: int, size: int) -> str:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("machines", "inside"))
    alone = net()
    model = FSDP(net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh, use_orig_params=True)
    step_of(model, rank, size)
    loss_of(alone, *data(0, size)).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        got = {n: p.grad.clone() for n, p in model.named_parameters()}
    rl.testing.assert_close(got, {n: p.grad for n, p in alone.named_parameters()})
    with pytest.raises(ValueError, match="two dimensions"):
        FSDP(nn.Linear(1, 1), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh["inside"])
    return "done"


def test_copies_of_parts() -> None:
    assert results_of(run(4, hybrid)) == ["done"] * 4


def saves(rank: int, size: int) -> None:
    for keeps_names in (False, True):
        alone = net()
        model = FSDP(net(), auto_wrap_policy=BY_BLOCK, use_orig_params=keeps_names)
        assert list(model.state_dict()) == list(alone.state_dict())
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, rank0_only=True)):
            state = model.state_dict()
            assert bool(state) == (rank == 0)
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            state = model.state_dict()
            assert isinstance(state["head.weight"], DTensor) and list(state) == list(alone.state_dict())
            rl.testing.assert_close(state["blocks.1.up.weight"].full_tensor(), alone.blocks[1].up.weight.detach())
            other = FSDP(Net(), auto_wrap_policy=BY_BLOCK, use_orig_params=not keeps_names)
            other.load_state_dict(state)
        rl.testing.assert_close(dict(other.state_dict()), dict(alone.state_dict()))
        rl.manual_seed(5)
        new = Net().state_dict()
        model.load_state_dict(new)
        rl.testing.assert_close(dict(model.state_dict()), dict(new))
        answer = model.load_state_dict({**new, "extra": rl.ones(1)}, strict=False)
        assert answer.unexpected_keys == ["extra"] and answer.missing_keys == []
        plain = nn.ModuleDict({"inner": FSDP(nn.Linear(2, 2), use_orig_params=keeps_names)})
        assert list(plain.state_dict()) == ["inner.weight", "inner.bias"]
        plain.load_state_dict({"inner.weight": rl.ones(2, 2), "inner.bias": rl.zeros(2)})
        assert plain["inner"](rl.ones(1, 2)).tolist() == [[2, 2]]
    model = FSDP(net(), auto_wrap_policy=BY_BLOCK)
    with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT, LocalStateDictConfig()):
        state = {k: v.clone() for k, v in model.state_dict().items()}
        assert len([k for k in state if k.endswith("_flat_param")]) == 4
        for p in model.parameters():
            p.data.zero_()
        model.load_state_dict(state)
    rl.testing.assert_close(dict(model.state_dict()), dict(net().state_dict()))
    with pytest.raises(RuntimeError, match="goes with"):
        FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, LocalStateDictConfig())


def optimizer_states(rank: int, size: int) -> None:
    for keeps_names in (False, True):
        alone, model = net(), FSDP(net(), auto_wrap_policy=BY_BLOCK, use_orig_params=keeps_names)
        plain = rl.optim.AdamW(alone.parameters(), lr=0.01)
        spread = rl.optim.AdamW(model.parameters(), lr=0.01)
        loss_of(alone, *data(0, size)).backward()
        step_of(model, rank, size)
        plain.step()
        spread.step()
        state = FSDP.optim_state_dict(model, spread)
        names = [n for n, _ in alone.named_parameters()]
        assert sorted(state["state"]) == sorted(names)
        for i, name in enumerate(names):
            rl.testing.assert_close(state["state"][name]["exp_avg_sq"], plain.state_dict()["state"][i]["exp_avg_sq"])
            assert int(state["state"][name]["step"]) == 1
        sharded = FSDP.sharded_optim_state_dict(model, spread)
        assert isinstance(sharded["state"]["head.weight"]["exp_avg"], DTensor)
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(True, True)):
            assert bool(FSDP.optim_state_dict(model, spread)) == (rank == 0)
        for given in (state, sharded):
            other = FSDP(net(), auto_wrap_policy=BY_BLOCK, use_orig_params=not keeps_names)
            other.load_state_dict(model.state_dict())
            fresh = rl.optim.AdamW(other.parameters(), lr=0.5)
            fresh.load_state_dict(FSDP.optim_state_dict_to_load(other, fresh, given))
            assert fresh.param_groups[0]["lr"] == 0.01
            step_of(other, rank, size, 1)
            fresh.step()
        plain.zero_grad()
        loss_of(alone, *data(1, size)).backward()
        plain.step()
        rl.testing.assert_close(dict(other.state_dict()), dict(alone.state_dict()))
        numbered = FSDP.rekey_optim_state_dict(state, OptimStateKeyType.PARAM_ID, alone, optim=plain)
        plain.load_state_dict(numbered)
        back = FSDP.rekey_optim_state_dict(plain.state_dict(), OptimStateKeyType.PARAM_NAME, alone, optim=plain)
        assert sorted(back["state"]) == sorted(names)
        part = FSDP.scatter_full_optim_state_dict(state if rank == 0 else None, model, optim=spread)
        assert sorted(part["state"]) == list(range(len(list(model.parameters()))))


def whole_inside(rank: int, size: int) -> None:
    model = FSDP(net(), auto_wrap_policy=BY_BLOCK)
    assert model.module.head.weight.shape == (11, 6) and model.embed.weight.shape == (11, 6)
    with FSDP.summon_full_params(model):
        assert [n for n, _ in model.named_parameters()] == [n for n, _ in net().named_parameters()]
        model.head.weight.data.fill_(2.0)
    assert (model.state_dict()["head.weight"] == 2).all()
    with FSDP.summon_full_params(model, writeback=False):
        model.head.weight.data.fill_(3.0)
    assert (model.state_dict()["head.weight"] == 2).all()
    model.apply(lambda m: nn.init.constant_(m.weight, 0.25) if isinstance(m, nn.Linear) else None)
    assert (model.state_dict()["blocks.0.up.weight"] == 0.25).all()
    model = FSDP(net(), auto_wrap_policy=BY_BLOCK, use_orig_params=True)
    with model.no_sync():
        step_of(model, rank, size, 0)
        assert all(p.grad is None for p in model.parameters())
    step_of(model, rank, size, 1)
    alone = net()
    for step in (0, 1):
        loss_of(alone, *data(step, size)).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        rl.testing.assert_close({n: p.grad.clone() for n, p in model.named_parameters()},
                                {n: p.grad for n, p in alone.named_parameters()})
    with pytest.raises(NotImplementedError, match="rank0_only"), FSDP.summon_full_params(model, rank0_only=True):
        pass


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.last(self.norm(self.first(x)))


def in_halves(rank: int, size: int) -> None:
    types = MixedPrecision(rl.bfloat16, rl.float32, buffer_dtype=rl.bfloat16)
    model = FSDP(net(), auto_wrap_policy=BY_BLOCK, mixed_precision=types)
    out = model(share(data(0, size)[0], rank))
    assert out.dtype == rl.bfloat16 and model.module.scale.dtype == rl.bfloat16
    assert {v.dtype for v in model.state_dict().values()} == {rl.float32}
    step_of(model, rank, size)
    assert {p.grad.dtype for p in model.parameters()} == {rl.float32}
    model = FSDP(Normed(), auto_wrap_policy=lambda module, recurse, nonwrapped_numel: recurse,
                 mixed_precision=MixedPrecision(rl.bfloat16))
    seen = []
    model.module.norm.module.register_forward_pre_hook(lambda m, args: seen.append((args[0].dtype, m.weight.dtype)))
    assert model(rl.randn(3, 4)).dtype == rl.bfloat16 and seen == [(rl.float32, rl.float32)]
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    model = FSDP(nn.Linear(2, 2, bias=False))
    before = model.state_dict()["weight"]
    optimizer = rl.optim.SGD(model.parameters(), lr=1.0)
    scaler.scale(model(rl.ones(1, 2)).sum()).backward()
    if rank == 1:
        model.parameters().__next__().grad[0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0        # on both, although one met it
    rl.testing.assert_close(model.state_dict()["weight"], before)


def chooses(rank: int, size: int) -> None:
    def wrapped(policy: Any, **options: Any) -> list[str]:
        model = FSDP(net(), auto_wrap_policy=policy, **options)
        names = {n.replace("_fsdp_wrapped_module", "").replace("..", ".").strip(".")
                 for n, m in model.named_modules() if isinstance(m, FSDP)}
        step_of(model, rank, size)
        return sorted(names - {""})

    blocks = ["blocks.0", "blocks.1", "blocks.2"]
    assert wrapped(functools.partial(wrapping.size_based_auto_wrap_policy, min_num_params=200)) == blocks
    assert wrapped(functools.partial(wrapping.transformer_auto_wrap_policy, transformer_layer_cls={Block})) == blocks
    by_name = functools.partial(wrapping.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Embedding))
    assert wrapped(by_name) == ["embed"]
    custom = wrapping.CustomPolicy(
        lambda m: {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP} if isinstance(m, Block) else False
    )
    assert wrapped(custom) == blocks
    module = net()
    assert wrapped(BY_BLOCK, ignored_states=None) == blocks
    model = FSDP(module, ignored_modules=[module.head])
    assert any(p is module.head.weight for p in model.parameters())
    with wrapping.enable_wrap(wrapper_cls=FSDP, use_orig_params=True):
        assert isinstance(wrapping.wrap(nn.Linear(2, 2)), FSDP)
    assert isinstance(wrapping.wrap(nn.Linear(2, 2)), nn.Linear)
    with rl.device("meta"):
        empty = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model = FSDP(empty, auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}), sync_module_states=True)
    assert model(rl.ones(1, 3)).shape == (1, 3)


def refuses(rank: int, size: int) -> None:
    frozen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    for call, error, words in (
        (lambda: FSDP(3), TypeError, "int"),
        (lambda: FSDP(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).half())), ValueError, "one dtype"),
        (lambda: FSDP(frozen), ValueError, "use_orig_params=True"),
        (lambda: FSDP(nn.Linear(1, 1), auto_wrap_policy=3), TypeError, "policy"),
        (lambda: FSDP(nn.Linear(1, 1), ignored_modules=[], ignored_states=[]), ValueError, "one of them"),
    ):
        with pytest.raises(error, match=words):
            call()
    FSDP(frozen, use_orig_params=True)(rl.ones(1, 2)).sum().backward()


def reduces(rank: int, size: int) -> None:
    """Gradients that a hook of the program's reduces."""
    world = dist.group.WORLD
    for strategy, plain, made_of in (
        (ShardingStrategy.FULL_SHARD, hooks.reduce_scatter_hook, {}),
        (ShardingStrategy.NO_SHARD, hooks.allreduce_hook, {}),
        (ShardingStrategy.FULL_SHARD, hooks.bf16_compress_hook, {"atol": 1e-2, "rtol": 1e-2}),
        (ShardingStrategy.NO_SHARD, hooks.fp16_compress_hook, {"atol": 1e-2, "rtol": 1e-2}),
    ):
        gradients = []
        for hook in (None, plain):
            model = FSDP(net(), auto_wrap_policy=BY_BLOCK, sharding_strategy=strategy, use_orig_params=True)
            if hook is not None:
                model.register_comm_hook(hooks.LowPrecisionState(world), hook)
            step_of(model, rank, size)
            gradients.append([p.grad for p in model.parameters() if p.grad is not None and p.grad.numel()])
        assert len(gradients[0]) > 3
        rl.testing.assert_close(gradients[1], gradients[0], **made_of)
    with pytest.raises(AssertionError, match="a hook already"):
        model.register_comm_hook(hooks.LowPrecisionState(world), plain)
    with pytest.raises(ValueError, match="must be a function"):
        model.register_comm_hook(None, 3)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "names", [["saves", "optimizer_states"], ["whole_inside", "in_halves"], ["chooses", "refuses"], ["reduces"]],
    ids=lambda names: "-".join(names),
)
def test_what_else_a_wrapper_can_do(names: list[str]) -> None:
    assert results_of(run(2, all_of, [globals()[name] for name in names])) == ["done"] * 2


def test_activations_are_computed_again() -> None:
    """Wrapped modules have the same names, results and gradients; alone and, below, in parts."""
    plain = net()
    loss_of(plain, *data(0, 2)).backward()
    expected = {n: p.grad for n, p in plain.named_parameters()}
    for impl in again.CheckpointImpl:
        model, calls = net(), []
        again.apply_activation_checkpointing(
            model, functools.partial(again.checkpoint_wrapper, checkpoint_impl=impl), lambda m: isinstance(m, Block)
        )
        assert isinstance(model.blocks[1], again.CheckpointWrapper)
        assert model.state_dict().keys() == plain.state_dict().keys()
        model.load_state_dict(plain.state_dict())
        model.blocks[1].up.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        loss_of(model, *data(0, 2)).backward()
        assert len(calls) == 2
        got = {n.replace("_checkpoint_wrapped_module.", ""): p.grad for n, p in model.named_parameters()}
        rl.testing.assert_close(got, expected)
    offloaded = again.offload_wrapper(net())
    assert [n for n, _ in offloaded.named_parameters()] == list(expected)


def again_in_parts(rank: int, size: int) -> str:
    plain = net()
    loss_of(plain, *data(0, size)).backward()
    model = FSDP(net(), auto_wrap_policy=BY_BLOCK, use_orig_params=True)
    again.apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, Block))
    step_of(model, rank, size)
    assert list(model.state_dict()) == list(plain.state_dict())
    with FSDP.summon_full_params(model, with_grads=True):
        rl.testing.assert_close({n: p.grad.clone() for n, p in model.named_parameters()},
                                {n: p.grad for n, p in plain.named_parameters()})
    return "done"


def test_activations_are_computed_again_in_parts() -> None:
    assert results_of(run(2, again_in_parts)) == ["done"] * 2
