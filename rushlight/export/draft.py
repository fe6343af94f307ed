"""draft_export: a program that may have problems, and a report of them.

Enters: what `export` takes. Leaves: an ExportedProgram with a `_report`. Sizes that a program fixes although they were
declared dynamic become fixed or bounded, branches that elements decide go as they go for the example; each is listed
with the line that did it, and the program checks the latter when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dynamo.errors import UserError
from ..fake import GuardOnDataDependentSymNode
from ..nn import Module
from ..utils import _pytree as pytree
from .capture import export, export_as_example
from .dynamic_shapes import (
    AdditionalInputs,
    Dim,
    ShapesCollection,
    _Derived,
    _DimHint,
    refine_dynamic_shapes_from_suggested_fixes,
)
from .exported_program import ExportedProgram


class DraftExportReport:
    """What had to be given up so that the program could be exported."""

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = list(failures)

    def successful(self) -> bool:
        """Whether nothing was given up."""
        return not self.failures

    def apply_suggested_fixes(self) -> None:
        """PyTorch's name; the fixes are in the program already."""

    def __str__(self) -> str:
        if self.successful():
            return "draft_export: no problems; export gives the same program."
        lines = "\n".join(f"{i + 1}. {text}" for i, text in enumerate(self.failures))
        return f"draft_export: {len(self.failures)} problem(s) were worked around; export would refuse:\n{lines}"

    __repr__ = __str__


def draft_export(mod: Module, args: tuple, kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
                 preserve_module_call_signature: Sequence[str] = (), strict: bool = False,
                 prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """As `export`, but dims that turn out fixed or bounded are taken as such, and what depends on elements is as for
    the example arguments. The program's `_report` lists them."""
    kwargs = dict(kwargs or {})
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    failures: list[str] = []
    options = {"strict": strict, "preserve_module_call_signature": preserve_module_call_signature,
               "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards}
    for _ in range(8):
        try:
            program = export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, **options)
            break
        except GuardOnDataDependentSymNode:
            program, taken = export_as_example(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)
            failures += taken
            break
        except UserError as error:
            text = str(error)
            if "Suggested fixes:" not in text:
                raise
            failures.append(text.partition("\nSuggested fixes:")[0])
            dynamic_shapes = _relaxed(refine_dynamic_shapes_from_suggested_fixes(text, dynamic_shapes))
    else:
        failures.append("the suggested fixes led to others; all sizes are fixed")
        program = export(mod, args, kwargs, **options)
    program._report = DraftExportReport(failures)  # type: ignore[attr-defined]
    return program


def _relaxed(dynamic_shapes: Any) -> Any:
    """Hints that a size may not be fixed as hints that it may."""

    def relax(entry: Any) -> Any:
        return Dim.AUTO if isinstance(entry, _DimHint) and entry.type is Dim.DYNAMIC.type else entry

    return pytree.tree_map(relax, dynamic_shapes,
                           is_leaf=lambda x: isinstance(x, (Dim, _Derived, _DimHint)) or x is None)
