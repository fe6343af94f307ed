"""The tracer of quantization: modules of `nn` and fused ones stay whole, and so does what it is told to skip."""

from __future__ import annotations

from collections.abc import Callable

from ....fx import Tracer
from ....fx.proxy import Scope, ScopeContextManager as _ScopeContextManager
from ....nn import Module
from ...nn.intrinsic import _FusedModule

__all__ = ["QuantizationTracer", "Scope", "ScopeContextManager"]


class ScopeContextManager(_ScopeContextManager):
    """While it is open, the tracer is in a module."""

    def __init__(self, scope: Scope, current_module: Module, current_module_path: str) -> None:
        super().__init__(scope, Scope(current_module_path, type(current_module)))


class QuantizationTracer(Tracer):
    """Traces a model that is to be quantized; `node_name_to_scope` says which module each node was traced in."""

    def __init__(self, skipped_module_names: list[str], skipped_module_classes: list[Callable]) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes
        self.scope = Scope("", None)
        self.record_stack_traces = True

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of `m` are one node."""
        return (
            super().is_leaf_module(m, module_qualified_name)
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )
