"""rushlight._decomp: ops as functions of simpler ops, in tables that tracers look up.

Enters: ops (an op, or one of its overloads) and functions that compute the same. Leaves: tables from overloads to such
functions, for `make_fx(decomposition_table=...)` and `aot_function(decompositions=...)`. What an op's own definition is
written with need not be written again: fused ops (softmax, layer norms, ...) decompose into their bodies. Refuses:
an op registered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _C
from ..op import Fused, ops
from .rules.products import RULES

__all__ = ["core_aten_decompositions", "decomposition_table", "get_decompositions", "global_decomposition_table",
           "meta_table", "pre_autograd_decomposition_table", "register_decomposition",
           "remove_decompositions"]

global_decomposition_table: dict[str, dict[Any, Callable]] = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def overloads_of(op: Any) -> list[Any]:
    """The overloads an entry is for: of an op all, of an overload that one."""
    if isinstance(op, _C.Overload):
        return [op]
    if isinstance(op, _C.Op):
        return list(op.overload_list)
    listed = getattr(op, "overload_list", None) or (
        [getattr(op, name) for name in op.overloads()] if hasattr(op, "overloads") else None
    )
    if listed is None:
        raise TypeError(f"_decomp: expected an op or one of its overloads, got {type(op).__name__}.")
    return list(listed)


def _table(type: str) -> dict[Any, Callable]:
    if type not in global_decomposition_table:
        raise AssertionError(f"_decomp: expected type to be one of {sorted(global_decomposition_table)}, got {type!r}")
    return global_decomposition_table[type]


def register_decomposition(
    aten_op: Any, registry: dict[Any, Callable] | None = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable[[Callable], Callable]:
    """Decorator: the function computes what `aten_op` (or each of several) does."""
    table = _table(type) if registry is None else registry

    def register(fn: Callable) -> Callable:
        for op in aten_op if isinstance(aten_op, (list, tuple)) else (aten_op,):
            for overload in overloads_of(op):
                if overload in table:
                    raise RuntimeError(f"register_decomposition: {overload} has a decomposition already")
                table[overload] = fn
        return fn

    return register


def get_decompositions(aten_ops: Sequence[Any], type: str = "post_autograd") -> dict[Any, Callable]:
    """The table of what is known for these ops; those with no decomposition are left out."""
    table, found = _table(type), {}
    if type == "post_autograd":
        _register_rules()
    for op in aten_ops:
        for overload in overloads_of(op):
            rule = table.get(overload) or (_body(overload) if type == "post_autograd" else None)
            if rule is not None:
                found[overload] = rule
    return found


def remove_decompositions(decompositions: dict[Any, Callable], aten_ops: Sequence[Any]) -> None:
    """Take ops out of a table."""
    for op in aten_ops:
        for overload in overloads_of(op):
            decompositions.pop(overload, None)


def core_aten_decompositions() -> dict[Any, Callable]:
    """Decompositions of everything that has one: rules written here, and fused ops by their bodies."""
    _register_rules()
    found = {
        overload: body
        for name in list(ops)
        for overload in _overloads_with_bodies(name)
        if (body := _body(overload)) is not None
    }
    return {**found, **decomposition_table}


def _overloads_with_bodies(name: str) -> Iterable[Any]:
    return [o for o in ops[name].overload_list if isinstance(o.definition, Fused)]


def _body(overload: Any) -> Callable | None:
    """What a fused op is written with, as a function."""
    definition = overload.definition
    if not isinstance(definition, Fused):
        return None

    def run(*args: Any, **kwargs: Any) -> Any:
        bound = [
            args[i] if i < len(args) else kwargs.get(p.name, p.default) for i, p in enumerate(definition.spec.params)
        ]
        return definition.run(*bound)

    return run


def _register_rules() -> None:
    for name, rule in RULES.items():
        decomposition_table.setdefault(ops[name].overload_list[0], rule)
