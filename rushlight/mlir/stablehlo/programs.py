"""Exported programs as StableHLO.

Enters: an `ExportedProgram`. Leaves: the program without writes, and its `Module`. Refuses what `dialect` refuses.
"""

from __future__ import annotations

from typing import Any

from ...export.decompositions import decomposed
from ...export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..exporting import held_tensors, user_inputs
from ..printing import Module
from .modules import module_of


def prepared(program: Any) -> Any:
    """The program without writes; its ops stay what they are, as rules serve those."""
    return decomposed(program, rule_of=lambda target: None, keeps=lambda overload: not overload.inplace)


def module_of_program(program: Any, weights: str) -> Module:
    """The module of a program without writes: its tensors are constants, results are what the user gets."""
    nodes = program.graph.find_nodes(op="placeholder")
    examples = []
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        fixed = spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, ConstantArgument)
        if fixed:
            node.meta["val"] = spec.arg.value
        examples.append(node.meta.get("val"))
    wanted = [i for i, s in enumerate(program.graph_signature.output_specs)
              if s.kind is OutputKind.USER_OUTPUT and not isinstance(s.arg, ConstantArgument)]
    return module_of(program.graph_module, examples, weights=weights, names=user_inputs(program),
                     constants=held_tensors(program), results=wanted)
