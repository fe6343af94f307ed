"""Break functions at each of their instructions in turn, and see that they run alike: `python break_everywhere.py`.

Nothing is captured: the function runs as it is up to the break, there the emitted break takes over. Runs on any
interpreter whose bytecode is known, with the core replaced by the few lines that breaks need of it. Prints how many
breaks were made.
"""

import contextlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "rushlight"


class TailCall(tuple):
    pass


def load():
    """`rushlight.dynamo.bytecode.resume` and its neighbours, without the rest of the package."""
    for name, path in (("rushlight", ROOT), ("rushlight.dynamo", ROOT / "dynamo")):
        module = types.ModuleType(name)
        module.__path__ = [str(path)]
        sys.modules[name] = module
    core = types.ModuleType("rushlight._C")
    core.tail_call = lambda *parts: TailCall(parts)
    sys.modules["rushlight._C"] = sys.modules["rushlight"]._C = core
    from rushlight.dynamo.bytecode import emitter, instructions, resume

    return instructions, emitter, resume


I, E, R = load()


def run(call):
    while isinstance(call, TailCall):
        call = call[0](*call[1:])
    return call


def stacks(code):
    """What is on the stack before each instruction, where that is known: True for values, False for NULL."""
    listed = I.decode(code)
    place = {id(one): i for i, one in enumerate(listed)}
    found = {0: ()}
    todo = [0]
    while todo:
        i = todo.pop()
        one, stack = listed[i], found[i]
        unclear = one.name == "LOAD_METHOD" or (one.name == "LOAD_ATTR" and I.VERSION >= (3, 12) and one.arg & 1) \
            or (one.name == "LOAD_SUPER_ATTR" and one.arg & 1) or one.name == "LOAD_SPECIAL"
        for jump in (False, True):
            goal = i + 1 if not jump else place[id(one.target)] if one.target else None
            if goal is None or (not jump and not I.falls_through(one)):
                continue
            if one.name == "FOR_ITER" and jump and I.VERSION >= (3, 12):
                goal += 1 if I.VERSION == (3, 12) else 2
            if stack is None:
                after = None
            elif unclear:
                after = (*stack[: -1 if one.name != "LOAD_SUPER_ATTR" else -3], None, None)
            elif one.name == "LOAD_GLOBAL" and one.arg & 1:
                after = (*stack, False, True) if I.VERSION < (3, 13) else (*stack, True, False)
            elif one.name == "LOAD_FAST_AND_CLEAR":      # NULL where the local was unbound
                after = (*stack, None)
            elif one.name == "PRECALL":      # takes nothing yet
                after = stack
            elif one.name == "CALL" and I.VERSION == (3, 11):
                after = (*stack[: len(stack) - one.arg - 2], True)
            else:
                after = R._stack_after(one, stack, jump)
            if goal not in found:
                found[goal] = after
                todo.append(goal)
        if one.handler is not None and place[id(one.handler.target)] not in found:
            found[place[id(one.handler.target)]] = (True,) * (one.handler.depth + one.handler.lasti + 1)
            todo.append(place[id(one.handler.target)])
    return found


def bound_at(code, at):
    """Variables that certainly have a value before an instruction; all that may have one where that decides nothing."""
    listed = I.decode(code)
    place = {id(one): i for i, one in enumerate(listed)}
    n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    state = {0: frozenset(code.co_varnames[:n])}
    todo = [0]
    while todo:
        i = todo.pop()
        one, now = listed[i], state[i]
        after = now | {one.argval} if one.name in ("STORE_FAST", "MAKE_CELL") else now
        if one.name in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
            after = now - {one.argval}
        ways = [(i + 1, after)] if I.falls_through(one) else []
        if one.target:
            ways.append((place[id(one.target)], after))
        if one.handler:
            ways.append((place[id(one.handler.target)], now & after))
        for goal, known in ways:
            merged = state.get(goal, known) & known
            if state.get(goal) != merged:
                state[goal] = merged
                todo.append(goal)
    return state.get(at)


def broken(function, at, stack, wanted, seen):
    """`function` with a break before instruction `at`; each time round, if the break is in a loop."""
    code = function.__code__
    point = R.BreakPoint(code, at, stack, bound_at(code, at))
    base = R.original(point)
    listed = I.decode(code)
    cells = function.__closure__ or ()

    def resume(made):
        goes_on = types.FunctionType(made, function.__globals__, None, None, cells)
        if made not in seen:
            seen[made] = goes_on
            again = R._origins[made][1]
            if base.at in again:      # break there again
                here = again.index(base.at)
                known = stacks(made).get(here)
                if known is not None and None not in known and made.co_code != code.co_code:
                    seen[made] = broken(goes_on, here, known, wanted, seen)
        return lambda *args: seen[made](*args)

    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount
                             + bool(code.co_flags & 4) + bool(code.co_flags & 8)]
    emitter = E.Emitter(code, names)
    first = emitter.label()
    emitter.place(first)
    R.emit_break(emitter, point, resume, lambda callee: callee)
    spliced = []
    for i, one in enumerate(listed):
        if i == at:
            while spliced and spliced[-1].name in ("PRECALL", "KW_NAMES"):      # the break brings them
                spliced.pop()
            spliced += emitter.instructions
        if one.name in ("COPY_FREE_VARS", "RESUME"):
            continue
        spliced.append(one)
    for one in spliced:
        if one.target is listed[at]:
            one.target = first
    emitter.instructions = spliced
    fresh = emitter.function(function.__globals__, cells)
    body = fresh.__code__.replace(
        co_flags=code.co_flags, co_argcount=code.co_argcount, co_kwonlyargcount=code.co_kwonlyargcount)
    result = types.FunctionType(body, function.__globals__, None, function.__defaults__, fresh.__closure__)
    result.__kwdefaults__ = function.__kwdefaults__
    return result


# -- the functions -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def noted(log, name, swallows=()):
    log.append(f"enter {name}")
    try:
        yield name
    except swallows as error:
        log.append(f"swallow {type(error).__name__}")
    finally:
        log.append(f"leave {name}")


def loops(n):
    total = []
    for i in range(n):
        if i % 3 == 0:
            continue
        for j in (1, 2):
            if j * i > 9:
                break
            total.append(i * j)
        else:
            total.append("done")
    while n > 0:
        n -= 2
        total.append(n)
    return total


def blocks(n):
    log = []
    with noted(log, "a"), noted(log, "b", (ZeroDivisionError,)) as name:
        log.append(name)
        log.append(10 // n)
        if n == 3:
            return log
    try:
        log.append(10 // (n - 1))
        try:
            log.append([1, 2][n])
        finally:
            log.append("inner")
    except ZeroDivisionError as error:
        log.append(str(error))
    except (IndexError, KeyError):
        log.append("index")
    else:
        log.append("else")
    finally:
        log.append("outer")
    return log


def cells(n, *rest, scale=2, **named):
    def add(x):
        nonlocal n
        n += x
        return n * scale

    made = [add(i) for i in range(3)]
    squares = {k: (lambda k=k: k * scale)() for k in named}
    n = n + 1
    return made, squares, n, add(1), rest, named


def expressions(n):
    a = (n, n + 1, [n, *range(n)], {"a": n, "b": 2}, {1, n})
    b = a[0] if n > 2 else a[1:][0]
    c = (n > 1 and a) or b
    d = 1 < n < 5
    text = f"{n!r:>4}|{b:02}|{c}"
    first, *others = a
    x = y = max(n, *others[0:1], key=lambda v: v if isinstance(v, int) else 0)
    del first
    print_like = "-".join(str(v) for v in (x, y, d, not d, n is None, 2 in a[2]))
    return a, b, c, d, text, others, print_like, dict(k=n, v=sorted([n, 1], reverse=True))


def deletes(n):
    log = []
    for i in range(n):
        value = i
        if i % 2:
            del value
        try:
            log.append(value)
        except UnboundLocalError:
            log.append("unbound")
    assert n >= 0, "not negative"
    match n:
        case 0:
            return "zero"
        case 1 | 2:
            log.append("few")
        case int(k) if k > 3:
            log.append(k)
    return log


class Base:
    def method(self, n):
        return [n]


class Derived(Base):
    def method(self, n):
        before = n * 2
        found = super().method(n + 1)
        return found + [before, __class__.__name__, self is not None]


def raises(n):
    if n == 2:
        raise ValueError(n)
    return [10 // n]


def main():
    count = 0
    cases = [(loops, [(0,), (7,)]), (blocks, [(0,), (1,), (2,), (3,), (4,)]), (cells, [(2,), (2, 5)]),
             (expressions, [(1,), (3,), (7,)]), (deletes, [(-1,), (0,), (1,), (4,)]),
             (Derived.method, [(Derived(), 3)]), (raises, [(0,), (1,), (2,)])]

    def outcome(function, args):
        try:
            return run(function(*args, **({"k": 1, "z": 2} if function.__code__.co_flags & 8 else {})))
        except Exception as error:
            return type(error), str(error), error.__traceback__.tb_next is not None

    for function, calls in cases:
        wanted = [outcome(function, args) for args in calls]
        known = stacks(function.__code__)
        for at, one in enumerate(I.decode(function.__code__)):
            stack = known.get(at)
            if stack is None or None in stack or one.name in ("MAKE_CELL", "COPY_FREE_VARS", "RESUME"):
                continue
            point = R.BreakPoint(function.__code__, at, stack, frozenset())
            if one.name.startswith(("STORE_FAST", "DELETE_FAST", "JUMP_", "RETURN", "LOAD_CLOSURE", "LOAD_FAST_AND")):
                continue      # these never break, or move a local
            possible = bound_at(function.__code__, at)
            if any(name not in possible for name in R.needed(R.BreakPoint(
                    function.__code__, at, stack, frozenset(I.slot_names(function.__code__))))):
                continue      # bound on some ways only: capture knows, this test does not
            try:
                R.check(point)
            except R.CannotResume:
                continue
            changed = broken(function, at, stack, wanted, {})
            got = [outcome(changed, args) for args in calls]
            for g, w in zip(got, wanted):
                same = g[:2] == w[:2] if isinstance(w, tuple) and isinstance(w[0], type) else g == w
                assert same, (function.__name__, at, one, one.positions, g, w)
            count += 1
    print(count)


if __name__ == "__main__":
    main()
