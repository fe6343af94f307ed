"""The base class: groups, names, hooks, closures, state dicts, pickles, and optimizers written outside."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import optim
from rushlight.optim.optimizer import (
    Optimizer,
    _use_grad_for_differentiable,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


def params(count: int = 2) -> list[rl.Tensor]:
    rl.manual_seed(0)
    result = [rl.nn.Parameter(rl.randn(3, 2)) for _ in range(count)]
    for p in result:
        p.grad = rl.randn(3, 2)
    return result


def test_groups_take_defaults_and_names() -> None:
    a, b = params()
    optimizer = optim.SGD([{"params": [("a", a)], "lr": 0.5}, {"params": [("b", b)]}], lr=0.1, momentum=0.9)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    assert [g["param_names"] for g in optimizer.param_groups] == [["a"], ["b"]]
    assert optimizer.state_dict()["param_groups"][1]["params"] == [1]
    assert optimizer.state_dict()["param_groups"][1]["param_names"] == ["b"]


@pytest.mark.parametrize(("make", "error"), [
    (lambda p: optim.SGD([]), ValueError),
    (lambda p: optim.SGD(p[0]), TypeError),
    (lambda p: optim.SGD([{"params": set(p)}]), TypeError),
    (lambda p: optim.SGD([1.0]), TypeError),
    (lambda p: optim.SGD([p[0] * 2]), ValueError),
    (lambda p: optim.SGD([{"params": [p[0]]}, {"params": [p[0]]}]), ValueError),
    (lambda p: optim.SGD([("a", p[0]), p[1]]), ValueError),
    (lambda p: optim.SGD([{"params": [("a", p[0])]}, {"params": [p[1]]}]), ValueError),
    (lambda p: optim.SGD(p, fused=True, foreach=True), RuntimeError),
    (lambda p: optim.SGD(p, fused=True, differentiable=True), RuntimeError),
    (lambda p: Optimizer(p, {"lr": optim.optimizer.required}), ValueError),
])
def test_refused(make, error) -> None:
    with pytest.raises(error):
        make(params())


def test_repeated_parameter_is_updated_twice_after_a_warning() -> None:
    p = params(1)[0]
    before, grad = p.detach().clone(), p.grad
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=0.1)
    optimizer.step()
    assert rl.allclose(p, before - 0.2 * grad)


def test_add_param_group_while_training() -> None:
    a, b = params()
    optimizer = optim.AdamW([a], lr=0.1)
    optimizer.step()
    optimizer.add_param_group({"params": b, "lr": 0.01})
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2 and optimizer.state[b]["step"].item() == 1
    with pytest.raises(TypeError):
        optimizer.add_param_group([b])


def test_zero_grad() -> None:
    ps = params()
    optimizer = optim.SGD(ps, lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert all(float(p.grad.abs().sum()) == 0 for p in ps)
    optimizer.zero_grad()
    assert all(p.grad is None for p in ps)
    optimizer.step()   # nothing to do


def test_closure_runs_with_grad_and_its_loss_is_returned() -> None:
    p = params(1)[0]
    optimizer = optim.Adam([p], lr=0.1)

    def closure() -> rl.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with rl.no_grad():
        first, second = optimizer.step(closure), optimizer.step(closure)
    assert second < first


def test_step_hooks_in_order_and_with_new_arguments() -> None:
    p = params(1)[0]
    optimizer, calls = optim.SGD([p], lr=0.1), []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("pre")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("post")),
        register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append("global pre")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append("global post")),
    ]
    optimizer.step()
    assert calls == ["global pre", "pre", "post", "global post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: 7}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 1)
    with pytest.raises(RuntimeError):
        optimizer.step()


def test_state_dict_hooks() -> None:
    optimizer, calls = optim.SGD(params(), lr=0.1), []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("pre"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: calls.append("first"), prepend=True)
    saved = optimizer.state_dict()
    assert calls == ["pre", "first"] and saved["more"] == 1
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append("load pre"))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("load post"))
    optimizer.load_state_dict(saved)
    assert calls[2:] == ["load pre", "load post"]


def test_loaded_state_continues_the_same_training() -> None:
    ps = params()
    optimizer = optim.AdamW(ps, lr=0.1)
    optimizer.step()
    others = copy.deepcopy(ps)
    for p, q in zip(ps, others, strict=True):
        q.grad = p.grad.clone()
    other = optim.AdamW(others, lr=1.0)
    other.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    assert other.param_groups[0]["lr"] == 0.1
    optimizer.step()
    other.step()
    assert all(rl.equal(p, q) for p, q in zip(ps, others, strict=True))


def test_load_state_dict_refuses_other_groups() -> None:
    optimizer = optim.SGD(params(2), lr=0.1)
    with pytest.raises(ValueError, match="size"):
        optimizer.load_state_dict(optim.SGD(params(1), lr=0.1).state_dict())
    with pytest.raises(ValueError, match="number"):
        optimizer.load_state_dict(optim.SGD([{"params": [p]} for p in params(2)], lr=0.1).state_dict())


def test_state_of_older_versions_loads() -> None:
    """Step counts that are numbers, and groups without later options."""
    p = params(1)[0]
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"] = 1
    for key in ("maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"):
        del saved["param_groups"][0][key]
    other = optim.Adam([p], lr=0.1)
    other.load_state_dict(saved)
    other.step()
    assert other.state[p]["step"].item() == 2


def test_pickle_and_deepcopy_of_optimizers() -> None:
    for name, kwargs in (("SGD", {"momentum": 0.9}), ("AdamW", {}), ("Rprop", {}), ("LBFGS", {})):
        optimizer = getattr(optim, name)(params(), **kwargs)
        for other in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
            assert repr(other) == repr(optimizer)
            p = other.param_groups[0]["params"][0]
            p.grad = rl.ones(3, 2)
            before = p.detach().clone()
            other.step(lambda p=p: (p.detach() ** 2).sum())
            assert not rl.equal(p, before)


def test_optimizers_written_outside() -> None:
    class Halve(Optimizer):
        def __init__(self, params, lr: float = 0.5) -> None:
            super().__init__(params, {"lr": lr, "differentiable": False})

        @_use_grad_for_differentiable
        def step(self, closure=None):
            assert not rl.is_grad_enabled()
            for group in self.param_groups:
                for p in group["params"]:
                    p.mul_(group["lr"])
                    self.state[p]["seen"] = self.state[p].get("seen", 0) + 1

    p = params(1)[0]
    before = p.detach().clone()
    optimizer, calls = Halve([p]), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert rl.equal(p, before * 0.5) and calls == [1] and optimizer.state_dict()["state"] == {0: {"seen": 1}}
    assert rl.is_grad_enabled() and Halve.step.hooked


def test_repr_lists_options() -> None:
    text = repr(optim.SGD(params(), lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n") and text.endswith("    weight_decay: 0\n)")
    several = repr(optim.SGD([{"params": params()}, {"params": params()}], lr=0.1))
    assert "\n\nParameter Group 1\n" in several and "(\nParameter Group 0" in several


def test_former_names_of_foreach_optimizers() -> None:
    from rushlight.optim import _multi_tensor

    optimizer = _multi_tensor.AdamW(params(), lr=0.1)
    assert isinstance(optimizer, optim.AdamW) and optimizer.defaults["foreach"] is True


def test_swapped_in_parameters_and_state() -> None:
    p = params(1)[0]
    optimizer = optim.AdamW([p], lr=0.1)
    optimizer.step()
    saved, kept = copy.deepcopy(optimizer.state_dict()), p.detach().clone()
    other = p.detach().clone()
    other.grad = p.grad
    with optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, saved):
        optimizer.step()
    assert rl.equal(p, kept) and not rl.equal(other, kept)
    assert optimizer.state[p]["step"].item() == 1 and optimizer.param_groups[0]["params"][0] is p
    with pytest.raises(RuntimeError), optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, {"state": {}}):
        pass
