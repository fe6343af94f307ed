"""Kinds of ops and their registry. Start with `definition.py`: its docstring says how to add an op."""

from .. import _C
from .composite import Composite
from .definition import Meta, OpDefinition, definitions, explain_mismatch, find_op, ops, publish, published
from .extern import Extern, Spec
from .fused import Fused
from .out import call_out
from .pointwise import Pointwise, Promote
from .reduction import Fold, Reduction
from .results import NamedResult, result_type
from .view import Geometry, View, wrap_dim, wrap_dims

__all__ = [
    "Composite", "Extern", "Fold", "Geometry", "Meta", "NamedResult", "OpDefinition", "Pointwise", "Promote", "Reduction", "Spec", "View",
    "definitions", "find_op", "ops", "publish", "published", "result_type", "wrap_dim", "wrap_dims",
]  # fmt: skip

_C.set_hooks(bind_error=explain_mismatch, out_caller=call_out)
