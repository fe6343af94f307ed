"""`torch.onnx.errors`: what goes wrong when a model is exported."""

from __future__ import annotations

from typing import Any


class OnnxExporterWarning(UserWarning):
    """What an export leaves out, or does otherwise."""


class OnnxExporterError(RuntimeError):
    """An export to ONNX failed."""


class UnsupportedOperatorError(OnnxExporterError, NotImplementedError):
    """The program calls an op that ONNX has no nodes for. The message names it, and the line that calls it."""


class SymbolicValueError(OnnxExporterError):
    """A rule of the older exporter got a value it cannot use."""

    def __init__(self, msg: str, value: Any) -> None:
        super().__init__(f"{msg} [value: {value}]")
