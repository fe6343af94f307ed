"""Edges: code that built-in functions call back, orders, identities, values that change hands."""

from __future__ import annotations

import copy
import functools
import operator
import typing

import rushlight as torch
from rushlight import nn

from .harness import case, tensors

calls: list[str] = []


class Weight:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        calls.append("eq")
        return isinstance(other, Weight) and self.v == other.v

    def __hash__(self):
        return hash(self.v)

    def __lt__(self, other):
        return self.v < other.v

    def __repr__(self):
        return f"Weight({self.v})"


def _start():
    calls.clear()
    return (*tensors(), Weight(2), [Weight(1), Weight(2), Weight(3)])


def _calls():
    return list(calls)


@case("list.index calls __eq__", _start, _calls)
def _(x, w, values):
    y = x + 1
    return y * values.index(w)


@case("in over objects with __eq__", _start, _calls)
def _(x, w, values):
    return x * (w in values)


@case("list.sort of objects", _start, _calls)
def _(x, w, values):
    y = x * 2
    values.sort()
    return y, values[0].v


@case("list.remove, count and index within bounds, of objects", _start, _calls)
def _(x, w, values):
    count = values.count(w)
    at = values.index(w, 1, 3)
    values.remove(w)
    try:
        values.index(w)
    except ValueError:
        return x * count + at, len(values)


@case("list.sort of objects, backwards", _start, _calls)
def _(x, w, values):
    values.sort(reverse=True)
    return x * values[0].v, [v.v for v in sorted(values)]


@case("objects as keys of a dict", lambda: (*tensors(), Weight(2)), _calls, breaks=True)
def _(x, w):
    d = {w: 1}
    return x * d[w]


@case("equality of lists of objects", _start, _calls)
def _(x, w, values):
    return x * (values == [Weight(1), Weight(2), Weight(3)])


@case("str.format of an object's attribute", lambda: (*tensors(), Weight(2)), breaks=True)
def _(x, w):
    y = x * 2
    return y, "{0.v} and {0!r}".format(w)


@case("text of a list of objects", lambda: (*tensors(), [Weight(2)]))
def _(x, values):
    y = x * 2
    return y, f"{values}"


@case("order of a set from outside", lambda: (*tensors(), {"a", "b", "c"}), breaks=True)
def _(x, names):
    y = x * 2
    return y, [n for n in names]


@case("sorted set from outside", lambda: (*tensors(), {"a", "b", "c"}))
def _(x, names):
    return x * len(names), sorted(names), "b" in names


@case("operator.attrgetter and methodcaller", lambda: (*tensors(), Weight(2)))
def _(x, w):
    return x * operator.attrgetter("v")(w), operator.itemgetter(1, 0)([3, 4])


class Finalized:
    def __del__(self):
        calls.append("gone")


@case("an object with __del__", lambda: tensors(), breaks=True)
def _(x):
    y = x * 2
    made = Finalized()
    return y, made is not None


@case("deepcopy of plain data", lambda: (*tensors(), {"a": [1, {"b": 2}]}, Weight(3)))
def _(x, d, w):
    c = copy.deepcopy(d)
    c["a"][1]["b"] = 9
    return x * c["a"][1]["b"], c, copy.deepcopy(w).v


@case("the same object under two names", lambda: (lambda w: (*tensors(), w, w))(Weight(2)))
def _(x, a, b):
    a.v += 1
    return x * b.v, a is b


@case("the same tensor under two names", lambda: (lambda t: (t, t))(torch.ones(3)))
def _(a, b):
    return a is b, a + b


@case("an object in two containers", lambda: (lambda w: (*tensors(), [w], {"k": w}))(Weight(2)))
def _(x, a, d):
    a[0].v = 7
    return x * d["k"].v


@case("objects swapped between outer containers", lambda: (*tensors(), [Weight(1)], [Weight(2)]))
def _(x, a, b):
    a[0], b[0] = b[0], a[0]
    a[0].v += 10
    return x * b[0].v


@case("tensor made, kept outside, and changed in place", lambda: (*tensors(), {}))
def _(x, d):
    y = x.detach() * 2
    d["y"] = y
    y.add_(1)
    return d["y"].sum()


@case("argument changed in place and returned", lambda: (torch.ones(3),))
def _(x):
    x.mul_(3)
    return x, x * 2


@case("out= argument", lambda: (torch.ones(3), torch.zeros(3)))
def _(x, out):
    torch.add(x, 2, out=out)
    return out * 2


@case("a view of an argument in the result", lambda: (torch.arange(6.0),))
def _(x):
    return x.view(2, 3), x[1:3]


def _forgotten():
    grows.__defaults__[0].clear()
    return tensors()


@case("default arguments that are mutable", _forgotten, lambda: grows.__defaults__)
def _(x):
    return grows(x), grows(x)


def grows(x, seen=[]):  # noqa: B006 - that is the case
    seen.append(1)
    return x * len(seen)


@case("keyword defaults from outside", lambda: (*tensors(), Weight(3)))
def _(x, w):
    def inner(t, *, k=w.v, other=x):
        return t * k + other

    return inner(x), inner(x, k=1)


@case("a closure in a list from outside changes with the loop")
def _(x):
    fs = [lambda t, i=i: t * i for i in range(3)]
    gs = [lambda t: t + i for i in range(3)]
    return [f(x) for f in fs], [g(x) for g in gs]


@case("cached_property")
def _(x):
    class_made = Lazy(3)
    return x * class_made.square + class_made.square, calls.count("square") >= 0


class Lazy:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def square(self):
        return self.n ** 2


@case("cached_property of an object from outside", lambda: (*tensors(), Lazy(4)))
def _(x, lazy):
    return x * lazy.square


@functools.singledispatch
def describe(v):
    return "something"


@describe.register
def _int(v: int):
    return "int"


@case("singledispatch")
def _(x):
    y = x * 2
    return y, describe(3), describe("s")


class Base:
    registry: typing.ClassVar[dict] = {}

    def __init_subclass__(cls, **kwargs):
        Base.registry[cls.__name__] = cls

    def run(self, x):
        return x


class Child(Base):
    def run(self, x):
        return super().run(x) * 2


@case("a registry of classes", lambda: (*tensors(), "Child"))
def _(x, name):
    return Base.registry[name]().run(x)


@case("multiple inheritance and cooperative super")
def _(x):
    return Bottom().go(x)


class Top:
    def go(self, x):
        return x + 1


class Left(Top):
    def go(self, x):
        return super().go(x) * 2


class Right(Top):
    def go(self, x):
        return super().go(x) + 10


class Bottom(Left, Right):
    def go(self, x):
        return super().go(x) - 3


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.cache = {}
        self.gates = nn.ParameterList([nn.Parameter(torch.full((), float(i))) for i in range(3)])

    def forward(self, x, use=(0, 2), **flags):
        for i in use:
            x = self.layers[i](x) * self.gates[i]
        if flags.get("keep"):
            self.cache["last"] = x.detach()
        return x


@case("module with lists, keywords and a cache", lambda: (*tensors(), (torch.manual_seed(1), Dynamic())[1]))
def _(x, m):
    return m(x), m(x, use=range(2), keep=True)


@case("module attribute of the last call", lambda: (*tensors(), (torch.manual_seed(1), Dynamic())[1]))
def _(x, m):
    y = m(x, keep=True)
    return y + m.cache["last"]


@case("generator that is only partly drawn")
def _(x):
    def numbers():
        i = 0
        while True:
            yield i
            i += 1

    g = numbers()
    return x * (next(g) + next(g) + next(g))


@case("zip of a generator and a list")
def _(x):
    return [a * b for a, b in zip((x * i for i in range(3)), [1, 2])]


@case("exception inside a generator passes to the caller")
def _(x):
    def g():
        yield x
        raise KeyError("end")

    found = []
    try:
        for v in g():
            found.append(v)
    except KeyError as error:
        found.append(error.args[0])
    return found


@case("try, finally with break and continue in a loop")
def _(x):
    n = 0
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
        finally:
            n += 1
    return x, n


@case("nested functions three deep")
def _(x):
    a = 1

    def f():
        b = 2

        def g():
            nonlocal b
            c = 3

            def h():
                nonlocal c
                c += 1
                return x * (a + b + c)

            b += 1
            return h() + c

        return g() + b

    return f()


@case("a star-expression in the middle of a call", lambda: (*tensors(), [2, 3]))
def _(x, dims):
    return x.new_zeros(1, *dims, 4).shape, torch.ones(*dims), max(*dims, 5)


@case("complex numbers and large integers")
def _(x):
    return x * (2 ** 40 // 2 ** 39), (1 + 2j) * 2, 10 ** 20


@case("float edge values")
def _(x):
    return x.clamp(min=float("-inf"), max=float("inf")), float("nan") != float("nan"), -0.0


@case("scaled_dot_product_attention with a mask")
def _(x):
    q = x[None, None]
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@case("masked_fill, gather, scatter, index_add")
def _(x):
    i = torch.tensor([[0, 1], [1, 2], [2, 0]])
    return (x.masked_fill(x > 0, 0.0), x.gather(1, i), torch.zeros_like(x).scatter_add(1, i, x[:, :2]),
            torch.zeros(2, 4).index_add(0, torch.tensor([0, 1, 0]), x))
