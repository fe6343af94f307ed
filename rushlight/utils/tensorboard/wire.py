"""Protocol buffers, as far as event files need them: messages by name, encoded to the wire format by hand.

Enters: a message's name and its fields; lists for repeated ones. Leaves: bytes any reader of these messages takes.
Every field that is given is written, zeros too, as members of a oneof must be. Refuses: unknown messages and fields.
"""

from __future__ import annotations

import struct
from typing import Any

from ...base.protobuf import FIXED32, FIXED64, LENGTH, VARINT, varint

# Message: {field: (number, type)}; a type is one below, "enum" or the name of a message.
# TensorBoard's .proto files rule.
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Event": {"wall_time": (1, "double"), "step": (2, "int"), "file_version": (3, "bytes"), "graph_def": (4, "bytes"),
              "summary": (5, "Summary"), "session_log": (7, "SessionLog"),
              "tagged_run_metadata": (8, "TaggedRunMetadata")},
    "SessionLog": {"status": (1, "int")},
    "TaggedRunMetadata": {"tag": (1, "bytes"), "run_metadata": (2, "bytes")},
    "Summary": {"value": (1, "Value")},
    "Value": {"tag": (1, "bytes"), "simple_value": (2, "float"), "image": (4, "Image"), "histo": (5, "HistogramProto"),
              "audio": (6, "Audio"), "tensor": (8, "TensorProto"), "metadata": (9, "SummaryMetadata")},
    "Image": {"height": (1, "int"), "width": (2, "int"), "colorspace": (3, "int"),
              "encoded_image_string": (4, "bytes")},
    "Audio": {"sample_rate": (1, "float"), "num_channels": (2, "int"), "length_frames": (3, "int"),
              "encoded_audio_string": (4, "bytes"), "content_type": (5, "bytes")},
    "SummaryMetadata": {"plugin_data": (1, "PluginData"), "display_name": (2, "bytes"),
                        "summary_description": (3, "bytes")},
    "PluginData": {"plugin_name": (1, "bytes"), "content": (2, "bytes")},
    "HistogramProto": {"min": (1, "double"), "max": (2, "double"), "num": (3, "double"), "sum": (4, "double"),
                       "sum_squares": (5, "double"), "bucket_limit": (6, "double"), "bucket": (7, "double")},
    "TensorProto": {"dtype": (1, "int"), "tensor_shape": (2, "TensorShapeProto"), "half_val": (13, "int"),
                    "float_val": (5, "float"), "double_val": (6, "double"), "int_val": (7, "int"),
                    "string_val": (8, "bytes"), "scomplex_val": (9, "float"), "int64_val": (10, "int"),
                    "bool_val": (11, "int"), "dcomplex_val": (12, "double"), "uint32_val": (16, "int"),
                    "uint64_val": (17, "int")},
    "TensorShapeProto": {"dim": (2, "Dim")},
    "Dim": {"size": (1, "int")},
    "GraphDef": {"node": (1, "NodeDef"), "versions": (4, "VersionDef")},
    "NodeDef": {"name": (1, "bytes"), "op": (2, "bytes"), "input": (3, "bytes"), "device": (4, "bytes"),
                "attr": (5, "AttrEntry")},
    "AttrEntry": {"key": (1, "bytes"), "value": (2, "AttrValue")},
    "AttrValue": {"list": (1, "AttrList"), "s": (2, "bytes"), "i": (3, "int"), "f": (4, "float"), "b": (5, "int"),
                  "type": (6, "int"), "shape": (7, "TensorShapeProto")},
    "AttrList": {"shape": (7, "TensorShapeProto")},
    "VersionDef": {"producer": (1, "int")},
    "RunMetadata": {"step_stats": (1, "StepStats")},
    "StepStats": {"dev_stats": (1, "DeviceStepStats")},
    "DeviceStepStats": {"device": (1, "bytes")},
    "HParamsPluginData": {"version": (1, "int"), "experiment": (2, "Experiment"),
                          "session_start_info": (3, "SessionStartInfo"), "session_end_info": (4, "SessionEndInfo")},
    "SessionStartInfo": {"hparams": (1, "HParamEntry")},
    "HParamEntry": {"key": (1, "bytes"), "value": (2, "StructValue")},
    "SessionEndInfo": {"status": (1, "int")},
    "Experiment": {"hparam_infos": (4, "HParamInfo"), "metric_infos": (5, "MetricInfo")},
    "HParamInfo": {"name": (1, "bytes"), "type": (4, "int"), "domain_discrete": (5, "ListValue")},
    "MetricInfo": {"name": (1, "MetricName")},
    "MetricName": {"tag": (2, "bytes")},
    "ListValue": {"values": (1, "StructValue")},
    "StructValue": {"number_value": (2, "double"), "string_value": (3, "bytes"), "bool_value": (4, "int")},
    "Layout": {"version": (1, "int"), "category": (2, "Category")},
    "Category": {"title": (1, "bytes"), "chart": (2, "Chart")},
    "Chart": {"title": (1, "bytes"), "multiline": (2, "MultilineChartContent"), "margin": (3, "MarginChartContent")},
    "MultilineChartContent": {"tag": (1, "bytes")},
    "MarginChartContent": {"series": (1, "Series")},
    "Series": {"value": (1, "bytes"), "lower": (2, "bytes"), "upper": (3, "bytes")},
    "MeshPluginData": {"version": (1, "int"), "name": (2, "bytes"), "content_type": (3, "int"),
                       "json_config": (5, "bytes"), "shape": (6, "int"), "components": (7, "int")},
    "PrCurvePluginData": {"version": (1, "int"), "num_thresholds": (2, "int")},
    "TextPluginData": {"version": (1, "int")},
}


def _field(number: int, kind: int, payload: bytes) -> bytes:
    return varint(number << 3 | kind) + (varint(len(payload)) + payload if kind == LENGTH else payload)


def _encode(number: int, kind: str, value: Any) -> bytes:
    if kind in ("double", "float"):
        letter, width = ("d", FIXED64) if kind == "double" else ("f", FIXED32)
        if isinstance(value, (list, tuple)):   # repeated numbers travel packed
            return _field(number, LENGTH, struct.pack(f"<{len(value)}{letter}", *value)) if value else b""
        return _field(number, width, struct.pack(f"<{letter}", value))
    if kind == "int":
        if isinstance(value, (list, tuple)):
            return _field(number, LENGTH, b"".join(varint(int(v)) for v in value)) if value else b""
        return _field(number, VARINT, varint(int(value)))
    if isinstance(value, (list, tuple)):
        return b"".join(_encode(number, kind, v) for v in value)
    if isinstance(value, Message):
        assert value.name == kind, f"field {number} takes a {kind}, got a {value.name}"
        return _field(number, LENGTH, value.SerializeToString())
    return _field(number, LENGTH, value.encode() if isinstance(value, str) else bytes(value))


class Message:
    """A message with its fields set; None is not set."""

    def __init__(self, name: str, /, **fields: Any) -> None:
        self.name = name
        self.fields = {k: v for k, v in fields.items() if v is not None}
        unknown = set(self.fields) - set(MESSAGES[name])
        assert not unknown, f"{name} has no fields {sorted(unknown)}"

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name protocol buffers have
        """The message on the wire."""
        known = MESSAGES[self.name]
        return b"".join(_encode(*known[k], v) for k, v in self.fields.items())

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"
