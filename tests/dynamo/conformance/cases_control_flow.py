"""Control flow as functions: captured whole, the functions as graphs."""

from __future__ import annotations

import rushlight as torch
from rushlight import nn
from rushlight._higher_order_ops import associative_scan, map as map_function, scan, while_loop
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

from .harness import case, tensors

WEIGHT = torch.linspace(-1, 1, 4)
log: list[str] = []


def negative():
    (x,) = tensors()
    return ((-x.detach().abs()).requires_grad_(),)


def positive():
    (x,) = tensors()
    return (x.detach().abs().requires_grad_(),)


@case("cond, true", positive)
def _(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos(), (x,))


@case("cond, false", negative)
def _(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos(), (x,))


@case("cond whose functions read tensors around them", negative)
def _(x):
    scale = x.exp()
    return torch.cond(x.sum() > 0, lambda a: a * WEIGHT, lambda a: a * scale - WEIGHT, (x,)) + scale


@case("cond of a Python bool")
def _(x):
    return torch.cond(x.shape[0] > 2, lambda a: a + 1, lambda a: a - 1, (x,))


@case("cond with nested operands and results", positive)
def _(x):
    first = {"a": x, "b": [x * 2]}
    return torch.cond(x.mean() > 0, lambda d, k: {"s": d["a"] + k, "t": (d["b"][0] * 4, 1)},
                      lambda d, k: {"s": d["a"] - k, "t": (d["b"][0] * 3, 1)}, (first, x))


@case("cond inside of cond", negative)
def _(x):
    def inner(a):
        return torch.cond(a.min() < -1, lambda b: b * 2, lambda b: b + WEIGHT, (a,))

    return torch.cond(x.sum() > 0, lambda a: a.sin(), inner, (x,))


@case("cond that returns a view of its operand, written to later", positive, is_refused=True)
def _(x):
    y = x.detach() * 1
    z = torch.cond(x.sum() > 0, lambda a: a.view(-1), lambda a: a.reshape(-1) * 2, (y,))
    z.add_(1)
    return z, y


@case("cond whose results share memory", positive, is_refused=True)
def _(x):
    def yes(a):
        b = a * 2
        return b, b.view(-1)

    y, z = torch.cond(x.sum() > 0, yes, lambda a: (a * 3, a.reshape(-1) * 1), (x.detach(),))
    y.add_(1)
    return y, z


@case("cond whose functions draw from an iterator", positive, is_refused=True)
def _(x):
    numbers = iter([1, 2, 3])
    y = torch.cond(x.sum() > 0, lambda a: a * next(numbers), lambda a: a - next(numbers), (x,))
    return y + next(numbers)


@case("cond on the same operand twice, on views", negative)
def _(x):
    y = torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a - b * 2, (x[1:], x[1:]))
    return y, torch.cond(x.sum() > 0, lambda a: a.t() * 2, lambda a: a.t() + 1, (x,))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        def both(a):
            return self.one(a) + self.two(a)

        return torch.cond(x.sum() > 0, both, lambda a: self.one(self.two(a).relu()), (x,))


def gate():
    torch.manual_seed(5)
    return (Gate(), *negative())


@case("cond over submodules", gate)
def _(m, x):
    return m(x)


@case("cond under no_grad", positive)
def _(x):
    with torch.no_grad():
        y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
    return y, x * 2


def _log():
    return list(log)


def _clean():
    log.clear()
    return positive()


@case("cond whose functions append to a list", _clean, _log, is_refused=True)
def _(x):
    def yes(a):
        log.append("yes")
        return a + 1

    def no(a):
        log.append("no")
        return a - 1

    return torch.cond(x.sum() > 0, yes, no, (x,))


@case("cond whose functions change a variable around them", positive, is_refused=True)
def _(x):
    count = 0

    def yes(a):
        nonlocal count
        count += 1
        return a + 1

    y = torch.cond(x.sum() > 0, yes, lambda a: a - 1, (x,))
    return y, count


@case("cond whose function writes to its operand", lambda: (tensors()[0].detach().abs(),), is_refused=True)
def _(x):
    return torch.cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a - 1, (x,)), x


@case("cond whose functions return other sizes", positive, breaks=True)
def _(x):
    return torch.cond(x.sum() > 0, lambda a: a[:1], lambda a: a, (x,))


@case("while_loop", lambda: (tensors()[0].detach(),))
def _(x):
    i = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 1.5 + WEIGHT), (i, x))


@case("while_loop that never runs", lambda: (tensors()[0].detach(),))
def _(x):
    i = torch.zeros((), dtype=torch.int64)
    i, y = while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (i, x))
    return y + 1, i


@case("while_loop until elements say so, with a closure", lambda: (tensors()[0].detach(),))
def _(x):
    limit = x.abs().sum() * 8
    return while_loop(lambda a: a.abs().sum() < limit, lambda a: (a * 2,), (x,))


@case("scan with gradients")
def _(x):
    return scan(lambda c, r: (c * r + WEIGHT, c - r), x[0] * 2, x)


@case("scan along another dim, from the end")
def _(x):
    return scan(lambda c, r: (c + r, c * r), x[:, 0], x, dim=1, reverse=True)


@case("scan of nested values")
def _(x):
    def step(c, r):
        return {"m": c["m"] + r[0], "n": c["n"] * r[1].mean()}, (c["m"] * r[1],)

    return scan(step, {"m": x[0], "n": x[1]}, (x, x.sin()))


@case("scan with tensors around that want gradients")
def _(x):
    w = x[2].exp()
    return scan(lambda c, r: (torch.tanh(c + r * w), c), torch.zeros(4), x)


@case("map with gradients and further arguments")
def _(x):
    return map_function(lambda r, k, s: (r * k).sin() * s, x, x[1], 2.0)


@case("associative_scan")
def _(x):
    return associative_scan(lambda a, b: a + b, x, 0), associative_scan(torch.mul, x, 1, reverse=True)


@case("associative_scan of a linear recurrence")
def _(x):
    def combine(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    return associative_scan(combine, (x.sigmoid(), x), 0, combine_mode="generic")


def attention():
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(2, 2, 8, 4, generator=generator).requires_grad_() for _ in range(3))


@case("flex_attention with a score_mod that reads a tensor", attention)
def _(q, k, v):
    bias = q[0, 0, :, 0]
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[i] - 0.1 * (i - j).abs())


MASK = create_block_mask(lambda b, h, i, j: i >= j, 2, 2, 8, 8, BLOCK_SIZE=4)


@case("flex_attention with a block mask", attention)
def _(q, k, v):
    return flex_attention(q, k, v, block_mask=MASK, scale=0.5)


@case("flex_attention with fewer key heads", attention)
def _(q, k, v):
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True, score_mod=lambda s, b, h, i, j: s * (h + 1))
