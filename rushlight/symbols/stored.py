"""Formulas, and what is assumed of their symbols, as data.

Enters: formulas and a `ShapeEnv` in which every symbol has a hint. Leaves: what JSON holds; and the other way round,
formulas, and an env that answers whether other sizes meet what was assumed. Operations are named, and only those that
formulas know are ever computed. Refuses (`NotKept`): symbols that stand for elements, whose checks somebody has to
make.
"""

from __future__ import annotations

from typing import Any

from ..base.disk_cache import NotKept
from .env import Guard
from .expression import OPERATIONS, Atom, Expression, Formula, apply, atom, number, of_atom
from .real import FUNCTIONS, RELATIONS, Real, Truth, known_truth, real, real_number, truth
from .shape_env import ShapeEnv


def described(f: Formula) -> Any:
    """A formula."""
    if isinstance(f, Expression):
        return ["sum", [[factor, [[_atom(a), power] for a, power in m]] for m, factor in f.terms.items()]]
    if isinstance(f, Truth):
        if f.constant is not None:
            return ["known", f.constant]
        if f.arguments:
            return ["truth", f.relation, *map(described, f.arguments)]
    elif isinstance(f, Real):
        if f.value is not None:
            return ["real number", f.value.hex()]
        if f.arguments:
            return ["real", f.function, *map(described, f.arguments)]
    raise NotKept(f"{f!r} is no formula of sizes")


def _atom(a: Atom) -> Any:
    return [a.name, *map(described, a.arguments)]


def restored(data: Any) -> Any:
    kind, *rest = data
    if kind == "sum":
        result = number(0)
        for factor, atoms in rest[0]:
            term = number(factor)
            for (name, *arguments), power in atoms:
                one = _applied(name, arguments) if arguments else of_atom(atom(str(name)))
                for _ in range(power):
                    term = term * one
            result = result + term
        return result
    if kind == "known":
        return known_truth(bool(rest[0]))
    if kind == "real number":
        return real_number(float.fromhex(rest[0]))
    name, *arguments = rest
    known = RELATIONS.keys() | {"and", "or", "not"} if kind == "truth" else FUNCTIONS
    if kind not in ("truth", "real") or name not in known:
        raise NotKept(f"there is no {kind} {name}")
    return (truth if kind == "truth" else real)(name, *map(restored, arguments))


def _applied(name: str, arguments: list[Any]) -> Expression:
    if name not in OPERATIONS:
        raise NotKept(f"there is no operation {name}")
    return apply(name, *map(restored, arguments))


# --- what was assumed -------------------------------------------------------------------------------------------------


def described_env(env: ShapeEnv) -> Any:
    """What says whether other sizes will do."""
    if env.stand_ins or env.deferred:
        raise NotKept("symbols stand for elements of tensors")
    return {
        "specialize_zero_one": env.specialize_zero_one, "hints": env.hints,
        "guards": [[described(g.truth), g.location] for g in env.guards],
        "inputs": [[i.source, [described(e) for e in i.sizes],
                    None if i.strides is None else [described(e) for e in i.strides]] for i in env.inputs],
    }


def restored_env(data: Any) -> ShapeEnv:
    """An env for `accepts`, `bind` and `holds_for`."""
    env = ShapeEnv(specialize_zero_one=bool(data["specialize_zero_one"]))
    env.hints = {str(name): int(value) for name, value in data["hints"].items()}
    env.guards = [Guard(restored(told), str(location)) for told, location in data["guards"]]
    for source, sizes, strides in data["inputs"]:
        env.add_input(source, list(map(restored, sizes)), None if strides is None else list(map(restored, strides)))
    return env
