"""rushlight.export: a model and example arguments as one graph of ATen ops, which saves, loads and runs elsewhere.

Enters: modules. Leaves: `ExportedProgram`s. See docs/export.md.
"""

from __future__ import annotations

from .archive import load, save
from .capture import export
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature

__all__ = [
    "AdditionalInputs", "Constraint", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram",
    "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "default_decompositions", "dims", "export",
    "load", "save",
]  # fmt: skip
