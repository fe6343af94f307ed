"""Execution traces: a graph of the ops of a program with their tensors, as JSON in PyTorch's (Chakra's) schema.

Enters: a path and the program's ops between `start` and `stop`. Leaves: the file, when the observer is taken away:
nodes with their inputs and outputs, tensors known by numbers that say which storage they share. A replayer or a
simulator reads it. One observer writes at a time in a process.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from typing import Any

from .. import _C, _extras
from ..base import environment
from .files import written
from .op_watcher import LabelWatcher, OpWatcher
from .scalar_types import cpp_name, number_of

SCHEMA = "1.1.1-chakra.0.0.4"
PROCESS, THREAD = "[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]"


class _ITraceObserver(ABC):
    """What a profiler asks of an observer: to begin and to end with it, and to finish."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def cleanup(self) -> None: ...


class _Graph:
    """The nodes of a trace, with numbers for tensors and storages."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._tensors: dict[int, tuple[weakref.ref, int]] = {}      # by id, which another may have later
        self._storages: dict[int, int] = {}
        self._calls = itertools.count(1)
        self.process = next(self._numbers)
        self.nodes: list[dict[str, Any]] = []
        self._threads: dict[int, tuple[int, int]] = {}     # thread -> (its node, its number)
        self._open = threading.local()

    def _around(self) -> list[int]:
        """The nodes open on this thread, the outermost its own."""
        ident = threading.get_ident()
        if ident not in self._threads:
            self._threads[ident] = (next(self._numbers), len(self._threads) + 1)
            node, number = self._threads[ident]
            self.nodes.append(_node(node, THREAD, self.process, scope=7, thread=number))
        if not hasattr(self._open, "stack"):
            self._open.stack = [self._threads[ident][0]]
        return self._open.stack

    def begin_label(self, name: str) -> tuple[int, int, str]:
        around = self._around()
        number = next(self._numbers)
        told = (number, around[-1], name)
        around.append(number)
        return told

    def end_label(self, told: tuple[int, int, str]) -> None:
        number, above, name = told
        around = self._around()
        if number in around:
            del around[around.index(number):]
        self.nodes.append(_node(number, name, above, scope=7, call=next(self._calls), thread=self._thread()))

    def begin(self, op: Any, args: tuple, kwargs: dict) -> Any:
        around = self._around()
        number = next(self._numbers)
        return number, around[-1], op, self._described(_bound(op, args, kwargs))

    def end(self, told: Any, result: Any) -> None:
        number, above, op, inputs = told
        outputs = self._described(list(result) if isinstance(result, (tuple, list)) else [result])
        schema = getattr(op, "_schema", None)
        name = getattr(schema, "name", None) or str(op)
        self.nodes.append(_node(number, name, above, inputs, outputs, call=next(self._calls), thread=self._thread(),
                                schema="" if schema is None else str(schema)))

    def _thread(self) -> int:
        return self._threads[threading.get_ident()][1]

    def _described(self, values: list) -> dict[str, list]:
        shown = [self._one(value) for value in values]
        return {key: [entry[i] for entry in shown] for i, key in enumerate(("values", "shapes", "types", "strides"))}

    def _one(self, value: Any) -> tuple[Any, Any, str, Any]:
        """(value, shape, type, strides) of an argument."""
        if isinstance(value, _C.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            parts = [self._one(item) for item in value]
            values, shapes, types, strides = ([part[i] for part in parts] for i in range(4))
            return values, shapes, f"GenericList[{','.join(types)}]", strides
        if value is None:
            return "<None>", [], "None", []
        for kind, name in ((bool, "Bool"), (int, "Int"), (float, "Double"), (str, "String")):
            if isinstance(value, kind):
                return value, [], name, []
        if isinstance(value, _C.device):
            return str(value), [], "Device", []
        number = number_of(value)
        return (str(value), [], type(value).__name__, []) if number is None else (number, [], "Int", [])

    def _tensor(self, value: Any) -> tuple[Any, Any, str, Any]:
        known, number = self._tensors.get(id(value), (None, 0))
        if known is None or known() is not value:
            number = next(self._numbers)
            self._tensors[id(value)] = (weakref.ref(value), number)
        kind = f"Tensor({cpp_name(value.dtype)})"
        if str(value.layout) != "torch.strided" or value.is_meta:
            return [number, 0, 0, value.numel(), value.element_size(), str(value.device)], list(value.shape), kind, []
        address = value.untyped_storage().data_ptr()
        storage = self._storages.get(address) if address else None
        if storage is None:
            storage = self._storages[address] = next(self._numbers)
        shown = [number, storage, value.storage_offset(), value.numel(), value.element_size(), str(value.device)]
        return shown, list(value.shape), kind, list(value.stride())


def _bound(op: Any, args: tuple, kwargs: dict) -> list:
    """All arguments of the op's schema in its order, defaults included."""
    schema = getattr(op, "_schema", None)
    if schema is None:
        return [*args, *kwargs.values()]
    values, given = [], list(args)
    for argument in schema.arguments:
        if given and not argument.kwarg_only:
            values.append(given.pop(0))
        else:
            values.append(kwargs.get(argument.name, argument.default_value))
    return values


_NOTHING: dict[str, list] = {"values": [], "shapes": [], "types": [], "strides": []}


def _node(number: int, name: str, above: int, inputs: dict = _NOTHING, outputs: dict = _NOTHING, *, scope: int = 0,
          call: int = 0, thread: int = 0, schema: str = "") -> dict[str, Any]:
    attributes = (("rf_id", "uint64", call), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1),
                  ("scope", "uint64", scope), ("tid", "uint64", thread), ("fw_tid", "uint64", 0),
                  ("op_schema", "string", schema), ("kernel_backend", "string", ""), ("kernel_file", "string", ""),
                  ("tensor_range", "string", ""))
    return {"id": number, "name": name, "ctrl_deps": above, "inputs": inputs, "outputs": outputs,
            "attrs": [{"name": key, "type": kind, "value": value} for key, kind, value in attributes]}


class ExecutionTraceObserver(_ITraceObserver):
    """Writes the ops between `start` and `stop` to the file given to `register_callback`."""

    _writing: ExecutionTraceObserver | None = None      # the one that has a file, in this process

    def __init__(self) -> None:
        self._registered = self._running = False
        self.extra_resources_collection = False
        self.resources_dir = self.output_file_path = ""
        self._graph: _Graph | None = None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer that writes to a temporary file, where ENABLE_PYTORCH_EXECUTION_TRACE asks for one."""
        if environment.get("ENABLE_PYTORCH_EXECUTION_TRACE") != "1":
            return None
        handle, path = tempfile.mkstemp(suffix=".et.json")
        os.close(handle)
        observer = ExecutionTraceObserver().register_callback(path)
        observer.set_extra_resource_collection(environment.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS") == "1")
        return observer

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether a folder beside the file takes what a replay needs besides it."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Write to this file from the next `start` on. Does nothing while another file is being written."""
        if not self._registered and ExecutionTraceObserver._writing is None:
            self.output_file_path = output_file_path
            self._registered = True
            self._graph = _Graph()
            self._begun = _extras.profile_now()
            ExecutionTraceObserver._writing = self
        return self

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder for what a replay needs besides the file; None unless it is collected."""
        if self.extra_resources_collection and not self.resources_dir:
            self.resources_dir = self.get_resources_dir_for_et_path(self.output_file_path, can_create) or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """`name_resources` beside `name.json`, if it is there or may be made."""
        folder, name = os.path.split(trace_path)
        found = os.path.join(folder, os.path.splitext(name)[0] + "_resources")
        if os.path.isdir(found):
            return found
        if not create_dir:
            return None
        try:
            os.mkdir(found)
        except OSError as error:
            warnings.warn(f"the folder {found} of an execution trace cannot be made: {error}", stacklevel=2)
            return None
        return found

    def unregister_callback(self) -> None:
        """Write the file, and watch no more."""
        if not self._registered:
            return
        self.stop()
        self._registered = False
        ExecutionTraceObserver._writing = None
        graph = self._graph
        assert graph is not None, "a registered observer has a graph"
        graph.nodes.append(_node(graph.process, PROCESS, graph.process, scope=7))
        lines = ",\n".join(f"      {json.dumps(node)}" for node in graph.nodes)
        head = (f'{{\n  "schema": "{SCHEMA}", "pid": {os.getpid()}, "time": "{time.strftime("%Y-%m-%d %H:%M:%S")}", '
                f'"start_ts": {self._begun // 1000},\n  "nodes": [\n')
        with written(self.output_file_path) as file:
            file.write(f'{head}{lines}\n  ],\n  "finish_ts": {_extras.profile_now() // 1000}\n}}'.encode())
        self._graph = None

    @property
    def is_registered(self) -> bool:
        """Whether it has a file to write to."""
        return self._registered

    def is_running(self) -> bool:
        """Whether ops are being written down."""
        return self._running

    def start(self) -> None:
        """Write down the ops of this thread from now on."""
        if not self._registered or self._running or self._graph is None:
            return
        self._running = True
        self._ops = OpWatcher(self._graph.begin, self._graph.end)
        self._labels = LabelWatcher(self._graph.begin_label, self._graph.end_label)
        self._labels.start()
        self._ops.__enter__()
        self._record_pg_config()

    def stop(self) -> None:
        """Write down no more, until the next `start`."""
        if self._running:
            self._running = False
            self._ops.__exit__(None, None, None)
            self._labels.stop()

    def cleanup(self) -> None:
        """Write the file."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """The file's path, once it was given."""
        return self.output_file_path or None

    def _record_pg_config(self) -> None:
        """A node with the process groups, where there are any."""
        dist = sys.modules.get(f"{__package__.partition('.')[0]}.distributed")
        if dist is not None and dist.is_initialized() and self._graph is not None:
            groups = json.dumps(dist.distributed_c10d._get_all_pg_configs())
            around = self._graph._around()
            self._graph.nodes.append(_node(
                next(self._graph._numbers), "## process_group:init ##", around[-1],
                {"values": [groups], "shapes": [[]], "types": ["String"], "strides": [[]]}, scope=7,
            ))

