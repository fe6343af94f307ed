"""The table of rules: operators by domain, name and version, and the function that each one is here.

Enters: functions, decorated by `rule`. Positional parameters are the operator's inputs, those by keyword its
attributes. Leaves: `found(domain, op, version)`. A rule holds from one version of its domain until the next rule of
that name; a version before the first, or a rule that is None, is an operator which that version does not have.

Keywords that are no attributes: `count` is how many results are asked for (the rule returns as many, or more),
`anchor` a tensor without elements, on the device and of the float type of the model, `elements` the types of elements
of the inputs in the file, as far as they are known (uint4 is carried by uint8).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

NEWEST = {"": 28, "ai.onnx.ml": 6, "com.microsoft": 1, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
MOST_FOUND = 4096
EXTRAS = frozenset({"count", "anchor", "elements"})


@dataclasses.dataclass(frozen=True)
class Rule:
    """What an operator is here, from one version on."""

    function: Callable[..., Any]
    since: int
    host: tuple[int, ...] = ()          # inputs that are wanted as numbers: sizes, axes, pads
    sized: bool = False                 # takes all its inputs as numbers if sizes are among them
    closed: tuple[int, ...] | bool = ()   # inputs that no gradient passes; True: none passes any
    draws: bool = False                 # random numbers: never folded
    grows: bool = False                 # results may be far larger than the inputs: folded while they are small
    layer: Callable[..., Any] | None = None      # a module instead, for what training and evaluation do differently
    gives: Callable[..., Any] | None = None      # types of elements of the results, from those of inputs and attributes

    @functools.cached_property
    def settings(self) -> dict[str, inspect.Parameter]:
        """The keywords that it takes."""
        return {name: p for name, p in _parameters(self.function).items() if p.kind is p.KEYWORD_ONLY}

    @functools.cached_property
    def needs(self) -> tuple[str, ...]:
        """The attributes that a node must have."""
        return tuple([name for name, p in self.settings.items() if p.default is p.empty and name not in EXTRAS])

    @functools.cached_property
    def annotations(self) -> dict[str, str]:
        """What each attribute is, as the rule's text has it."""
        return {name: str(p.annotation).removesuffix(" | None") for name, p in self.settings.items()
                if name not in EXTRAS}

    @functools.cached_property
    def takes_any(self) -> bool:
        return any(p.kind is p.VAR_KEYWORD for p in _parameters(self.function).values())

    @functools.cached_property
    def arity(self) -> tuple[int, int | None]:
        """How many inputs it takes, at least and at most."""
        given = [p for p in _parameters(self.function).values() if p.kind in (p.POSITIONAL_ONLY,
                                                                              p.POSITIONAL_OR_KEYWORD)]
        least = sum(p.default is p.empty for p in given)
        has_more = any(p.kind is p.VAR_POSITIONAL for p in _parameters(self.function).values())
        return least, None if has_more else len(given)


RULES: dict[tuple[str, str], list[Rule]] = {}


def _parameters(function: Callable) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def rule(*names: str, since: int = 1, domain: str = "", **facts: Any) -> Callable[[Callable], Callable]:
    """The decorated function is the rule of these operators, from a version of their domain on."""

    def keep(function: Callable) -> Callable:
        for name in names:
            versions = RULES.setdefault((domain, name), [])
            assert all(r.since != since for r in versions), f"two rules for {name} {since}"
            versions.append(Rule(function, since, **facts))
            versions.sort(key=lambda r: r.since)
        _FOUND.clear()
        return function

    return keep


_FOUND: dict[tuple[str, str, int], Rule | None] = {}


def found(domain: str, op: str, version: int) -> Rule | None:
    """The rule of an operator in a version of its domain."""
    key = domain, op, version
    if key not in _FOUND:
        if len(_FOUND) > MOST_FOUND:             # files may name operators without end
            _FOUND.clear()
        best = None
        for r in RULES.get((domain, op), ()):
            if r.since <= version:
                best = r
        _FOUND[key] = best
    return _FOUND[key]


def first_version(domain: str, op: str) -> int | None:
    """The first version that has an operator, as far as it is known here."""
    versions = RULES.get((domain, op))
    return versions[0].since if versions else None


def listed(others: Mapping[tuple[str, str], int] = {}) -> str:    # noqa: B006 - it is only read
    """A table of operators by domain, and how many definitions they have. `others`: those without a rule."""
    names: dict[str, set[str]] = defaultdict(set)
    for domain, op in (*RULES, *others):
        names[domain].add(op)
    lines = ["| domain | operators | |", "| --- | --- | --- |"]
    for domain in sorted(names):
        lines.append(f"| `{domain or 'ai.onnx'}` | {len(names[domain])} | {', '.join(sorted(names[domain]))} |")
    return "\n".join(lines)
