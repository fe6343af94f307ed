"""Lists, dicts, sets, deques, comprehensions and iterators: their values, and what is written to those from outside."""

from __future__ import annotations

import collections
import itertools
from collections import OrderedDict, defaultdict, deque, namedtuple

import rushlight as torch

from .harness import case, tensors

Pair = namedtuple("Pair", ["left", "right"])


@case("list literal, append, extend, insert, pop")
def _(x):
    values = [x]
    values.append(x * 2)
    values.extend([x * 3, x * 4])
    values.insert(0, x - 1)
    last = values.pop()
    return values, last, len(values)


@case("list from outside: append", lambda: (*tensors(), []))
def _(x, out):
    out.append(x * 2)
    out.append(len(out))
    return x


@case("list from outside: set an item, sort, reverse, clear", lambda: (*tensors(), [3, 1, 2], [5]))
def _(x, a, b):
    a[0] = 9
    a.sort()
    a.reverse()
    b.clear()
    return x * a[0]


@case("list from outside: slice assignment and deletion", lambda: (*tensors(), [1, 2, 3, 4]))
def _(x, a):
    a[1:3] = [7, 8, 9]
    del a[0]
    a += [10]
    return x * sum(a)


@case("list of tensors from outside", lambda: (*tensors(), [torch.ones(4), torch.full((4,), 2.0)]))
def _(x, parts):
    parts[0] = parts[1] * x
    return torch.stack([parts[1], x[0]])


@case("the same list under two names", lambda: (lambda v: (*tensors(), v, v))([1]))
def _(x, a, b):
    a.append(2)
    return x * len(b), a is b


@case("list comprehension")
def _(x):
    return [x * i for i in range(4) if i != 2]


@case("nested comprehension with closure")
def _(x):
    k = 2
    return [[x[i] * j * k for j in range(2)] for i in range(2)]


@case("dict and set comprehensions")
def _(x):
    return {f"k{i}": x + i for i in range(3)}, {i % 2 for i in range(5)}


@case("dict literal, get, setdefault, update, pop, items")
def _(x):
    d = {"a": x}
    d["b"] = x * 2
    d.update({"c": x * 3}, e=5)
    v = d.setdefault("d", x * 4)
    gone = d.pop("a")
    none = d.get("zzz")
    total = 0
    for k, t in d.items():
        if k != "e":
            total = total + t
    return d, v, gone, none, total, list(d.keys()), d.get("e", 1)


@case("dict from outside: writes", lambda: (*tensors(), {"a": 1, "b": 2}))
def _(x, d):
    d["a"] += 5
    d["new"] = x * 2
    del d["b"]
    return x * d["a"]


@case("dict from outside: order after pop and put back", lambda: (*tensors(), {"a": 1, "b": 2}))
def _(x, d):
    v = d.pop("a")
    d["a"] = v
    return x


@case("dict of dicts from outside", lambda: (*tensors(), {"inner": {"n": 1}, "list": [1]}))
def _(x, d):
    d["inner"]["n"] += 1
    d["list"].append(x)
    return x * d["inner"]["n"]


@case("dict merge operators", lambda: (*tensors(), {"a": 1}, {"b": 2}))
def _(x, a, b):
    c = a | b
    a |= {"z": 3}
    return x, c, {**a, **b, "q": 1}


@case("defaultdict", lambda: (*tensors(), defaultdict(list)))
def _(x, d):
    d["a"].append(x)
    d["b"].append(1)
    local = defaultdict(int)
    local["k"] += 2
    return local, x * len(d)


@case("OrderedDict and move_to_end", lambda: (*tensors(), OrderedDict(a=1, b=2)))
def _(x, d):
    d.move_to_end("a")
    d["c"] = 3
    return x, list(d), OrderedDict([("p", x)])


@case("Counter")
def _(x):
    c = collections.Counter("aabbb")
    return x * c["b"], c.most_common(1)


@case("deque", lambda: (*tensors(), deque([1, 2, 3], maxlen=3)))
def _(x, d):
    d.append(4)
    d.appendleft(0)
    local = deque()
    local.append(x)
    local.append(x * 2)
    return local.popleft() * d[0], len(d), local


@case("sets", lambda: (*tensors(), {1, 2}))
def _(x, s):
    s.add(3)
    s.discard(1)
    t = {2, 9} | s
    return x * len(t), t & s, 9 in t


@case("frozenset and tuple keys")
def _(x):
    d = {frozenset((1, 2)): x, (1, "a"): x * 2}
    return d[frozenset((2, 1))] + d[(1, "a")]


@case("tuples: concatenation, repetition, index, count")
def _(x):
    t = (x, 1, 2) + (3,) * 2
    return t[0] * t.count(3) + t.index(2), t[1:], t[-1]


@case("named tuple", lambda: (*tensors(), Pair(torch.ones(4), 3)))
def _(x, pair):
    made = Pair(left=x * pair.left, right=pair.right + 1)
    return made, made._replace(right=x), made.left.sum(), made._fields


@case("zip_longest, chain, product, islice, accumulate")
def _(x):
    total = x * 0
    for a, b in itertools.zip_longest([1, 2, 3], [4], fillvalue=0):
        total = total + x * (a + b)
    flat = list(itertools.chain([1], (2, 3)))
    pairs = list(itertools.product("ab", repeat=2))
    return total, flat, len(pairs), list(itertools.islice(itertools.count(3), 2)), list(itertools.accumulate([1, 2, 3]))


@case("map and filter with lambdas")
def _(x):
    k = 2
    return list(map(lambda t: t * k, [x, x + 1])), list(filter(lambda i: i > k, [1, 2, 3, 4]))


@case("iter and next with default")
def _(x):
    it = iter([1, 2])
    return x * next(it) + next(it), next(it, 7)


@case("a returned iterator that was started")
def _(x):
    it = iter([x, x * 2, 3])
    next(it)
    return list(it), x


@case("range objects", lambda: (*tensors(), range(2, 9, 3)))
def _(x, r):
    return x * len(r), list(r), 5 in r, r[1], range(3)


@case("slice objects", lambda: (*tensors(), slice(0, 2)))
def _(x, s):
    return x[s], [1, 2, 3][s], slice(1, 2)


@case("a list in a list is the same list in the result")
def _(x):
    inner = [x]
    outer = [inner, inner]
    inner.append(1)
    return outer, outer[0] is outer[1]


@case("an argument in the result is the argument", lambda: (*tensors(), [1], {"a": 2}))
def _(x, a, b):
    return x, a, b, (a, b)


@case("aliases survive a write", lambda: (*tensors(), {"items": [1]}))
def _(x, d):
    items = d["items"]
    d["other"] = items
    items.append(2)
    return x * len(d["other"])


@case("a new list stored in an outer dict is the one returned", lambda: (*tensors(), {}))
def _(x, d):
    made = [x]
    d["made"] = made
    return made


@case("exchange of two outer items", lambda: (*tensors(), [torch.zeros(2), torch.ones(2)]))
def _(x, pair):
    pair[0], pair[1] = pair[1], pair[0]
    return x + pair[0].sum()


@case("the old value after an outer item was replaced", lambda: (*tensors(), {"t": torch.ones(4)}))
def _(x, d):
    old = d["t"]
    d["t"] = x[0]
    return old, d["t"]


@case("bytes and strings as sequences", lambda: (*tensors(), "hello", b"ab"))
def _(x, s, b):
    return x * len(s), s[1:3], [c for c in s], b[0], "l" in s


@case("unpacking in displays and calls", lambda: (*tensors(), [1, 2], {"alpha": 2}))
def _(x, a, kw):
    return torch.add(x, x, **kw), [*a, 3], {*a}, (*a, *a)


@case("sum of a generator expression of tensors")
def _(x):
    return sum(x * i for i in range(3))


@case("any and all over generators")
def _(x):
    return x * any(s > 3 for s in x.shape) + all(s > 3 for s in x.shape)


@case("reduction with functools.reduce")
def _(x):
    import functools
    return functools.reduce(lambda a, b: a + b, [x, x * 2, x * 3])


@case("torch.stack and cat of comprehension results")
def _(x):
    return torch.stack([row * 2 for row in x]), torch.cat([x, x], dim=1), torch.cat(tuple(x))


@case("max with a key over tuples", lambda: (*tensors(), [("a", 3), ("b", 5)]))
def _(x, pairs):
    return x, max(pairs, key=lambda p: p[1])[0], dict(pairs)


@case("list equality and comparison", lambda: (*tensors(), [1, 2]))
def _(x, a):
    return x * (a == [1, 2]) + (a < [1, 3]) + ((1, 2) >= (1,))


@case("dictionary views and set operations", lambda: (*tensors(), {"a": 1, "b": 2}))
def _(x, d):
    return x, sorted(d.keys() & {"a", "z"}), list(d.values()), len(d.items())


@case("a list that contains itself")
def _(x):
    a = [1]
    a.append(a)
    return x, a


@case("copy of a list and dict", lambda: (*tensors(), [1, [2]], {"a": [1]}))
def _(x, a, d):
    import copy
    b, c = a.copy(), dict(d)
    b.append(3)
    c["b"] = 1
    e = copy.copy(a)
    e[1].append(5)
    return x, b, c, e


@case("string building in a loop")
def _(x):
    s = ""
    for i, n in enumerate(x.shape):
        s += f"{i}:{n};"
    return x, s


@case("star arguments collected in a dict of lists")
def _(x):
    groups = {}
    for i in range(5):
        groups.setdefault(i % 2, []).append(x * i)
    return groups
