"""Control flow, names and operators."""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import time

import rushlight as torch

from .harness import case, tensors

SCALE = 3
logger = logging.getLogger("conformance")
logger.propagate = False
logger.addHandler(logging.NullHandler())
TABLE = {"relu": torch.relu, "tanh": torch.tanh}
counter = 0
names: list[str] = []


@case("if on a size")
def _(x):
    return x * 2 if x.shape[0] > 2 else x * 3


@case("if on a dtype")
def _(x):
    if x.dtype == torch.float32:
        return x + 1
    return x


@case("if, elif, else on an int", lambda: (*tensors(), 2))
def _(x, n):
    if n == 1:
        return x
    elif n == 2:
        return x * n
    else:
        return x - n


@case("conditional expression chain", lambda: (*tensors(), None))
def _(x, bias):
    y = x if bias is None else x + bias
    return y if bias is not None else y * 2


@case("and, or, not on Python values", lambda: (*tensors(), 0, "text"))
def _(x, a, b):
    k = (a or 5) + (len(b) and 2) + (not a)
    return x * k


@case("chained comparison", lambda: (*tensors(), 4))
def _(x, n):
    return x * (1 if 2 < n <= 4 < 9 else 0)


@case("for over a range")
def _(x):
    for i in range(4):
        x = x + i
    return x


@case("for with break and else")
def _(x):
    for i in range(5):
        if i == 3:
            break
        x = x * 1.5
    else:
        x = x + 100
    return x


@case("for with continue")
def _(x):
    for i in range(5):
        if i % 2:
            continue
        x = x + i
    return x


@case("for-else without break")
def _(x):
    for _ in range(2):
        x = x * 2
    else:
        x = x + 1
    return x


@case("while on a Python counter")
def _(x):
    n = 0
    while n < 3:
        x = x.sin()
        n += 1
    return x, n


@case("while True with break")
def _(x):
    n = 5
    while True:
        n -= 1
        x = x + n
        if n == 2:
            break
    return x


@case("nested loops")
def _(x):
    total = 0
    for i in range(3):
        for j in range(i):
            total = total + x[i] * j
    return total


@case("loop over the rows of a tensor")
def _(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


@case("loop over the sizes")
def _(x):
    n = 1
    for s in x.shape:
        n *= s
    return x / n


@case("enumerate, zip, reversed", lambda: (*tensors(), [1, 2, 3], [4, 5, 6]))
def _(x, a, b):
    for i, (p, q) in enumerate(zip(a, reversed(b))):
        x = x + i * p * q
    return x


@case("unpacking with a star", lambda: (*tensors(), [1, 2, 3, 4]))
def _(x, values):
    first, *rest, last = values
    return x * first + sum(rest) - last


@case("swap and multiple assignment")
def _(x):
    a, b = x, x * 2
    a, b = b, a
    c = d = a + 1
    return a, b, c, d


@case("augmented assignment of numbers and tensors")
def _(x):
    n = 1
    n += 2
    n *= 3
    n -= 1
    n //= 2
    n **= 2
    y = x * 1
    y += n
    y *= 2
    return y, n


@case("walrus operator")
def _(x):
    if (n := x.shape[1]) > 3:
        x = x * n
    return x, n


@case("bit operators on ints", lambda: (*tensors(), 6))
def _(x, n):
    return x * ((n & 3) | (n << 2) ^ (n >> 1)) + ~n


@case("matrix product operator")
def _(x):
    return x @ x.t() @ x


@case("reflected operators of tensors")
def _(x):
    return 2 - x, 3 / (x * x + 1), 2 ** x, 5 + x, 1.5 * x


@case("comparison of tensors")
def _(x):
    return x > 0, (x <= x).all(), x != 0, ~(x == 0)


@case("unary operators")
def _(x):
    return -x, +x, abs(x), ~(x > 0)


@case("is and is not")
def _(x):
    y = x
    return x if (y is x and x is not None) else -x


@case("in and not in", lambda: (*tensors(), "a", ["a", "b"], {"k": 1}))
def _(x, key, values, table):
    return x + (key in values) + (key not in table) + ("k" in table)


@case("a global number")
def _(x):
    return x * SCALE


@case("a global dict of functions", lambda: (*tensors(), "tanh"))
def _(x, name):
    return TABLE[name](x)


def _observed():
    return counter, names


def _reset():
    global counter
    counter = 0
    names.clear()
    return tensors()


@case("a global that is written to", _reset, _observed)
def _(x):
    global counter
    counter += 1
    return x * counter


@case("a global list that grows", _reset, _observed)
def _(x):
    names.append("seen")
    names.append(len(names))
    return x + len(names)


@case("math functions of Python numbers", lambda: (*tensors(), 2.0))
def _(x, v):
    return x * math.sqrt(v) + math.pi * math.floor(2.7) - math.log(v) + math.prod([1, 2])


@case("functions of the operator module")
def _(x):
    return operator.add(x, operator.mul(x, 2)), operator.itemgetter(0)([x, 1])


@case("assert on a size")
def _(x):
    assert x.ndim == 2, "two dims"
    assert x.shape[1] == 4
    return x.relu()


@case("assert that fails")
def _(x):
    assert x.shape[0] == 99, f"not 99 but {x.shape[0]}"
    return x


@case("delete a local")
def _(x):
    y = x * 2
    z = y + 1
    del y
    return z


@case("match on a constant", lambda: (*tensors(), "b"))
def _(x, mode):
    match mode:
        case "a":
            return x
        case "b" | "c":
            return x * 2
        case _:
            return x * 3


@case("match on a sequence", lambda: (*tensors(), [1, 2, 3]))
def _(x, values):
    match values:
        case []:
            return x
        case [a]:
            return x * a
        case [a, *rest]:
            return x * a + len(rest)


@case("match on a mapping", lambda: (*tensors(), {"kind": "scale", "by": 4, "more": 1}))
def _(x, config):
    match config:
        case {"kind": "shift", "by": n}:
            return x + n
        case {"kind": "scale", "by": n, **rest} if n > 3:
            return x * n + len(rest)
    return x


@case("string methods and formatting", lambda: (*tensors(), "a,b,c"))
def _(x, text):
    parts = text.split(",")
    label = f"{parts[0]:>3}|{len(parts)}|{3.14159:.2f}|{x.shape[0]!r}" + "%d-%s" % (1, "z") + "{:03d}".format(7)
    return x * len(parts), label.upper(), "-".join(parts), text.replace("a", "q").startswith("q")


@case("slices of tensors")
def _(x):
    return x[1:], x[:, ::2], x[-1], x[..., 0], x[None, :2], x[:, [0, 2]], x[x.shape[0] - 1, 1:3]


@case("indexing with a tensor")
def _(x):
    return x[torch.tensor([0, 2])], x[:, torch.arange(2)]


@case("writing to a slice of a new tensor")
def _(x):
    y = torch.zeros_like(x)
    y[0] = x[1]
    y[:, 1] = 2
    y[1, 2:] += x[0, :2]
    return y


@case("sizes as numbers")
def _(x):
    b, c = x.size()
    return x.view(c, b).reshape(-1, 2), x.numel(), x.dim(), x.size(0), len(x)


@case("constant folding of tuples and sets")
def _(x):
    return x * sum((1, 2, 3)) * len({1, 2, 2}), (1, 2) + (3,), [0] * 3


@case("deep recursion of a global function", lambda: (*tensors(), 6))
def factorial_times(x, n):
    return x if n <= 1 else n * factorial_times(x, n - 1)


@case("integer division, modulo, divmod and power", lambda: (*tensors(), 7))
def _(x, n):
    q, r = divmod(n, 3)
    return x * (n // 2 + n % 4) + q ** r + pow(2, 3) + round(2.567, 1) + abs(-n)


@case("min, max, sum, any, all, sorted", lambda: (*tensors(), [3, 1, 2]))
def _(x, v):
    return x * max(v) + min(v) + sum(v, 10) + any(i > 2 for i in v) + all(v) + sorted(v, reverse=True)[0] + max(1, 5)


@case("sorted with a key", lambda: (*tensors(), ["bbb", "a", "cc"]))
def _(x, v):
    scale = 2
    return x * scale, sorted(v, key=lambda s: len(s) * scale), min(v, key=len)


@case("isinstance, type, callable, hasattr, getattr")
def _(x):
    flags = (isinstance(x, torch.Tensor), isinstance(3, (int, str)), type(x) is torch.Tensor, callable(len),
             hasattr(x, "relu"), hasattr(x, "nothing"), getattr(x, "nothing", 5))
    return x * sum(flags), flags


@case("import inside the function")
def _(x):
    import math as mathematics
    from operator import add

    return add(x, mathematics.e)


@case("the truth of a tensor decides", breaks=True)
def _(x):
    return x * 2 if x.sum() > 1000 else x * 3


@case("item decides", breaks=True)
def _(x):
    n = (x > -100).sum().item()
    return x * n if n > 3 else x


@case("print of plain values is said behind the graph")
def _(x):
    y = x + 1
    print("rows", y.shape[0], [1, 2], end="", sep="-")
    return y * 2


@case("print of a tensor", breaks=True)
def _(x):
    y = x + 1
    print(y.detach().sum(), end="")
    return y * 2


@case("warnings.warn")
def _(x):
    import warnings
    with warnings.catch_warnings() if False else contextlib.nullcontext():
        warnings.warn("said once", UserWarning, stacklevel=1)
    return x * 2


@case("logging")
def _(x):
    logger.warning("size %d", x.shape[0])
    return x * 2


@case("a function of the time module", breaks=True)
def _(x):
    y = x + 1
    time.monotonic()
    return y * 2


@case("while on a tensor", breaks=True)
def _(x):
    y = x.detach().abs().sum()
    while y > 1:
        y = y / 2
    return x * y


@case("a break between two loops", breaks=True)
def _(x):
    for i in range(2):
        x = x + i
    torch._dynamo.graph_break()
    n = int((x > -1000).sum())
    for i in range(2):
        x = x * (i + n)
    return x


@case("a number from elements as size, index and bound")
def _(x):
    n = int((x > -1000).sum()) // 4
    return torch.zeros(n) + x.sum(), x[:n], x[n - 1], torch.arange(n), n, n / 2, x * x.detach().max().item()


@case("a mask that selects, and one that is written to")
def _(x):
    y = x * 2
    m = y > 0
    y[m] = y[m].exp()
    return y, x[m], len(x[m]), m.nonzero(), x[x > 1000].sum()


@case("a number from elements that is checked")
def _(x):
    n = (x > -1000).sum().item()
    torch._check(n <= 100)
    torch._check_is_size(n)
    return x.new_ones(n), max(n, 3)


@case("a number from elements that decides", breaks=True)
def _(x):
    n = int((x > -1000).sum())
    return x + n if n > 3 else x - n
