"""`compile()`: when it captures anew, what it hands to backends,
what it refuses and where it runs programs as they are."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo import exc


class Counting:
    """A backend that counts graphs."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        self.inputs = example_inputs
        return gm.forward


def test_captured_once_for_each_kind_of_arguments() -> None:
    backend = Counting()
    f = rl.compile(lambda x, n=1, flag=True: x * n if flag else x + n, backend=backend, fullgraph=True, dynamic=False,
                   recompile_limit=20)
    calls = [
        (rl.ones(2),), (rl.zeros(2),), (rl.ones(3),), (rl.ones(2, dtype=rl.float64),), (rl.ones(2, 2),),
        (rl.ones(2, 2).t(),), (rl.ones(4, 2)[::2],), (rl.ones(2, requires_grad=True),), (rl.ones(2), 2),
        (rl.ones(2), 2.0), (rl.ones(2), 2, False),
    ]
    counts = []
    for args in calls:
        f(*args)
        counts.append(len(backend.graphs))
    # Of a transposed square and a strided slice the strides differ from a contiguous tensor's.
    assert counts == [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    for args in calls:
        f(*args)
    assert len(backend.graphs) == 10
    assert f(rl.ones(2), 3, flag=False).tolist() == [4.0, 4.0]


def test_backend_gets_a_graph_of_ops_and_examples() -> None:
    backend = Counting()
    net = nn.Linear(3, 2)
    rl.compile(net, backend=backend, fullgraph=True)(rl.ones(1, 3))
    (gm,) = backend.graphs
    assert isinstance(gm, rl.fx.GraphModule)
    assert next(n.target for n in gm.graph.nodes if n.op == "call_function") is nn.functional.linear
    assert sorted(tuple(t.shape) for t in backend.inputs) == [(1, 3), (2,), (2, 3)]


def test_registered_backend_by_name() -> None:
    backend = Counting()
    rl._dynamo.register_backend(backend, name="counting_backend_of_a_test")
    rl.compile(lambda x: x + 1, backend="counting_backend_of_a_test")(rl.ones(1))
    assert len(backend.graphs) == 1


def test_a_backend_that_fails_says_which() -> None:
    def broken(gm: Any, inputs: Any) -> Any:
        raise KeyError("no such thing")

    with pytest.raises(exc.BackendCompilerFailed, match=r"(?s)broken.*no such thing"):
        rl.compile(lambda x: x + 1, backend=broken)(rl.ones(1))


def test_parameters_are_read_at_each_call() -> None:
    net = nn.Linear(2, 2, bias=False)
    run = rl.compile(net, fullgraph=True, backend="aot_eager")
    x = rl.ones(1, 2)
    run(x)
    with rl.no_grad():
        net.weight.mul_(2)
    assert rl.equal(run(x), net(x))
    net.weight = nn.Parameter(rl.ones(2, 2))
    assert rl.equal(run(x), net(x))
    net.weight.requires_grad_(False)
    assert not run(x).requires_grad
    net.double()
    assert run(x.double()).dtype is rl.float64


def test_modules_that_functions_refer_to() -> None:
    net = nn.Linear(2, 1)
    optimizer = rl.optim.SGD(net.parameters(), lr=0.05)

    @rl.compile(fullgraph=True, backend="aot_eager")
    def loss(x: Any) -> Any:
        return net(x).square().sum()

    x, values = rl.ones(1, 2), []
    for _ in range(3):
        optimizer.zero_grad()
        expected = rl.autograd.grad(net(x).square().sum(), net.weight)[0]
        value = loss(x)
        value.backward()
        assert rl.equal(net.weight.grad, expected)
        optimizer.step()
        values.append(value.item())
    assert values[2] <= values[1] <= values[0]


def _reads_elements(x: Any) -> Any:
    if x.sum() > 0:      # this line decides by elements
        return x * 2
    return x[:1] - 1      # other sizes: no `where` can choose


def test_programs_that_read_elements(without_suppositions: None) -> None:
    with pytest.raises(exc.Unsupported, match=r"(?s)test_compile_front\.py:\d+.*if x\.sum\(\) > 0.*torch\.where"):
        rl.compile(_reads_elements, fullgraph=True)(rl.ones(2))
    backend = Counting()
    f = rl.compile(_reads_elements, backend=backend)
    for _ in range(2):
        assert f(rl.ones(2)).tolist() == [2.0, 2.0]
        assert f(-rl.ones(2)).tolist() == [-2.0]
    assert len(backend.graphs) == 3      # up to the question, and each of its ways


def test_state_kept_in_attributes_is_not_lost() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.seen = 0, []

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen.append(x)
            return x + self.calls

    net = Counter()
    run = rl.compile(net, fullgraph=True)
    assert [run(rl.zeros(1)).item() for _ in range(3)] == [1, 2, 3]
    assert net.calls == 3 and [type(t) for t in net.seen] == [rl.Tensor] * 3


def test_backward_inside() -> None:
    net = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        loss = net(x).sum()
        loss.backward()
        return loss.detach()

    rl.compile(step, fullgraph=True)(rl.ones(1, 2))
    assert net.weight.grad.tolist() == [[1.0, 1.0]]
    rl.compile(step)(rl.ones(1, 2))
    assert net.weight.grad.tolist() == [[2.0, 2.0]]


def test_activations_kept_by_hooks_are_real() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    kept: list[Any] = []
    net[0].register_forward_hook(lambda module, args, result: kept.append(result))
    run = rl.compile(net, backend="aot_eager")
    run(rl.ones(1, 2))
    run(rl.ones(1, 2))
    assert [type(t) for t in kept] == [rl.Tensor, rl.Tensor]
    assert rl.equal(kept[0], net[0].forward(rl.ones(1, 2)))


def test_errors_of_the_program_are_its_own() -> None:
    f = rl.compile(lambda x, y: x @ y, backend="aot_eager")
    with pytest.raises(RuntimeError, match="inner sizes|shapes|matmul"):
        f(rl.ones(2, 3), rl.ones(2, 3))
    assert f(rl.ones(2, 3), rl.ones(3, 1)).shape == (2, 1)
    with pytest.raises(ZeroDivisionError):
        rl.compile(lambda x: x * (1 / 0))(rl.ones(1))


def test_compiled_in_compiled_and_in_transforms() -> None:
    inner = rl.compile(lambda x: x.sin(), backend="aot_eager", fullgraph=True)
    outer = rl.compile(lambda x: inner(x) * 2, backend="aot_eager", fullgraph=True)
    x = rl.ones(2)
    assert rl.equal(outer(x), x.sin() * 2)
    assert rl.equal(rl.func.grad(lambda t: inner(t).sum())(x), x.cos())
    assert rl.equal(rl.func.vmap(inner)(x), x.sin())


def test_is_compiling_is_seen_inside() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(rl.compiler.is_compiling())
        return x + 1

    rl.compile(f, backend="aot_eager", fullgraph=True)(rl.ones(1))
    assert seen == [True] and not rl.compiler.is_compiling()


def test_stance_and_disabled() -> None:
    backend = Counting()
    f = rl.compile(lambda x: x + 1, backend=backend)
    with rl.compiler.set_stance("force_eager"):
        f(rl.ones(1))
    rl.compile(lambda x: x + 1, backend=backend, disable=True)(rl.ones(1))
    assert not backend.graphs


def test_tensor_subclasses_are_captured() -> None:
    class Loud(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.ones(2).as_subclass(Loud)
    result = rl.compile(lambda x: x + 1, fullgraph=True)(x)
    assert type(result) is Loud and result.tolist() == [2.0, 2.0]
    closed = rl.ones(2).to_sparse()
    with pytest.raises(exc.Unsupported, match="rules of its own"):
        rl.compile(lambda x: x + x, fullgraph=True)(closed)


def test_captured_as_often_as_allowed() -> None:
    backend = Counting()
    f = rl.compile(lambda x: x * 2, backend=backend, recompile_limit=2, dynamic=False)
    f(rl.ones(1)), f(rl.ones(2))
    with pytest.warns(UserWarning, match="recompile_limit"):
        assert f(rl.ones(3)).tolist() == [2.0] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(rl.ones(4)), f(rl.ones(1))
    assert len(backend.graphs) == 2
    strict = rl.compile(lambda x: x * 2, backend=backend, recompile_limit=1, fullgraph=True)
    strict(rl.ones(1))
    with pytest.raises(exc.FailOnRecompileLimitHit):
        strict(rl.ones(2))
    rl.compiler.reset()
    assert strict(rl.ones(2)).tolist() == [2.0, 2.0] and len(backend.graphs) == 4


def test_options_that_nobody_has_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no_such_option"):
        rl.compile(lambda x: x, backend="inductor", options={"no_such_option": 1})(rl.ones(1))
    with pytest.raises(RuntimeError, match="for the backend 'inductor'"):
        rl.compile(lambda x: x, backend="aot_eager", options={"prepare_weights": False})(rl.ones(1))
    with pytest.raises(NotImplementedError, match="shapes_spec"):
        rl.compile(lambda x: x, shapes_spec={})
    assert rl.compile(lambda x: x + 1, backend="inductor", options={"prepare_weights": False})(rl.ones(1)).item() == 2


def test_arguments_without_effect_say_so() -> None:
    with pytest.warns(UserWarning, match="max-autotune.*no modes"):
        run = rl.compile(lambda x: x * 2, mode="max-autotune", backend="aot_eager")
    assert run(rl.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="isolate_recompiles"):
        rl.compile(lambda x: x, isolate_recompiles=True)
    with pytest.raises(TypeError, match="guard_export_fn"):
        rl._dynamo.optimize("eager", guard_export_fn=None)


def test_an_inductor_that_cannot_be_imported_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "rushlight.inductor.compile_fx", None)
    compiled = rl.compile(lambda x: x.sin() + 1, options={"cache_graphs": False})
    with pytest.raises(ImportError, match="compile_fx"):
        compiled(rl.ones(3))
