"""The last collectives of a process, kept for the day when some rank does not come.

With TORCH_FR_BUFFER_SIZE=2000 every process keeps its last 2000 calls: which group, which call, shapes, from where, and
whether it ended. `dump` writes them in PyTorch's format, and so does a call that fails where TORCH_FR_DUMP_TEMP_FILE
names the beginning of a path (the rank is put behind it). `compare` reads the files of all ranks and says where they
part ways:

    python -m rushlight.distributed.flight_recorder trace_*
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import traceback
from collections import deque
from typing import Any

from .._C import Tensor
from ..base import environment
from ..serialization.restricted import Unpickler

__all__ = ["Recorder", "compare", "dump", "start"]

_VERSION = "2.10"
_MESSAGES = frozenset(("send", "recv", "recv_anysource"))
current: Recorder | None = None


def _described(value: Any) -> tuple[list[list[int]], list[str]]:
    """Shapes and dtypes of the tensors in an argument."""
    sizes: list[list[int]] = []
    dtypes: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, Tensor):
            sizes.append(list(item.shape))
            dtypes.append(str(item.dtype).rpartition(".")[2].capitalize())
        elif isinstance(item, (list, tuple)):
            waiting = [*item, *waiting]
    return sizes, dtypes


def _frames() -> list[dict[str, Any]]:
    """Where the program called, ours left out."""
    here = os.path.dirname(os.path.dirname(__file__))
    stack = [f for f in traceback.extract_stack() if not f.filename.startswith(here)]
    return [{"name": f.name, "filename": f.filename, "line": f.lineno} for f in reversed(stack[-20:])]


class Recorder:
    """A process's last calls."""

    def __init__(self, size: int, rank: int) -> None:
        if size < 1:
            raise ValueError(f"a flight recorder keeps at least one call, got {size}")
        self.rank = rank
        self._entries: deque[dict[str, Any]] = deque(maxlen=size)
        self._groups: dict[str, dict[str, Any]] = {}
        self._counts: dict[tuple[str, bool], int] = {}
        self._lock = threading.Lock()
        self._number = 0
        self._has_dumped = False

    def begin(self, group: Any, name: str, args: tuple) -> dict[str, Any]:
        """A call that is about to be made."""
        is_message = name in _MESSAGES
        outputs = args[:1]
        inputs = args[1:2] if len(args) > 1 and isinstance(args[1], (list, Tensor)) else outputs
        with self._lock:
            self._number += 1
            count = self._counts[group.group_name, is_message] = self._counts.get((group.group_name, is_message), 0) + 1
            if group.group_name not in self._groups:
                backend = next(iter(group._backends.values()), None)
                ranks = list(getattr(backend, "_ranks", range(group.size())))
                known = {"name": group.group_name, "desc": group.group_desc, "ranks": str(ranks)}
                self._groups[group.group_name] = known
            entry: dict[str, Any] = {
                "record_id": self._number, "pg_id": list(self._groups).index(group.group_name),
                "process_group": (group.group_name, group.group_desc), "is_p2p": is_message,
                "collective_seq_id": 0 if is_message else count, "p2p_seq_id": count if is_message else 0,
                "op_id": self._number, "profiling_name": f"{group.name()}:{name}", "state": "scheduled",
                "time_created_ns": time.time_ns(), "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 0, "frames": _frames(),
            }
            for what, value in (("input", inputs), ("output", outputs)):
                entry[f"{what}_sizes"], entry[f"{what}_dtypes"] = _described(value)
            self._entries.append(entry)
        return entry

    def watch(self, entry: dict[str, Any], work: Any) -> None:
        """The call was made: note how it ends."""
        if hasattr(work, "is_completed") and work.is_completed():
            self._ended(entry, work.exception())
        elif hasattr(work, "when_ended"):       # its future is of the stream's, and says nothing of the end
            entry["state"], entry["time_discovered_started_ns"] = "started", time.time_ns()
            work.when_ended(lambda: self._ended(entry, work.exception()))
        elif hasattr(work, "get_future"):
            entry["state"], entry["time_discovered_started_ns"] = "started", time.time_ns()
            work.get_future().add_done_callback(lambda _: self._ended(entry, work.exception()))

    def _ended(self, entry: dict[str, Any], error: BaseException | None) -> None:
        entry["time_discovered_completed_ns"], entry["retired"] = time.time_ns(), True
        entry["state"] = "completed" if error is None else "started"
        path = environment.get("TORCH_FR_DUMP_TEMP_FILE")
        if error is not None and path and not self._has_dumped:
            self._has_dumped = True
            self.dump(f"{path}{self.rank}")

    def contents(self) -> dict[str, Any]:
        """What PyTorch's tools read."""
        with self._lock:
            status = {
                name: {"last_enqueued_collective": self._counts.get((name, False), 0)} for name in self._groups
            }
            return {"version": _VERSION, "pg_config": dict(self._groups), "pg_status": status, "rank": self.rank,
                    "entries": [dict(entry) for entry in self._entries]}

    def dump(self, path: str | os.PathLike) -> None:
        """Write them to a file."""
        with open(path, "wb") as file:
            pickle.dump(self.contents(), file, protocol=2)


def start(size: int | None = None, rank: int = 0) -> None:
    """Keep the last calls from now on; without a size, if the environment asks for it."""
    global current
    size = int(environment.get("TORCH_FR_BUFFER_SIZE") or 0) if size is None else size
    current = Recorder(size, rank) if size else None


def dump(path: str | os.PathLike) -> None:
    """Write this process's last calls to a file."""
    if current is None:
        raise RuntimeError("nothing was recorded: set TORCH_FR_BUFFER_SIZE, or call flight_recorder.start(size) first")
    current.dump(path)


def _read(path: str | os.PathLike) -> dict[str, Any]:
    with open(path, "rb") as file:
        data = file.read()
    found = Unpickler(data, 0, lambda key: None).load()
    if not isinstance(found, dict) or "entries" not in found:
        raise ValueError(f"{os.fspath(path)}: this is no flight recorder's file")
    return found


def compare(paths: list[Any]) -> list[str]:
    """Where the ranks of each group part ways, in words: a line per group that does."""
    traces = {trace.get("rank", at): trace for at, trace in enumerate(map(_read, paths))}
    said = []
    for group in sorted({entry["process_group"][0] for trace in traces.values() for entry in trace["entries"]}):
        calls: dict[int, dict[int, dict[str, Any]]] = {}
        for rank, trace in traces.items():
            own = [e for e in trace["entries"] if e["process_group"][0] == group and not e["is_p2p"]]
            if own or group in trace["pg_config"]:
                calls[rank] = {entry["collective_seq_id"]: entry for entry in own}
        first = max((min(row, default=1) for row in calls.values()), default=1)
        last = max((max(row, default=0) for row in calls.values()), default=0)
        for number in range(first, last + 1):
            ways: dict[str, list[int]] = {}
            for rank, row in calls.items():
                ways.setdefault(_words(row.get(number)), []).append(rank)
            if len(ways) > 1 or any("not ended" in way for way in ways):
                parts = [f"rank {', '.join(map(str, ranks))}: {way}" for way, ranks in ways.items()]
                said.append(f"group {group}, collective {number}: " + "; ".join(parts))
                break
    return said


def _words(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "never called it"
    name = entry["profiling_name"].partition(":")[2]
    where = next((f" at {f['filename']}:{f['line']}" for f in entry["frames"]), "")
    ended = "" if entry["state"] == "completed" else ", not ended"
    return f"{name} of {entry['input_sizes']} {entry['input_dtypes']}{ended}{where}"


if __name__ == "__main__":
    print("\n".join(compare(sys.argv[1:])) or "all ranks made the same calls")
