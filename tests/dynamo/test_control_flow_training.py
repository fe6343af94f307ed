"""Control flow as functions, compiled and trained: loops, scans and conditions, one inside of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._higher_order_ops import associative_scan, map as map_function, scan, while_loop
from rushlight.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.share(2)   # of each test that has several cases

LAYER = nn.Linear(4, 4)
BACKENDS = ["eager", "aot_eager", "inductor"]


def zero() -> Any:
    return rl.zeros((), dtype=rl.int64)


def looped(x: Any, steps: Any) -> Any:
    body = lambda i, a, b: (i + 1, LAYER(a).tanh() + b, b * 0.9)  # noqa: E731
    return while_loop(lambda i, a, b: i < steps, body, (zero(), x, x * 2))[1:]


def until_large(x: Any) -> Any:
    (y,) = while_loop(lambda a: a.abs().sum() < 50, lambda a: (a * 1.5 + LAYER.bias,), (x,))
    return y


def loop_in_scan(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        _, a = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, LAYER(a).sin()), (zero(), c + row))
        return a, a * 2

    return scan(step, x[0] * 1, x)


def cond_in_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, rl.cond(a.sum() > 0, lambda v: LAYER(v).tanh(), lambda v: v.exp() * 0.5, (a,))

    return while_loop(lambda i, a: i < 3, body, (zero(), x))[1]


def scan_in_cond(x: Any) -> Any:
    return rl.cond(x.sum() > 0, lambda a: scan(lambda c, r: (LAYER(c) * r, c + r), a[0] * 1, a)[1],
                   lambda a: a.cos() * LAYER.bias, (x,))


def scan_in_scan(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        last, each = scan(lambda s, e: (s * e + c.sum(), s + e), row[0] * 1.0, row)
        return LAYER(c + last), each

    return scan(outer, x[0] * 1, x)


def cond_in_map(x: Any) -> Any:
    return map_function(lambda r: rl.cond(r.sum() > 0, lambda v: LAYER(v), lambda v: v * 2 - 1, (r,)), x)


def prefixes_in_cond(x: Any) -> Any:
    def prefixes(a: Any) -> Any:
        return associative_scan(lambda p, q: p * q + LAYER.bias, a, 0, combine_mode="generic")

    return rl.cond(x.sum() > 0, prefixes, lambda a: a * LAYER.bias, (x,))


PROGRAMS: dict[str, Callable] = {
    "a while_loop": lambda x: looped(x, rl.tensor(3)),
    "a while_loop of more steps than are kept": lambda x: looped(x, rl.tensor(37)),
    "a while_loop that never runs": lambda x: looped(x, rl.tensor(0)),
    "a while_loop until elements say so": until_large,
    "a while_loop in a scan": loop_in_scan,
    "a cond in a while_loop": cond_in_loop,
    "a scan in a cond": scan_in_cond,
    "a scan in a scan": scan_in_scan,
    "a cond in a map": cond_in_map,
    "an associative_scan in a cond": prefixes_in_cond,
}


def data(rows: int = 3) -> Any:
    return rl.linspace(-0.5, 1, rows * 4).reshape(rows, 4)


def trained(function: Callable, x: Any) -> list:
    LAYER.zero_grad()
    x = x.clone().requires_grad_()
    result = rl.utils._pytree.tree_leaves(function(x))
    sum((t * t).sum() for t in result).backward()
    zeros = [rl.zeros_like(p) for p in LAYER.parameters()]
    found = [z if p.grad is None else p.grad.clone() for p, z in zip(LAYER.parameters(), zeros, strict=True)]
    return [*(t.detach() for t in result), x.grad, *found]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("error::UserWarning")      # which would say that it runs op by op
def test_trains_as_eager_does(name: str, backend: str) -> None:
    compiled = rl.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    for x in (data(), -data()):
        rl.testing.assert_close(trained(compiled, x), trained(PROGRAMS[name], x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["a while_loop", "a scan in a cond", "a cond in a map", "a scan in a scan"])
@pytest.mark.filterwarnings("error::UserWarning")
def test_trains_with_symbolic_sizes(name: str) -> None:
    compiled = rl.compile(PROGRAMS[name], backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 5, 4):
        x = data(rows)
        rl.testing.assert_close(trained(compiled, x), trained(PROGRAMS[name], x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 32, 33, 64, 65, 100])
def test_any_number_of_steps_has_the_gradient(steps: int) -> None:
    compiled = rl.compile(looped, backend="aot_eager", fullgraph=True)
    count, x = rl.tensor(steps), data()
    found = [trained(lambda v, f=f: f(v, count), x) for f in (compiled, looped)]
    rl.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_gradients_of_a_loop_are_recorded() -> None:
    def gradient(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        return rl.autograd.grad(sum(t.sum() for t in looped(leaf, rl.tensor(5))), leaf)[0]

    graph = make_fx(gradient, tracing_mode="fake")(data())
    names = [str(node.target) for node in graph.graph.nodes]
    assert any("while_loop_gradient" in name for name in names)
    rl.testing.assert_close(graph(data()), gradient(data()))


def test_gradients_are_pytorch_s() -> None:
    torch = pytest.importorskip("torch")
    their_loop = pytest.importorskip("torch._higher_order_ops").while_loop
    weight = torch.linspace(-1, 1, 16).reshape(4, 4)
    found = []
    for module, loop in ((torch, their_loop), (rl, while_loop)):
        w = module.tensor(weight.tolist()).requires_grad_()
        x = module.tensor(data().tolist()).requires_grad_()
        _, y = loop(lambda i, a: i < 4, lambda i, a, w=w: (i + 1, (a @ w).sin()), (module.tensor(0), x))
        y.sum().backward()
        found.append((x.grad.tolist(), w.grad.tolist()))
    for theirs, ours in zip(*found, strict=True):
        rl.testing.assert_close(rl.tensor(ours), rl.tensor(theirs))


def adds_in_place(x: Any) -> Any:
    return scan(lambda c, r: (c.add_(r), r * 1), x[0] * 1, x)


def writes_around(x: Any) -> Any:
    total = rl.zeros(4)
    return map_function(lambda r: total.add_(r) * 1, x)


def appends(x: Any) -> Any:
    seen: list = []

    def body(i: Any, a: Any) -> Any:
        seen.append(1)
        return i + 1, a * 2

    return while_loop(lambda i, a: i < 3, body, (zero(), x * 1))[1], len(seen)


def counts(x: Any) -> Any:
    number = 0

    def branch(a: Any) -> Any:
        nonlocal number
        number += 1
        return a + 1

    return rl.cond(x.sum() > 0, branch, lambda a: a - 1, (x,)), number


@pytest.mark.parametrize("function", [adds_in_place, writes_around, appends, counts])
def test_changes_around_functions_end_the_graph(function: Callable) -> None:
    rl.testing.assert_close(rl.compile(function)(data()), function(data()))
    with pytest.raises(rl._dynamo.exc.Unsupported, match="writes to a tensor around it|changes objects around it"):
        rl.compile(function, fullgraph=True)(data())


def whole_step(x: Any) -> Any:
    LAYER.zero_grad()
    carry, each = scan(lambda c, r: (LAYER(c).tanh() * r, c), x[0] * 1, x)
    _, y = while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, LAYER(a).sin()), (zero(), carry))
    y = rl.cond(y.sum() > 0, lambda a: LAYER(a), lambda a: a * LAYER.bias, (y,))
    loss = y.sum() + each.sum()
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_inside_of_the_frame_goes_through_them(backend: str) -> None:
    found = []
    for run in (rl.compile(whole_step, backend=backend, fullgraph=True), whole_step):
        loss = run(data())
        found.append([loss, *(p.grad.clone() for p in LAYER.parameters())])
    rl.testing.assert_close(*found)
