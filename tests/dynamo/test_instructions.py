"""Bytecode read and written again is the same program: on this interpreter, and on others that are found."""

import dis
import functools
import gc
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from rushlight.dynamo.bytecode import instructions
from rushlight.dynamo.bytecode.emitter import Emitter
from rushlight.dynamo.bytecode.instructions import assemble, decode, liveness, stack_depths

HERE = Path(__file__).parent
FILE = Path(instructions.__file__)


@pytest.mark.parametrize("python", [sys.executable, "python3.12", "python3.13", "python3.14"])
def test_standard_library_survives_a_round_trip(python):
    found = python if python == sys.executable else shutil.which(python)
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{python} is not here")
    answer = subprocess.run([found, "-W", "ignore", str(HERE / "round_trip.py"), str(FILE), "60"], capture_output=True,
                            text=True)
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert int(answer.stdout) > 50


def reassembled(fn):
    fn.__code__ = assemble(decode(fn.__code__), like=fn.__code__)
    return fn


def test_reassembled_functions_run_alike():
    def risky(items, *rest, sep=", ", **named):
        done = []
        for i, x in enumerate(items):
            try:
                with open("/nowhere/at/all") if x == "open" else memoryview(b"abc") as held:
                    done.append(f"{i}{sep}{x!r:>6} {len(held)}")
                    if x == 3:
                        continue
                    if x == 4:
                        break
                    done.append(10 / x)
            except ZeroDivisionError as error:
                done.append(str(error))
            except (OSError, TypeError):
                done.append("other")
            finally:
                done.append((lambda: i)())
        else:
            done.append("else")
        return done, rest, named

    calls = [([1, 0, 3, "open", "x"],), ([4, 1], 9), ([],)]
    wanted = [risky(*args, k=1) for args in calls]
    again = reassembled(risky)
    assert [again(*args, k=1) for args in calls] == wanted


def test_long_jumps_get_prefixes():
    body = "\n".join(f"        total += x * {i}" for i in range(3000))
    text = f"def f(x):\n    total = 0\n    for _ in range(2):\n{body}\n    return total\n"
    space = {}
    exec(text, space)
    f = space["f"]
    wanted = f(3)
    assert any(one.opname == "EXTENDED_ARG" for one in dis.get_instructions(f))
    assert not any(one.name == "EXTENDED_ARG" for one in decode(f.__code__))
    assert reassembled(f)(3) == wanted == 2 * 3 * sum(range(3000))


def test_tracebacks_keep_lines_and_columns():
    def fails(x):
        y = x + 1
        return (y +
                None)

    first = fails.__code__
    assert list(reassembled(fails).__code__.co_positions()) == list(first.co_positions())
    with pytest.raises(TypeError) as caught:
        fails(1)
    assert caught.traceback[-1].lineno == first.co_firstlineno + 1


def test_liveness_sees_what_is_read_later():
    def f(a, b, c):
        d = a
        a = b
        while a:
            a = a - d
        return a

    listed = decode(f.__code__)
    live = liveness(listed)
    at_start = next(i for i, one in enumerate(listed) if one.name == "RESUME")
    assert live[at_start] == {"a", "b"}
    stored = next(i for i, one in enumerate(listed) if one.name == "STORE_FAST" and one.argval == "a")
    assert live[stored + 1] == {"a", "d"}


def test_liveness_looks_through_handlers():
    def f(a, b):
        try:
            a = b()
        except ValueError:
            return a
        return None

    listed = decode(f.__code__)
    live = liveness(listed)
    store = next(i for i, one in enumerate(listed) if one.name == "STORE_FAST")
    call = max(i for i, one in enumerate(listed[:store]) if one.name == "CALL")
    assert "a" in live[call] and stack_depths(listed)[id(listed[call])] >= 1


def written(fill, parameters=(), globals=None):
    def like():
        return None

    emitter = Emitter(like.__code__, parameters)
    fill(emitter)
    emitter.return_value()
    return emitter.function(globals if globals is not None else {})


def test_emitter_calls_in_every_form():
    def takes(*args, **kwargs):
        return args, kwargs

    def fill(e):
        e.load_const(takes)
        e.call(0)
        e.load_const(takes)
        e.load_local("x")
        e.call(1)
        e.load_const(takes)
        for i in range(3):
            e.load_const(i)
        e.call(3, ("b", "c"))
        e.load_const(takes)
        e.load_const(7)
        e.call(1, ("only",))
        e.load_const(takes)
        e.load_const((1, 2))
        e.call_spread()
        e.load_const(takes)
        e.load_const((1, 2))
        e.load_const("k")
        e.load_const(3)
        e.build_dict(1)
        e.call_spread(has_kwargs=True)
        e.load_local("x")
        e.load_const(5)
        e.call_function(takes, 2)
        e.load_local("x")
        e.call_method("upper")
        e.build_tuple(8)

    assert written(fill, ("x",))("a") == (
        ((), {}), (("a",), {}), ((0,), {"b": 1, "c": 2}), ((), {"only": 7}), ((1, 2), {}), ((1, 2), {"k": 3}),
        (("a", 5), {}), "A",
    )


def test_emitter_jumps_and_stores():
    def fill(e):
        end = e.label()
        e.load_local("x")
        e.jump_if(False, end)
        e.load_const("yes")
        e.load_local("d")
        e.load_const("k")
        e.store_subscr()
        e.place(end)
        e.load_local("d")

    function = written(fill, ("x", "d"))
    assert function([1], {}) == {"k": "yes"} and function([], {}) == {}


def test_objects_held_by_emitted_code_are_collected():
    class Thing:
        pass

    thing = Thing()
    alive = weakref.ref(thing)
    function = written(functools.partial(Emitter.load_const, value=thing))
    thing.back = function
    assert function() is thing
    del thing, function
    gc.collect()
    assert alive() is None
