"""The ops that a compiled module calls."""

from __future__ import annotations

from .classes import ClassType, Object
from .passes.dead_code import drop_dead
from .passes.inline import inlined
from .passes.propagation import propagate_constants
from .schemas import overload_of

_NO_CALLS = ("aten::__is__", "aten::__isnot__")      # the language's own words


def op_names(module: Object) -> list[str]:
    """`aten::add.Tensor` and the like, of all methods of a module and of what these call."""
    found: set[str] = set()
    for name, method in module.type.methods.items():
        graph = inlined(method.graph)
        propagate_constants(graph)
        drop_dead(graph)
        nodes = () if name.startswith("__") else graph.all_nodes()
        for node in (node for node in nodes if node.kind_ not in _NO_CALLS):
            schema = overload_of(node.kind_, [value.type_ for value in node.inputs_]) if "::" in node.kind_ else None
            if schema is not None:
                found.add(f"{schema.name}.{schema.overload}" if schema.overload else schema.name)
    for slot, held in module.items():
        if isinstance(slot.type, ClassType) and isinstance(held, Object):
            found.update(op_names(held))
    return sorted(found)
