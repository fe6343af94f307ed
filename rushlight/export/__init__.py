"""`torch.export`: whole-graph capture is not written yet; its names exist and refuse when used."""

from __future__ import annotations

from ..absent import absent_names

globals().update(absent_names("torch.export", "whole-graph capture is not written yet",
                              "AdditionalInputs Constraint CustomDecompTable Dim ExportBackwardSignature ExportGraphSignature ExportedProgram "
                              "FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule default_decompositions "
                              "draft_export export load save unflatten register_dataclass"))
