"""A captured function follows what changes outside: each change fails a guard, and it is captured anew."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable

import pytest

import rushlight as torch
from rushlight import nn

from .conformance import harness

FACTOR = 2


def captured(function: Callable) -> Callable:
    return torch.compile(function, backend="eager", fullgraph=True)


LIMITS = {"low": 1, "high": 2}
ORDER = ["a", "b"]


class Settings:
    gain = 3

    def __init__(self) -> None:
        self.shift = 1

    def apply(self, x):
        return x * self.gain + self.shift


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.flag = True

    def forward(self, x):
        return self.inner(x) if self.flag else x


def follows(function: Callable, change: Callable[[], None], undo: Callable[[], None], *args) -> None:
    """Run captured, change something, run again: each time as the function itself."""
    made = captured(function)
    try:
        for _ in range(2):
            harness.assert_same(harness.frozen(made(*args)), harness.frozen(function(*args)), "before")
        change()
        harness.assert_same(harness.frozen(made(*args)), harness.frozen(function(*args)), "after")
    finally:
        undo()
    harness.assert_same(harness.frozen(made(*args)), harness.frozen(function(*args)), "again")


X = torch.arange(12.0).reshape(3, 4)


def set_global(name, value):
    return lambda: globals().__setitem__(name, value)


def uses_global(x):
    return x * FACTOR


def uses_dict(x):
    return x + sum(v for k, v in LIMITS.items() if k != "none")


def uses_list(x):
    return x * len(ORDER), "".join(ORDER)


def uses_object(x, s):
    return s.apply(x)


def uses_module(x, m):
    return m(x)


def uses_grad_mode(x):
    return x * 2, torch.is_grad_enabled()


def uses_builtin(x):
    return x * len(ORDER)


def test_global_number():
    follows(uses_global, set_global("FACTOR", 5), set_global("FACTOR", 2), X)


@pytest.mark.parametrize("change", [lambda: LIMITS.update(low=9), lambda: LIMITS.update(new=4)])
def test_global_dict(change):
    follows(uses_dict, change, lambda: (LIMITS.clear(), LIMITS.update(low=1, high=2)), X)


@pytest.mark.parametrize("change", [lambda: ORDER.append("c"), ORDER.reverse])
def test_global_list(change):
    follows(uses_list, change, lambda: ORDER.__setitem__(slice(None), ["a", "b"]), X)


def test_attribute_of_an_object():
    s = Settings()
    follows(uses_object, lambda: setattr(s, "shift", 8), lambda: setattr(s, "shift", 1), X, s)


def test_attribute_of_a_class():
    s = Settings()
    follows(uses_object, lambda: setattr(Settings, "gain", 8), lambda: setattr(Settings, "gain", 3), X, s)


def test_instance_attribute_over_a_class_attribute():
    s = Settings()
    follows(uses_object, lambda: setattr(s, "gain", 8), lambda: delattr(s, "gain"), X, s)


def test_method_exchanged_on_the_class():
    s, old = Settings(), Settings.apply
    follows(uses_object, lambda: setattr(Settings, "apply", lambda self, x: x - 1),
            lambda: setattr(Settings, "apply", old), X, s)


def test_method_exchanged_on_the_object():
    s = Settings()
    follows(uses_object, lambda: setattr(s, "apply", lambda x: x - 1), lambda: delattr(s, "apply"), X, s)


def test_flag_of_a_module():
    m = Net()
    follows(uses_module, lambda: setattr(m, "flag", False), lambda: setattr(m, "flag", True), X, m)


def test_hook_added_to_a_submodule():
    m, handles = Net(), []
    follows(uses_module, lambda: handles.append(m.inner.register_forward_hook(lambda mod, a, out: out * 2)),
            lambda: handles.pop().remove(), X, m)


def test_forward_exchanged_on_a_submodule():
    m = Net()
    follows(uses_module, lambda: setattr(m.inner, "forward", torch.relu), lambda: delattr(m.inner, "forward"), X, m)


def test_submodule_exchanged():
    m = Net()
    old = m.inner
    follows(uses_module, lambda: setattr(m, "inner", nn.Tanh()), lambda: setattr(m, "inner", old), X, m)


def test_parameter_written_to_without_a_new_capture():
    m = Net()
    made = captured(uses_module)
    made(X, m)
    with torch.no_grad():
        m.inner.weight.mul_(2)
    torch.testing.assert_close(made(X, m), m(X))


def test_parameter_frozen():
    m = Net()
    follows(uses_module, lambda: m.inner.weight.requires_grad_(False), lambda: m.inner.weight.requires_grad_(), X, m)


def test_training_flag():
    m = nn.Dropout(1.0)
    follows(uses_module, m.eval, m.train, X, m)


def test_grad_mode():
    made = captured(uses_grad_mode)
    x = X.clone().requires_grad_()
    assert made(x)[0].requires_grad
    with torch.no_grad():
        assert not made(x)[0].requires_grad and made(x)[1] is False
    assert made(x)[0].requires_grad


def test_builtin_hidden_by_a_global():
    follows(uses_builtin, set_global("len", lambda v: 100), lambda: globals().pop("len"), X)


def test_closure_variable():
    k = 2

    def scaled(x):
        return x * k

    def change():
        nonlocal k
        k = 7

    def undo():
        nonlocal k
        k = 2

    follows(scaled, change, undo, X)


@pytest.mark.parametrize("other", [torch.ones(2, 4), torch.ones(3, 4, dtype=torch.float64), torch.ones(4, 3).t(),
                                   torch.ones(3, 4).requires_grad_(), nn.Parameter(torch.ones(3, 4))])
def test_other_tensors(other):
    def function(x):
        return x.reshape(-1) * x.shape[0], x.dtype, x.is_contiguous(), x.requires_grad, isinstance(x, nn.Parameter)

    made = captured(function)
    for x in (X, other, X, other):
        harness.assert_same(harness.frozen(made(x)), harness.frozen(function(x)), "")


def test_other_types_of_numbers():
    def function(x, n):
        return x * n, type(n).__name__

    made = captured(function)
    for n in (1, 1.0, True, 2, 1):
        harness.assert_same(harness.frozen(made(X, n)), harness.frozen(function(X, n)), repr(n))


def test_aliased_arguments():
    def function(a, b):
        a.append(1)
        return X * len(b), a is b

    made = captured(function)
    one: list = []
    assert made([], [])[1] is False
    assert made(one, one)[1] is True and one == [1]
    assert made([], [])[1] is False


def test_aliased_tensors():
    def function(a, b):
        a.add_(1)
        return b * 2, a is b

    made = captured(function)
    for _ in range(2):
        a, b = torch.zeros(2), torch.zeros(2)
        assert made(a, b)[0].sum() == 0 and made(a, a)[1] is True and made(a, a)[0].sum() == 12


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_loss_behind_its_backward(backend: str) -> None:
    """It wants a gradient, and a second backward() is an error; what kept its tape can go back again."""
    def step(x, retain):
        loss = (x * x).exp().sum()
        loss.backward(retain_graph=retain)
        return loss

    run = torch.compile(step, backend=backend)
    x = torch.ones(3, requires_grad=True)
    loss = run(x, False)
    assert loss.requires_grad and not loss.is_leaf
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    first = x.grad.clone()
    run(x, True).backward()
    torch.testing.assert_close(x.grad, 3 * first)


def test_hooks_added_later_are_called() -> None:
    run = torch.compile(lambda x: (x * 2).sum().backward(), backend="eager")
    x = torch.ones(2, requires_grad=True)
    run(x)
    x.grad = None
    x.register_hook(lambda g: g * 5)
    run(x)
    torch.testing.assert_close(x.grad, torch.full((2,), 10.0))


@pytest.mark.filterwarnings("error:.*op by op")
def test_detached_results_are_compiled() -> None:
    run = torch.compile(lambda x: (x.sin() * 2).detach(), fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(run(x), (x.sin() * 2).detach())


def test_captured_under_a_profiler() -> None:
    """Capture watches calls itself; a profiler that is on stays on."""
    import cProfile

    run = torch.compile(lambda x: sum([x * i for i in range(3)]) + len(str(sorted([2, 1]))), backend="eager")
    profiler = cProfile.Profile()
    x = torch.ones(2)
    assert profiler.runcall(run, x).tolist() == [9.0, 9.0]
    profiler.create_stats()
    assert any("interpreter.py" in key[0] for key in profiler.stats)


def test_objects_that_were_two_may_be_one_in_the_next_call() -> None:
    class Thing:
        pass

    def same(x, a, b):
        return x + 1 if a is b else x

    def equal(x, a, b):
        return x + 1 if a == b else x

    def within(x, a, b):
        return x + 1 if a in [b] else x

    def by_id(x, a, b):
        return x + 1 if id(a) in {id(b): 0} else x

    for function in (same, equal, within, by_id):
        run = torch.compile(function, backend="eager", fullgraph=True)
        one, other = Thing(), Thing()
        assert run(torch.zeros(1), one, other).item() == 0.0
        assert run(torch.zeros(1), one, one).item() == 1.0, function.__name__


def test_variables_of_the_environment_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x):
        return x * float(os.environ.get("SCALE_OF_A_TEST", "2"))

    run = torch.compile(scaled, backend="eager", fullgraph=True)
    assert run(torch.ones(1)).item() == 2.0
    monkeypatch.setenv("SCALE_OF_A_TEST", "5")
    assert run(torch.ones(1)).item() == 5.0


def test_a_loop_with_a_break_is_compiled_once_for_all_lists() -> None:
    def loop(x, values):
        for value in values:
            x = x + value
            torch._dynamo.graph_break()
            x = x * 2
        return x

    torch._dynamo.utils.counters.clear()
    run = torch.compile(loop, backend="eager")
    run(torch.ones(2), [torch.ones(2)] * 3)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for k in range(4):
        values = [torch.full((2,), float(k))] * 3
        assert torch.equal(run(torch.ones(2), values), loop(torch.ones(2), values))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


def test_functions_registered_later_are_dispatched_to() -> None:
    @functools.singledispatch
    def scale(value, x):
        return x

    def f(x):
        return scale(3, x)

    run = torch.compile(f, backend="eager", fullgraph=True)
    assert run(torch.ones(1)).item() == 1.0
    scale.register(int, lambda value, x: x * value)
    assert run(torch.ones(1)).item() == 3.0


def test_a_class_made_inside_is_another_one_each_time() -> None:
    def f(x):
        class Local:
            factor = 2

        return x * Local.factor, Local

    run = torch.compile(f, backend="eager")
    (first, a), (_, b) = run(torch.ones(1)), run(torch.ones(1))
    assert first.item() == 2.0 and a is not b and a.__name__ == "Local"


def test_warnings_in_a_block_are_said_in_it() -> None:
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not heard", stacklevel=1)
        warnings.warn("heard", stacklevel=1)
        return x * 2

    run = torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run(torch.ones(1))
        assert [str(w.message) for w in said] == ["heard"]


def test_custom_ops_are_nodes() -> None:
    @torch.library.custom_op("capture_guards::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_fake
    def _(x):
        return torch.empty_like(x)

    seen = []

    def backend(graph, inputs):
        seen.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    def f(x):
        return double(x) + 1

    assert torch.compile(f, backend=backend, fullgraph=True)(torch.ones(1)).item() == 3.0
    assert any("capture_guards::double" in name for name in seen[0])


def test_custom_ops_that_read_elements_have_symbolic_sizes_by_their_fakes() -> None:
    @torch.library.custom_op("capture_guards::in_groups", mutates_args=())
    def in_groups(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:end].sum(0) for end in ends.tolist()])

    in_groups.register_fake(lambda x, ends: x.new_empty(ends.shape[0], x.shape[1]))
    compiled = torch.compile(lambda x, ends: in_groups(x * 2, ends) + 1, fullgraph=True, dynamic=True)
    for rows, ends in ((5, [2, 5]), (7, [1, 2, 7]), (9, [3, 3, 4, 9])):
        x, given = torch.randn(rows, 3), torch.tensor(ends)
        torch.testing.assert_close(compiled(x, given), in_groups(x * 2, given) + 1)


def test_iterators_from_outside_are_drawn_from_again() -> None:
    def f(x, numbers):
        x = x * next(numbers)
        for n in numbers:
            if n > 2:
                break
            x = x + n
        return x

    run = torch.compile(f, backend="eager", fullgraph=True)
    for members in ([1, 2, 3, 4], [1, 2, 3, 4], [5, 1], [1, 2, 3, 4, 5]):
        a, b = iter(members), iter(members)
        assert torch.equal(run(torch.ones(1), a), f(torch.ones(1), b)) and list(a) == list(b)


def test_iterators_that_share_what_they_draw_from() -> None:
    def f(x, pairs, numbers, values):
        values.append(7)
        total = x
        for i, n in pairs:
            total = total * n + i + next(numbers, 0)
        return total, list(numbers), len(values)

    run = torch.compile(f, backend="eager")
    for is_shared in (False, True, False):
        for is_list in (False, True):
            found = []
            for function in (run, f):
                members = [1, 2, 3, 4]
                numbers = iter(members)
                pairs = enumerate(numbers if is_shared else iter([1, 2]))
                found.append(function(torch.ones(1), pairs, numbers, members if is_list else [1]))
            assert torch.equal(found[0][0], found[1][0]) and found[0][1:] == found[1][1:], (is_shared, is_list)
