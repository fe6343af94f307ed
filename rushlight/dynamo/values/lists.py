"""Built-in functions and methods of lists that compare objects written in Python.

Enters: a list of the program's objects. Leaves: what sorting and searching give, with comparisons in the interpreter,
in the order in which the built-in ones make them.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from ..record.breaks import Raised
from ..record.machine import Machine
from .attributes import MISSING
from .operators import unwatched
from .outside import is_python_class


class Ordered:
    """An object of the program's in the hands of a built-in function that sorts."""

    __slots__ = ("machine", "value")

    def __init__(self, machine: Machine, value: Any) -> None:
        self.machine, self.value = machine, value

    def __lt__(self, other: Any) -> bool:
        try:
            with unwatched():
                return self.machine.truth(self.machine.binary(operator.lt, self.value, other.value))
        except Raised as raised:
            raise raised.exception from raised.exception.__cause__


def list_method(m: Machine, owner: list, name: str, args: tuple, kwargs: dict) -> Any:
    """owner.name(...), for methods that compare members written in Python; MISSING where none is."""
    if not any(is_python_class(type(x)) for x in (*owner, *args[:1])):
        return MISSING
    if name == "sort":
        if kwargs.get("key") is not None:
            return MISSING
        given = {"key": m.own_callback(functools.partial(Ordered, m)), "reverse": kwargs.get("reverse", False)}
        return m.native(list.sort, (owner,), given)
    value, *bounds = args

    def is_it(x: Any) -> bool:
        return m.are_equal(x, value)

    if name == "count":
        return sum(is_it(x) for x in owner)
    first, last, _ = slice(*(bounds if len(bounds) == 2 else (*bounds, None) if bounds else (None, None))).indices(
        len(owner))
    at = next((i for i in range(first, last) if is_it(owner[i])), None)
    if at is None:
        raise Raised(ValueError("list.remove(x): x not in list" if name == "remove" else f"{value!r} is not in list"))
    if name == "remove":
        del owner[at]
        return None
    return at
