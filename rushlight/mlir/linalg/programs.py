"""Programs as modules of linalg on tensors, with `main` as their entry.

Enters: an exported program. Leaves: the same without writes (`prepared`), and a `Module` of that. Refuses: results that
are neither tensors nor numbers.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...export.decompositions import decomposed
from ...export.graph_signature import OutputKind
from ..building import Builder, drop_unused
from ..errors import UnsupportedOp
from ..exporting import held_tensors, user_inputs
from ..printing import Function, Module, Value, returned
from .dialect import Linalg

PRETTY = {"func.return": returned}


def prepared(program: Any) -> Any:
    """The program without writes; calls stay as they are."""
    for _ in range(4):      # bodies may write to tensors that they made: of those, passes over the result make values
        program = decomposed(program, rule_of=lambda target: None, keeps=lambda overload: not overload.inplace)
        if not any(getattr(node.target, "inplace", False) for node in program.graph.nodes):
            break
    return program


def module_of_program(program: Any, weights: str) -> Module:
    """The module of a program without writes."""
    b = Builder()
    walk = Linalg(b, weights == "inline")
    held = held_tensors(program)
    given: list[Any] = []
    for i, node in enumerate(program.graph.find_nodes(op="placeholder")):
        seen = node.meta.get("val")
        if i in held:
            given.append(walk.constant(*held[i]))
        elif isinstance(seen, Tensor):
            given.append(b.argument(walk.tensors.like(seen.dtype.code, tuple(seen.shape))))
            walk.learn(given[-1])
        elif isinstance(seen, _C.SymbolicInt):
            walk.scalars[str(seen.expression)] = b.argument(Value("i64", _C.int64))
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


def as_value(walk: Linalg, v: Any) -> Value:
    """A result: tensors as they are, sizes and numbers as tensors without dims."""
    if isinstance(v, Value):
        return v
    if isinstance(v, (bool, int, float)):
        code = "b1" if isinstance(v, bool) else "i64" if isinstance(v, int) else "f64"
        return walk.tensors.constant(code, (), [v])
    if isinstance(v, _C.SymbolicInt):
        number = walk.tensors.number(walk.tensors.index(v))
        return walk.b.op("tensor.from_elements", [number], walk.tensors.like("i64", ()))
    raise UnsupportedOp(f"mlir: the program returns a {type(v).__name__}; modules return tensors")


__all__ = ["PRETTY", "module_of_program", "prepared"]
