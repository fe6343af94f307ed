"""The messages of KServe's protocol over gRPC, and of TorchServe's, as protocol buffers.

Enters: a message's fields by name, or its bytes. Leaves: its bytes, or its fields by name, those that were not sent
with the value the format gives them. Refuses: bytes that are no message of the kind; fields it does not
know are skipped, as the format wants it.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

from ..base.protobuf import FIXED32, FIXED64, LENGTH, VARINT, fields, varint

TEXT, RAW, TRUTH, INT, UINT, FLOAT, DOUBLE = "text", "raw", "truth", "int", "uint", "float", "double"
_EMPTY = {TEXT: "", RAW: b"", TRUTH: False, INT: 0, UINT: 0, FLOAT: 0.0, DOUBLE: 0.0}
_WIRE = {TEXT: LENGTH, RAW: LENGTH, TRUTH: VARINT, INT: VARINT, UINT: VARINT, FLOAT: FIXED32, DOUBLE: FIXED64}


class Message:
    """A kind of message: its fields are (number, kind), the kind in a list where the field repeats. `default` fields
    read as None when they were not sent."""

    def __init__(self, optional: bool = False, **numbered: tuple[int, Any]) -> None:
        self._optional = optional
        self._fields = {name: (number, kind[0] if isinstance(kind, list) else kind, isinstance(kind, list))
                        for name, (number, kind) in numbered.items()}
        self._names = {number: name for name, (number, _, _) in self._fields.items()}

    def written(self, values: dict[str, Any]) -> bytes:
        """The bytes of a message."""
        found: list[bytes] = []
        for name, (number, kind, repeats) in self._fields.items():
            value = values.get(name)
            if value is None or (not self._optional and not repeats and not isinstance(kind, Message)
                                 and value == _EMPTY[kind]):
                continue
            if repeats and not isinstance(kind, Message) and kind not in (TEXT, RAW):
                packed = b"".join(_scalar(kind, v) for v in value)
                found += [varint(number << 3 | LENGTH), varint(len(packed)), packed] if packed else []
                continue
            for one in value if repeats else (value,):
                content = kind.written(one) if isinstance(kind, Message) else _scalar(kind, one)
                wire = LENGTH if isinstance(kind, Message) else _WIRE[kind]
                found.append(varint(number << 3 | wire))
                if wire == LENGTH:
                    found.append(varint(len(content)))
                found.append(content)
        return b"".join(found)

    def read(self, data: Any) -> dict[str, Any]:
        """The fields of a message; ValueError for bytes that are none."""
        found: dict[str, Any] = {}
        for name, (_, kind, repeats) in self._fields.items():
            found[name] = [] if repeats else None if self._optional or isinstance(kind, Message) else _EMPTY[kind]
        for number, value in fields(data):
            name = self._names.get(number, "")
            if not name:
                continue
            _, kind, repeats = self._fields[name]
            if not repeats:
                found[name] = kind.read(_bytes(value)) if isinstance(kind, Message) else _value(kind, value)
            elif isinstance(kind, Message):
                found[name].append(kind.read(_bytes(value)))
            elif kind in (TEXT, RAW):
                found[name].append(_value(kind, value))
            elif isinstance(value, memoryview) and not (kind == DOUBLE and len(value) == 8):
                found[name].extend(_packed(kind, value))
            else:
                found[name].append(_value(kind, value))
        return found


def _bytes(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise ValueError("a field holds a number where a message belongs")
    return value


def _scalar(kind: str, value: Any) -> bytes:
    if kind == TEXT:
        return value.encode()
    if kind == RAW:
        return bytes(value)
    if kind == FLOAT:
        return struct.pack("<f", value)
    return struct.pack("<d", value) if kind == DOUBLE else varint(int(value))


def _value(kind: str, value: Any) -> Any:
    if kind == RAW:
        return _bytes(value)
    if kind == TEXT:
        return bytes(_bytes(value)).decode()      # UnicodeDecodeError is a ValueError
    if kind == DOUBLE:
        return struct.unpack("<d", _bytes(value))[0]
    if kind == FLOAT and isinstance(value, float):
        return value
    if not isinstance(value, int):
        raise ValueError(f"a field holds bytes where a number ({kind}) belongs")
    return bool(value) if kind == TRUTH else value - (1 << 64) if kind == INT and value >> 63 else value


def _packed(kind: str, data: memoryview) -> list[Any]:
    """Numbers that lie one behind the other."""
    if kind in (FLOAT, DOUBLE):
        return array("f" if kind == FLOAT else "d", bytes(data)).tolist()
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(_value(kind, value & (1 << 64) - 1))
            value = shift = 0
        elif shift > 63:
            raise ValueError("a number is longer than ten bytes")
    if shift:
        raise ValueError("a list of numbers is cut off")
    return found


NOTHING = Message()
PARAMETER = Message(True, bool_param=(1, TRUTH), int64_param=(2, INT), string_param=(3, TEXT), double_param=(4, DOUBLE),
                    uint64_param=(5, UINT))
ENTRY = Message(key=(1, TEXT), value=(2, PARAMETER))
CONTENTS = Message(
    bool_contents=(1, [TRUTH]), int_contents=(2, [INT]), int64_contents=(3, [INT]), uint_contents=(4, [UINT]),
    uint64_contents=(5, [UINT]), fp32_contents=(6, [FLOAT]), fp64_contents=(7, [DOUBLE]), bytes_contents=(8, [RAW]))
TENSOR = Message(name=(1, TEXT), datatype=(2, TEXT), shape=(3, [INT]), parameters=(4, [ENTRY]), contents=(5, CONTENTS))
INFER = Message(
    model_name=(1, TEXT), model_version=(2, TEXT), id=(3, TEXT), parameters=(4, [ENTRY]), inputs=(5, [TENSOR]),
    outputs=(6, [Message(name=(1, TEXT), parameters=(2, [ENTRY]))]), raw_input_contents=(7, [RAW]))
INFERRED = Message(model_name=(1, TEXT), model_version=(2, TEXT), id=(3, TEXT), parameters=(4, [ENTRY]),
                   outputs=(5, [TENSOR]), raw_output_contents=(6, [RAW]))
STREAMED = Message(error_message=(1, TEXT), infer_response=(2, INFERRED))
MODEL = Message(name=(1, TEXT), version=(2, TEXT))
LIVE, READY = Message(live=(1, TRUTH)), Message(ready=(1, TRUTH))
SERVER = Message(name=(1, TEXT), version=(2, TEXT), extensions=(3, [TEXT]))
_DESCRIBED = Message(name=(1, TEXT), datatype=(2, TEXT), shape=(3, [INT]))
METADATA = Message(name=(1, TEXT), versions=(2, [TEXT]), platform=(3, TEXT), inputs=(4, [_DESCRIBED]),
                   outputs=(5, [_DESCRIBED]))
_DURATION = Message(count=(1, UINT), ns=(2, UINT))
_TIMES = Message(success=(1, _DURATION), fail=(2, _DURATION), queue=(3, _DURATION), compute_input=(4, _DURATION),
                 compute_infer=(5, _DURATION), compute_output=(6, _DURATION), cache_hit=(7, _DURATION),
                 cache_miss=(8, _DURATION))
_BY_SIZE = Message(batch_size=(1, UINT), compute_input=(2, _DURATION), compute_infer=(3, _DURATION),
                   compute_output=(4, _DURATION))
STATISTICS = Message(model_stats=(1, [Message(
    name=(1, TEXT), version=(2, TEXT), last_inference=(3, UINT), inference_count=(4, UINT), execution_count=(5, UINT),
    inference_stats=(6, _TIMES), batch_stats=(7, [_BY_SIZE]))]))
INDEX_ASKED = Message(repository_name=(1, TEXT), ready=(2, TRUTH))
INDEX = Message(models=(1, [Message(name=(1, TEXT), version=(2, TEXT), state=(3, TEXT), reason=(4, TEXT))]))
LOAD = Message(repository_name=(1, TEXT), model_name=(2, TEXT), parameters=(3, [ENTRY]))
CONFIGURATION = Message(config=(1, Message(
    name=(1, TEXT), platform=(2, TEXT), max_batch_size=(4, INT),
    input=(5, [Message(name=(1, TEXT), data_type=(2, UINT), dims=(4, [INT]))]),
    output=(6, [Message(name=(1, TEXT), data_type=(2, UINT), dims=(3, [INT]))]), backend=(17, TEXT))))
# The numbers that a configuration gives types.
TYPES = ("INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32",
         "FP64", "STRING", "BF16")
# TorchServe's.
PREDICT = Message(model_name=(1, TEXT), model_version=(2, TEXT),
                  input=(3, [Message(key=(1, TEXT), value=(2, RAW))]), sequenceId=(4, TEXT))
PREDICTED = Message(prediction=(1, RAW), sequenceId=(2, TEXT), status=(3, Message(code=(1, INT), message=(2, TEXT))))
HEALTH, SAID = Message(health=(1, TEXT)), Message(msg=(1, TEXT))
DESCRIBE = Message(model_name=(1, TEXT), model_version=(2, TEXT), customized=(3, TRUTH))
LIST = Message(limit=(1, INT), next_page_token=(2, INT))
REGISTER = Message(
    batch_size=(1, INT), handler=(2, TEXT), initial_workers=(3, INT), max_batch_delay=(4, INT), model_name=(5, TEXT),
    response_timeout=(6, INT), runtime=(7, TEXT), synchronous=(8, TRUTH), url=(9, TEXT), s3_sse_kms=(10, TRUTH),
    queue_timeout=(11, INT))
SCALE = Message(model_name=(1, TEXT), model_version=(2, TEXT), max_worker=(3, INT), min_worker=(4, INT),
                number_gpu=(5, INT), synchronous=(6, TRUTH), timeout=(7, INT))
