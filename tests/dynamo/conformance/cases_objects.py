"""Classes as programs write them: made inside, by metaclasses, with attributes of their own, and generators."""

from __future__ import annotations

import abc
import dataclasses
import enum
import typing

import rushlight as torch
from rushlight import nn

from .harness import case, tensors

# --- dataclasses ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(order=True)
class Version:
    major: int
    minor: int = 0
    tags: list = dataclasses.field(default_factory=list, compare=False)
    text: str = dataclasses.field(init=False, repr=False, default="")

    def __post_init__(self):
        self.text = f"{self.major}.{self.minor}"


@case("dataclass: field, post_init, order, replace, asdict, fields")
def _(x):
    a, b = Version(1, 2), Version(1, 3, ["t"])
    c = dataclasses.replace(b, minor=1)
    names = [f.name for f in dataclasses.fields(c)]
    return x * (a < b), max(a, b, c).text, c, names, dataclasses.asdict(b), a == Version(1, 2)


@dataclasses.dataclass
class Base:
    scale: float = 2.0


@dataclasses.dataclass
class Derived(Base):
    weights: typing.Any = None
    kind: typing.ClassVar[str] = "derived"

    def apply(self, x):
        return x * self.scale if self.weights is None else x * self.weights


@case("dataclass with a tensor in it, derived, from outside", lambda: (*tensors(), Derived(weights=torch.ones(4))))
def _(x, config):
    y = config.apply(x)
    config.weights = None
    return y + config.apply(x), config.kind, config


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    depth: int = 2
    name: str = "n"


@case("dataclass: frozen, slots, keyword-only")
def _(x):
    options = Options(depth=3)
    try:
        options.depth = 5
    except dataclasses.FrozenInstanceError:
        x = x + 1
    return x * options.depth, hash(options) == hash(Options(depth=3)), repr(options)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@case("__slots__: unset, deleted and set again", lambda: (*tensors(), Slotted(2)))
def _(x, s):
    if not hasattr(s, "b"):
        s.b = s.a + 1
    del s.a
    s.a = x.sum()
    return x * s.b, hasattr(s, "a")


# --- enums ------------------------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = enum.auto()
    SLOW = enum.auto()
    ALSO_FAST = 1

    @property
    def factor(self):
        return {Mode.FAST: 2, Mode.SLOW: 3}[self]

    @classmethod
    def parse(cls, text):
        return cls[text.upper()]


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Named(str, enum.Enum):
    RELU = "relu"
    TANH = "tanh"


@case("enums: auto, aliases, properties, by name and value", lambda: (*tensors(), Mode.SLOW))
def _(x, mode):
    if mode is Mode.parse("slow") and Mode(1) is Mode.ALSO_FAST:
        x = x * mode.factor
    return x, [m.name for m in Mode], mode in Mode, Mode.FAST.value


@case("enum flags: operators and membership")
def _(x):
    access = Access.READ
    access |= Access.WRITE
    if Access.READ in access and access == Access.BOTH:
        x = x * access.value
    return x, bool(access & Access.WRITE), (access & ~Access.READ) is Access.WRITE


@case("enums that are ints and strings", lambda: (*tensors(), Named.TANH))
def _(x, act):
    y = getattr(torch, act.value)(x)
    return y * Level.HIGH + (Level.LOW < Level.HIGH), act == "tanh", {"tanh": 1}[act], sorted(Level)[0].name


# --- attributes -------------------------------------------------------------------------------------------------------


class Recording:
    def __init__(self):
        object.__setattr__(self, "writes", [])

    def __setattr__(self, name, value):
        self.writes.append(name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        if name.startswith("auto_"):
            return len(name)
        raise AttributeError(name)

    def __delattr__(self, name):
        self.writes.append(f"-{name}")
        object.__delattr__(self, name)


@case("__setattr__, __getattr__ and __delattr__ of a class", lambda: (*tensors(), Recording()))
def _(x, r):
    r.a = 2
    r.b = r.auto_size
    del r.a
    return x * r.b, hasattr(r, "a"), getattr(r, "nothing", 7), r.writes


class Proxy:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def __getitem__(self, key):
        return self._inner[key]


@case("a proxy that passes attributes on", lambda: (Proxy(tensors()[0].detach()), Proxy(nn.Linear(4, 2))))
def _(x, layer):
    return layer.forward(x[0]) + x.shape[0], layer.in_features


class Attributes(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = dict.__setitem__


@case("a dict with attributes for keys", lambda: (*tensors(), Attributes(lr=0.5)))
def _(x, config):
    config.steps = 3
    return x * config.lr + config["steps"], config


class Validated:
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(owner, self.name, 1)

    def __set__(self, owner, value):
        if value < 0:
            raise ValueError("negative")
        setattr(owner, self.name, value)


class Checked:
    size = Validated()
    other = Validated()


@case("descriptors that validate", lambda: (*tensors(), Checked()))
def _(x, c):
    c.size = 4
    try:
        c.other = -1
    except ValueError as error:
        x = x + len(str(error))
    return x * c.size + c.other


# --- classes of classes -----------------------------------------------------------------------------------------------


class Counting(type):
    def __call__(cls, *args, **kwargs):
        result = super().__call__(*args, **kwargs)
        result.tag = cls.__name__.lower()
        return result

    @property
    def label(cls):
        return f"<{cls.__name__}>"


class Thing(metaclass=Counting):
    def __init__(self, n):
        self.n = n


@case("a metaclass with __call__ and a property")
def _(x):
    thing = Thing(3)
    return x * thing.n, thing.tag, Thing.label


class Single:
    _instance = None

    def __new__(cls, *args):
        if cls is Single:
            result = super().__new__(cls)
            result.args = args
            return result
        return super().__new__(cls)


@case("__new__ with arguments, and a class that hands out another")
def _(x):
    return x * len(Single(1, 2).args), type(Single()).__name__


@case("a class made inside, with a base, a method and a property")
def _(x):
    class Local(Shape):
        factor = 3

        def area(self):
            return super().area() * self.factor

        @property
        def name(self):
            return type(self).__name__

    one = Local(2)
    return x * one.area(), one.name, isinstance(one, Shape), Local.factor


class Shape(abc.ABC):
    def __init__(self, side):
        self.side = side

    @abc.abstractmethod
    def area(self):
        return self.side ** 2


@case("a class made inside with a closure, called twice")
def _(x):
    scalers = []
    for scale in (2, 3):
        class Scaler:
            def __init__(self):
                self.calls = 0

            def __call__(self, t):
                self.calls += 1
                return t * scale

        scalers.append(Scaler())
    return scalers[0](x) + scalers[1](x), scalers[0].calls


@case("a named tuple and an enum made inside")
def _(x):
    class Point(typing.NamedTuple):
        a: int
        b: int = 2

    p = Point(3)
    return x * p.a + p.b, p._asdict()


@case("a dataclass made inside")
def _(x):
    @dataclasses.dataclass
    class Local:
        a: int
        b: list = dataclasses.field(default_factory=list)

    one = Local(2)
    one.b.append(one.a)
    return x * one.a, one.b, one == Local(2, [2])


@case("type() with three arguments")
def _(x):
    kind = type("Made", (object,), {"n": 3, "double": lambda self, t: t * 2})
    return kind().double(x) * kind.n


@case("a module class made inside")
def _(x):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2

        def forward(self, t):
            return t * self.scale

    return Block()(x)


@typing.runtime_checkable
class Sized(typing.Protocol):
    def size_of(self) -> int: ...


class Box:
    def size_of(self):
        return 4


@case("isinstance of a protocol, of unions and of tuples", lambda: (*tensors(), Box()))
def _(x, box):
    if isinstance(box, Sized) and not isinstance(3, Sized):
        x = x * box.size_of()
    return x, isinstance(3, int | str), isinstance("s", (list, (str, bytes))), issubclass(Box, object)


class Registered(abc.ABC):
    pass


Registered.register(Box)


@case("isinstance of a virtual subclass", lambda: (*tensors(), Box()))
def _(x, box):
    return x * isinstance(box, Registered), isinstance(box, Box), isinstance(3, Registered)


T = typing.TypeVar("T")


class Stack(typing.Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def push(self, item: T) -> Stack[T]:
        self.items.append(item)
        return self


@case("generic classes, with parameters")
def _(x):
    stack = Stack[int]().push(2).push(3)
    return x * stack.items[-1], len(stack.items)


class Operators:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Operators(self.v + getattr(other, "v", other))

    __radd__ = __add__

    def __matmul__(self, other):
        return self.v * other.v

    def __getitem__(self, key):
        return key

    def __enter__(self):
        return self.v

    def __exit__(self, *exc):
        return True

    def __format__(self, spec):
        return f"<{self.v}:{spec}>"


@case("operators, slices and formats of an object", lambda: (*tensors(), Operators(2)))
def _(x, o):
    total = sum([o, o], 1)
    with o as v:
        x = x * v
        raise ValueError("swallowed")
    return x * total.v + (o @ total), o[1:2, ..., None], f"{o:>3}"


# --- matching, unpacking, generators ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Add:
    left: typing.Any
    right: typing.Any


@dataclasses.dataclass
class Value:
    n: float


@case("match on nested classes, with guards", lambda: (*tensors(), Add(Value(2), Add(Value(3), Value(-1)))))
def _(x, tree):
    def evaluate(node):
        match node:
            case Value(n) if n < 0:
                return 0
            case Value(n=n):
                return n
            case Add(left=Value(a), right=Add() as rest):
                return a + evaluate(rest)
            case Add(left, right):
                return evaluate(left) + evaluate(right)
            case [first, *_] | {"first": first}:
                return first
            case _:
                return None

    return x * evaluate(tree), evaluate([7, 8]), evaluate({"first": 1, "x": 2}), evaluate("other")


@case("star unpacking everywhere", lambda: (*tensors(), [1, 2, 3, 4], {"a": 1}))
def _(x, values, named):
    first, *middle, last = values
    (a, b), *rest = [(1, 2), 3]
    merged = {**named, "b": 2, **{"c": 3}}
    joined = [*middle, *rest, *named]

    def call(*args, **kwargs):
        return len(args) + len(kwargs)

    return x * call(*values, *joined, **merged), first + last, a, b, joined, (*values[:1], 9)


@case("nonlocal through three functions")
def _(x):
    count = 0

    def outer():
        def middle():
            nonlocal count
            count += 1

            def inner():
                nonlocal count
                count += 10
                return count

            return inner()

        return middle() + count

    return x * outer(), count


@case("generator: send, throw, close and what it returns", lambda: (*tensors(), []))
def _(x, log):
    def machine():
        total = 0
        try:
            while True:
                try:
                    got = yield total
                    total += got
                except KeyError:
                    total = 100
        finally:
            log.append("closed")

    def outer():
        result = yield from [1, 2]
        log.append(result)
        return "done"

    g = machine()
    next(g)
    g.send(2)
    after = g.throw(KeyError("k"))
    g.close()
    o = outer()
    drawn = list(o)
    return x * after, drawn, log


@case("a tree walked by recursive generators")
def _(x):
    tree = (1, (2, (3, None, None), None), (4, None, None))

    def walk(node):
        if node is not None:
            yield node[0]
            yield from walk(node[1])
            yield from walk(node[2])

    return x * sum(walk(tree)), [*walk(tree)], max(walk(tree))


@case("walrus in conditions and loops")
def _(x):
    values = iter([3, 2, 1, 0, 5])
    seen = []
    while (n := next(values)) > 0:
        seen.append(n)
    if (total := sum(seen)) > 5 and (half := total // 2):
        x = x * half
    return x, [y := 1, y ** 2], seen


@case("try in a loop: retries with else and finally", lambda: (*tensors(), []))
def _(x, log):
    for attempt in range(4):
        try:
            if attempt < 2:
                raise ValueError(attempt)
        except ValueError as error:
            log.append(error.args[0])
            continue
        else:
            x = x * attempt
            break
        finally:
            log.append("finally")
    return x


class Torchlike:
    """No tensor: ops that are called on it come to it."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.value if isinstance(a, Torchlike) else a for a in args]
        return Torchlike(func(*plain, **(kwargs or {})))


@case("ops on an object with __torch_function__", lambda: (*tensors(), Torchlike(torch.ones(4))))
def _(x, t):
    out = torch.add(t, 1)
    both = torch.mul(out, t)
    return x * both.value


def scan_like(x, *functions, **named):
    for function in functions:
        x = function(x)
    return x, sorted(named)


@case("functions in tuples, dicts and attributes")
def _(x):
    table = {"relu": torch.relu, "twice": lambda t: t * 2, "tanh": nn.Tanh()}
    y, names = scan_like(x, *table.values(), b=1, a=2)
    chosen = [table[k] for k in ("relu", "twice")]
    return y, names, chosen[1](chosen[0](x))
