"""The ops that a compiled module calls."""

from __future__ import annotations

from .classes import ClassType, Object
from .passes.inline import inlined
from .schemas import overload_of


def op_names(module: Object) -> list[str]:
    """`aten::add.Tensor` and the like, of all methods of a module and of what these call."""
    found: set[str] = set()
    for method in module.type.methods.values():
        for node in inlined(method.graph).all_nodes():
            schema = overload_of(node.kind_, [value.type_ for value in node.inputs_]) if "::" in node.kind_ else None
            if schema is not None:
                found.add(f"{schema.name}.{schema.overload}" if schema.overload else schema.name)
    for slot, held in module.items():
        if isinstance(slot.type, ClassType) and isinstance(held, Object):
            found.update(op_names(held))
    return sorted(found)
