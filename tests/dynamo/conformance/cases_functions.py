"""Functions, closures, generators, decorators, exceptions and with blocks."""

from __future__ import annotations

import contextlib
import functools
import time

import rushlight as torch

from .harness import case, tensors

log: list[str] = []


def _logged():
    return list(log)


def _start():
    log.clear()
    return tensors()


def scale(x, by=2, *rest, shift=0.5, **more):
    return x * by + shift + len(rest) + sum(more.values())


@case("defaults, star arguments, keyword-only")
def _(x):
    return scale(x), scale(x, 3), scale(x, 3, 4, 5, shift=1), scale(x, shift=2, a=1, b=2)


@case("positional-only parameters")
def _(x):
    def f(a, /, b, *, c=1):
        return a * b + c

    return f(x, 2), f(x, b=3, c=4)


@case("a call with wrong arguments")
def _(x):
    return scale()


@case("keyword forwarding")
def _(x):
    def outer(*args, **kwargs):
        return scale(*args, **kwargs)

    return outer(x, by=5, shift=1, z=3)


@case("arguments of the compiled function by star", lambda: (*tensors(), 1, 2), key=3)
def _(x, *args, **kwargs):
    return x * sum(args) + kwargs["key"], args, kwargs


@case("closure over a local")
def _(x):
    k = 3

    def inner(t):
        return t * k

    return inner(x)


@case("closure that writes with nonlocal")
def _(x):
    n = 0

    def bump(t):
        nonlocal n
        n += 1
        return t + n

    return bump(bump(x)), n


def make_adder(n):
    def add(x):
        nonlocal n
        n += 1
        return x + n

    return add


def _adder():
    add = make_adder(1)
    return (*tensors(), add)


@case("closure from outside that counts", _adder)
def _(x, add):
    return add(x) + add(x), add.__closure__[0].cell_contents if False else 0


@case("lambda in a dict", lambda: (*tensors(), {"f": lambda t: t * 7}))
def _(x, table):
    return table["f"](x)


@case("a returned closure")
def _(x):
    y = x * 2

    def later(z):
        return y + z

    return later(1), later.__name__


@case("functools.partial", lambda: (*tensors(), functools.partial(scale, by=4)))
def _(x, f):
    return f(x), functools.partial(torch.add, x)(x), functools.partial(scale, shift=1)(x, 2)


@case("functools.wraps decorator")
def _(x):
    def doubled(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs) * 2

        return inner

    @doubled
    def g(t, k=1):
        return t + k

    return g(x), g(x, k=3), g.__name__


@functools.lru_cache
def table_of(n):
    return [i * i for i in range(n)]


@case("lru_cache")
def _(x):
    return x * table_of(4)[3]


@case("recursion in a local function")
def _(x):
    def power(t, n):
        return t if n == 0 else power(t, n - 1) * x

    return power(x, 3)


@case("generator consumed by for")
def _(x):
    def rows(t):
        for i in range(t.shape[0]):
            yield t[i] * i

    total = 0
    for r in rows(x):
        total = total + r
    return total


@case("generator with send and return")
def _(x):
    def running():
        total = x * 0
        while True:
            v = yield total
            if v is None:
                return total
            total = total + v

    g = running()
    next(g)
    g.send(x)
    y = g.send(x * 2)
    try:
        g.send(None)
    except StopIteration as stop:
        return y, stop.value
    return None


@case("yield from")
def _(x):
    def inner(n):
        for i in range(n):
            yield x * i
        return n

    def outer():
        n = yield from inner(3)
        yield x * n * 10

    return list(outer())


@case("generator with try and finally", _start, _logged)
def _(x):
    def g():
        try:
            yield x
            yield x * 2
        finally:
            log.append("closed")

    it = g()
    y = next(it)
    it.close()
    return y


@case("generator passed to built-ins")
def _(x):
    def g():
        yield 3
        yield 1
        yield 2

    return x * sum(g()) + max(g()), sorted(g()), tuple(g()), dict(enumerate(g()))


@case("generator that throws inside")
def _(x):
    def g():
        try:
            yield x
        except ValueError:
            yield x * 5

    it = g()
    next(it)
    return it.throw(ValueError("v"))


class Count:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@case("class-based iterator")
def _(x):
    for n in Count(3):
        x = x + n
    return x, list(Count(2)), sum(Count(4)), next(Count(5))


@case("try, except: raised and caught")
def _(x):
    try:
        raise ValueError("no")
    except ValueError as error:
        return x * 2, str(error), error.args


@case("try, except, else, finally in order", _start, _logged)
def _(x):
    try:
        y = x + 1
    except KeyError:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y


@case("exception of a built-in caught", lambda: (*tensors(), {"a": 1}))
def _(x, d):
    try:
        d["missing"]
    except KeyError as error:
        n = len(error.args)
    try:
        int("z")
    except (TypeError, ValueError):
        n += 10
    try:
        [][3]
    except IndexError:
        n += 100
    return x * n


@case("exception of an op caught")
def _(x):
    try:
        return x @ x
    except RuntimeError:
        return x * 4


@case("exception in a called function caught by the caller")
def _(x):
    def fails(t):
        t = t * 2
        raise LookupError(t.shape[0])

    try:
        fails(x)
    except LookupError as error:
        return x * error.args[0]


@case("exception that leaves the function")
def _(x):
    y = x * 2
    if y.shape[0] == 3:
        raise RuntimeError(f"three rows of {y.shape[1]}")
    return y


@case("a write before the exception that leaves", _start, _logged)
def _(x):
    log.append("before")
    y = x + 1
    raise ValueError(len(y))


@case("raise from, context and re-raise")
def _(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return x, type(error.__cause__).__name__, type(error.__context__).__name__


@case("bare raise")
def _(x):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            raise
    except LookupError as error:
        return x * error.args[0]


class Problem(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@case("exception class with its own __init__")
def _(x):
    try:
        raise Problem(4)
    except Problem as error:
        return x * error.code, str(error)


@case("finally with return in try", _start, _logged)
def _(x):
    def f():
        try:
            return x * 2
        finally:
            log.append("left")

    return f()


@case("nested finally with exception", _start, _logged)
def _(x):
    try:
        try:
            raise ValueError("a")
        finally:
            log.append("inner")
    except ValueError:
        log.append("outer")
    return x + len(log)


class Manager:
    def __init__(self, swallow=False):
        self.swallow, self.events = swallow, []

    def __enter__(self):
        self.events.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.events.append("exit" if kind is None else kind.__name__)
        return self.swallow


@case("with: own context manager", lambda: (*tensors(), Manager()))
def _(x, manager):
    with manager as m:
        y = x * len(m.events)
    return y


@case("with: exception swallowed", lambda: (*tensors(), Manager(True)))
def _(x, manager):
    with manager:
        x = x + 1
        raise ValueError("gone")
    return x


@case("with: exception passes", lambda: (*tensors(), Manager()))
def _(x, manager):
    try:
        with manager:
            raise KeyError("k")
    except KeyError:
        return x * 3


@case("with: several managers", lambda: (*tensors(), Manager(), Manager()))
def _(x, a, b):
    with a as p, b as q:
        return x * (len(p.events) + len(q.events))


@contextlib.contextmanager
def logged(name):
    log.append(f"enter {name}")
    try:
        yield len(name)
    finally:
        log.append(f"exit {name}")


@case("with: contextlib.contextmanager", _start, _logged)
def _(x):
    with logged("abc") as n:
        y = x * n
    return y


@case("with: contextlib.nullcontext and suppress")
def _(x):
    with contextlib.nullcontext(3) as n:
        y = x * n
    with contextlib.suppress(ValueError):
        raise ValueError
    return y


@case("no_grad block")
def _(x):
    with torch.no_grad():
        y = x * 2
    return y + 0, y.requires_grad, x * 3


@case("enable_grad inside no_grad")
def _(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
    return a, b


@case("set_grad_enabled as a block and as a call")
def _(x):
    with torch.set_grad_enabled(False):
        a = x * 2
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    b = x * 4
    torch.set_grad_enabled(True)
    return a, b, before


@torch.no_grad()
def frozen_part(t):
    return t * 5


@case("no_grad as a decorator")
def _(x):
    return frozen_part(x), x * 2


@case("no_grad left on")
def _(x):
    torch.set_grad_enabled(False)
    try:
        return x * 2
    finally:
        torch.set_grad_enabled(True)


@case("exception inside no_grad")
def _(x):
    try:
        with torch.no_grad():
            raise ValueError
    except ValueError:
        return x * 2, torch.is_grad_enabled()


@case("autocast block")
def _(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y.dtype, y.float(), (x @ x.t()).dtype


@case("inference_mode block")
def _(x):
    with torch.inference_mode():
        y = x.detach() * 2
    return y + 1


@case("a break inside a with block", lambda: (*tensors(), Manager()), breaks=True)
def _(x, manager):
    with manager:
        x = x * 2
        time.monotonic()
        x = x + 1
    return x


@case("a break inside no_grad", breaks=True)
def _(x):
    with torch.no_grad():
        y = x * 2
        time.monotonic()
        z = y * 3
    return z, z.requires_grad, x * 2


@case("a break inside try", breaks=True)
def _(x):
    try:
        y = x * 2
        time.monotonic()
        raise ValueError("v")
    except ValueError:
        y = y + 1
    return y


def prints(t):
    t = t + 1
    time.monotonic()
    return t * 2


@case("a break in a called function", breaks=True)
def _(x):
    y = x * 3
    z = prints(y)
    return z + y


@case("a break in a loop", breaks=True)
def _(x):
    for i in range(3):
        x = x + i
        time.monotonic()
    return x * 2


@case("a break with values on the stack", breaks=True)
def _(x):
    return [x * 2, (x + 1, prints(x)), {"k": x * 3}]


@case("a break with a closure cell alive", breaks=True)
def _(x):
    n = 2

    def bump():
        nonlocal n
        n += 1
        return n

    bump()
    time.monotonic()
    return x * bump(), n


@case("a break in a comprehension's function", breaks=True)
def _(x):
    return [prints(x * i) for i in range(2)]
