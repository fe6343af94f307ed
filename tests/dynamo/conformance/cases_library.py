"""Cases: what the standard library and the less usual corners of the language bring, and contexts of the library."""

from __future__ import annotations

import abc
import bisect
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import operator
import types
import weakref
from typing import Any, Generic, TypeVar

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F  # noqa: N812

from .harness import case

T = TypeVar("T")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 1
    names: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.names.append("made")


class Mode(enum.Flag):
    UP = enum.auto()
    DOWN = enum.auto()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@case("match on a class")
def match_class(x):
    match Point(x, 3):
        case Point(x=value, y=int(n)) if n > 2:
            return value * n
        case Point():
            return x


@case("match on alternatives and captures")
def match_alternatives(x):
    found = []
    for shape in ((3, 4), [1, 2, 3], {"a": 1, "b": 2}, "text", None):
        match shape:
            case (int(a), int(b)):
                found.append(a * b)
            case [first, *rest]:
                found.append(first + len(rest))
            case {"a": a, **others}:
                found.append(a + len(others))
            case "text" | "other" as word:
                found.append(len(word))
            case _:
                found.append(0)
    return x * sum(found)


@case("dataclass with a factory and __post_init__")
def dataclass_factory(x):
    point = Point(x)
    return point.x * len(point.names), dataclasses.asdict(Point(1, 2)), [f.name for f in dataclasses.fields(point)]


@case("flags and int enums")
def flags(x):
    mode = Mode.UP | Mode.DOWN
    return x * (Level.HIGH + 1) if Mode.UP in mode and Level.LOW < Level.HIGH else x


@case("SimpleNamespace and MappingProxyType")
def namespaces(x):
    space = types.SimpleNamespace(scale=2, x=x)
    space.extra = types.MappingProxyType({"a": 3})
    return space.x * space.scale + space.extra["a"]


@case("ChainMap")
def chain_map(x):
    found = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return x * found["a"] + found["b"]


@case("heapq and bisect")
def heaps(x):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 2)
    return x * heapq.heappop(heap) + bisect.bisect([1, 3, 5], 4)


@case("itertools: groupby, combinations, takewhile, pairwise, count")
def more_itertools(x):
    total = sum(len(list(group)) for _, group in itertools.groupby([1, 1, 2, 3, 3]))
    pairs = list(itertools.pairwise([1, 2, 4]))
    taken = list(itertools.takewhile(lambda n: n < 4, itertools.count(1)))
    return x * total + len(list(itertools.combinations(range(4), 2))) + pairs[1][1] + taken[-1]


@case("copy.copy of an object")
def shallow_copy(x):
    point = Point(x, 2)
    other = copy.copy(point)
    other.y = 5
    return point.x * point.y + other.y, other.names is point.names


@case("a class with __init_subclass__ made inside", breaks=True)
def subclass_made(x):
    class Base:
        registry: list[str] = []  # noqa: RUF012 - shared on purpose

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            Base.registry.append(cls.__name__)

    class One(Base):
        pass

    return x * len(One.registry)


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, kind=None):
        return self if obj is None else getattr(obj, self.name, 1)

    def __set__(self, obj, value):
        setattr(obj, self.name, abs(value))


class Box(Generic[T]):
    size = Positive()

    def __init__(self, value):
        self.value = value

    def __class_getitem__(cls, item):
        return cls


@case("data descriptors with __set_name__, generic classes")
def descriptors(x):
    box = Box[int](x)
    box.size = -3
    return box.value * box.size


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    def double(self):
        return self.area() * 2


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side.square()


@case("abstract classes")
def abstract(x):
    return Square(x).double


@case("contextlib.ExitStack")
def exit_stack(x):
    order = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.callback(order.append, 1)
        y = x * 2
    return y, order, x * 3


class Handle:
    is_open = True

    def close(self):
        self.is_open = False


@case("contextlib.closing and redirecting attributes of a block")
def closing(x):
    handle = Handle()
    with contextlib.closing(handle) as h:
        y = x * (2 if h.is_open else 3)
    return y if not handle.is_open else x


@case("exception groups", breaks=True)
def exception_groups(x):
    found = []
    try:
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        found.append(len(group.exceptions))
    except* TypeError:
        found.append(10)
    return x * sum(found)


@case("exception with notes and __cause__")
def exception_notes(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("b") from error
    except ValueError as error:
        return x * len(str(error.__cause__)), type(error.__cause__).__name__


@case("weak references")
def weak(x):
    point = Point(x)
    ref = weakref.ref(point)
    return ref().x * 2


@case("a disabled function", is_refused=True)
def disabled(x):
    return undisturbed(x.sin()) + 1


@torch.compiler.disable
def undisturbed(x):
    return x * 2


@case("is_compiling")
def compiling(x):
    return x.sin() + x.cos() if torch.compiler.is_compiling() else x.sin() + x.cos() + 0


@case("a key function that reads elements", is_refused=True)
def key_of_elements(x):
    rows = sorted(x, key=row_total)
    return torch.stack(rows) * 2


def row_total(t):
    return (t * 2).sum().item()


@case("callbacks of functools.reduce and map behind a break", is_refused=True)
def callbacks(x):
    torch._dynamo.graph_break()
    return functools.reduce(operator.add, map(row_sine, list(x))), x.sum().item()


def row_sine(t):
    return t.sin() * 2


@case("a function that is made anew and called back", is_refused=True)
def made_anew(x):
    scale = x.sum()
    return torch.stack(sorted(x, key=lambda t: (t * scale).sum().item()))


@case("torch.device and default dtype as contexts")
def device_context(x):
    with torch.device("cpu"):
        y = torch.ones(3, 4)
    return x + y


@case("profiler.record_function")
def record(x):
    with torch.profiler.record_function("part"):
        return x.sin()


@case("autocast as a decorator")
def autocast_decorator(x):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(a):
        return a @ a.T

    return inner(x)


@case("sdpa_kernel context")
def kernel_context(x):
    q = x.view(1, 1, 3, 4)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q)


class WithPreHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.linear.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)

    def forward(self, x):
        return self.linear(x)


@case("forward pre-hook with keywords", module=WithPreHook())
def pre_hook_keywords(x, module):
    return module(x)


@case("named_parameters, buffers and state_dict keys", module=nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval())
def named(x, module):
    total = sum(p.sum() for name, p in module.named_parameters() if name.endswith("weight"))
    return x * total, [name for name, _ in module.named_buffers()], list(module.state_dict())


@case("torch.func.hessian")
def hessian(x):
    return torch.func.hessian(lambda a: (a**3).sum())(x[0])


@case("torch.func.vjp")
def vjp(x):
    y, pull = torch.func.vjp(torch.sin, x)
    return y, pull(torch.ones(3, 4))[0]


@case("zip with strict, and its error")
def zip_strict(x):
    found = [a + b for a, b in zip([1, 2], [3, 4], strict=True)]
    try:
        list(zip([1], [2, 3], strict=True))
    except ValueError:
        found.append(1)
    return x * sum(found)


@case("format specifications and conversions")
def formats(x):
    text = f"{x.shape[0]:>4}|{3.14159:.2f}|{'a'!r:*^7}|{x.ndim=}"
    return x * len(text), text


@functools.total_ordering
class Number:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    def times(self, t, k):
        return t * self.n * k

    twice = functools.partialmethod(times, k=2)


@case("partialmethod, total_ordering")
def partial_methods(x):
    return Number(3).twice(x) if Number(1) <= Number(3) else x


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, t, *, plus=0):
        return t * self.k + plus


@case("a callable object and __call__ of a class from outside")
def callables(x):
    return functools.partial(Scale(2), plus=1)(x) + sum(f(x) for f in (Scale(3), torch.sin))


class Bag:
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, item):
        return item in self.items

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return len(self.items) > 1


@case("object with __iter__, __contains__, __len__, __bool__")
def containers(x):
    bag = Bag(1, 2, 3)
    return x * sum(bag) if bag and 2 in bag and len(bag) == 3 else x


@case("an async function that is driven here", breaks=True)
def coroutine(x):
    async def later(t):
        return t * 2

    try:
        later(x).send(None)
    except StopIteration as stop:
        return stop.value
