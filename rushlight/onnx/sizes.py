"""Sizes that were named, in programs that narrow them: exported within what the program allows, with a note.

Enters: a module, its arguments, and shapes whose names ask for more than the program takes. Leaves: the program as it
can be exported, and what to tell the user. None where a named size is one number after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._C import Tensor
from ..dynamo.errors import UserError
from ..export import Dim, ExportedProgram, export as export_program
from ..export.dynamic_shapes import leaf_shapes, named_arguments
from ..export.graph_signature import InputKind
from ..export.sizes import multiple_of
from ..utils import _pytree as pytree

TRIED = 64        # sizes that a condition is held against
SMALLEST = 2      # sizes of 0 and 1 are told apart anyway: this bound is not worth a note


def within_bounds(model: Any, args: tuple, kwargs: dict[str, Any], shapes: Any
                  ) -> tuple[ExportedProgram, list[str]] | None:
    """The program with its sizes as it can have them, and notes; None where that cannot be either."""
    entries = leaf_shapes(model, args, kwargs, shapes)
    if not any(_is_name(e) for entry in entries if isinstance(entry, (tuple, list)) for e in entry):
        return None
    free = pytree.tree_map(lambda e: Dim.DYNAMIC if _is_name(e) else e, shapes, is_leaf=lambda e: isinstance(e, Dim))
    try:
        program = export_program(model, *_longer(model, args, kwargs, entries), dynamic_shapes=free)
    except UserError:
        return None
    return program, _named(program, entries)


def assumed(program: Any) -> list[str]:
    """What the program took for granted of one size while it ran, though not all sizes that it may have are such: an
    `if x.shape[0] % 2` went the example's way. Files check nothing, so that this has to be told."""
    env = program._shape_env
    ranges = {str(symbol): r for symbol, r in program.range_constraints.items()}
    notes: dict[str, None] = {}
    for guard in () if env is None else env.guards:
        (symbol, *more) = [*guard.truth.names, None]
        if symbol not in ranges or more != [None] or multiple_of([guard], symbol)[1] is not None:
            continue
        low = max(SMALLEST, ranges[symbol].lower)
        high = min(low + TRIED, low + TRIED if ranges[symbol].upper is None else ranges[symbol].upper)
        if any(not guard.holds({symbol: n}) for n in range(low, high + 1)):
            name = program._dim_names.get(symbol, symbol)
            shown = repr(guard).replace(symbol, name)
            notes[f"the program decided by a size {name} at {guard.location}: the model is right where {shown}"] = None
    return list(notes)


def _is_name(entry: Any) -> bool:
    return type(entry) is Dim


def _longer(model: Any, args: tuple, kwargs: dict[str, Any], entries: list[Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments with two of what varies but is one in the example: one may mean something else than many."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    order = [id(leaf) for leaf in pytree.tree_leaves(named_arguments(model, args, kwargs))]
    by_leaf = {key: entry for key, entry in zip(order, entries, strict=True) if isinstance(entry, (tuple, list))}

    def longer(leaf: Any) -> Any:
        for d, entry in enumerate(by_leaf.get(id(leaf), ()) if isinstance(leaf, Tensor) else ()):
            if _is_name(entry) and leaf.shape[d] == 1:
                leaf = leaf.repeat_interleave(2, d)
        return leaf

    return pytree.tree_unflatten([longer(leaf) for leaf in leaves], spec)


def _named(program: Any, entries: list[Any]) -> list[str]:
    """Give symbols the names that were asked for; what became of those."""
    signature = program.graph_signature.input_specs
    nodes = [n for n, s in zip(program.graph.find_nodes(op="placeholder"), signature, strict=True)
             if s.kind is InputKind.USER_INPUT]
    names: dict[str, str] = {}
    notes: dict[str, None] = {}
    for node, entry in zip(nodes, entries, strict=True):
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or not isinstance(entry, (tuple, list)):
            continue
        for n, asked in zip(value.shape, entry, strict=True):
            if not _is_name(asked) or type(n) is int:
                continue
            own = names.setdefault(str(n), asked.__name__)
            if own != asked.__name__:
                notes[f"sizes {own} and {asked.__name__} are equal in this program, and are {own}"] = None
    program._dim_names.update({symbol: name for symbol, name in names.items() if symbol.isidentifier()})
    ranges = {str(symbol): r for symbol, r in program.range_constraints.items()}
    notes.update(dict.fromkeys(_limits(names, ranges)))
    for symbol, name in names.items() if program._shape_env is not None else ():
        factor, guard = multiple_of(program._shape_env.guards, symbol)
        if guard is not None:
            notes[f"the program takes a size {name} that is a multiple of {factor} ({guard!r}); the model is right for"
                  " those"] = None
    return list(notes)


def _limits(names: Mapping[str, str], ranges: Mapping[str, Any]) -> list[str]:
    found = []
    for symbol, name in names.items():
        r = ranges.get(symbol)
        low = r.lower if r is not None and isinstance(r.lower, int) and r.lower > SMALLEST else None
        high = r.upper if r is not None and isinstance(r.upper, int) else None
        words = [*([f"at least {low}"] if low is not None else []), *([f"at most {high}"] if high is not None else [])]
        if words:
            found.append(f"the program takes a size {name} of {' and '.join(words)}; the model is right within that")
    return found
