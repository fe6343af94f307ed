"""The table of rules by name: `RULES`, from names of definitions to functions.

Enters: functions, by the decorator `rule`. A rule gets a `Call` (the builder, what tracing saw) and the op's arguments
by their names in its schema: tensors as values, sizes as numbers or symbols, all else as it is. It returns a value, or
a tuple where the op has several results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..printing import Value
from .building import Hlo


@dataclasses.dataclass
class Call:
    """One call: the builder, the arguments as fakes whose elements lie in order, and the results that tracing saw."""

    b: Hlo
    definition: Any
    fakes: Mapping[str, Any]
    result: Any
    expand: Callable[..., Any]      # a function over fakes, by the rules of what it calls, for values
    as_traced: Mapping[str, Any] = dataclasses.field(default_factory=dict)      # fakes with the strides of the program

    def out(self, k: int | None = None) -> Any:
        """The fake of the result, or of one of several."""
        return self.result if k is None else self.result[k]


RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable], Callable]:
    """The rule of the definitions of these names."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = function
        return function

    return keep


def positive(dim: int, ndim: int) -> int:
    """A dim counted from the front."""
    return dim + ndim if dim < 0 else dim


__all__ = ["RULES", "Call", "Value", "positive", "rule"]
