"""Decode and assemble the standard library of the interpreter that runs this: `python round_trip.py FILE SHARE`.

FILE is instructions.py, loaded alone, so that interpreters without Rushlight's core can run it. Every SHARE-th module
is taken. Prints how many code objects were checked; exits with an error at the first that is not the same again.
"""

import dis
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import CodeType


def load(path):
    spec = importlib.util.spec_from_file_location("instructions", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["instructions"] = module
    spec.loader.exec_module(module)
    return module


def same_value(a, b):
    if isinstance(a, CodeType):
        return a is b
    return type(a) is type(b) and repr(a) == repr(b)


def check(made, code):
    first = made.decode(code)
    again = made.assemble(first, like=code)
    second = made.decode(again)
    kept = made.reachable(first)
    assert len(kept) == len(second), (code, len(kept), len(second))
    place = {id(one): i for i, one in enumerate(kept)}
    there = {id(one): i for i, one in enumerate(second)}
    for a, b in zip(kept, second):
        assert (a.name == b.name and same_value(a.argval, b.argval)) or a.target is not None, (code, a, b)
        assert a.positions == b.positions, (code, a, a.positions, b.positions)
        if a.target is not None:
            assert place[id(a.target)] == there[id(b.target)], (code, a, b)
        assert (a.handler is None) == (b.handler is None), (code, a, b)
        if a.handler is not None:
            assert place[id(a.handler.target)] == there[id(b.handler.target)], (code, a, b)
            assert (a.handler.depth, a.handler.lasti) == (b.handler.depth, b.handler.lasti)
    if len(kept) == len(first) and sys.version_info < (3, 13):      # pairs are not put together again
        assert again.co_code == code.co_code, code
        assert again.co_exceptiontable == code.co_exceptiontable, code
    assert list(dis.findlinestarts(again)) == list(dis.findlinestarts(code)) or len(kept) != len(first) \
        or sys.version_info >= (3, 13), code
    assert again.co_stacksize >= code.co_stacksize - 1 or len(kept) != len(first), (
        code, again.co_stacksize, code.co_stacksize)
    made.liveness(first)
    return 1 + sum(check(made, c) for c in code.co_consts if isinstance(c, CodeType))


def main(path, share):
    made = load(path)
    done = 0
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(p for p in folder.rglob("*.py") if "site-packages" not in p.parts and "lib2to3" not in p.parts)
    for file in files[:: int(share)]:
        try:
            code = compile(file.read_bytes(), str(file), "exec")
        except (SyntaxError, ValueError):      # samples of bad syntax among the library's tests
            continue
        done += check(made, code)
    print(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
