"""Every function of owned.cpp, called; references are counted."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref

from reporting import run_all

import rushlight as rl

spec = importlib.util.spec_from_file_location("owned", sys.argv[1])
own = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own)
op = rl.ops.owned


def counts_stay(call: object, *args: object) -> None:
    call(*args)
    before = [sys.getrefcount(a) for a in args]
    for _ in range(20):
        call(*args)
    assert [sys.getrefcount(a) for a in args] == before, call


def raised(call: object, *args: object) -> BaseException:
    try:
        call(*args)
    except RuntimeError as error:
        return error
    raise AssertionError("nothing was raised")


def living_errors() -> int:
    gc.collect()
    return sum(isinstance(one, RuntimeError) for one in gc.get_objects())


def check_tensors_come_back():
    x, y = rl.ones(2, 3), rl.zeros(2)
    assert own.same(x) is x and op.same(x) is x
    assert all(a is b for a, b in zip(own.turned([x, y]), (y, x), strict=True))
    assert all(a is b for a, b in zip(op.both(x, y), (x, y), strict=True))
    assert own.computed(x).tolist() == [3.0] * 6


def check_references_are_given_back():
    x, y = rl.ones(2, 3), rl.zeros(2)
    for call in (own.same, own.computed, own.catches, op.same):
        counts_stay(call, x)
    counts_stay(lambda a, b: own.turned([a, b]), x, y)
    counts_stay(op.both, x, y)
    counts_stay(lambda a: raised(own.fails, a) and None, x)
    counts_stay(lambda a: raised(op.refuses, a) and None, x)


def check_what_is_kept_lives_until_it_is_let_go():
    x = rl.ones(2)
    alive = weakref.ref(x)
    own.keep(x)
    del x
    gc.collect()
    assert alive() is not None
    own.let_go()
    gc.collect()
    assert alive() is None


def check_errors_are_the_ops_own_and_end():
    x = rl.ones(2)
    try:
        x.view(77)
    except RuntimeError as error:
        words = str(error)
    assert str(raised(own.fails, x)) == words == str(raised(op.refuses, x))
    assert raised(own.fails, x).__traceback__ is not None
    try:
        own.fails_of_its_kind(x)
    except IndexError as error:
        assert "7" in str(error)
    else:
        raise AssertionError("nothing was raised")
    before = living_errors()
    for _ in range(10):
        raised(own.fails, x)
        raised(op.refuses, x)
        assert own.catches(x)
    assert living_errors() == before


def check_functions_free_what_they_saved():
    x = rl.ones(2, requires_grad=True)
    y = own.twice(x)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    del y
    gc.collect()
    before = sys.getrefcount(x)
    for _ in range(5):
        own.twice(x)
        own.twice(x.detach())
    gc.collect()
    assert sys.getrefcount(x) == before


run_all(dict(globals()))
