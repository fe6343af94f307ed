"""GradScaler against PyTorch's, state for state."""

from __future__ import annotations

import pickle
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


class PlainSGD:
    """As much of an optimizer as a scaler needs."""

    def __init__(self, params, rate=0.1):
        self.param_groups, self.rate, self.steps = [{"params": list(params)}], rate, 0

    def step(self):
        self.steps += 1
        for p in self.param_groups[0]["params"]:
            p.data -= self.rate * p.grad
        return "stepped"


def states(space, gradients, **options):
    """The scaler's state and the parameter after each iteration."""
    scaler = space.amp.GradScaler("cpu", **options)
    weight = space.ones(2, requires_grad=True)
    optimizer = PlainSGD([weight])
    seen = []
    for g in gradients:
        weight.grad = None
        scaler.scale((weight * space.tensor([g, 1.0])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.state_dict(), weight.tolist(), optimizer.steps))
    return seen


@pytest.mark.parametrize("options", [
    {}, {"init_scale": 4.0, "growth_interval": 2}, {"init_scale": 2.0**127, "growth_interval": 1, "growth_factor": 4.0},
    {"init_scale": 8.0, "growth_factor": 1.5, "backoff_factor": 0.25, "growth_interval": 1}, {"enabled": False},
])
def test_states_equal_pytorchs(options):
    gradients = [1.0, 2.0, float("inf"), 0.5, float("nan"), 1.0, 3.0, 1e38, 1.0]
    assert str(states(rl, gradients, **options)) == str(states(torch, gradients, **options))


def test_unscale_before_clipping():
    scaler = rl.amp.GradScaler("cpu", init_scale=1024.0)
    weight = rl.ones(3, requires_grad=True)
    optimizer = PlainSGD([weight])
    scaler.scale((weight * 2).sum()).backward()
    assert weight.grad.tolist() == [2048.0] * 3
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()


def test_overflow_skips_the_step():
    scaler = rl.amp.GradScaler("cpu", init_scale=4.0)
    weight = rl.ones(2, requires_grad=True)
    optimizer = PlainSGD([weight])
    scaler.scale((weight * float("inf")).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert weight.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 2.0


def test_scale_keeps_containers():
    scaler = rl.amp.GradScaler("cpu", init_scale=2.0)
    x = rl.ones(1)
    a, (b, c) = scaler.scale([x, (x, x)])
    assert [t.item() for t in (a, b, c)] == [2.0, 2.0, 2.0]
    assert [t.item() for t in scaler.scale(x for _ in range(2))] == [2.0, 2.0]
    with pytest.raises(ValueError, match="iterable of Tensors"):
        scaler.scale(3)


def test_float16_parameters_are_refused():
    scaler = rl.amp.GradScaler("cpu", init_scale=2.0)
    weight = rl.ones(2, dtype=rl.float16, requires_grad=True)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(PlainSGD([weight]))


def test_sparse_gradients_are_unscaled():
    scaler = rl.amp.GradScaler("cpu", init_scale=8.0)
    table = rl.nn.Embedding(4, 2, sparse=True)
    scaler.scale(table(rl.tensor([1, 1])).sum()).backward()
    scaler.unscale_(PlainSGD(table.parameters()))
    assert table.weight.grad.to_dense().tolist()[1] == [2.0, 2.0]


def test_update_with_a_given_scale():
    scaler = rl.amp.GradScaler("cpu")
    scaler.scale(rl.ones(1))
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0
    scaler.update(rl.tensor([5.0]))
    assert scaler.get_scale() == 5.0
    with pytest.raises(AssertionError):
        scaler.update(rl.ones(2))
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_use_before_scaling_is_explained():
    scaler = rl.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="did not use scaler.scale"):
        scaler.step(PlainSGD([]))
    scaler.scale(rl.ones(1))
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(PlainSGD([]), closure=lambda: 1)


def test_state_dict_travels_both_ways():
    mine, theirs = rl.amp.GradScaler("cpu", init_scale=32.0), torch.amp.GradScaler("cpu")
    theirs.load_state_dict(mine.state_dict())
    assert theirs.get_scale() == 32.0
    theirs.update(8.0) if theirs._scale is not None else theirs.scale(torch.ones(1))
    mine.scale(rl.ones(1))
    mine.load_state_dict(theirs.state_dict())
    assert mine.state_dict() == theirs.state_dict()
    again = pickle.loads(pickle.dumps(mine))
    assert again.state_dict() == mine.state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        mine.load_state_dict({})


def test_cuda_scaler_is_disabled_with_a_warning():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = rl.amp.GradScaler()
    assert not scaler.is_enabled()
    assert scaler.get_scale() == 1.0
    x = rl.ones(1)
    assert scaler.scale(x) is x
    assert scaler.state_dict() == {}
    assert scaler.step(PlainSGD([])) == "stepped"


def test_fused_optimizers_are_handed_the_scale():
    class Fused(PlainSGD):
        _step_supports_amp_scaling = True

        def step(self):
            self.seen = (self.grad_scale.item(), self.found_inf.item())

    weight = rl.ones(2, requires_grad=True)
    scaler, optimizer = rl.amp.GradScaler("cpu", init_scale=16.0), Fused([weight])
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.seen == (16.0, 0.0)
    assert weight.grad.tolist() == [16.0, 16.0]
    assert not hasattr(optimizer, "grad_scale")


def test_training_with_the_scaler_follows_pytorch():
    def run(space):
        space.manual_seed(0)
        model = space.nn.Sequential(space.nn.Linear(4, 8), space.nn.ReLU(), space.nn.Linear(8, 1))
        scaler, optimizer = space.amp.GradScaler("cpu", init_scale=256.0), PlainSGD(model.parameters())
        x = space.linspace(-1, 1, 32).reshape(8, 4)
        losses = []
        for _ in range(5):
            model.zero_grad()
            with space.autocast("cpu", dtype=space.float16):
                loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = run(rl)
    assert mine == pytest.approx(run(torch), rel=0.02)


@pytest.mark.parametrize("way", [{}, {"foreach": True}, {"fused": True}])
def test_real_optimizers_step_as_in_pytorch(way):
    def run(space):
        space.manual_seed(0)
        model = space.nn.Linear(3, 2)
        optimizer = space.optim.AdamW(model.parameters(), lr=0.1, **way)
        scaler = space.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
        x = space.linspace(-1, 1, 12).reshape(4, 3)
        for i in range(5):
            optimizer.zero_grad()
            scaler.scale((model(x) * (float("inf") if i == 2 else 1.0)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        return model.weight.flatten().tolist(), scaler.state_dict()

    (weights, state), (expected, their_state) = run(rl), run(torch)
    assert weights == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert state == their_state


def test_the_cuda_names_warn_and_do_nothing():
    with pytest.warns(FutureWarning), rl.cuda.amp.autocast():
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.float32
    with pytest.warns(FutureWarning):
        assert not rl.cuda.amp.GradScaler().is_enabled()
    assert rl.cuda.amp.common.amp_definitely_not_available()
