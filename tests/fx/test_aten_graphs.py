"""Graphs below autograd are spelled with ATen's ops: those PyTorch records, and equal results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.aten.overloads import all_schemas, schemas_of
from rushlight.functorch.compile import aot_function, make_boxed_func
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.nn import functional as F

# Our graphs and PyTorch's differ in what sets a gradient going and in what is looked at again.
APART = {"detach.default", "ones_like.default", "full.default", "expand.default", "view.default", "sum.default",
         "alias.default", "t.default", "new_empty.default", "sum.dim_IntList"}


def layers(torch: Any) -> dict[str, tuple[Callable, list[Any]]]:
    """Functions of a framework, and what to call them with."""
    f = torch.nn.functional
    rows, image = torch.linspace(-2, 2, 24).reshape(4, 6), torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6)
    weight, vector = torch.linspace(-1, 1, 30).reshape(5, 6), torch.linspace(0.5, 1.5, 6)
    kernel = torch.linspace(-1, 1, 3 * 4 * 9).reshape(3, 4, 3, 3)
    return {
        "linear": (lambda x, w: f.relu(f.linear(x, w, w[:, 0].detach())), [rows, weight]),
        "gelu": (f.gelu, [rows]), "tanh gelu": (lambda x: f.gelu(x, approximate="tanh"), [rows]),
        "silu": (f.silu, [rows]), "mish": (f.mish, [rows]), "hardswish": (f.hardswish, [rows]),
        "sigmoid and tanh": (lambda x: x.sigmoid() * x.tanh(), [rows]),
        "elu": (lambda x: f.elu(x, 0.5), [rows]), "leaky_relu": (f.leaky_relu, [rows]),
        "softplus": (lambda x: f.softplus(x, 2.0, 1.0), [rows]), "hardtanh": (f.hardtanh, [rows]),
        "softmax": (lambda x: f.softmax(x, -1), [rows]), "log_softmax": (lambda x: f.log_softmax(x, -1), [rows]),
        "layer_norm": (lambda x, w: f.layer_norm(x, (6,), w, w), [rows, vector]),
        "group_norm": (lambda x: f.group_norm(x, 2, torch.ones(4), torch.zeros(4)), [image]),
        "max_pool": (lambda x: f.max_pool2d(x, 2), [image]),
        "avg_pool": (lambda x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [image]),
        "conv": (lambda x, w: f.conv2d(x, w, padding=1), [image, kernel]),
        "attention": (lambda x: f.scaled_dot_product_attention(x, x, x), [image]),
        "pad": (lambda x: f.pad(x, (1, 2, 2, 1), mode="reflect"), [image]),
    }


def gradients(torch: Any, f: Callable) -> Callable:
    def run(*inputs: Any) -> Any:
        inputs = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(f(*inputs).sum(), inputs)

    return run


def targets(graph: Any) -> list[str]:
    return [str(n.target).removeprefix("aten.") for n in graph.graph.nodes if "aten" in str(n.target)]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", layers(rl))
def test_nothing_of_ours_is_left(name: str, mode: str) -> None:
    f, inputs = layers(rl)[name]
    run = gradients(rl, f)
    graph = make_fx(run, tracing_mode=mode)(*inputs)
    assert [t for t in targets(graph) if not schemas_of(t.partition(".")[0])] == []
    for got, wanted in zip(graph(*inputs), run(*inputs), strict=True):
        rl.testing.assert_close(got, wanted)


# where PyTorch has one op for what is several here
OTHERWISE = {"conv": {"convolution_backward.default"}, "max_pool": {"max_pool2d_with_indices_backward.default"}}


@pytest.mark.parametrize("name", layers(rl))
def test_ops_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx as make_theirs

    f, inputs = layers(torch)[name]
    theirs = set(targets(make_theirs(gradients(torch, f))(*inputs)))
    f, inputs = layers(rl)[name]
    ours = set(targets(make_fx(gradients(rl, f))(*inputs)))
    missing = theirs - ours - APART - OTHERWISE.get(name, set())
    if name == "linear":
        missing -= {"slice.Tensor", "select.int"}
    # what nobody needs is not in our graphs: a layer's own result, where its gradient is wanted alone
    assert not [m for m in missing if "backward" in m or m in ("mm.default", "_softmax.default")], (ours, theirs)


def test_compilers_get_the_ops_of_aten() -> None:
    """A compiler given to AOTAutograd finds the ops it was written for; what the forward need not compute, it does
    not."""
    graphs = []

    def keep(graph: Any, inputs: Any) -> Callable:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    x, w = (rl.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(), rl.linspace(0, 1, 8).reshape(2, 4).requires_grad_())

    def f(x: Any, w: Any) -> Any:
        return F.gelu(F.linear(x, w)).sin()

    aot_function(f, keep, keep)(x, w).sum().backward()
    found = [x.grad.clone(), w.grad.clone()]
    assert targets(graphs[0]) == ["t.default", "mm.default", "gelu.default", "sin.default"]
    assert "cos.default" in targets(graphs[1]) and "gelu_backward.default" in targets(graphs[1])
    x.grad = w.grad = None
    f(x, w).sum().backward()
    for got, t in zip(found, (x, w), strict=True):
        rl.testing.assert_close(got, t.grad)


def test_signatures_are_pytorchs_to_the_letter() -> None:
    torch = pytest.importorskip("torch")
    theirs = {str(schema) for schema in torch._C._jit_get_all_schemas()}
    ours = [str(schema) for schema in all_schemas()]
    assert len(ours) > 1200 and not [text for text in ours if text not in theirs]


def test_tables_name_ops_of_aten() -> None:
    """A decomposition of a gradient that only graphs call."""

    def plain(grad: Any, x: Any, *, approximate: str = "none") -> Any:
        return grad * x

    run = gradients(rl, F.gelu)
    graph = make_fx(run, decomposition_table={rl.ops.aten.gelu_backward.default: plain})(rl.randn(3))
    assert "gelu_backward.default" not in targets(graph) and "mul.Tensor" in targets(graph)
    x = rl.randn(3)
    rl.testing.assert_close(graph(x)[0], x)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fake", "real"])
def test_op_records(mode: str, share: Callable[[list[str], int], list[str]]) -> None:
    """PyTorch's op records and their gradients: graphs give what eager mode gives, nearly all of them by ATen's ops."""
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's op records need it")
    from tests.inductor.test_op_records import SERVED, calls_of  # noqa: PLC0415 - they need PyTorch

    equal, others, left = 0, [], set()
    names = share(SERVED, 4 if mode == "fake" else 8)
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run, tensors, expected in calls_of(name, with_gradients=True):
                try:
                    make_fx(run, tracing_mode=mode, _own_ops=True)(*tensors)
                except Exception:
                    continue          # elements decide, or the call is no graph
                try:
                    graph = make_fx(run, tracing_mode=mode)(*tensors)
                    for a, b in zip([t.detach() for t in graph(*tensors)], expected, strict=True):
                        assert (a.shape, a.dtype) == (b.shape, b.dtype)
                        wide = [t.resolve_conj().to(rl.complex128) for t in (a, b)]
                        assert rl.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True), (a, b)
                    equal += 1
                    left |= {t for t in targets(graph) if not schemas_of(t.partition(".")[0])}
                except Exception as error:
                    others.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:150]}")
    print(f"{equal} of {equal + len(others)} calls equal, not of ATen: {sorted(left)}", *others, sep="\n  ")
    # The parts of `nonzero(as_tuple=True)` have values in a trace of real tensors, the call itself has none.
    assert equal > 1.2 * len(names) and {other.partition(":")[0] for other in others} <= {"masked_scatter"}
    assert len(left) < 40
