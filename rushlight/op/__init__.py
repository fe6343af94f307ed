"""Kinds of ops and their registry. Start with `definition.py`: its docstring says how to add an op.

Enters: definitions, and arguments of calls. Leaves: op objects of the core, and plans for them: results, kernels, what
backward saves. Refuses: definitions that do not state what their kind needs, and arguments that fit no schema.

Kinds are imported when first named: a process that calls no op needs none of them.
"""

from ..base import late
from . import roles  # noqa: F401 - tells the core which ops it calls by itself
from .registry import definitions, find_op, load_all, ops, publish, published, spelled

_KINDS = {
    "Composite": "composite", "Extern": "extern", "Fold": "reduction", "FreedMeta": "definition", "Fused": "fused",
    "Geometry": "view", "Library": "library",
    "Loops": "loops", "Meta": "definition", "NamedResult": "results", "OpDefinition": "definition",
    "OwnPlans": "extern",
    "Pointwise": "pointwise", "Promote": "pointwise", "Reduction": "reduction",
    "Spec": "extern", "View": "view", "result_type": "results", "wrap_dim": "view", "wrap_dims": "view",
}

__all__ = [*_KINDS, "definitions", "find_op", "load_all", "ops", "publish", "published", "spelled"]


__getattr__, __dir__ = late.names(globals(), _KINDS)
