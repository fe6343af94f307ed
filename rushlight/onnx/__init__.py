"""rushlight.onnx: models as ONNX files. See docs/onnx.md.

Enters: modules and exported programs. Leaves: `ONNXProgram`s, and files that any ONNX runtime reads. Neither `onnx` nor
`onnxruntime` is needed to write them.
"""

from __future__ import annotations

from ..base import late
from ..base.refusals import names_of
from . import errors, operators, symbolic_helper  # noqa: F401
from .enums import OperatorExportTypes, TensorProtoDataType, TrainingMode
from .errors import OnnxExporterError
from .state import is_in_onnx_export

producer_name, producer_version = "rushlight", ""

# Rules that libraries add for their own ops while they are imported, for PyTorch's older exporter.
_custom_rules: dict[tuple[str, int], object] = {}


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: object, opset_version: int) -> None:
    """Keep how an op is written in ONNX, for TorchScript's exporter, which is not here: see `export`'s
    custom_translation_table."""
    if "::" not in symbolic_name:
        raise ValueError(f"register_custom_op_symbolic: expected a name like 'namespace::op', got {symbolic_name!r}")
    _custom_rules[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget how an op is written in ONNX."""
    _custom_rules.pop((symbolic_name, opset_version), None)


globals().update(names_of("torch.onnx"))
__getattr__, __dir__ = late.names(globals(), late.by_name({
    "exporting": "export", "program": "ONNXProgram", "importing.loading": "load run",
}), ("ops", "testing", "verification"))
