"""Frozen modules: `freeze`, `run_frozen_optimizations`, `optimize_for_inference`.

Enters: a scripted module in eval mode. Leaves: a new one whose attributes are constants of its graph. Refuses: modules
that are not scripted, or that are training.
"""

from __future__ import annotations

from typing import Any

from ..script.classes import ClassType, Object
from ..script.graph_functions import GraphFunction
from ..script.ir import Graph
from ..script.passes.freezing import freeze as freeze_object
from ..script.passes.frozen import run_frozen_passes
from ._recursive import face_of
from ._script import ScriptModule


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A scripted module with its submodules, parameters and attributes as constants of its graph.

    `preserved_attrs` are attributes and methods to keep beside forward. Without `optimize_numerics` results keep every
    bit: norms do not become part of the weights before them.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"freeze: expected a ScriptModule, as torch.jit.script and torch.jit.trace make, got"
                           f" {type(mod).__name__}")
    if mod.training:
        raise RuntimeError("only a module in eval mode can be frozen: call .eval() on it first")
    kept = list(preserved_attrs or ())
    out = face_of(frozen_object(_object_of(mod), kept))
    methods = [name for name in kept if out._c._has_method(name)]
    run_frozen_optimizations(out, optimize_numerics, methods)
    return out


def frozen_object(held: Object, preserved: list[str], preserve_parameters: bool = False) -> Object:
    """A module's object, frozen."""
    return freeze_object(held, preserved, _method, preserve_parameters=preserve_parameters)


def _object_of(mod: Any) -> Object:
    return mod._c.object


def _method(owner: ClassType, name: str, graph: Graph, source: Any) -> GraphFunction:
    schema = source.schema
    own = schema.arguments[0]._replace(type=owner)
    return GraphFunction(source.unit, f"{owner.name_}.{name}", graph, owner,
                         schema._replace(arguments=(own, *schema.arguments[1:])))


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """What a frozen module allows: dropouts go, and with `optimize_numerics` norms and sums become part of weights.
    forward's graph is changed, and those of `preserved_methods`."""
    names = ["forward"] if mod._c._has_method("forward") else []
    for name in (*names, *(preserved_methods or ())):
        function = mod._c.object.type.methods[name]
        run_frozen_passes(function.graph, optimize_numerics)
        function._program = None


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """A scripted module frozen, if it is not yet, and rewritten for the machine it is on."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("optimize_for_inference: expected a ScriptModule, as torch.jit.script and torch.jit.trace"
                           f" make, got {type(mod).__name__}")
    others = list(other_methods or ())
    if hasattr(mod, "training"):
        mod = freeze(mod.eval(), preserved_attrs=others)
    run_frozen_optimizations(mod, True, others)
    return mod
