"""Events as programs see them: `FunctionEvent`, averages of several, and the small records around them.

Enters: the numbers of one event, by hand (PyTorch's arguments) or as a row of a recording. Leaves: objects with
PyTorch's attributes. One made from a row reads the recording when something is first asked of it: a list of a million
events costs a million small shells, not a million filled dictionaries.
"""

from __future__ import annotations

import json
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .activities import DeviceType
from .native_names import demangled
from .recording import MEMORY_NAME
from .units import time_text

if TYPE_CHECKING:
    from .event_source import EventSource

MEMORY_EVENT_NAME = MEMORY_NAME
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"

Kernel = namedtuple("Kernel", ["name", "device", "duration"])


def _formatted(attribute: str) -> property:
    return property(lambda self: time_text(getattr(self, attribute)), doc=f"`{attribute}` with its unit.")


def _older_name(attribute: str, older: str) -> property:
    """A name PyTorch is giving up, which still answers, with its warning."""

    def read(self: Any) -> Any:
        warnings.warn(f"`{older}` is deprecated, please use `{attribute}` instead.", FutureWarning, stacklevel=2)
        return getattr(self, attribute)

    return property(read)


class FormattedTimesMixin:
    """Times per call and times as text, of anything that has totals and a `count`."""

    cpu_time_str = _formatted("cpu_time")
    device_time_str = _formatted("device_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    device_time_total_str = _formatted("device_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")
    cuda_time = _older_name("device_time", "cuda_time")

    count: int
    cpu_time_total: Any          # numbers in averages, properties of single events
    device_time_total: Any

    @property
    def cpu_time(self) -> float:
        """Microseconds of the CPU per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of the device per call."""
        return self.device_time_total / self.count if self.count else 0.0


class Interval:
    """From `start` to `end`, in microseconds since the recording began."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


def _plain(text: str) -> str:
    return text.strip('"')


def _truth(text: str) -> bool:
    return text in ("1", "true")


# An entry of a trace's `args` -> the field that tells it, and how its text is read.
_METADATA: dict[str, tuple[str, Callable[[str], Any]]] = {
    "registers per thread": ("registers_per_thread", int), "shared memory": ("shared_memory", int),
    "grid": ("grid", json.loads), "block": ("block", json.loads), "priority": ("priority", int),
    "blocks per SM": ("blocks_per_sm", float), "warps per SM": ("warps_per_sm", float),
    "occupancy": ("occupancy", json.loads), "est. achieved occupancy %": ("est_occupancy_pct", float),
    "queued": ("queued", int), "graph id": ("graph_id", int), "graph node id": ("graph_node_id", int),
    "stream": ("stream", int), "context": ("context", int), "channel": ("channel", int),
    "channel_type": ("channel_type", int), "bytes": ("bytes", int),
    "memory bandwidth (GB/s)": ("bandwidth_gb_s", float), "Collective name": ("collective_name", _plain),
    "dtype": ("dtype", _plain), "In msg nelems": ("in_msg_nelems", int), "Out msg nelems": ("out_msg_nelems", int),
    "In split size": ("in_split_size", _plain), "Out split size": ("out_split_size", _plain),
    "Global rank start": ("global_rank_start", int), "Global rank stride": ("global_rank_stride", int),
    "Group size": ("group_size", int), "Process Group Name": ("process_group_name", _plain),
    "Process Group Description": ("process_group_desc", _plain), "Process Group Ranks": ("group_ranks", _plain),
    "Rank": ("rank", int), "Src Rank": ("src_rank", int), "Dst Rank": ("dst_rank", int), "Seq": ("seq", int),
    "Is asynchronized op": ("is_async", _truth),
}
EventMetadata: Any = namedtuple("EventMetadata", [field for field, _ in _METADATA.values()])  # type: ignore[misc]


def metadata_of(entries: dict[str, str]) -> Any:
    """The known entries of a trace's `args`, read; None where there is none of them."""
    found = {field: None if key not in entries else read(entries[key]) for key, (field, read) in _METADATA.items()}
    return EventMetadata(**found) if any(key in entries for key in _METADATA) else None


ON_A_DEVICE = (DeviceType.CUDA, DeviceType.PrivateUse1, DeviceType.MTIA, DeviceType.HPU, DeviceType.XPU)


class FunctionEvent(FormattedTimesMixin):
    """One thing that took time: a call of an op, a node of backward, a label, a frame of Python, a kernel.

    Times are microseconds since the recording began. What each attribute holds is PyTorch's; `input_shapes` needs
    `record_shapes`, `stack` needs `with_stack` and a verbose configuration, memory needs `profile_memory`.
    """

    self_cuda_memory_usage = _older_name("self_device_memory_usage", "self_cuda_memory_usage")
    cuda_time_total = _older_name("device_time_total", "cuda_time_total")
    self_cuda_time_total = _older_name("self_device_time_total", "self_cuda_time_total")
    metadata_json = _older_name("_metadata_json", "metadata_json")
    _source: EventSource | None = None
    _row: int = -1

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: list | None = None,
        structured_input_strides: list | None = None,
        input_dtypes: list[str] | None = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ) -> None:
        given = dict(locals())
        for left_out in ("self", "start_us", "end_us", "metadata_json", "extra_meta", "device_resource_id"):
            del given[left_out]
        vars(self).update(
            given,
            time_range=Interval(start_us, end_us),
            kernels=[],
            count=1,
            cpu_children=[],
            cpu_parent=None,
            device_resource_id=thread if device_resource_id is None else device_resource_id,
            self_cpu_percent=-1,
            total_cpu_percent=-1,
            total_device_percent=-1,
            _metadata_json=metadata_json,
            event_metadata=metadata_of(extra_meta) if extra_meta else None,
        )

    @classmethod
    def of_row(cls, source: EventSource, row: int) -> FunctionEvent:
        """The event of a recording's row: a shell that is filled when something is first asked of it."""
        event = cls.__new__(cls)
        event._source, event._row = source, row
        return event

    def __getattr__(self, name: str) -> Any:
        source = self._source
        if source is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "cpu_children":
            self.cpu_children: list[FunctionEvent] = source.children_of(self._row)
            return self.cpu_children
        if name == "cpu_parent":
            self.cpu_parent: FunctionEvent | None = source.parent_of(self._row)
            return self.cpu_parent
        if not vars(self).get("_filled"):
            self._filled = True
            for key, value in source.attributes_of(self._row).items():
                vars(self).setdefault(key, value)
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        """Pickled as what it holds, without the recording it came from and without its relatives."""
        held = {**(self._source.attributes_of(self._row) if self._source is not None else {}), **vars(self)}
        held = {key: value for key, value in held.items() if key not in ("_source", "_row", "_filled")}
        return (_restored, ({**held, "cpu_children": [], "cpu_parent": None},))

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """A kernel that this call launched."""
        self._on_cpu(self)
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """An event directly within this one."""
        self._on_cpu(self, child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """The event directly around this one."""
        self._on_cpu(self, parent)
        self.cpu_parent = parent

    @staticmethod
    def _on_cpu(*events: Any) -> None:
        for event in events:
            if not isinstance(event, FunctionEvent) or event.device_type != DeviceType.CPU:
                raise AssertionError(f"expected an event of the CPU, got {event!r}")

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes taken by this event, without those within it."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes of the device taken by this event, without those within it."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def cpu_time_total(self) -> float:
        """Microseconds of the CPU, with all within."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the CPU, without the events within."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:
        """Microseconds of the device, with all within."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type == DeviceType.CPU:
            launched = sum(kernel.duration for kernel in self.kernels)
            return launched if self.is_legacy else launched + sum(c.device_time_total for c in self.cpu_children)
        if self.device_type not in ON_A_DEVICE:
            raise AssertionError(f"{self.name}: expected a device that is profiled, got {self.device_type}")
        return self.time_range.elapsed_us()

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of the device for what this event launched itself."""
        if self.is_async or not self.use_device or self.device_type != DeviceType.CPU:
            return self.device_time_total
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def key(self) -> str:
        """The name under which it is grouped."""
        return self.name

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage} "
            f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} "
            f"is_legacy={self.is_legacy}>"
        )


def _restored(held: dict[str, Any]) -> FunctionEvent:
    event = FunctionEvent.__new__(FunctionEvent)
    vars(event).update(held)
    return event


class FunctionEventAvg(FormattedTimesMixin):
    """Several events of one key added up: totals, their number, and what the first of them was."""

    _source: EventSource | None = None

    def __init__(self) -> None:
        self.key: str | None = None
        self.count: int = 0
        self.node_id: int = 0
        self.is_async: bool = False
        self.is_remote: bool = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage: int = 0
        self.device_memory_usage: int = 0
        self.self_cpu_memory_usage: int = 0
        self.self_device_memory_usage: int = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type: DeviceType = DeviceType.CPU
        self.is_legacy: bool = False
        self.flops: int = 0

    @classmethod
    def of_totals(cls, source: EventSource, first: int, totals: dict[str, Any]) -> FunctionEventAvg:
        """The average that a recording's rows add up to; `first` is the row whose relatives it has."""
        event = cls.__new__(cls)
        vars(event).update(totals, _source=source, _first=first)
        return event

    def __getattr__(self, name: str) -> Any:
        source = self._source
        if source is not None and name in ("cpu_children", "cpu_parent"):
            first = self._first
            self.cpu_children, self.cpu_parent = source.children_of(first), source.parent_of(first)
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        held = {key: value for key, value in vars(self).items() if key not in ("_source", "_first")}
        return {**held, "cpu_children": None, "cpu_parent": None}

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add one more event of the same key. Refuses (AssertionError) another key, and what is no event."""
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"expected a FunctionEvent or a FunctionEventAvg, got {type(other).__name__}")
        if self.key is None:
            for name in ("key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name",
                         "input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device",
                         "is_user_annotation"):
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError(f"expected an event of {self.key}, got one of {other.key}")
        for name in ("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
                     "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
                     "count"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if self.flops is None:
            self.flops = other.flops
        elif other.flops is not None:
            self.flops += other.flops
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class StringTable(defaultdict):
    """Names as they are shown, by their raw form: those of C++ functions readable."""

    def __missing__(self, key: str) -> str:
        self[key] = demangled(key)
        return self[key]


class MemRecordsAcc:
    """Finds, among records of memory `[event, ...]`, those within a stretch of time; events have `start_ns()`."""

    def __init__(self, mem_records: list) -> None:
        ordered = sorted((record[0].start_ns(), at) for at, record in enumerate(mem_records))
        self._mem_records = mem_records
        self._start_nses = [start for start, _ in ordered]
        self._indices = [at for _, at in ordered]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records from `start_ns` to `end_ns`, both included, in the order of time."""
        for at in range(bisect_left(self._start_nses, start_ns), bisect_right(self._start_nses, end_ns)):
            yield self._mem_records[self._indices[at]]
