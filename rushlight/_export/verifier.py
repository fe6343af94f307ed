"""What graphs of exported programs may hold, by dialect: `TRAINING` as captured, `ATEN` once decomposed.

Enters: an ExportedProgram. Leaves: nothing, or `SpecViolationError`. Backends subclass `Verifier` with a dialect of
their own, and hand it to `ExportedProgram(verifiers=[...])`.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

from .. import _C
from .._higher_order_ops.core import HigherOrderOp
from ..aten.overloads import AtenOverload
from ..aten.plain import PlainOverload
from ..base import assertions
from ..fx.graph_module import GraphModule

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]


class SpecViolationError(Exception):
    """A graph holds what its dialect has not, or does not fit its signature."""


class Verifier:
    """Checks of the dialect ATEN: calls of ops, sizes computed in Python, no writes."""

    dialect = "ATEN"
    _known: dict[str, type[Verifier]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not isinstance(cls.__dict__.get("dialect"), str) or cls.dialect == "ATEN":
            raise AssertionError(f"{cls.__name__}: a verifier has a dialect of its own, not 'ATEN'")
        Verifier._known[cls.dialect] = cls

    def allowed_builtin_ops(self) -> list[Any]:
        """Functions of Python's that compute sizes."""
        return [*[f for f in vars(operator).values() if callable(f)], *[f for f in vars(math).values() if callable(f)],
                *assertions.PUBLIC.values(), builtins.max, builtins.min, builtins.round, builtins.abs]

    def allowed_op_types(self) -> tuple[type, ...]:
        """Classes of what is called."""
        return AtenOverload, _C.Overload, PlainOverload, HigherOrderOp

    def allowed_getattr_types(self) -> tuple[type, ...]:
        """Classes of attributes that graphs read."""
        return (GraphModule,)

    def check_valid_op(self, op: Any) -> None:
        """A dialect's own check of what is called."""

    def check_additional(self, gm: GraphModule) -> None:
        """A dialect's own check of a graph."""

    def check(self, ep: Any) -> None:
        """Check the graphs of a program."""
        for gm in (m for m in ep.graph_module.modules() if isinstance(m, GraphModule)):
            self._check_graph(gm)
            self.check_additional(gm)

    def _check_graph(self, gm: GraphModule) -> None:
        builtin = {id(f) for f in self.allowed_builtin_ops()}
        for node in gm.graph.nodes:
            if node.op in ("call_module", "call_method"):
                raise SpecViolationError(f"{self.dialect}: {node.name} is a {node.op}; graphs call functions only")
            if node.op != "call_function":
                continue
            if id(node.target) not in builtin and not isinstance(node.target, self.allowed_op_types()):
                raise SpecViolationError(f"{self.dialect}: {node.name} calls {node.target!r}, which is no op")
            if self.dialect == "ATEN" and getattr(node.target, "inplace", False) and node.target.namespace == "aten":
                raise SpecViolationError(f"{self.dialect}: {node.name} calls {node.target}, which writes")
            self.check_valid_op(node.target)


class TrainingIRVerifier(Verifier):
    """Checks of the dialect TRAINING: writes are allowed."""

    dialect = "TRAINING"


def load_verifier(dialect: str) -> type[Verifier]:
    """The verifier of a dialect."""
    return Verifier if dialect in ("ATEN", "") else Verifier._known[dialect]
