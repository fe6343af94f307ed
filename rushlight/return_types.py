"""`torch.return_types`: the classes of results with named parts (`max`, `sort`, …), by the name of their op."""

from __future__ import annotations

from typing import Any

from .op import ops
from .op.results import NamedResult, result_type


def pytree_register_structseq(cls: type) -> None:
    """Nothing to do: results with named parts are tuples to the tree functions already."""


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        found = [
            known
            for op in sorted(ops)
            if not op.startswith("_") and "::" not in op
            for known in (_type_of(op),)
            if known is not None
        ]
        globals()[name] = found
        return found
    result = None if name.startswith("__") else _type_of(name.removesuffix("_out"), name)
    if result is None:
        raise AttributeError(f"rushlight.return_types: no op {name!r} returns named parts")
    return result


def _type_of(op_name: str, name: str | None = None) -> type[NamedResult] | None:
    op = ops.get(op_name)
    for overload in op.overload_list if op is not None else ():
        if names := overload.definition.spec.return_names:
            return result_type(name or op_name, names)
    return None
