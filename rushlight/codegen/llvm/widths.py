"""How wide a vector loop goes.

Enters: a loop and the target. Leaves: lanes and how many vectors of them an iteration takes, and whether what is left
over deserves single vectors. The width is chosen once for all dtypes in a loop: the smallest operand fills one machine
vector, wider values take several, and the whole iteration spans about four registers of the widest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...loops.expr import Value, walk
from ...loops.nest import Assign, For, If, Local, Nest, Reduce, Statement, Store
from ..text import primitives as p
from ..text.targets import Target

COSTLY = 6  # operations per element past which a scalar rest of up to 15 elements hurts
LONG = 120  # nodes in a body past which the time to compile it counts for more than the last tenth of speed
CHAIN = 6  # nodes in a body from which on waiting for each other counts
FOLDED_CHAIN = 12  # the same of a fold, whose vectors are more to add up behind it
FEW = 4  # vectors of an iteration, of which loops may be made so that nothing is left over
HEAVY = 30  # nodes in a body past which 16 registers hold only two vectors of each value


def choose_width(s: For | Reduce, nest: Nest, target: Target) -> tuple[int, int]:
    """(lanes, unroll) for a vector loop."""
    nodes = on_lanes(s)
    touched = [nest.operands[v.attr].code for v in nodes if v.op in ("arg", "load")]
    touched += [nest.operands[k].code for k in _stored(s.body)]
    part = [p.SIZE[p.PARTS.get(code, code)] for code in touched] or [4]
    wide = max(part + [p.SIZE[p.PARTS.get(v.dtype, v.dtype)] for v in nodes if v.dtype != "b1"])
    register = target.vector_bits // 8
    lanes = register // min(part)
    while lanes > 2 and lanes * wide > 4 * register:
        lanes //= 2
    while lanes > 2 and s.start.op == s.stop.op == "const" and s.stop.attr - s.start.attr < lanes:
        lanes //= 2  # a loop of so few iterations is one shorter vector
    # Wide vectors: two keep the ports busy, and short tensors still fill them. Folds need more, being chains.
    spans = 4 if target.vector_bits <= 128 or isinstance(s, Reduce) else 2
    if len(nodes) > LONG or (target.registers <= 16 and len(nodes) > HEAVY):
        spans = 2
    elif target.vector_bits <= 128 and (CHAIN if isinstance(s, For) else FOLDED_CHAIN) <= len(nodes) <= LONG // 2:
        # A processor looks ahead over few instructions (some 30 of a Neoverse N1 wait for operands): a chain leaves its
        # units idle unless neighbours in the text are independent. A divider is busy anyway.
        if not any(v.op in ("div", "sqrt") for v in nodes):
            held = alive(_roots(s), nodes) + (len(s.accs) if isinstance(s, Reduce) else 0)
            # vectors of a fold are merged two by two
            spans = next((n for n in ((8, 6) if isinstance(s, For) else (8,)) if n * held <= target.registers), spans)
    wide_body = isinstance(s, For) and target.vector_bits > 128 and len(nodes) > HEAVY
    if wide_body and 2 * alive(_roots(s), nodes, named_values(s)) > target.registers:
        spans = 1    # two vectors of each value would wait in memory (transforms of 8 numbers and more)
    if target.joins_registers:
        held = alive(_roots(s), nodes, named_values(s)) + (len(s.accs) if isinstance(s, Reduce) else 0)
        spans = next((n for n in (4, 2) if n * held <= target.registers), 1)
    unroll = max(1, spans * register // wide // lanes)
    known = known_factor(s, lanes)
    while unroll > 1 and known and known % (lanes * unroll):
        unroll = unroll // 2 if unroll % 2 == 0 else 1  # a loop of so many iterations leaves no rest
    return (lanes * unroll, 1) if target.joins_registers else (lanes, unroll)


def known_factor(s: For | Reduce, lanes: int) -> int:
    """What divides the number of iterations: all of it if that is constant, or the constant that a loop from 0 names as
    the last factor of its end, if that is a few vectors; 0 if nothing is known."""
    if s.start.op == s.stop.op == "const":
        return s.stop.attr - s.start.attr
    if s.start.op == "const" and s.start.attr == 0 and s.stop.op == "mul" and s.stop.args[1].op == "const":
        factor = s.stop.args[1].attr
        return factor if factor % (FEW * lanes) == 0 else 0
    return 0


def named_values(s: Statement) -> dict[str, Value]:
    """What a loop's names stand for."""
    return {inner.name: inner.value for inner in s.body if isinstance(inner, Local)}


def alive(roots: Sequence[Value], nodes: Sequence[Value], named: Mapping[str, Value] | None = None) -> int:
    """How many of the nodes are held at once, at most, if they are computed one after another; `named`: what those of
    them are that are read by a name."""
    order, own = [], set(nodes)
    names = named or {}
    stack = [(root, False) for root in reversed(roots)]
    done: set[Value] = set()
    while stack:
        value, ready = stack.pop()
        if value in done or value not in own:
            continue
        if ready or value.op == "load":
            done.add(value)
            order.append(value)
        else:
            stack.append((value, True))
            stack += [(a, False) for a in value.args]
    last = {
        names.get(a.attr, a) if a.op == "var" else a: k
        for k, value in enumerate(order)
        if value.op != "load"
        for a in value.args
    }
    live = most = 0
    ending: dict[int, int] = {}
    for k, value in enumerate(order):
        live += 1 - ending.pop(k, 0)
        most = max(most, live)
        end = last.get(value, k + 1)
        ending[end] = ending.get(end, 0) + 1
    return most


def wants_single_vectors(s: For | Reduce, nest: Nest, target: Target) -> bool:
    """Whether the rest of a wide loop should go in single vectors first: only if an element costs more than a few
    instructions, as every loop adds to the time to compile, or has a loop of its own, or if this is a stretch of a row,
    which may be short."""
    if nest.point:
        # There the inner dimension is long, or its rest comes once; but all of it is left where elements lie apart.
        return len(on_lanes(s)) > 2 * COSTLY
    if (s.start.op == "var" and s is not nest.loop) or any(isinstance(inner, For) for inner in s.body):
        return choose_width(s, nest, target)[1] > 1
    nodes = [v for v in on_lanes(s) if v.op not in ("arg", "load")]
    is_move = isinstance(s, For) and s is not nest.loop and not nodes   # of rows, which may be short: little to compile
    return choose_width(s, nest, target)[1] > 1 and (is_move or len(nodes) > COSTLY)


def only_moves(s: For) -> bool:
    """Whether a loop's elements are stored as they are read, or in another type."""
    return not (s.gathers or s.transposed) and all(
        isinstance(inner, Store) and inner.combine == "set" and is_read(inner.value) for inner in s.body
    )


def is_read(value: Value) -> bool:
    """Whether a value is one element, converted or not."""
    while value.op == "cast":
        value = value.args[0]
    return value.op == "arg" or (value.op == "load" and not any(v.op == "load" for v in walk(value.args)))


def walk_values(roots: Sequence[Value]) -> list[Value]:
    """Nodes that become data on lanes: indices of loads are left out."""
    seen: dict[Value, None] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen[value] = None
            if value.op != "load":
                stack.extend(value.args)
    return list(seen)


def on_lanes(s: For | Reduce) -> list[Value]:
    """Nodes whose values take vectors: what is made of names from outside of the loop and constants alone is one scalar
    for all lanes."""
    roots, own = _roots(s), {s.var, *_named(s)}
    uniform: dict[Value, bool] = {}
    for value in walk(roots):
        uniform[value] = (
            value.attr not in own if value.op == "var"
            else value.op not in ("arg", "load") and all(uniform[a] for a in value.args)
        )
    return [v for v in walk_values(roots) if v.op != "var" and not uniform[v]]


def _named(s: Statement) -> list[str]:
    """Names that a statement gives to values, inside of it too."""
    if isinstance(s, (For, Reduce)):
        own = list(s.accs) if isinstance(s, Reduce) else []
        return own + [name for inner in s.body for name in _named(inner)]
    if isinstance(s, If):
        return [name for inner in (*s.then, *s.otherwise) for name in _named(inner)]
    return [s.name] if isinstance(s, (Local, Assign)) else []


def _roots(s: Statement) -> list[Value]:
    if isinstance(s, (For, Reduce)):
        own = [*s.init, *s.step] if isinstance(s, Reduce) else []
        return own + [root for inner in s.body for root in _roots(inner)]
    if isinstance(s, If):
        return [root for inner in (*s.then, *s.otherwise) for root in _roots(inner)]
    if isinstance(s, (Store, Assign)):
        return [s.value]
    if isinstance(s, Local) and s.value.dtype != "i64":
        return [s.value]  # an i64 local is nearly always an index
    return []


def _stored(body: Sequence[Statement]) -> list[int]:
    found: list[int] = []
    for s in body:
        if isinstance(s, Store):
            found.append(s.operand)
        elif isinstance(s, (For, Reduce)):
            found += _stored(s.body)
        elif isinstance(s, If):
            found += _stored(s.then) + _stored(s.otherwise)
    return found
