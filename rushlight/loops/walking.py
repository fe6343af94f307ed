"""The order in which expressions are read: arguments before users."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.loops.expr import Value


def walk(values: Iterable[Value], known: Container[Value] = ()) -> list[Value]:
    """Every node below `values`, once each, arguments before users; without those that are `known`, and what only they
    are made of."""
    order: list[Value] = []
    seen: set[Value] = set()
    stack = [(v, False) for v in reversed(list(values))]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif value not in seen and value not in known:
            seen.add(value)
            if value.args:
                stack.append((value, True))
                stack.extend([(a, False) for a in reversed(value.args) if a not in seen])
            else:
                order.append(value)
    return order
