"""`torch.onnx`: the export itself is not written yet; the questions models ask while running are answered."""

from __future__ import annotations

from ..base.refusals import names_of
from . import operators, symbolic_helper  # noqa: F401


class OnnxExporterError(RuntimeError):
    """An export to ONNX failed."""


def is_in_onnx_export() -> bool:
    """Whether the model is being exported now."""
    return False


# Rules that libraries add for their own ops while they are imported: kept for the export that will use them.
_custom_rules: dict[tuple[str, int], object] = {}


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: object, opset_version: int) -> None:
    """Keep how an op is written in ONNX."""
    if "::" not in symbolic_name:
        raise ValueError(f"register_custom_op_symbolic: expected a name like 'namespace::op', got {symbolic_name!r}")
    _custom_rules[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget how an op is written in ONNX."""
    _custom_rules.pop((symbolic_name, opset_version), None)


globals().update(names_of("torch.onnx"))
