"""Objects: attributes, properties, descriptors, inheritance, dataclasses, enums, modules."""

from __future__ import annotations

import dataclasses
import enum
import typing

import rushlight as torch
from rushlight import nn

from .harness import case, tensors


class Box:
    kind = "box"
    scale: typing.ClassVar[float] = 2.0

    def __init__(self, value=1):
        self.value = value
        self.history = []

    def grow(self, by):
        self.value += by
        self.history.append(by)
        return self

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, v):
        self.value = v / 2

    @classmethod
    def of(cls, v):
        return cls(v)

    @staticmethod
    def plus(a, b):
        return a + b

    def __call__(self, t):
        return t * self.value

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.value + i

    def __contains__(self, v):
        return v == self.value

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __add__(self, other):
        return Box(self.value + (other.value if isinstance(other, Box) else other))

    def __radd__(self, other):
        return Box(other + self.value)

    def __lt__(self, other):
        return self.value < other.value

    def __bool__(self):
        return self.value != 0

    def __repr__(self):
        return f"Box({self.value})"


class Lid(Box):
    def __init__(self, value=1, lid="flat"):
        super().__init__(value)
        self.lid = lid

    def grow(self, by):
        super().grow(by * 10)
        return self

    @property
    def doubled(self):
        return super().doubled + 1


@case("read attributes of an object", lambda: (*tensors(), Box(3)))
def _(x, box):
    return x * box.value + box.scale, box.kind


@case("write attributes of an object", lambda: (*tensors(), Box(3)))
def _(x, box):
    box.value = box.value + 1
    box.fresh = x * 2
    box.value *= 2
    return x * box.value


@case("delete an attribute", lambda: (*tensors(), Box(3)))
def _(x, box):
    del box.history
    return x, hasattr(box, "history")


@case("methods that write", lambda: (*tensors(), Box(3)))
def _(x, box):
    box.grow(2).grow(4)
    return box(x), len(box.history)


@case("properties, read and written", lambda: (*tensors(), Box(3)))
def _(x, box):
    box.doubled = 10
    return x * box.doubled, box.value


@case("classmethod and staticmethod", lambda: (*tensors(), Box(3)))
def _(x, box):
    return x * Box.of(4).value + Box.plus(1, 2) + box.plus(3, 4)


@case("objects made inside", )
def _(x):
    a = Box(x)
    b = Box(2)
    a.extra = b
    return a(b(x)), a.extra.value


@case("a returned object made inside")
def _(x):
    box = Box(x * 2)
    box.history.append(1)
    return box


@case("special methods", lambda: (*tensors(), Box(3)))
def _(x, box):
    return x * len(box) + box[4] + (3 in box) + (box == Box(3)) + (box + 1).value + (1 + box).value, bool(box), f"{box}"


@case("sorting objects by their own order")
def _(x):
    boxes = [Box(3), Box(1), Box(2)]
    return x * sorted(boxes)[0].value, min(boxes).value, [b.value for b in sorted(boxes, reverse=True)]


@case("inheritance and super()", lambda: (*tensors(), Lid(3)))
def _(x, lid):
    lid.grow(1)
    return x * lid.doubled, lid.lid, isinstance(lid, Box), Lid(2, lid="round").lid


class Logged:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, kind=None):
        return self if owner is None else owner.__dict__.get(self.name, 0) + 1

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value * 2


class Described:
    field = Logged()

    def __getattr__(self, name):
        if name.startswith("auto_"):
            return len(name)
        raise AttributeError(name)


@case("descriptors and __getattr__", lambda: (*tensors(), Described()))
def _(x, d):
    d.field = 5
    return x * d.field + d.auto_name, getattr(d, "other", 9)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@case("__slots__", lambda: (*tensors(), Slotted(1, [2])))
def _(x, s):
    s.a += 4
    s.b.append(5)
    return x * s.a, Slotted(x, 2).a


@dataclasses.dataclass
class Point:
    x: typing.Any
    y: typing.Any = 2
    tags: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.x * self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: typing.Any = None


@case("dataclass", lambda: (*tensors(), Point(1)))
def _(x, p):
    p.x = p.x + 1
    q = Point(x, y=p.y)
    q.tags.append("t")
    return q.norm() * p.x, q, p == Point(2, 2), [f.name for f in dataclasses.fields(p)]


@case("frozen dataclass and replace")
def _(x):
    f = Frozen(3, x)
    try:
        f.a = 4
    except dataclasses.FrozenInstanceError:
        n = 2
    return f.b * f.a * n, dataclasses.replace(f, a=9)


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def shade(self):
        return self.value * 10


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@case("enums", lambda: (*tensors(), Color.RED))
def _(x, c):
    if c is Color.RED and c == Color(1) and Color["BLUE"].name == "BLUE":
        x = x * c.value
    return x * Level.HIGH + c.shade, c, len(Color), [m.name for m in Color], {Color.RED: 1}[c]


class Typed(typing.NamedTuple):
    first: typing.Any
    second: int = 3

    def total(self):
        return self.first * self.second


@case("typing.NamedTuple")
def _(x):
    t = Typed(x)
    a, b = t
    return t.total(), a, b, t


class Stack(list):
    def top(self):
        return self[-1]


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@case("subclass of list", lambda: (*tensors(), Stack([1, 2])))
def _(x, s):
    s.append(4)
    made = Stack([x])
    return x * s.top(), made.top(), len(s)


@case("subclass of dict with attributes", lambda: (*tensors(), Config(a=2, b=3)))
def _(x, c):
    c["new"] = 5
    return x * c.a + c.b, c.get("zz"), hasattr(c, "nothing"), list(c)


@case("isinstance of a protocol and abstract class")
def _(x):
    from collections.abc import Iterable, Mapping, Sequence
    return x * isinstance([1], Sequence) + isinstance({}, Mapping) + isinstance(x, Iterable)


@case("a class made inside the function")
def _(x):
    class Made:
        pass

    return x


class Meters:
    def __new__(cls, v):
        made = super().__new__(cls)
        made.unit = "m"
        return made

    def __init__(self, v):
        self.v = v


@case("a class with __new__")
def _(x):
    return x * Meters(4).v, Meters(1).unit


@case("getattr and setattr by name", lambda: (*tensors(), Box(3)))
def _(x, box):
    for name in ("p", "q"):
        setattr(box, name, len(name))
    return x * getattr(box, "p") + getattr(box, "value")


@case("vars and __dict__", lambda: (*tensors(), Box(3)))
def _(x, box):
    return x * len(vars(box)), sorted(box.__dict__), "value" in box.__dict__


@case("class attributes and type()", lambda: (*tensors(), Lid(3)))
def _(x, lid):
    return x * type(lid).scale, type(lid).__name__, lid.__class__ is Lid, Lid.__mro__[1].__name__


@case("method stored in a variable", lambda: (*tensors(), Box(3)))
def _(x, box):
    f = box.grow
    f(2)
    return box(x), Box.plus(1, 2)


@case("object graph with a cycle", lambda: (*tensors(), Box(3)))
def _(x, box):
    a, b = Box(1), Box(2)
    a.other, b.other = b, a
    box.held = a
    return x * a.other.other.value


# --- modules ----------------------------------------------------------------------------------------------------------


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
        self.act = nn.GELU()
        self.steps = 0

    def forward(self, x):
        return self.second(self.act(self.first(x)))


class Counting(MLP):
    def forward(self, x):
        self.steps += 1
        self.last = x * 2
        return super().forward(x) * self.steps


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.total += x.detach().sum(0)
        return x * self.weight + self.total


class Reassigned(Buffered):
    def forward(self, x):
        self.total = self.total + x.detach().sum(0)
        return x + self.total


def with_module(kind):
    def make():
        torch.manual_seed(5)
        return (*tensors(), kind())
    return make


@case("module call", with_module(MLP))
def _(x, m):
    return m(x)


@case("module that counts and keeps", with_module(Counting))
def _(x, m):
    return m(x)


@case("buffer written in place", with_module(Buffered))
def _(x, m):
    return m(x)


@case("buffer assigned", with_module(Reassigned))
def _(x, m):
    return m(x) + m(x)


@case("Sequential, ModuleList, ModuleDict", with_module(lambda: nn.ModuleDict({
    "a": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0)),
    "b": nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])})))
def _(x, m):
    y = m["a"](x)
    for layer in m["b"]:
        y = layer(y)
    return y, len(m), [k for k in m.keys()], m["b"][0].weight.shape, "a" in m


@case("BatchNorm in training", with_module(lambda: nn.BatchNorm1d(4)))
def _(x, m):
    return m(x), m.training


@case("BatchNorm in evaluation", with_module(lambda: nn.BatchNorm1d(4).eval()))
def _(x, m):
    return m(x)


@case("dropout in evaluation and training flag", with_module(lambda: nn.Dropout(0.5).eval()))
def _(x, m):
    return m(x) if not m.training else x


@case("dropout in training: same random numbers", with_module(lambda: nn.Dropout(0.5)))
def _(x, m):
    return m(x)


@case("parameters iterated", with_module(MLP))
def _(x, m):
    return x.sum() * sum(p.sum() for p in m.parameters()), [n for n, _ in m.named_parameters()]


@case("children and modules iterated", with_module(MLP))
def _(x, m):
    return x, [type(c).__name__ for c in m.children()], len(list(m.modules())), [n for n, _ in m.named_modules()]


@case("parameter attributes", with_module(MLP))
def _(x, m):
    return m.first.weight.t() @ m.first.weight, m.first.in_features, m.first.bias is not None, isinstance(
        m.first.weight, nn.Parameter)


def hooked():
    m = MLP()
    m.first.register_forward_hook(lambda mod, args, out: out * 2)
    m.second.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    return m


@case("forward hooks", with_module(hooked))
def _(x, m):
    return m(x)


def parametrized():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w + w.transpose(0, 1)

    m = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(m, "weight", Symmetric())
    return m


@case("parametrized weight", with_module(parametrized))
def _(x, m):
    return m(x)


@case("weight_norm", with_module(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))))
def _(x, m):
    return m(x)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a
        self.b2 = nn.Linear(4, 4)
        self.b2.weight = self.a.weight

    def forward(self, x):
        return self.a(x) + self.b(x) + self.b2(x)


@case("shared modules and tied weights", with_module(Shared))
def _(x, m):
    return m(x), m.a is m.b


@case("MultiheadAttention", with_module(lambda: nn.MultiheadAttention(4, 2, batch_first=True)))
def _(x, m):
    return m(x[None], x[None], x[None], need_weights=False)[0]


@case("LSTM", with_module(lambda: nn.LSTM(4, 5, batch_first=True)))
def _(x, m):
    return m(x[None])[0]


@case("TransformerEncoderLayer", with_module(
    lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)))
def _(x, m):
    return m(x[None])


@case("Embedding and Conv1d", with_module(lambda: nn.ModuleList([nn.Embedding(10, 4), nn.Conv1d(3, 2, 2)])))
def _(x, m):
    return m[1](x[None] + m[0](torch.arange(3))[None])


@case("checkpoint", with_module(MLP))
def _(x, m):
    from rushlight.utils.checkpoint import checkpoint
    return checkpoint(m, x, use_reentrant=False)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * ctx.k * 3, None


@case("custom autograd Function")
def _(x):
    return Double.apply(x * 2, 2) + 1


@case("torch.func.grad")
def _(x):
    return torch.func.grad(lambda t: (t * t).sum())(x)


@case("torch.func.vmap")
def _(x):
    return torch.func.vmap(lambda row: row.sum() * row)(x)


@case("torch.func: argnums, has_aux, closures, in_dims, nesting")
def _(x):
    w = x * 2
    f = torch.func
    g, aux = f.grad(lambda a, b: ((a * b * w).sum(), a + 1), argnums=1, has_aux=True)(x, x * 3)
    v = f.vmap(lambda col, s: col * s + w[:, 0], in_dims=(1, None), out_dims=1)(x, torch.tensor(2.0))
    n = f.vmap(f.grad(lambda row: (row ** 2).sum()))(x)
    return g, aux, v, n


@case("torch.func.jacrev, jacfwd, jvp")
def _(x):
    f = torch.func
    row = x[0]
    return (f.jacrev(lambda r: r * r)(row), f.jacfwd(lambda r: r * r * r)(row),
            f.jvp(lambda r: r.sin(), (row,), (torch.ones_like(row),)))


@case("torch.func.functional_call", with_module(MLP))
def _(x, m):
    params = {k: v * 2 for k, v in m.named_parameters()}
    return torch.func.functional_call(m, params, (x,))


@case("cond on a Python value")
def _(x):
    return torch.cond(x.shape[0] > 2, lambda t: t * 2, lambda t: t + 1, (x,))


@case("cond on a tensor")
def _(x):
    y = x + 1
    return torch.cond(y.sum() > 0, lambda t: t * 2, lambda t: t + 1, (y,))


@case("autograd.grad inside")
def _(x):
    y = (x * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return g * 2


@case("in-place ops on a view of an argument", lambda: (torch.arange(6.0).reshape(2, 3),))
def _(x):
    x[0].mul_(2)
    x.view(-1)[5] = 100
    x.t().add_(1)
    return x.sum()


@case("detach, clone, contiguous, to, type conversion")
def _(x):
    return x.detach() * 2, x.clone(), x.t().contiguous(), x.to(torch.float64), x.double().float(), x.half().dtype


@case("factories and random numbers")
def _(x):
    return (torch.zeros(2), torch.ones_like(x), torch.full((2,), 3.0), torch.arange(4), torch.rand(3), torch.randn(2),
            torch.tensor([1.0, 2.0]), torch.eye(2), torch.linspace(0, 1, 3), x.new_ones(2), torch.randint(0, 9, (2,)))


@case("multiple results of an op")
def _(x):
    values, indices = x.max(dim=1)
    s = x.sort(dim=0)
    return values, indices, s.values, x.topk(2).indices, torch.split(x, 2, dim=1), x.chunk(2), x.unbind(1)


@case("einsum and functional ops")
def _(x):
    F = nn.functional
    return (torch.einsum("ij,kj->ik", x, x), F.softmax(x, -1), F.layer_norm(x, (4,)), F.pad(x, (1, 1)),
            F.one_hot(torch.arange(3), 4), torch.where(x > 0, x, -x), F.cross_entropy(x, torch.tensor([0, 1, 2])))


@case("einops", )
def _(x):
    from einops import rearrange
    return rearrange(x, "a (b c) -> b a c", c=2)


@case("tensor attributes")
def _(x):
    return (x.shape, x.dtype, x.device, x.requires_grad, x.is_leaf, x.ndim, x.T.shape, x.mT.shape, x.is_contiguous(),
            x.stride(), x.is_floating_point(), x.element_size(), x.layout is torch.strided, x.grad is None)


@case("numpy on a tensor", lambda: (torch.ones(3),), breaks=True)
def _(x):
    import numpy as np
    return x + torch.from_numpy(np.asarray((x * 2).numpy()))


class Table(dict):
    """Makes what it holds when somebody asks for it."""

    def __getitem__(self, key):
        kind, options = super().__getitem__(key)
        return kind(**options)


TABLE = Table(relu=(torch.nn.ReLU, {}), leaky=(torch.nn.LeakyReLU, {"negative_slope": 0.25}))


@case("a dict with a __getitem__ of its own")
def _(x):
    return TABLE["leaky"](x) + TABLE["relu"](x), "relu" in TABLE, len(TABLE)
