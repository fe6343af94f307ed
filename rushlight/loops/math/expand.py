"""Named functions become primitives here.

Enters: Values that may contain `call` nodes. Leaves: equal Values made of primitives only (`lower`), or one
call's expansion (`expand`). Expansions live in the modules beside this one, which register themselves in
`expansions` under the function's name; they are written once for f32 and f64, are branch-free, and state their accuracy
in docs/accuracy.md, which a test produces. Half-precision arguments are computed in f32.
Refuses: names nobody registered.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from rushlight.loops.expansions import COMPLEX_EXPANSIONS, EXPANSIONS
from rushlight.loops.expr import PART, Value, cast, rebuild, walk

_WIDER = {"f16": "f32", "bf16": "f32"}


def expand(name: str, args: tuple[Value, ...], dtype: str) -> Value:
    """One call as an expression that may still contain simpler calls."""
    if args[0].dtype in _WIDER:
        wide = _WIDER[args[0].dtype]
        inner = expand(name, tuple([cast(a, wide) for a in args]), wide)
        return inner if inner.dtype == "b1" else cast(inner, dtype)
    # Functions with a static order carry it in the name: "polygamma:2".
    base, _, order = name.partition(":")
    table = COMPLEX_EXPANSIONS if args[0].dtype in PART else EXPANSIONS
    if base not in table and not _load(base, table):
        raise NotImplementedError(f"{base}: no expansion for {args[0].dtype}")
    return table[base](*args, int(order)) if order else table[base](*args)


def lower(values: Iterable[Value]) -> list[Value]:
    """`values` with every named function expanded, down to primitives."""
    values = list(values)
    done: dict[Value, Value] = {}
    _lower_into(done, values)
    return [done[v] for v in values]


def _lower_into(done: dict[Value, Value], values: Iterable[Value]) -> None:
    for old in walk(values):
        if old in done:
            continue
        args = tuple([done[a] for a in old.args])
        new = old if args == old.args else rebuild(old, args)
        if new.op == "call":
            new = expand(new.attr, new.args, new.dtype)
            _lower_into(done, (new,))
            new = done[new]
        done[old] = new


def _load(name: str, table: dict[str, Callable[..., Value]]) -> bool:
    """Imports the modules that hold expansions, the commonest first, until one brings `name`."""
    real = ("exponential", "power", "trigonometry", "special", "normal", "gamma", "bessel", "zeta")
    for module in real if table is EXPANSIONS else ("complex",):
        importlib.import_module(f".{module}", __package__)
        if name in table:
            return True
    return False
