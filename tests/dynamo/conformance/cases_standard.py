"""Python's library as programs use it: functools, itertools, collections, copy, random, text, the process."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import hashlib
import itertools
import json
import logging
import math
import operator
import os
import random
import re
import statistics
import string
import textwrap
import time
import types
import typing
import warnings
import weakref

import rushlight as torch
from rushlight import nn

from .harness import case, tensors

logger = logging.getLogger(__name__)

# --- functools --------------------------------------------------------------------------------------------------------


@functools.singledispatch
def scale_of(value, x):
    return x


@scale_of.register
def _(value: int, x):
    return x * value


@scale_of.register(list)
def _(value, x):
    return sum((scale_of(v, x) for v in value), torch.zeros(()))


@case("singledispatch by annotations and by classes")
def _(x):
    return scale_of(3, x), scale_of([1, 2], x), scale_of("text", x), scale_of(True, x)


class Shape:
    def __init__(self, side):
        self.side = side

    @functools.singledispatchmethod
    def area(self, by):
        raise TypeError("unknown")

    @area.register
    def _(self, by: int):
        return self.side * by

    @area.register
    def _(self, by: float):
        return self.side + by

    @functools.cached_property
    def square(self):
        return self.side ** 2


@case("singledispatchmethod", lambda: (*tensors(), Shape(3)))
def _(x, shape):
    return x * shape.area(2), x * shape.area(0.5), x * shape.square


@functools.lru_cache(maxsize=4)
def table(n):
    return [i * i for i in range(n)]


@functools.cache
def settings():
    return {"scale": 2.0, "shift": 1}


@case("lru_cache and cache of containers")
def _(x):
    y = x * sum(table(4)) + settings()["shift"]
    return y, len(table(5)), table(4) is table(4)


@case("partial of a partial, with keywords")
def _(x):
    def affine(a, b, *, scale=1, shift=0):
        return (a + b) * scale + shift

    inner = functools.partial(affine, x, scale=2)
    outer = functools.partial(inner, shift=1)
    return outer(x), outer.func.__name__, outer.keywords["shift"], functools.partial(torch.add, alpha=2)(x, x)


@case("reduce with an initial value, over pairs")
def _(x):
    total = functools.reduce(lambda a, pair: a * pair[0] + pair[1], [(1, 2), (3, 4)], x)
    return total, functools.reduce(operator.mul, [2, 3, 4])


@case("cmp_to_key and sorted in reverse")
def _(x):
    order = sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))
    names = sorted(["b", "C", "a"], key=str.lower, reverse=True)
    return x * order[0], names


def traced(log):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append(function.__name__)
            return function(*args, **kwargs)

        return wrapper

    return decorate


@case("a decorator with arguments, made inside", lambda: (*tensors(), []))
def _(x, log):
    @traced(log)
    def double(t):
        return t * 2

    return double(double(x)), double.__name__


# --- collections and itertools ----------------------------------------------------------------------------------------


@case("Counter: arithmetic, most_common, elements")
def _(x):
    words = collections.Counter("abracadabra")
    words.update("aa")
    words.subtract({"b": 1})
    best = words.most_common(2)
    both = words + collections.Counter(a=1)
    return x * best[0][1], best, sorted(both.elements())[:3], both["zz"]


@case("Counter from outside", lambda: (*tensors(), collections.Counter(a=2, b=1)))
def _(x, counts):
    counts["a"] += 1
    counts.update(["b", "c"])
    return x * counts.total(), counts


@case("OrderedDict: popitem, move_to_end, equality")
def _(x):
    table = collections.OrderedDict(a=1, b=2, c=3)
    table.move_to_end("a")
    first = table.popitem(last=False)
    return x * table["a"], first, list(table), table == collections.OrderedDict(c=3, a=1)


@case("ChainMap: children and writes", lambda: (*tensors(), {"a": 1}, {"a": 2, "b": 3}))
def _(x, local, base):
    scope = collections.ChainMap(local, base)
    inner = scope.new_child({"c": 4})
    inner["d"] = 5
    scope["b"] = 7
    return x * inner["a"] + inner["b"], dict(inner), len(scope), "c" in scope


@case("itertools: accumulate, starmap, tee, batches")
def _(x):
    sums = list(itertools.accumulate([1, 2, 3], operator.mul, initial=2))
    pairs = list(itertools.starmap(lambda a, b: a * b, [(x, 2), (x, 3)]))
    first, second = itertools.tee([1, 2, 3])
    it = iter(range(5))
    batches = list(iter(lambda: list(itertools.islice(it, 2)), []))
    return sums, pairs, sum(first) + sum(second), batches


@case("itertools: compress, filterfalse, dropwhile, repeat, cycle")
def _(x):
    kept = list(itertools.compress("abcd", [1, 0, 1, 0]))
    odd = list(itertools.filterfalse(lambda n: n % 2 == 0, range(6)))
    late = list(itertools.dropwhile(lambda n: n < 3, [1, 2, 3, 1]))
    names = [name for name, _ in zip(itertools.cycle("ab"), range(5))]
    scales = itertools.repeat(2, 3)
    for s in scales:
        x = x * s
    return x, kept, odd, late, names


@case("itertools: product, permutations, combinations_with_replacement")
def _(x):
    total = x
    for a, b in itertools.product(range(2), repeat=2):
        total = total + x[a, b]
    return total, len(list(itertools.permutations("abc"))), list(itertools.combinations_with_replacement("ab", 2))


@case("itertools: groupby over sorted objects", lambda: (*tensors(), [Shape(1), Shape(2), Shape(1)]))
def _(x, shapes):
    found = {}
    for side, group in itertools.groupby(sorted(shapes, key=lambda s: s.side), key=operator.attrgetter("side")):
        found[side] = len(list(group))
    return x * found[1], found


@case("an iterator from outside", lambda: (*tensors(), iter([1, 2, 3, 4])))
def _(x, numbers):
    first = next(numbers)
    for n in numbers:
        if n > 2:
            break
        x = x * n
    return x + first, next(numbers, None), next(numbers, "none")


@case("iterators of several kinds from outside", lambda: (
    *tensors(), enumerate("ab"), zip([1, 2], (3, 4)), reversed([1, 2]), iter(range(3)),
    iter((7, 8))))
def _(x, numbered, pairs, back, counted, members):
    total = x
    for i, letter in numbered:
        total = total + i + len(letter)
    for a, b in pairs:
        total = total * a + b
    return total, next(back), list(counted), next(members), next(members)


def drawn(values):
    for value in values:
        yield value * 2


@case("a generator from outside", lambda: (*tensors(), drawn([1, 2, 3])), breaks=True)
def _(x, numbers):
    return x * next(numbers) + next(numbers)


@case("namedtuple: _replace, _asdict, _fields, defaults")
def _(x):
    Point = Pair._replace(Pair(1, 2), b=5)
    a, b = Point
    return x * a + b, Point._asdict(), Point._fields, Pair(3)


Pair = collections.namedtuple("Pair", ["a", "b"], defaults=[4])


class Item(typing.NamedTuple):
    name: str
    value: float = 1.0
    parts: tuple = ()

    @property
    def total(self):
        return self.value + sum(self.parts)

    def scaled(self, by):
        return self._replace(value=self.value * by)


@case("typing.NamedTuple with methods", lambda: (*tensors(), Item("n", 2.0, (1, 2))))
def _(x, item):
    new = item.scaled(3)
    return x * new.total, new, item.name, Item("other")


# --- copy -------------------------------------------------------------------------------------------------------------


class Tree:
    def __init__(self, value, children=()):
        self.value, self.children = value, list(children)


@case("deepcopy of a tree of objects", lambda: (*tensors(), Tree(1, [Tree(2), Tree(3)])))
def _(x, tree):
    other = copy.deepcopy(tree)
    other.children[0].value = 10
    return x * other.children[0].value + tree.children[0].value, other


@case("deepcopy with shared parts and a cycle")
def _(x):
    shared = [1, 2]
    tree = Tree(shared, [])
    tree.children.append(tree)
    other = copy.deepcopy({"a": shared, "b": shared, "t": tree})
    same = other["a"] is other["b"], other["t"].children[0] is other["t"], other["t"].value is other["a"]
    return x * len(other), same


@case("copy.copy of an object from outside", lambda: (*tensors(), Tree(2, [1])))
def _(x, tree):
    other = copy.copy(tree)
    other.value = 5
    other.children.append(4)
    return x * other.value + tree.value, tree.children


@case("deepcopy of a tensor and of containers with tensors", lambda: (tensors()[0].detach(),), breaks=True)
def _(x):
    held = {"a": x, "b": [x, x * 1]}
    other = copy.deepcopy(held)
    other["a"].add_(1)
    return other["a"], other["b"][0] is other["a"], x


@case("deepcopy of a module", lambda: (tensors()[0].detach(), nn.Linear(4, 2)), breaks=True)
def _(x, layer):
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.weight.mul_(2)
    return other(x), layer(x)


# --- random numbers, time, the process --------------------------------------------------------------------------------


def seeded():
    random.seed(5)
    return tensors()


@case("random numbers of Python's module", seeded, lambda: random.random(), breaks=True)
def _(x):
    y = x * random.random()
    order = [3, 1, 2]
    random.shuffle(order)
    return y + random.randint(1, 6), order, random.choice([1, 2, 3]), random.uniform(0, 1), random.sample(range(9), 3)


@case("a random generator of the program's own", lambda: (*tensors(), random.Random(3)), breaks=True)
def _(x, rng):
    return x * rng.random(), rng.randint(0, 9)


@case("random numbers decide", seeded, breaks=True)
def _(x):
    if random.random() < 2:
        x = x + 1
    return x * 2


@case("time.time", breaks=True)
def _(x):
    start = time.time()
    y = x * 2
    return y, time.time() >= start


@case("time.perf_counter around ops", breaks=True)
def _(x):
    start = time.perf_counter()
    y = x.sin()
    return y, isinstance(time.perf_counter() - start, float)


@case("os.environ")
def _(x):
    scale = float(os.environ.get("SCALE_OF_THE_CASE", "2"))
    return x * scale, os.getenv("NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE" in os.environ


@case("os.path and string constants")
def _(x):
    name = os.path.join("a", "b.txt")
    stem, ext = os.path.splitext(os.path.basename(name))
    return x * len(stem), ext, os.path.dirname(name), string.ascii_lowercase[:3]


# --- numbers and text -------------------------------------------------------------------------------------------------


@case("math: isclose, gcd, comb, prod, fsum, log with a base")
def _(x):
    if math.isclose(0.1 + 0.2, 0.3):
        x = x * math.gcd(12, 18) + math.comb(5, 2)
    return x + math.fsum([0.1] * 3), math.prod([1, 2, 3]), math.log(8, 2), math.hypot(3, 4), math.inf, math.ceil(1.2)


@case("statistics")
def _(x):
    values = [1.0, 2.0, 4.0]
    return x * statistics.mean(values), statistics.median(values), statistics.pstdev(values)


@case("operator: itemgetter of several, methodcaller, setitem, index", lambda: (*tensors(), {"a": 1, "b": 2}))
def _(x, d):
    a, b = operator.itemgetter("a", "b")(d)
    operator.setitem(d, "c", 3)
    y = operator.methodcaller("mul", 2)(x)
    return operator.add(y, a) + operator.truediv(b, 2), operator.index(3), operator.concat([1], [2]), operator.not_(d)


@case("string methods of a parser")
def _(x):
    line = "  key = Some Value, 42  ".strip()
    key, _, rest = line.partition("=")
    words = [w.strip().lower() for w in rest.split(",")]
    text = "-".join(words).replace(" ", "_").title().center(20, "*")
    plain = "a\tb".expandtabs(4), "abc".translate({97: "z"})
    return x * int(words[-1]), key.rstrip(), text, text.startswith("*"), plain


@case("format specifications")
def _(x):
    n, f = 42, 3.14159
    texts = [f"{n:>6}|{n:#x}|{n:08b}|{f:.2f}|{f:10.3e}|{n:,}|{f!r}|{'t':^5}|{f:{n // 7}.1f}"]
    texts += ["%05d %s %.1f" % (n, "s", f), "{0} {name!r:>5}".format(n, name="x"), f"{n=}"]
    return x * len(texts[0]), texts


@case("regular expressions: groups, sub with a function, split")
def _(x):
    found = re.match(r"(?P<name>\w+)_(\d+)", "layer_12")
    text = re.sub(r"\d", lambda m: str(int(m.group()) + 1), "a1b2")
    return x * int(found.group(2)), found["name"], text, re.split(r"[,;]\s*", "a, b;c"), re.findall(r"\w", "xy")


@case("json of settings")
def _(x):
    data = json.loads(json.dumps({"scale": 2, "names": ["a", "b"]}))
    return x * data["scale"], data["names"]


@case("textwrap and hashlib of names")
def _(x):
    return x * len(textwrap.dedent("  a\n  b")), hashlib.sha256(b"name").hexdigest()[:6]


# --- what is said -----------------------------------------------------------------------------------------------------


@case("warnings in a block that ignores them")
def _(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
    return y


@case("logging with levels asked for")
def _(x):
    if logger.isEnabledFor(logging.DEBUG):
        x = x * 100
    logger.debug("shape %s", x.shape)
    logging.getLogger(__name__).info("here")
    return x + 1


# --- references and namespaces ----------------------------------------------------------------------------------------


@case("a weak reference to an argument's object", lambda: (*tensors(), Tree(3)))
def _(x, tree):
    ref = weakref.ref(tree)
    return x * ref().value, ref() is tree


class Owner:
    def __init__(self):
        self.part = Tree(4)
        self.link = weakref.ref(self.part)


@case("a weak reference held by an object", lambda: (*tensors(), Owner()))
def _(x, owner):
    return x * owner.part.value + owner.link().value


@case("WeakValueDictionary", lambda: (*tensors(), Owner()), breaks=True)
def _(x, owner):
    table = weakref.WeakValueDictionary()
    table["a"] = owner.part
    return x * table["a"].value, len(table)


@case("SimpleNamespace from outside", lambda: (*tensors(), types.SimpleNamespace(lr=0.5, steps=[1])))
def _(x, config):
    config.lr = config.lr * 2
    config.steps.append(2)
    return x * config.lr, config


@case("ExitStack with callbacks", lambda: (*tensors(), []))
def _(x, log):
    @contextlib.contextmanager
    def noted(name):
        log.append(f"enter {name}")
        try:
            yield name
        finally:
            log.append(f"leave {name}")

    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(noted(n)) for n in "ab"]
        stack.callback(log.append, "callback")
        stack.enter_context(torch.no_grad())
        y = x * len(names)
    return y, log


@case("contextlib: suppress, a ContextDecorator, nullcontext with a value", lambda: (*tensors(), []))
def _(x, log):
    class Noting(contextlib.ContextDecorator):
        def __enter__(self):
            log.append("in")
            return self

        def __exit__(self, *exc):
            log.append("out")
            return False

    @Noting()
    def double(t):
        return t * 2

    with contextlib.suppress(KeyError, IndexError):
        log.append([][1])
    with contextlib.nullcontext(3) as n:
        return double(x) * n


@case("a SimpleNamespace made inside leaves the frame")
def _(x):
    config = types.SimpleNamespace(lr=0.5, parts=[x * 2])
    config.step = 1
    return config
