"""Modules as classes of scripts whose methods are traces: one class for each instance.

Enters: an `nn.Module`. Leaves: an `Object` with its parameters, buffers and submodules. Refuses: parameters shared by
two modules, hooks of backward.
"""

from __future__ import annotations

from typing import Any

from ...nn import Module
from .. import types as t
from ..classes import ClassType, Object
from ..frontend.annotations import qualified_name
from ..unit import Unit


def object_of(module: Module, unit: Unit, made_of: dict[int, Object] | None = None) -> Object:
    """The state of a module, of a class that is new in the unit; `made_of` has those of modules met before."""
    made_of = {} if made_of is None else made_of
    held = getattr(module, "__script_object__", None) or made_of.get(id(module))
    if held is None:
        held = made_of[id(module)] = _made(module, unit, made_of)
    return held


def _made(module: Module, unit: Unit, made_of: dict[int, Object]) -> Object:
    if module._backward_hooks:
        raise ValueError(f"a module with backward hooks can't be compiled, and this one has some: {module}")
    children = [(name, object_of(child, unit, made_of))
                for name, child in module._modules.items() if child is not None]
    made = ClassType(unit.take_name(qualified_name(type(module))), is_module=True, python_class=type(module), unit=unit)
    values: list[Any] = []
    seen: set[int] = set()
    for table, kind in ((module._parameters, {"is_parameter": True}), (module._buffers, {"is_buffer": True})):
        for name, held in table.items():
            if held is None:
                continue
            if id(held) in seen:
                raise ValueError(f"a traced module cannot hold one tensor under two names; '{name}' is the second")
            seen.add(id(held))
            made.add_slot(name, t.TENSOR, **kind)
            values.append(held)
    made.add_slot("training", t.BoolType())
    values.append(module.training)
    made.add_slot("_is_full_backward_hook", t.OptionalType(t.BoolType()))
    values.append(None)
    for name, inner in children:
        made.add_slot(name, inner.type)
        values.append(inner)
    return Object(made, values)
