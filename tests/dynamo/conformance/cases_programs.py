"""Small programs of several constructs each, as people write them; none of them breaks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections import Counter, defaultdict, deque

import numpy as np
import rushlight as torch
from rushlight import nn
from rushlight._higher_order_ops import associative_scan, map as map_function, scan, while_loop
from rushlight.overrides import TorchFunctionMode

from .harness import case, tensors


def plain():
    return (tensors()[0].detach(),)


@case("power iteration in a Python loop", plain)
def _(x):
    m = x @ x.T
    v = torch.ones(3)
    for _ in range(4):
        v = m @ v
        v = v / v.norm()
    return v, v @ m @ v


@case("Newton's method in a while_loop", plain)
def _(x):
    target = x.abs() + 1
    (root,) = while_loop(lambda r: (r * r - target).abs().max() > 1e-4, lambda r: ((r + target / r) / 2,), (target,))
    return root


@case("an exponential moving average by scan")
def _(x):
    def step(state, row):
        state = 0.9 * state + 0.1 * row
        return state, state * 1

    return scan(step, torch.zeros(4), x)


@case("a recurrent cell by scan, with parameters", lambda: (nn.GRUCell(4, 5), *tensors()))
def _(cell, x):
    return scan(lambda h, row: ((n := cell(row[None], h)), n * 1), torch.zeros(1, 5), x)


@case("cumulative products by associative_scan")
def _(x):
    return associative_scan(lambda a, b: a * b, x.sigmoid(), 1)


@case("map over rows with a closure over a module", lambda: (nn.Linear(4, 2), *tensors()))
def _(m, x):
    return map_function(lambda row: m(row).relu(), x)


@case("clipping by cond")
def _(x):
    norm = x.norm()
    return torch.cond(norm > 1, lambda a, n: a / n, lambda a, n: a * 1, (x, norm))


@case("gradient descent inside", lambda: tensors())
def _(x):
    for i in range(3):
        ((x - i) ** 2).sum().backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
        x.grad.zero_()
    return x.detach().clone()


@case("gradient accumulation over micro-batches", lambda: (nn.Linear(4, 1), tensors()[0].detach()))
def _(m, x):
    total = 0.0
    for part in x.split(1):
        loss = m(part).square().mean() / 3
        loss.backward()
        total = total + loss.detach()
    return total


@case("gradients clipped by hand", lambda: (nn.Linear(4, 1), tensors()[0].detach()))
def _(m, x):
    m(x).square().sum().backward()
    norm = torch.stack([p.grad.norm() for p in m.parameters()]).norm()
    for p in m.parameters():
        p.grad.mul_(1 / (norm + 1))
    return norm


@case("an adversarial step")
def _(x):
    y = x.detach().clone().requires_grad_()
    (y.exp() * y).sum().backward()
    return (x + 0.1 * y.grad.sign()).clamp(-1, 1)


@case("tied weights and backward", lambda: (nn.Linear(4, 4), tensors()[0].detach()))
def _(m, x):
    (m(m(x)) @ m.weight).square().mean().backward()


@case("batch normalization in training, and backward", lambda: (nn.BatchNorm1d(4), tensors()[0].detach()))
def _(m, x):
    loss = m(x).pow(3).sum()
    loss.backward()
    return loss.detach(), m.running_mean * 1


@dataclasses.dataclass
class Config:
    width: int = 4
    scale: float = 0.5
    layers: tuple = (1, 2)
    names: list = dataclasses.field(default_factory=lambda: ["a", "b"])


@case("a dataclass of settings, replaced", lambda: (*tensors(), Config()))
def _(x, config):
    wide = dataclasses.replace(config, scale=2.0)
    for n, name in zip(wide.layers, wide.names, strict=True):
        x = x * wide.scale + n + len(name)
    return x, wide.width


@case("counters, defaultdicts and deques")
def _(x):
    seen = defaultdict(list)
    window = deque(maxlen=2)
    for i, row in enumerate(x):
        seen["even" if i % 2 == 0 else "odd"].append(row)
        window.append(row * i)
    return {k: torch.stack(v).sum(0) for k, v in seen.items()}, sum(window)


@case("a registry of functions")
def _(x):
    table = {"relu": torch.relu, "tanh": torch.tanh, "twice": lambda t: t * 2}
    for name in ("relu", "twice", "tanh"):
        x = table[name](x)
    return x


@case("functools.reduce over layers", lambda: (nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]), *tensors()))
def _(layers, x):
    return functools.reduce(lambda h, layer: layer(h).relu(), layers, x)


@contextlib.contextmanager
def scaled(values, by):
    values.append(by)
    try:
        yield by
    finally:
        values.pop()


@case("a context manager of a generator, nested")
def _(x):
    values = []
    with scaled(values, 2) as a, scaled(values, 3) as b:
        y = x * sum(values) + a * b
    return y, values


@case("a generator pipeline with send")
def _(x):
    def running():
        total = torch.zeros(4)
        while True:
            row = yield total
            if row is None:
                return
            total = total + row

    g = running()
    next(g)
    return [g.send(row) for row in x]


@case("try, finally and a loop with else")
def _(x):
    log = []
    for i in range(3):
        try:
            if i == 5:
                break
            x = x + i
        finally:
            log.append(i)
    else:
        x = x * 2
    return x, log


@case("matching on shapes and names", lambda: (*tensors(), {"kind": "scale", "by": 3}))
def _(x, how):
    match how:
        case {"kind": "scale", "by": int(n)} if n > 2:
            x = x * n
        case {"kind": "shift"}:
            x = x + 1
    match x.shape:
        case (3, cols):
            return x.sum() * cols
        case _:
            return x


class Meter:
    def __init__(self):
        self.values = []

    def __iadd__(self, other):
        self.values.append(other)
        return self

    def __len__(self):
        return len(self.values)

    @property
    def mean(self):
        return sum(self.values) / len(self)


@case("an object with operators and a property")
def _(x):
    meter = Meter()
    for row in x:
        meter += row
    return meter.mean, len(meter)


@case("attention written out", lambda: (tensors()[0], *tensors()))
def _(q, k):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = torch.ones_like(scores).tril().bool()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ k


@case("one-hot, gather and scatter", plain)
def _(x):
    index = x.argmax(1)
    hot = torch.nn.functional.one_hot(index, 4).float()
    back = torch.zeros_like(x).scatter_(1, index[:, None], 1.0)
    return hot, back, x.gather(1, index[:, None])


@case("views written through, in a loop", plain)
def _(x):
    y = x.clone()
    for i, row in enumerate(y.unbind(0)):
        row[: i + 1] += i
    y[:, 1:3].mul_(2)
    return y, x


@case("vmap of a gradient", plain)
def _(x):
    return torch.vmap(torch.func.grad(lambda r: (r.sin() * r).sum()))(x)


@case("text of numbers, and a counter of words")
def _(x):
    words = Counter("a b a c".split())
    label = "-".join(f"{k}{v}" for k, v in sorted(words.items()))
    return x * words["a"], label


@case("early return from nested functions")
def _(x):
    def find(values, want):
        for i, v in enumerate(values):
            if v == want:
                return i
        return -1

    return x + find([3, 1, 2], 2) - find((), 0)


@case("slices, star expressions and swaps")
def _(x):
    first, *middle, last = x.unbind(1)
    first, last = last, first
    return torch.stack([first, *reversed(middle), last], 1)[::2, 1:]


@torch._dynamo.allow_in_graph
def opaque(x):
    return x.sin() * 2


@torch._dynamo.nonstrict_trace
def nested(data):
    return {"y": data["x"] + 1}


@torch._dynamo.assume_constant_result
def three():
    return 3


@case("a call that is one node")
def _(x):
    return opaque(x) + 1


@case("a call of nested values that is one node")
def _(x):
    return nested({"x": x * 2})["y"] * 3


@case("a call whose result is constant")
def _(x):
    return x * three() + three()


@case("a block in which breaks are errors")
def _(x):
    with torch._dynamo.error_on_graph_break(True):
        y = x * 2
    return y + 1


@case("scan whose carry is what it gets", plain)
def _(x):
    carry, steps = scan(lambda c, r: (r, c), x[0], x)
    carry.add_(1)
    return carry, steps, x


@case("scan inside of map")
def _(x):
    return map_function(lambda row: scan(lambda c, r: (c + r, c * r), row[0], row)[1], torch.stack([x, x.sin()]))


@case("map inside of cond")
def _(x):
    return torch.cond(x.sum() > 0, lambda a: map_function(lambda r: r * 2, a), lambda a: a.cos(), (x,))


@case("cond with a closure over a list of tensors")
def _(x):
    parts = [x + i for i in range(3)]
    return torch.cond(x.mean() > 0, lambda: parts[0] * parts[1], lambda: parts[2] - 1)


@case("cond of a comparison of sizes and elements")
def _(x):
    big = (x > 0).sum() > x.numel() // 2
    return torch.cond(big, lambda a: a.relu(), lambda a: a.abs(), (x,))


@case("a while_loop with two conditions", plain)
def _(x):
    def go_on(i, a):
        return (i < 10) & (a.abs().max() < 50)

    return while_loop(go_on, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))


@case("numpy normalization of rows", plain)
def _(x):
    a = x.numpy()
    return torch.from_numpy((a - a.mean(1, keepdims=True)) / (a.std(1, keepdims=True) + 1e-5))


@case("numpy argmax and clip", plain)
def _(x):
    a = np.clip(x.numpy(), -0.5, 0.5)
    return torch.from_numpy(a), torch.from_numpy(np.argmax(a, axis=1)), a.shape[0] * a.size


@case("numpy sort, flip and roll", plain)
def _(x):
    a = np.sort(x.numpy(), axis=1)
    return torch.from_numpy(np.flip(a, 0).copy()), torch.from_numpy(np.roll(a, 1, axis=0))


@case("numpy einsum and outer", plain)
def _(x):
    a = x.numpy()
    return torch.from_numpy(np.einsum("ij,kj->ik", a, a)), torch.from_numpy(np.outer(a[0], a[1]))


@case("gradients of two outputs with weights")
def _(x):
    y, z = x.sin(), x * x
    torch.autograd.backward([y, z], [torch.ones_like(y), z.detach()])


@case("zero_grad of a module, and backward", lambda: (nn.Linear(4, 2), tensors()[0].detach()))
def _(m, x):
    m.zero_grad()
    m(x).abs().sum().backward()
    return [p.grad * 2 for p in m.parameters()]


@case("a gradient moved to another tensor", lambda: (*tensors(), tensors()[0].detach().cos().requires_grad_()))
def _(x, w):
    (x * 2).sum().backward()
    w.grad = x.grad * 3
    x.grad = None


class Shapes(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.found.append(tuple(result.shape))
        return result


@case("a function mode that records shapes")
def _(x):
    with Shapes() as shapes:
        y = x.T @ x
    return y, shapes.found


@case("sums over a dict of tensors")
def _(x):
    parts = {f"p{i}": row for i, row in enumerate(x)}
    return {k: v * len(k) for k, v in parts.items() if k != "p1"}, sum(parts.values())


@case("a walrus in a comprehension")
def _(x):
    return [y for i in range(4) if (y := x * i).shape[0] == 3 and i % 2]


@case("keyword-only arguments and defaults that are tensors")
def _(x):
    def inner(a, /, b, *, c=x * 2, **rest):
        return a + b * c - rest.get("d", 0)

    return inner(x, b=x.sin(), d=1.5) + inner(x, x, c=2)


@case("nested closures with nonlocal")
def _(x):
    total = x * 0

    def add(t):
        nonlocal total
        total = total + t
        return add

    add(x)(x.sin())(x.cos())
    return total


@case("min and max by a key")
def _(x):
    rows = list(enumerate(x.unbind(0)))
    i, row = max(rows, key=lambda pair: -pair[0])
    return row * (i + 1) + min(rows, key=lambda pair: pair[0])[1]


@case("string formatting of shapes")
def _(x):
    return x + len(f"{x.shape[0]:>4}x{x.shape[1]}"), "{}-{n}".format(*x.shape[:1], n=x.ndim)


@case("chained comparisons and conditional expressions")
def _(x):
    n = x.shape[1]
    return x * (1 if 2 < n <= 4 else 5) if not n == 3 else x


@case("bytes, sets and sorted keys")
def _(x):
    keys = sorted({"b", "a", "c"} - {"c"}, reverse=True)
    return {k: x * i for i, k in enumerate(keys)}, bytes([1, 2]).hex()


@case("ops by their overloads")
def _(x):
    y = torch.ops.aten.sin.default(x)
    return torch.ops.aten.expand.default(y[0], [2, 4]), torch.ops.aten.split.Tensor(x, 2), torch.ops.aten.add(x, y)


@case("writes of ops by their overloads", lambda: (torch.ones(3),))
def _(x):
    torch.ops.aten.add_.Tensor(x, x)
    return torch.ops.aten.mul_.Tensor(x, 3)
