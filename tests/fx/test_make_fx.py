"""make_fx: graphs of what really runs, forward and backward, compute what the function computes,
on other inputs too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.fake import FakeTensor, FakeTensorMode
from rushlight.func import functional_call, grad, hessian, jacrev, jvp, vmap
from rushlight.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_isolated_graphmodule,
    get_proxy_mode,
    make_fx,
    selective_decompose,
)
from rushlight.inductor import compile_graph
from rushlight.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.share(2)   # of each test that has several cases

MODES = ("real", "fake", "symbolic")


def tensors(tree: Any) -> list[Any]:
    return [x for x in rl.utils._pytree.tree_leaves(tree) if isinstance(x, rl.Tensor)]


def agree(got: Any, expected: Any) -> None:
    for a, b in zip(tensors(got), tensors(expected), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert rl.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def inplace(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y[0] = 3
    y[:, 1] += x[:, 0]
    z = y.view(-1)
    z.sub_(1)
    return y, z.sum()


def outside(x):
    result = rl.zeros(3)
    result[1] = 2.0
    result += x.sum()
    return result + rl.tensor([1.0, 2.0, 3.0]) + rl.arange(3) + rl.ones_like(result)


FUNCTIONS: dict[str, Callable] = {
    "pointwise": lambda x: (x.sin() * 2 + x.exp() / 3 - 1).relu().tanh(),
    "reductions": lambda x: (x.sum(0), x.mean(1, keepdim=True), x.amax(), x.var(0), x.prod(), x.logsumexp(1),
                             x.max(1)[0]),
    "views": lambda x: (x.t().reshape(-1)[1:4], x[None, :, 0], x.expand(2, *x.shape).transpose(0, 1), x.split(1),
                        x.unsqueeze(1).squeeze(1)),
    "indexing": lambda x: (x[rl.tensor([1, 0])], x[x > 0].sum(), rl.where(x > 0, x, -x),
                           x.gather(1, rl.tensor([[0], [1]]))),
    "matrices": lambda x: (x @ x.t(), rl.einsum("ij,kj->ik", x, x), rl.addmm(x.sum(1), x, x.t()),
                           rl.linalg.inv(x @ x.t() + rl.eye(2))),
    "in place": inplace,
    "made outside": outside,
    "normalizing": lambda x: (F.softmax(x, 1), F.layer_norm(x, (3,)), F.log_softmax(x, 0), F.normalize(x)),
    "losses": lambda x: (F.cross_entropy(x, rl.tensor([0, 2])), F.mse_loss(x, x * 2),
                         F.binary_cross_entropy_with_logits(x, x.sigmoid().detach())),
    "containers": lambda x: {"a": [x + 1, (x * 2, None)], "b": 3},
    "the same twice": lambda x: (x, x, x + 0),
    "convolution": lambda x: F.max_pool2d(F.conv2d(x.reshape(1, 1, 2, 3), rl.ones(2, 1, 2, 2)), (1, 2)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "casts": lambda x: (x.double().sum(), x.to(rl.int64), x.half().float()),
    "grad": grad(lambda x: (x.sin() * x).sum()),
    "second grad": grad(lambda x: grad(lambda y: (y**3).sum())(x).sum()),
    "jacobian": jacrev(lambda x: x.sin() @ x.t()),
    "hessian": hessian(lambda x: (x**3).sum()),
    "jvp": lambda x: jvp(lambda y: (y * y).sum(1), (x,), (rl.ones_like(x),)),
    "vmap": vmap(lambda row: row.softmax(-1) * row.sum() + row.max()),
    "vmap of grad": vmap(grad(lambda row: (row.sin() * row).sum())),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_graph_computes_the_function(name: str, mode: str) -> None:
    f = FUNCTIONS[name]
    if mode != "real" and name == "indexing":
        pytest.skip("a mask's count of elements is data")
    rl.manual_seed(0)
    x, other = rl.randn(2, 3), rl.randn(2, 3)
    result = make_fx(f, tracing_mode=mode)(x)
    result.graph.lint()
    for given in (x, other):
        agree(result(given.clone()), f(given.clone()))
    agree(rl.fx.Interpreter(result).run(other.clone()), f(other.clone()))


@pytest.mark.parametrize(
    "name", ["pointwise", "views", "normalizing", "matrices", "reductions", "grad", "vmap of grad"]
)
def test_backward_through_the_graph(name: str) -> None:
    f = FUNCTIONS[name]
    x = rl.randn(2, 3, requires_grad=True)
    result = make_fx(f)(x.detach())
    got, expected = (rl.autograd.grad(sum(t.sum() for t in tensors(g(x))), x)[0] for g in (result, f))
    agree(got, expected)


MODULES: dict[str, tuple[Callable, tuple]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), (3, 4)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                           nn.Flatten(), nn.LazyLinear(2)), (2, 1, 8, 8)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "embedding": (lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.GroupNorm(2, 2), nn.Flatten(), nn.Softmax(1)),
                  (3, 4)),
}


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", MODULES)
def test_training_step_as_one_graph(name: str, mode: str) -> None:
    """Loss and gradients of a module in one graph, its parameters as inputs."""
    build, shape = MODULES[name]
    rl.manual_seed(0)
    module = build()
    module(rl.randn(shape))
    params = {k: v.detach() for k, v in module.named_parameters()}

    def step(params, x):
        return grad(lambda p: functional_call(module, p, (x,)).square().sum(), has_aux=False)(params), functional_call(
            module, params, (x,)
        )

    x, other = rl.randn(shape), rl.randn(shape)
    module.eval()
    result = make_fx(step, tracing_mode=mode)(params, x)
    agree(result(params, other), step(params, other))


def test_symbolic_sizes_are_computed() -> None:
    result = make_fx(
        lambda x: x.reshape(x.shape[0] * x.shape[1]).new_zeros(x.shape[0] // 2 + 3, x.shape[1]) + x.sum(),
        tracing_mode="symbolic",
    )(rl.randn(4, 6))
    for shape in ((8, 7), (2, 9)):
        x = rl.randn(shape)
        agree(result(x), rl.zeros(shape[0] // 2 + 3, shape[1]) + x.sum())
    assert result.shape_env is not None


@pytest.mark.parametrize("f",
    [lambda x: F.relu(x @ x.t()).sum(), lambda x: (x.softmax(-1) * x).mean(0).sum(), lambda x: (x[1:] * x[:-1]).sum(),
     lambda x: rl.cat([x, x * 2], 0).max(1)[0].sum()])
def test_gradients_serve_all_sizes(f) -> None:
    """What rules keep of shapes stays symbolic through the tape."""

    def gradient(x):
        x = x.detach().requires_grad_()
        return rl.autograd.grad(f(x), x)[0]

    result = make_fx(gradient, tracing_mode="symbolic")(rl.randn(5, 3))
    for shape in ((8, 3), (4, 7)):
        x = rl.randn(shape)
        agree(result(x), gradient(x))


def test_random_draws_are_drawn_again() -> None:
    result = make_fx(lambda x: F.dropout(x, 0.5) + rl.rand(3) + rl.randn_like(x))(rl.ones(3))
    assert not rl.equal(result(rl.ones(3)), result(rl.ones(3)))
    rl.manual_seed(3)
    first = result(rl.ones(3))
    rl.manual_seed(3)
    assert rl.equal(first, result(rl.ones(3)))


def test_names_and_values_of_nodes() -> None:
    result = make_fx(lambda x, weight: F.relu(x @ weight))(rl.randn(2, 3), rl.randn(3, 4))
    assert [n.name for n in result.graph.nodes] == ["x_1", "weight_1", "mm", "relu", "output"]
    value = result.graph.find_nodes(op="call_function", target=rl.ops.aten.relu.default)[0].meta["val"]
    assert isinstance(value, FakeTensor) and value.shape == (2, 4)
    assert 'relu: "f32[2, 4]" = torch.ops.aten.relu.default(mm)' in result.print_readable(print_output=False)


def test_graphs_over_overloads_pickle() -> None:
    f = grad(lambda x: (x.sin() * x.relu()).sum())
    x = rl.randn(4)
    result = make_fx(f)(x)
    again = pickle.loads(pickle.dumps(result))
    agree(again(x), f(x))
    assert [str(n.target) for n in again.graph.nodes] == [str(n.target) for n in result.graph.nodes]


def test_decompositions() -> None:
    def gelu(x, approximate="none"):
        return x * 0.5 * (1 + rl.erf(x / 2**0.5))

    result = make_fx(F.gelu, decomposition_table={rl.ops.aten.gelu: gelu})(rl.randn(3))
    assert "gelu" not in result.code and "erf" in result.code
    x = rl.randn(5)
    agree(result(x), F.gelu(x))


def test_fake_arguments_keep_their_mode() -> None:
    mode = FakeTensorMode()
    result = make_fx(lambda x: x.sum(0))(mode.from_tensor(rl.randn(3, 4)))
    assert result(rl.ones(3, 4)).tolist() == [3.0] * 4


def test_modes_of_the_trace() -> None:
    seen = []

    def f(x):
        seen.append(get_proxy_mode())
        with disable_proxy_modes_tracing():
            scale = (x * 0 + 2).sum()
        return x * scale

    result = make_fx(f)(rl.ones(2))
    assert seen[0] is not None and get_proxy_mode() is None
    assert [n.name for n in result.graph.nodes] == ["x_1", "_tensor_constant0", "mul", "output"]
    inner = get_isolated_graphmodule(rl.add, (rl.ones(2), 3), {})
    assert "add" in inner.code


def test_modes_below_see_the_calls() -> None:
    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Count.calls += 1
            return func(*args, **(kwargs or {}))

    with Count():
        make_fx(lambda x: x.sin().cos())(rl.ones(2))
    assert Count.calls >= 2


def test_refusals() -> None:
    with pytest.raises(AssertionError, match="tracing_mode"):
        make_fx(rl.sin, tracing_mode="other")
    with pytest.raises(RuntimeError, match="elements"):
        make_fx(lambda x: x if x.sum() > 0 else -x, tracing_mode="fake")(rl.ones(2))
    with pytest.raises(NotImplementedError, match="pre_dispatch"):
        make_fx(rl.sin, pre_dispatch=True)


def test_sequence_of_ops_is_pytorchs_where_ops_are_the_same() -> None:
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx as make_theirs

    def names(graph: Any) -> list[str]:
        return [n.target._opname for n in graph.nodes if n.op == "call_function" and hasattr(n.target, "_opname")]

    def f(x):
        y = x.sin() * x + x.exp()
        z = (y.cos() - x).sum(1).sqrt()
        return z.reshape(2, 1) / 2, y.t().unsqueeze(0).expand(2, -1, -1), (x > 0).any()

    ours, theirs = make_fx(f)(rl.ones(2, 3)).graph, make_theirs(f)(torch.ones(2, 3)).graph
    assert names(ours) == names(theirs)


def test_calls_have_the_names_of_pytorch() -> None:
    def f(x: Any, w: Any) -> Any:
        y = (x * 2 + w).sum(-1)
        return y.transpose(0, -1), x[0:1], x.softmax(-1), rl.cat([x, w]), rl.add(x, w, alpha=2), x.max(dim=0)[0], 1 - x

    x, w = rl.randn(4, 3), rl.randn(4, 3)
    graph = make_fx(f)(x, w)
    names = [str(n.target) for n in graph.graph.nodes if n.op == "call_function" and "aten" in str(n.target)]
    assert names == [
        "aten.mul.Tensor", "aten.add.Tensor", "aten.sum.dim_IntList", "aten.transpose.int", "aten.slice.Tensor",
        "aten._softmax.default", "aten.cat.default", "aten.add.Tensor", "aten.max.dim", "aten.rsub.Scalar",
    ]
    sums = [n for n in graph.graph.nodes if n.target in (rl.ops.aten.add.Tensor, rl.ops.aten.add.Scalar)]
    assert len(sums) == 2
    for got, wanted in zip(graph(x, w), f(x, w), strict=True):
        assert rl.equal(got, wanted)
    result = compile_graph(graph, [x, w])([x, w])
    for got, wanted in zip(result, f(x, w), strict=True):
        rl.testing.assert_close(got, wanted)


def sigmoid_of(x):
    return x * rl.sigmoid(x)


RULES = {rl.ops.aten.silu.default: sigmoid_of}


def calls(graph):
    return [n.target._opname for n in graph.graph.nodes if n.op == "call_function" and hasattr(n.target, "_opname")]


def test_only_chosen_nodes_are_taken_apart():
    x = rl.randn(3)
    traced = make_fx(lambda x: nn.functional.silu(x) + nn.functional.silu(x * 2))(x)
    last = [n for n in traced.graph.nodes if n.target is rl.ops.aten.silu.default][-1]
    options = {"decomposition": RULES, "trace_joint_graph": False}
    chosen = selective_decompose(traced, x, should_decompose=lambda n: n is last, **options)
    assert calls(chosen) == ["silu", "mul", "sigmoid", "mul", "add"]
    rl.testing.assert_close(chosen(x), traced(x))
    none = selective_decompose(traced, x, should_decompose=lambda n: False, **options)
    assert calls(none) == calls(traced)


def test_nodes_of_functions_are_chosen_one_by_one_or_together():
    x = rl.randn(3)
    traced = make_fx(
        lambda x: rl.cond(x.sum() > 0, lambda x: nn.functional.silu(nn.functional.silu(x)), lambda x: x.cos(), (x,))
    )(x)
    first = next(n for n in traced.true_graph_0.graph.nodes if n.target is rl.ops.aten.silu.default)
    options = {"decomposition": RULES, "trace_joint_graph": False}
    one = selective_decompose(traced, x, should_decompose=lambda n: n is first, **options)
    assert calls(one.true_graph_0) == ["sigmoid", "mul", "silu"]
    whole = selective_decompose(traced, x, should_decompose=lambda n: n.name == "cond", **options)
    assert calls(whole.true_graph_0) == ["sigmoid", "mul", "sigmoid", "mul"]


def test_joint_graphs_keep_the_names_of_their_arguments():
    x, g = rl.randn(3), rl.ones(3)

    def joint(primals, tangents):
        return [nn.functional.silu(primals[0]) * primals[1], tangents[0] * primals[1]]

    traced = make_fx(joint)([x, g], [g])
    apart = selective_decompose(
        traced, [x, g], [g], decomposition=RULES, should_decompose=lambda n: True, trace_joint_graph=True
    )
    assert [n.name for n in apart.graph.nodes if n.op == "placeholder"] == ["primals_1", "primals_2", "tangents_1"]
    assert "silu" not in calls(apart)
