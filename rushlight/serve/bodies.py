"""The bodies of KServe's protocol over HTTP: JSON, and the bytes of tensors behind it.

Enters: a body and what its header says of the length of its JSON; outputs. Leaves: the tensors of a request and what it
asks for; an answer's body and headers. Refuses: bodies that are shorter or longer than they say, and parameters that
ask for what is not done here.
"""

from __future__ import annotations

import json
from typing import Any

from .datatypes import BYTES, NUMBERS, count, decoded, encoded, flat
from .inference import Named, shape_of
from .refusals import Refusal

HEAD_LENGTH = "Inference-Header-Content-Length"
NOT_DONE = ("sequence_id", "sequence_start", "sequence_end", "shared_memory_region", "classification")


def parsed(text: bytes, what: str = "the body") -> Any:
    """JSON, or a refusal."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"{what}: expected JSON, got what is none ({str(error)[:120]})") from None


def object_of(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise Refusal(400, f"{what}: expected an object, got {type(said).__name__}")
    return said


def _word(said: dict[str, Any], key: str, what: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"{what}: expected a string as {key!r}, got {str(value)[:60]!r}")
    return value


def _parameters(said: dict[str, Any], what: str) -> dict[str, Any]:
    found = object_of(said.get("parameters", {}), f"{what}: parameters")
    for name in NOT_DONE:
        if name in found and found[name] not in (0, False):
            raise Refusal(400, f"{what}: the parameter {name!r} is not supported here")
    return found


def _input(said: Any, rest: memoryview, at: int) -> tuple[Named, int]:
    """An input, and where the next one's bytes begin."""
    name = _word(object_of(said, "inputs"), "name", "inputs")
    what = f"input {name!r}"
    datatype, shape = _word(said, "datatype", what), shape_of(said.get("shape"), what)
    if datatype not in NUMBERS and datatype != BYTES:
        raise Refusal(400, f"{what}: expected a datatype among {', '.join(NUMBERS)} and {BYTES}, got {datatype[:60]!r}")
    size = _parameters(said, what).get("binary_data_size")
    if size is None:
        if "data" not in said:
            raise Refusal(400, f"{what}: expected 'data', or the parameter 'binary_data_size', got neither")
        values, sizes = flat(said["data"], what)
        if len(values) != count(shape) or (len(sizes) > 1 and sizes != shape):
            raise Refusal(400, f"{what}: shape {shape} has {count(shape)} elements, got data of sizes {sizes}")
        return Named(name, datatype, shape, encoded(values, datatype, what)), at
    if type(size) is not int or size < 0 or at + size > len(rest):
        raise Refusal(400, f"{what}: expected at most the {len(rest) - at} bytes that follow as binary_data_size, "
                           f"got {str(size)[:30]}")
    if "data" in said:
        raise Refusal(400, f"{what}: expected either 'data' or 'binary_data_size', got both")
    return Named(name, datatype, shape, rest[at : at + size]), at + size


class Asked:
    """A request for inference."""

    def __init__(self, content: bytes, head_length: str | None) -> None:
        head, rest = content, memoryview(b"")
        if head_length is not None:
            if not (head_length.isascii() and head_length.isdigit()) or int(head_length) > len(content):
                raise Refusal(400, f"{HEAD_LENGTH}: expected a number up to the body's {len(content)} bytes, "
                                   f"got {head_length[:30]!r}")
            head, rest = content[: int(head_length)], memoryview(content)[int(head_length):]
        said = object_of(parsed(head), "the body")
        self.id = said.get("id")
        if self.id is not None and not isinstance(self.id, str):
            raise Refusal(400, f"id: expected a string, got {str(self.id)[:60]}")
        parameters = _parameters(said, "the request")
        if not isinstance(said.get("inputs"), list):
            raise Refusal(400, "inputs: expected a list of tensors")
        self.inputs, at = [], 0
        for one in said["inputs"]:
            given, at = _input(one, rest, at)
            self.inputs.append(given)
        if at != len(rest):
            raise Refusal(400, f"the body has {len(rest)} bytes behind its JSON, but its inputs say {at}")
        self.is_binary = bool(parameters.get("binary_data_output", False))
        self.outputs = self._outputs(said.get("outputs"))

    def _outputs(self, said: Any) -> dict[str, bool]:
        """Names that are asked for, and whether as bytes."""
        if said is None:
            return {}
        if not isinstance(said, list):
            raise Refusal(400, f"outputs: expected a list, got {type(said).__name__}")
        found: dict[str, bool] = {}
        for one in said:
            name = _word(object_of(one, "outputs"), "name", "outputs")
            if name in found:
                raise Refusal(400, f"output {name!r} is asked for twice")
            found[name] = bool(_parameters(one, f"output {name!r}").get("binary_data", self.is_binary))
        return found


def written(name: str, version: str, asked: Asked, outputs: list[Named]) -> tuple[bytes, dict[str, str]]:
    """An answer's body, and the headers it goes with."""
    said: list[dict[str, Any]] = []
    behind: list[Any] = []
    for one in outputs:
        entry: dict[str, Any] = {"name": one.name, "datatype": one.datatype, "shape": one.shape}
        if asked.outputs.get(one.name, asked.is_binary):
            entry["parameters"] = {"binary_data_size": len(one.data)}
            behind.append(one.data)
        else:
            entry["data"] = decoded(one.data, one.datatype)
        said.append(entry)
    result: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": said}
    if asked.id is not None:
        result["id"] = asked.id
    head = json.dumps(result).encode()
    if not behind:
        return head, {"Content-Type": "application/json"}
    return b"".join((head, *behind)), {"Content-Type": "application/octet-stream", HEAD_LENGTH: str(len(head))}
