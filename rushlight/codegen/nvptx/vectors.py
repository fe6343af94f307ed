"""Which nests that blocks share can go in vectors of 16 bytes, and what must hold for that when they are launched.

Enters: a nest. Leaves: how many elements a thread takes at once (1: single ones), and the parameters that must be whole
multiples of that. An index that moves with a shared loop must move by one element a step; everything else in it is made
of multiples then. Operands must start at 16 bytes, which a launch looks at too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...loops.expr import Value, const, walk
from ...loops.nest import For, Local, Nest, Reduce, Statement, Store
from ..text import primitives as p

BYTES, MOST = 16, 8


def vector_form(nest: Nest, loops: Sequence[For | Reduce]) -> tuple[int, tuple[int, ...]]:
    """(elements at once, numbers of the parameters that must be multiples of them)."""
    known = definitions(nest.loop.body)
    sizes: set[int] = set()
    factors: set[str] = set()
    for s in loops:
        if isinstance(s, Reduce) and s.body:
            return 1, ()
        stores = [one for one in s.body if isinstance(one, Store)]
        if len(stores) != len(s.body) or any(one.combine != "set" or one.index is None for one in stores):
            return 1, ()
        for operand, index in accesses(s, stores):
            step = coefficient(index, s.var, known)
            if step not in (0, 1):
                return 1, ()
            if step == 1:
                sizes.add(p.SIZE[nest.operands[operand].code])
                needed = [factors_of(value, s.var, nest.params, known) for value in (index, s.start)]
                if None in needed:
                    return 1, ()
                factors |= needed[0] | needed[1]
    if not sizes:
        return 1, ()
    numbers = tuple([k for k, name in enumerate(nest.params) if name in factors])
    return min(MOST, BYTES // min(sizes)), numbers


def peel_form(nest: Nest, loops: Sequence[For | Reduce]) -> bool:
    """Whether a loop can start with single elements where rows start anywhere: all that moves with it does so alike."""
    known = definitions(nest.loop.body)
    if vector_form(nest, loops)[0] == 1:
        return False
    for s in loops:
        stores = [one for one in s.body if isinstance(one, Store)]
        moving = {index for _, index in accesses(s, stores) if coefficient(index, s.var, known) == 1}
        if len(moving) > 1:
            return False
    return True


def base_of(s: For | Reduce, known: Mapping[str, Value]) -> Value:
    """The index of all that moves with such a loop."""
    stores = [one for one in s.body if isinstance(one, Store)]
    return next(
        (index for _, index in accesses(s, stores) if coefficient(index, s.var, known) == 1), const(0, "i64")
    )


def accesses(s: For | Reduce, stores: Sequence[Store]) -> list[tuple[int, Value]]:
    """Operands and indices of everything a loop reads and writes."""
    roots = [*(s.step if isinstance(s, Reduce) else ()), *[one.value for one in stores], *[one.index for one in stores]]
    read = [(v.attr, v.args[0]) for v in walk(roots) if v.op == "load"]
    return [*read, *[(one.operand, one.index) for one in stores]]


def read_in_vectors(s: For | Reduce, known: Mapping[str, Value]) -> list[Value]:
    """The loads of a loop that move with it."""
    roots = [*(s.step if isinstance(s, Reduce) else ()), *[one.value for one in s.body]]
    return [v for v in walk(roots) if v.op == "load" and coefficient(v.args[0], s.var, known) == 1]


def definitions(body: Sequence[Statement]) -> dict[str, Value]:
    """What the names of a row stand for; of those that blocks side by side use for different things, nothing is known.
    """
    found: dict[str, set[Value]] = {}
    for s in locals_of(body):
        found.setdefault(s.name, set()).add(s.value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def locals_of(body: Sequence[Statement]) -> list[Local]:
    """The names that a block and its loops give."""
    found: list[Local] = []
    for s in body:
        found += [s] if isinstance(s, Local) else locals_of(s.body) if isinstance(s, For) else []
    return found


def coefficient(value: Value, name: str, known: Mapping[str, Value]) -> int | None:
    """By how much an index moves with a loop; None where that is no number."""
    if value.op == "var":
        return 1 if value.attr == name else coefficient(known[value.attr], name, known) if value.attr in known else 0
    if value.op == "const":
        return 0
    parts = [coefficient(a, name, known) for a in value.args]
    if None in parts:
        return None
    if value.op in ("add", "sub"):
        return parts[0] + parts[1] if value.op == "add" else parts[0] - parts[1]
    if value.op == "mul" and any(parts):
        number = next((a.attr for a, part in zip(value.args, parts, strict=True) if not part and a.op == "const"), None)
        return None if number is None or all(parts) else number * sum(parts)
    return None if any(parts) else 0


def factors_of(value: Value, name: str, params: Sequence[str], known: Mapping[str, Value]) -> frozenset[str] | None:
    """Parameters that make an index a whole number of vectors if they are (the loop `name` is);
    None where they cannot."""
    if value.op == "const":
        return frozenset() if value.attr % MOST == 0 else None
    if value.op == "var":
        if value.attr in known:
            return factors_of(known[value.attr], name, params, known)
        return frozenset() if value.attr == name else frozenset((value.attr,)) if value.attr in params else None
    if value.op not in ("add", "sub", "mul"):
        return None
    parts = [factors_of(a, name, params, known) for a in value.args]
    if value.op == "mul":       # one of them is enough
        return min([part for part in parts if part is not None], key=len, default=None)
    return None if None in parts else parts[0] | parts[1]


__all__ = ["accesses", "base_of", "coefficient", "definitions", "peel_form", "read_in_vectors", "vector_form"]
