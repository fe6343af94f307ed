"""Programs as modules of the torch dialect, with `main` as their entry.

Enters: an exported program. Leaves: the same without writes (`prepared`), and a `Module` of that. Refuses: results that
are no tensors.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...export.decompositions import decomposed, default_table
from ...export.graph_signature import OutputKind
from ..building import Builder, drop_unused
from ..errors import UnsupportedOp
from ..exporting import held_tensors, user_inputs
from ..printing import Function, Module, Value, returned
from .dialect import Torch
from .operands import INT, tensor

PRETTY = {"func.return": returned}


def prepared(program: Any) -> Any:
    """The program without writes, in core ATen ops."""
    return decomposed(program, default_table())


def module_of_program(program: Any, weights: str) -> Module:
    """The module of a program without writes."""
    b = Builder()
    walk = Torch(b, weights == "inline")
    held = held_tensors(program)
    given: list[Any] = []
    for i, node in enumerate(program.graph.find_nodes(op="placeholder")):
        seen = node.meta.get("val")
        if i in held:
            given.append(walk.constant(*held[i]))
        elif isinstance(seen, Tensor):
            given.append(b.argument(tensor(seen.dtype, tuple(seen.shape))))
            walk.learn(given[-1])
        elif isinstance(seen, _C.SymbolicInt):
            walk.scalars[str(seen.expression)] = b.argument(Value(INT))
            given.append(seen)
        else:
            given.append(seen)
    made = walk.run(program.graph_module, given)
    kinds = [s.kind for s in program.graph_signature.output_specs]
    finished = [as_value(walk, v) for v, kind in zip(made, kinds, strict=True)
                if kind is OutputKind.USER_OUTPUT and v is not None]
    b.location = None
    b.finish("func.return", finished)
    drop_unused(b.block)
    main = Function("main", b.block, [v.type for v in finished], names=user_inputs(program))
    return Module([main], b.resources, PRETTY)


def as_value(walk: Torch, v: Any) -> Value:
    """A result: tensors as they are, sizes and numbers as the dialect's numbers."""
    if isinstance(v, Value):
        return v
    if isinstance(v, (bool, int, float, _C.SymbolicInt)):
        return walk.operands.of(v, "float" if isinstance(v, float) else "bool" if isinstance(v, bool) else "int")
    raise UnsupportedOp(f"mlir: the program returns a {type(v).__name__}; modules return tensors and numbers")


__all__ = ["PRETTY", "module_of_program", "prepared"]
