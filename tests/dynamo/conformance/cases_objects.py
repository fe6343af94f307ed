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


# --- what libraries do ------------------------------------------------------------------------------------------------


class Output(dict):
    """A result that is a dict, a tuple and an object."""

    def __init__(self, **values):
        super().__init__({k: v for k, v in values.items() if v is not None})
        for key, value in self.items():
            object.__setattr__(self, key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self)


@case("a result that is a dict with attributes")
def _(x):
    out = Output(logits=x * 2, loss=None, hidden=(x, x + 1))
    return out.logits + out["hidden"][1], out.to_tuple(), list(out)


class Registry:
    def __init__(self):
        self.table = {}

    def register(self, name):
        def decorate(function):
            self.table[name] = function
            return function

        return decorate

    def __getitem__(self, name):
        return self.table[name]

    def __contains__(self, name):
        return name in self.table


REGISTRY = Registry()


@REGISTRY.register("double")
def double(x):
    return x * 2


@REGISTRY.register("shift")
def shift(x, by=1):
    return x + by


@case("a registry of functions by decorators")
def _(x):
    for name in ("double", "missing", "shift"):
        if name in REGISTRY:
            x = REGISTRY[name](x)
    return x


class Lazy:
    def __init__(self, make):
        self._make, self._value = make, None

    @property
    def value(self):
        if self._value is None:
            self._value = self._make()
        return self._value


@case("a lazy property that keeps what it made", lambda: (*tensors(), Lazy(lambda: [1, 2])))
def _(x, lazy):
    return x * sum(lazy.value), lazy.value is lazy.value


class Mixin:
    def describe(self):
        return f"{type(self).__name__}:{self.size}"


class Sizes(Mixin):
    size = 3
    kinds: typing.ClassVar[dict] = {"a": 1}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.label = cls.__name__.lower()


class Larger(Sizes):
    size = 5


@case("mixins, class attributes and what subclasses were given")
def _(x):
    one = Larger()
    return x * one.size + Sizes.kinds["a"], one.describe(), Larger.label, [k.__name__ for k in Larger.__mro__]


class Vector:
    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)

    def __len__(self):
        return len(self.parts)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)

    def __neg__(self):
        return Vector(*(-p for p in self.parts))

    def __abs__(self):
        return sum(p * p for p in self.parts) ** 0.5

    def __bool__(self):
        return any(self.parts)

    def __int__(self):
        return int(abs(self))

    def __round__(self, digits=0):
        return round(abs(self), digits)

    def __reversed__(self):
        return reversed(self.parts)

    def __contains__(self, p):
        return p in self.parts


@case("numbers of a class: neg, abs, bool, int, round, reversed")
def _(x):
    v = Vector(3, 4)
    a, b = -v
    if v and not Vector(0, 0):
        x = x * abs(v)
    return x + a + b, int(v), round(v, 1), list(reversed(v)), len(v), 3 in v, v == Vector(3, 4), v != Vector(1, 2)


@case("a callable object as a key function, and methods as callbacks", lambda: (*tensors(), Vector(2, 1)))
def _(x, v):
    class ByLast:
        def __call__(self, word):
            return word[-1]

    words = sorted(["ab", "ba", "cc"], key=ByLast())
    return x * max(v), words, list(map(v.__contains__, [1, 5]))


class Config:
    defaults: typing.ClassVar[dict] = {"depth": 2, "width": 4}

    def __init__(self, **kwargs):
        unknown = set(kwargs) - set(self.defaults)
        if unknown:
            raise TypeError(f"unknown: {sorted(unknown)}")
        self.__dict__.update(self.defaults)
        self.__dict__.update(kwargs)

    @classmethod
    def from_dict(cls, data):
        return cls(**data)

    def to_dict(self):
        return dict(vars(self))

    def update(self, **kwargs):
        return type(self).from_dict({**self.to_dict(), **kwargs})


@case("settings by keywords, updated and checked")
def _(x):
    config = Config(depth=3).update(width=8)
    try:
        Config(colour=1)
    except TypeError as error:
        text = str(error)
    return x * config.depth + config.width, text, config.to_dict()


class Pool:
    def __init__(self):
        self.free, self.used = [1, 2], []

    def __enter__(self):
        self.used.append(self.free.pop())
        return self.used[-1]

    def __exit__(self, kind, error, trace):
        self.free.append(self.used.pop())
        return kind is KeyError


@case("a manager used several times, nested, with errors that it takes", lambda: (*tensors(), Pool()))
def _(x, pool):
    with pool as a:
        with pool as b:
            x = x * a + b
        with pool:
            raise KeyError("taken")
    return x, pool.free, pool.used


@case("an event system: callbacks kept, called and taken off", lambda: (*tensors(), {"step": []}))
def _(x, hooks):
    seen = []

    def on_step(value, *, scale=1):
        seen.append(value * scale)

    hooks["step"].append(on_step)
    for i in range(3):
        for hook in list(hooks["step"]):
            hook(i, scale=2)
        if i == 1:
            hooks["step"].remove(on_step)
    return x * len(seen), seen, hooks


@case("a cache by shape and type", lambda: (*tensors(), {}))
def _(x, cache):
    key = (tuple(x.shape), str(x.dtype), x.requires_grad)
    if key not in cache:
        cache[key] = torch.arange(x.shape[-1]).float()
    return x * cache[key], len(cache)


@case("recursion over nested containers")
def _(x):
    def apply(value, function):
        if isinstance(value, torch.Tensor):
            return function(value)
        if isinstance(value, dict):
            return {k: apply(v, function) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(apply(v, function) for v in value)
        return value

    return apply({"a": [x, (x + 1, 3)], "b": {"c": x * 2, "d": None}}, torch.neg)


@case("a state machine of bound methods")
def _(x):
    class Machine:
        def __init__(self):
            self.state, self.log = self.start, []

        def start(self, t):
            self.log.append("start")
            self.state = self.work
            return t * 2

        def work(self, t):
            self.log.append("work")
            self.state = None
            return t + 1

    machine = Machine()
    while machine.state is not None:
        x = machine.state(x)
    return x, machine.log


@case("optional arguments, None checks and early returns", lambda: (*tensors(), None, {"scale": 2}))
def _(x, mask, options):
    def layer(t, mask=None, **options):
        scale = options.pop("scale", 1)
        if options:
            raise TypeError(f"unexpected {list(options)}")
        if mask is None and scale == 1:
            return t
        t = t * scale
        return t if mask is None else t.masked_fill(mask, 0)

    return layer(x), layer(x, mask, **options), layer(x, x > 0, scale=3)


@case("modules in a dict, chosen by name and by type", lambda: (
    *tensors(), nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU(), "c": nn.Linear(4, 4)})))
def _(x, blocks):
    for name, block in blocks.items():
        x = block(x) + (1 if isinstance(block, nn.Linear) else 0)
    return x, [name for name, block in blocks.items() if isinstance(block, nn.Linear)]


class Scheduler:
    def __init__(self, base, steps):
        self.base, self.steps, self.count = base, steps, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.count >= self.steps:
            raise StopIteration
        self.count += 1
        return self.base / self.count


@case("a class that is its own iterator, from outside", lambda: (*tensors(), Scheduler(4.0, 3)))
def _(x, schedule):
    first = next(schedule)
    for rate in schedule:
        x = x - rate
    return x + first, schedule.count


@case("sorting by several keys, and stable order")
def _(x):
    rows = [("b", 2), ("a", 2), ("c", 1)]
    rows.sort(key=lambda row: row[0])
    rows.sort(key=lambda row: (-row[1],))
    best, *rest = rows
    return x * best[1], rows, rest, sorted({"z": 1, "y": 0}.items(), key=lambda kv: kv[1])


@case("slices with steps, negative indices and deletion", lambda: (*tensors(), list(range(10))))
def _(x, values):
    del values[::3]
    values[1:3] = [20, 30, 40]
    values[-1:] = []
    return x * values[-1], values[::-2], values[slice(1, None, 2)], "abcdef"[-3:-1]


@case("exceptions with data, translated and re-raised")
def _(x):
    class Failure(Exception):
        def __init__(self, code, **data):
            super().__init__(f"code {code}")
            self.code, self.data = code, data

    def risky(n):
        try:
            return [1, 2][n]
        except IndexError as error:
            raise Failure(n, limit=2) from error

    try:
        risky(0)
        risky(5)
    except Failure as failure:
        return x * failure.code, failure.data, str(failure), type(failure.__cause__).__name__
    return x
