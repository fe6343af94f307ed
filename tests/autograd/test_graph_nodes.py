"""The graph as programs walk it: names and types of nodes, next functions, saved values, hooks.

`graph_nodes.txt` holds PyTorch's answers, an expression and its chain a line (`python -m
tests.autograd.test_graph_nodes` writes it where PyTorch is installed); they are compared with PyTorch itself too,
where it is.
"""

from __future__ import annotations

import gc
import importlib.util
import weakref
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd.graph import GradientEdge, Node, get_gradient_edge, saved_tensors_hooks

STORED = Path(__file__).with_suffix("").parent / "graph_nodes.txt"
PYTORCH = importlib.util.find_spec("torch") is not None


def answers() -> dict[str, str]:
    lines = [line for line in STORED.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" | ") for line in lines)


def chain(node: Any) -> str:
    """`Node(next, ...)`: leaves are A, missing edges -, outputs but the first :n."""
    if node is None:
        return "-"
    if type(node).__name__ == "AccumulateGrad":
        return "A"
    return f"{type(node).__name__}({', '.join(chain(n) + (f':{i}' if i else '') for n, i in node.next_functions)})"


def evaluate(library: Any, expression: str) -> str:
    library.manual_seed(0)
    leaf = library.linspace(0.1, 2.0, 120).view(4, 5, 6).requires_grad_()
    mask = library.tensor([False, True, False, False])
    names = {"T": library, "F": library.nn.functional, "a": leaf, "i": library.tensor([0, 2]), "m": mask,
             "c": library.tensor([1, 2, 3, 0, 1]), "w": library.ones(3, 6, requires_grad=True),
             "b": library.zeros(3, requires_grad=True), "x": library.ones(2, 4, 6)}
    return chain(eval(expression, names).grad_fn)  # noqa: S307 - expressions of our own file


@pytest.mark.parametrize("expression", answers())
def test_chain_as_stored(expression: str) -> None:
    assert evaluate(rl, expression) == answers()[expression]


@pytest.mark.skipif(not PYTORCH, reason="PyTorch is not installed")
def test_stored_answers_are_pytorchs() -> None:
    import torch  # noqa: PLC0415 - not everywhere

    assert {k: evaluate(torch, k) for k in answers()} == answers()


def leaf(*shape: int) -> rl.Tensor:
    return rl.linspace(0.1, 2.0, rl.Size(shape).numel()).view(shape).requires_grad_()


def walked(node: Any) -> list[Any]:
    seen, waiting = {}, [node]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen[node] = True
            waiting += [n for n, _ in node.next_functions]
    return list(seen)


def test_types_are_named_and_shared() -> None:
    x = leaf(2, 2)
    node, other = (x * x).grad_fn, (x * 3).grad_fn
    assert type(node).__name__ == "MulBackward0" == node.name() and type(node) is type(other)
    assert str(type(node)) == "<class 'MulBackward0'>" and repr(node).startswith("<MulBackward0 object at 0x")
    assert isinstance(node, Node) and issubclass(type(node), Node)
    accumulate = node.next_functions[0][0]
    assert type(accumulate).__name__ == "AccumulateGrad" and accumulate.name() == "torch::autograd::AccumulateGrad"
    assert accumulate.variable is x and not hasattr(node, "variable")
    assert (x * x).__repr__().endswith("grad_fn=<MulBackward0>)")


def test_writes_through_views() -> None:
    y = leaf(3, 2) * 1
    y[0] = 0
    assert repr(y).endswith("grad_fn=<CopySlices>)") and y.grad_fn.name() == "torch::autograd::CopySlices"
    assert chain(y.grad_fn) == "CopySlices(MulBackward0(A, -), -)"
    row = y[1]
    row.mul_(2)
    assert chain(row.grad_fn) == "AsStridedBackward0(CopySlices(CopySlices(MulBackward0(A, -), -), -))"
    assert row.grad_fn is row.grad_fn


def test_custom_functions() -> None:
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    y = Twice.apply(leaf(2))
    assert type(y.grad_fn).__name__ == "TwiceBackward" == y.grad_fn.name() and isinstance(y.grad_fn, Node)
    assert repr(y.grad_fn).startswith("<torch.autograd.function.TwiceBackward object")
    assert repr(y).endswith("grad_fn=<TwiceBackward>)") and chain(y.grad_fn) == "TwiceBackward(A)"


def test_walkers_meet_every_parameter_and_each_node_once() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(18, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    loss = nn.functional.cross_entropy(model(rl.ones(2, 1, 8, 8)), rl.tensor([0, 1]))
    nodes = walked(loss.grad_fn)
    assert {id(n.variable) for n in nodes if hasattr(n, "variable")} == {id(p) for p in model.parameters()}
    assert set(walked(loss.grad_fn)) == set(nodes) and loss.grad_fn is loss.grad_fn
    names = [type(n).__name__ for n in nodes]
    assert names.count("AddmmBackward0") == 2 == names.count("TBackward0") and names.count("AccumulateGrad") == 10
    for node in nodes:       # a drawing shows all that can be read
        for name in dir(node):
            if name.startswith("_saved_"):
                getattr(node, name)


def test_steps_live_as_long_as_somebody_looks() -> None:
    y = nn.functional.linear(leaf(2, 3, 4), leaf(5, 4), leaf(5))
    gone = weakref.ref(y.grad_fn)
    step = y.grad_fn.next_functions[0][0]
    assert type(step).__name__ == "AddmmBackward0" and step is y.grad_fn.next_functions[0][0]
    inner = weakref.ref(step)
    del y
    assert gone() is None and chain(step).startswith("AddmmBackward0(A, ViewBackward0(A)")
    del step
    gc.collect()
    assert inner() is None


def test_saved_values() -> None:
    x, y = leaf(3, 4), leaf(3, 4)
    node = (x * y).grad_fn
    assert node._saved_self is x and node._saved_other is y
    assert (x * 2).grad_fn._saved_self is None and (x * 2).grad_fn._saved_other.item() == 2
    z = x.exp()
    assert z.grad_fn._saved_result.grad_fn is z.grad_fn and z.grad_fn._saved_result.equal(z)
    total = x.sum(1, keepdim=True).grad_fn
    assert (total._saved_dim, total._saved_keepdim, total._saved_self_sym_sizes) == ((1,), True, (3, 4))
    part = x[1:, 2].grad_fn
    assert (type(part).__name__, part._saved_dim, part._saved_index) == ("SelectBackward0", 1, 2)
    rest = part.next_functions[0][0]
    assert (rest._saved_start, rest._saved_end, rest._saved_step) == (1, 2**63 - 1, 1)
    assert rest._saved_self_sym_sizes == (3, 4)
    product = nn.functional.linear(x, y, leaf(3)).grad_fn
    assert product._saved_mat1 is x and product._saved_mat2.equal(y.t()) and product._saved_mat2_sym_sizes == (4, 3)
    loss = nn.functional.mse_loss(x, y, reduction="sum").grad_fn
    assert loss._saved_self is x and loss._saved_target is y and loss._saved_reduction == 2
    assert x.max(1).values.grad_fn._saved_indices.tolist() == [3, 3, 3]
    with pytest.raises(AttributeError):
        node._saved_nothing  # noqa: B018


def test_freed_values_are_refused() -> None:
    x = leaf(3)
    y = x * x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        y.grad_fn._saved_self  # noqa: B018


def test_hooks_on_one_saved_tensor() -> None:
    x, y = leaf(3), leaf(3)
    z = x * y
    z.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach() * 10, lambda t: t)
    with pytest.raises(RuntimeError):
        z.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    z.sum().backward()
    assert rl.allclose(y.grad, x * 10) and rl.allclose(x.grad, y)


def test_looking_runs_no_hooks() -> None:
    calls = []
    with saved_tensors_hooks(lambda t: calls.append("pack") or t, lambda t: calls.append("unpack") or t):
        y = leaf(2, 2).exp() @ leaf(2, 2)
    before = list(calls)
    assert "ExpBackward0(A)" in chain(y.grad_fn)
    assert calls == before and "unpack" not in calls


def test_gradients_are_the_same_after_a_look() -> None:
    def gradients(look: bool) -> list[list]:
        x, w, b = leaf(2, 3, 4), leaf(5, 4), leaf(5)
        h = nn.functional.linear(x, w, b)
        y = nn.functional.cross_entropy(h.flatten(0, 1), rl.tensor([0, 1, 2, 3, 4, 0]))
        if look:
            walked(y.grad_fn)
        y.backward()
        return [t.grad.tolist() for t in (x, w, b)]

    assert gradients(True) == gradients(False)


def test_node_hooks_follow_the_next_functions() -> None:
    x, mask, seen = leaf(3), rl.tensor([True, False, True]), []
    y = rl.where(mask, x, 2.0 * x)
    node = y.grad_fn
    assert len(node.next_functions) == 2
    node.register_hook(lambda inputs, outputs: seen.append(len(inputs)) or (inputs[0] * 10, inputs[1]))
    y.sum().backward()
    assert seen == [2] and x.grad.tolist() == [10.0, 2.0, 10.0]


def test_steps_refuse_what_they_cannot_do() -> None:
    y = nn.functional.linear(leaf(2, 3, 4), leaf(5, 4), leaf(5))
    step = y.grad_fn.next_functions[0][0]
    for refused in (lambda: y.grad_fn.register_hook(print), lambda: step.register_hook(print),
                    lambda: step.register_prehook(print), lambda: rl.autograd.grad(GradientEdge(step, 0), y, y)):
        with pytest.raises(NotImplementedError, match="several steps"):
            refused()
    with pytest.raises(RuntimeError, match="several steps"):
        y.grad_fn(rl.ones(2, 3, 5))
    seen: list[Any] = []
    y.grad_fn.register_prehook(lambda grads: seen.append(tuple(grads[0].shape)))
    (rl.autograd.grad(get_gradient_edge(y.sum()), y, rl.ones(())), y.sum().backward())
    assert seen == [(2, 3, 5)]


def test_a_frozen_bias_is_a_bias() -> None:
    w, b, x = leaf(3, 4), rl.zeros(3), rl.ones(2, 4)
    assert chain(nn.functional.linear(x, w, b).grad_fn) == "AddmmBackward0(-, -, TBackward0(A))"
    assert chain(nn.functional.linear(x, w).grad_fn) == "MmBackward0(-, TBackward0(A))"


def test_accumulators_can_be_hooked_through_the_graph() -> None:
    p, seen = leaf(2), []
    accumulate = p.expand_as(p).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda inputs, outputs: seen.append((len(inputs), outputs[0].tolist())))
    (p * 3).sum().backward()
    assert seen == [(0, [3.0, 3.0])] and accumulate is (p * 2).grad_fn.next_functions[0][0]


def main() -> None:
    import torch  # noqa: PLC0415 - only here

    head = "# PyTorch's chains of nodes, by expression. The answers: `python -m tests.autograd.test_graph_nodes`\n\n"
    STORED.write_text(head + "".join(f"{k} | {evaluate(torch, k)}\n" for k in answers()))


if __name__ == "__main__":
    main()
