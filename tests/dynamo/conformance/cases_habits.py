"""Habits of libraries: registries, settings, caches, state machines, events, results that are several things."""

from __future__ import annotations

import enum
import typing

import rushlight as torch
from rushlight import nn

from .harness import case, tensors


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


class Parts(enum.IntFlag):
    FIRST = 1
    SECOND = 2
    LAST = 4


@case("flags joined, asked and given to ops")
def _(x):
    chosen = Parts.FIRST | Parts.LAST
    return x * chosen + Parts.SECOND, Parts.SECOND in chosen, chosen.value, x + int(chosen & ~Parts.FIRST)
