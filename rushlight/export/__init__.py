"""rushlight.export: a model and example arguments as one graph of ATen ops, which saves, loads and runs elsewhere.

Enters: modules. Leaves: `ExportedProgram`s. See docs/export.md.
"""

from __future__ import annotations

from .archive import load, save
from .capture import export
from .dataclass_trees import register_dataclass
from .decompositions import CustomDecompTable
from .draft import draft_export
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature",
    "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection",
    "UnflattenedModule", "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass",
    "save", "unflatten",
]
