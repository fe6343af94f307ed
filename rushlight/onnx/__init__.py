"""`torch.onnx`: the export itself is not written yet; the questions models ask while running are answered."""

from __future__ import annotations

from ..absent import absent_names


class OnnxExporterError(RuntimeError):
    """An export to ONNX failed."""


def is_in_onnx_export() -> bool:
    """Whether the model is being exported now."""
    return False


globals().update(absent_names("torch.onnx", "ONNX export is not written yet",
                              "ExportableModule JitScalarType ONNXProgram OperatorExportTypes TensorProtoDataType TrainingMode export "
                              "register_custom_op_symbolic unregister_custom_op_symbolic select_model_mode_for_export dynamo_export symbolic_helper"))
