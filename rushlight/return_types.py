"""`torch.return_types`: the classes of results with named parts (`max`, `sort`, …), by the name of their op."""

from __future__ import annotations

from .op import ops
from .op.results import NamedResult, result_type


def __getattr__(name: str) -> type[NamedResult]:
    op = None if name.startswith("__") else ops.get(name)
    for overload in op.overload_list if op is not None else ():
        if names := overload.definition.spec.return_names:
            return result_type(name, names)
    raise AttributeError(f"rushlight.return_types: no op {name!r} returns named parts")
