"""The default decompositions: everything that is no core ATen op, as core ATen ops.

Enters: ops. Leaves: `rule_of(name)`, a function with the signature of ATen's overload of that name, or None; and
`core_rule(target)`, the same for the target of a call, parts of our ops included. Most rules are nobody's work: a
composite op runs its body, a pointwise op its expression. Rules that are written (rules_*.py) go before those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..aten.calls import aten_overload
from ..aten.overloads import AtenOverload, all_schemas, schemas_of
from ..op import Fused, Pointwise
from .core_ops import CORE, WHOLE
from .elements import by_expression
from .rules.creation import RULES as _CREATION
from .rules.networks import RULES as _NETWORKS
from .rules.pointwise import RULES as _POINTWISE
from .rules.recurrence import RULES as _RECURRENCE
from .rules.reduction import RULES as _REDUCTION
from .rules.shape import RULES as _SHAPE

WRITTEN = {**_POINTWISE, **_SHAPE, **_CREATION, **_REDUCTION, **_NETWORKS, **_RECURRENCE}


def decomposed_names() -> Iterator[str]:
    """Names of the overloads that have a rule, as `linear.default`."""
    for schema in all_schemas():
        name = f"{schema.op}.{schema.overload_name or 'default'}"
        if not schema.is_mutable and rule_of(name) is not None:
            yield name


@functools.cache
def rule_of(name: str) -> Callable | None:
    """The rule for an overload of ATen, by its name there (`linear.default`)."""
    op, _, label = name.partition(".")
    if name in CORE or op in WHOLE:
        return None
    written = WRITTEN.get(op if label == "default" else name)
    if written is not None:
        return written
    target = aten_overload(op, label)
    return functools.partial(_by_body, target) if target is not None and _has_body(target.definition) else None


def core_rule(target: Any) -> Callable | None:
    """The rule for a call: of an overload of ATen, or of a part of one of our ops."""
    name = str(target).removeprefix("aten.")
    return rule_of(name) if schemas_of(name.partition(".")[0]) else inner_rule(target)


def inner_rule(target: Any) -> Callable | None:
    """The rule for an op of ours that ATen has not."""
    if isinstance(target, AtenOverload) or schemas_of(target.name):
        return None
    definition = getattr(target, "definition", None)
    return functools.partial(_inner, definition) if isinstance(definition, (Pointwise, Fused)) else None


def _has_body(definition: Any) -> bool:
    return isinstance(definition, (Pointwise, Fused)) or definition.is_composite


def _by_body(target: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of an ATen overload by the body of our op."""
    found = target.ours(args, kwargs, lambda own: own)
    if found is None:
        return NotImplemented
    overload, named = found
    bound, _ = overload.bind((), named)
    return _inner(overload.definition, *bound)


def _inner(definition: Any, *bound: Any) -> Any:
    """An op by what it is written with; NotImplemented where that is a kernel."""
    if isinstance(definition, Pointwise):
        return by_expression(definition, bound)
    return definition.run(*bound) if _has_body(definition) else NotImplemented
