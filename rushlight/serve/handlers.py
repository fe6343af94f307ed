"""Handlers of archives, in a worker.

Enters: a folder with a handler (a function `handle(data, context)`, or a class with `initialize` and `handle`), and
requests. Leaves: its answers as bytes, with their types. Refuses: answers of another number than there were requests;
what a handler raises becomes an answer too. `torch` is Rushlight here, and `ts` a package of our own (shim/).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..compat import install, serve_children
from .datatypes import BYTES, TENSOR, decoded, nested, parted
from .refusals import LoadError, Refusal

SHIM = Path(__file__).with_name("shim")
FAILED = "InternalServerException"
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
NOT_ITS_OWN = ("content-length", "transfer-encoding", "connection")      # what the server says of every answer


def _entry_of(module: ModuleType, name: str) -> tuple[Any, Any]:
    """What handles requests, and the object to initialize before (None for a function)."""
    from ts.torch_handler.base_handler import BaseHandler
    from ts.utils.util import list_classes_from_module

    if name or callable(getattr(module, "handle", None)):
        found = getattr(module, name or "handle", None)
        if not callable(found):
            raise LoadError(f"the handler {module.__name__} has no function {name!r}")
        if not inspect.isclass(found):
            return found, None
        classes = [found]
    else:
        classes = list_classes_from_module(module, BaseHandler) or [
            c for c in list_classes_from_module(module) if callable(getattr(c, "handle", None))]
    if len(classes) != 1:
        raise LoadError(f"the handler {module.__name__}: expected a function 'handle' or one class with that method, "
                        f"got {len(classes)} classes")
    made = classes[0]()
    return made.handle, made


class Handled:
    """A handler that answers."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.say: Callable[[dict[str, Any], list[bytes]], None] = lambda said, contents: None
        install()
        serve_children()
        folder = wanted["folder"]
        sys.path[:0] = [folder, str(SHIM)]
        from ts.context import Context

        kind, _, number = wanted.get("device", "cpu").partition(":")
        gpu = int(number or 0) if kind == "cuda" else None
        properties = {"model_dir": folder, "gpu_id": gpu, "batch_size": wanted["batch_size"],
                      "server_name": "Rushlight", "server_version": "1.0", "limit_max_image_pixels": True}
        self.description = {"inputs": [], "outputs": [], "ranges": {}, "batch": None}
        self._context = Context(wanted["name"], folder, wanted["manifest"], wanted["batch_size"], gpu, "1.0",
                                model_yaml_config=wanted["config"])
        self._context._system_properties = properties
        module = wanted["module"].replace("/", ".")
        try:
            is_own = (Path(folder) / f"{wanted['module']}.py").is_file()
            loaded = importlib.import_module(module if is_own else f"ts.torch_handler.{module}")
            self._handle, made = _entry_of(loaded, wanted["entry"])
            if made is None:
                self._handle(None, self._context)
            elif callable(getattr(made, "initialize", None)):
                made.initialize(self._context)
        except LoadError:
            raise
        except Exception as error:
            traceback.print_exc()
            raise LoadError(f"the handler {wanted['module']} cannot be initialized: {_line(error)}") from error

    def warm(self) -> None:
        """A handler alone knows what it may be given."""

    def answer(self, said: dict[str, Any], buffers: list[memoryview]) -> tuple[dict[str, Any], list[bytes]]:
        """Answers to requests that run together."""
        waiting = iter(buffers)
        rows = []
        for row in said["rows"]:
            rows.append({name: _value(name, kind, next(waiting)) for name, kind in row["pieces"]})
        self._context._begin([row["headers"] for row in said["rows"]])
        self._context._send_part = functools.partial(self._send_part, len(rows))
        return self._of(self._called(rows), len(rows))

    def _send_part(self, count: int, answers: Any) -> None:
        said, contents = self._of(answers, count)
        self.say(said, contents)

    def _of(self, answers: Any, count: int) -> tuple[dict[str, Any], list[bytes]]:
        """What a handler gave for so many requests, as it is sent."""
        if not isinstance(answers, (list, tuple)) or len(answers) != count:
            got = f"{len(answers)} of them" if isinstance(answers, (list, tuple)) else type(answers).__name__
            raise Refusal(503, f"the handler: expected a list with an answer for each of {count} requests, "
                               f"got {got}", FAILED)
        written = [_written(answer, self._context, at) for at, answer in enumerate(answers)]
        return {"answers": [(status, headers) for status, headers, _ in written]}, [data for _, _, data in written]

    def _called(self, rows: list[dict[str, Any]]) -> Any:
        from ts.utils.util import PredictionException

        try:
            return self._handle(rows, self._context)
        except Refusal:       # of a part of an answer
            raise
        except PredictionException as error:
            raise Refusal(error.error_code, error.message, FAILED) from error
        except MemoryError as error:
            raise Refusal(507, "the handler ran out of memory") from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            traceback.print_exc()
            raise Refusal(503, f"Prediction failed: {_line(error)}", FAILED) from error


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _value(name: str, kind: str, content: memoryview) -> Any:
    """A piece of a request as handlers read it: JSON as values, tensors as lists, all else as bytes."""
    if kind.startswith(f"{TENSOR} "):
        return _elements(content, json.loads(kind.removeprefix(TENSOR)))
    kind = kind.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return json.loads(bytes(content))
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"{name}: expected JSON, as its content type says ({str(error)[:80]})") from None
    return bytearray(content)


def _elements(content: memoryview, about: dict[str, Any]) -> Any:
    """The elements of a tensor: numbers as lists in their shape, words as bytes."""
    if about["datatype"] != BYTES:
        return nested(decoded(content, about["datatype"]), about["shape"])
    words = [bytearray(word) for word in parted(content, "data")]
    return words[0] if len(words) == 1 else words


def _plain(value: Any) -> Any:
    """Tensors and arrays as lists."""
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise TypeError(f"the handler gave a {type(value).__name__} within its answer, which JSON does not know")


def _written(answer: Any, context: Any, at: int) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content of one answer."""
    try:
        if isinstance(answer, (bytes, bytearray, memoryview)):
            kind, content = "application/octet-stream", bytes(answer)
        elif isinstance(answer, str):
            kind, content = "text/plain; charset=utf-8", answer.encode()
        else:
            kind, content = "application/json", json.dumps(answer, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Refusal(503, f"the handler's answer cannot be written: {error}", FAILED) from error
    status, headers = context._chosen(at)
    return _sendable(status, {"Content-Type": kind, **headers}, content)


def _sendable(status: Any, headers: dict[Any, Any], content: bytes) -> tuple[int, dict[str, str], bytes]:
    """The answer, if HTTP has such a status and such headers."""
    if type(status) is not int or not 200 <= status <= 599:
        raise Refusal(503, f"the handler: expected a status from 200 to 599, got {str(status)[:40]!r}", FAILED)
    for name, value in headers.items():
        fits = isinstance(name, str) and isinstance(value, str) and HEADER.fullmatch(name) and value.isprintable()
        if not fits or name.lower() in NOT_ITS_OWN:
            raise Refusal(503, f"the handler: {str(name)[:40]!r} with {str(value)[:40]!r} is no header that it may "
                               "send", FAILED)
    return status, headers, content
