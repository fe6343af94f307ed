"""Logical connectives: every operand is tested against 0 in its own dtype.

Enters: tensors of any dtype. Leaves: booleans. Refuses: nothing.
"""

from __future__ import annotations

from rushlight.op import Pointwise, Promote


class LogicalAnd(Pointwise):
    """Whether both are nonzero."""

    schema = "logical_and(Tensor input, Tensor other) -> Tensor"
    promote = Promote.LOGICAL
    onnx = "And"

    def expr(self, s, x, y):
        return x & y


class LogicalOr(Pointwise):
    """Whether either is nonzero."""

    schema = "logical_or(Tensor input, Tensor other) -> Tensor"
    promote = Promote.LOGICAL
    onnx = "Or"

    def expr(self, s, x, y):
        return x | y


class LogicalXor(Pointwise):
    """Whether exactly one is nonzero."""

    schema = "logical_xor(Tensor input, Tensor other) -> Tensor"
    promote = Promote.LOGICAL
    onnx = "Xor"

    def expr(self, s, x, y):
        return x ^ y


class LogicalNot(Pointwise):
    """Whether input is 0."""

    schema = "logical_not(Tensor input) -> Tensor"
    promote = Promote.LOGICAL
    onnx = "Not"

    def expr(self, s, x):
        return ~x
