"""`torch.cuda._memory_viz`: what snapshots of a device's memory say, as text, as flame graphs and as pages.

Enters: snapshots (`cuda.memory._snapshot()`, its pickles, and PyTorch's), profiles with memory. Leaves: `segsum` and
`trace` as text; `memory`, `segments` and `compare` as flame graphs in SVG, or as the collapsed stacks they are drawn
from; `trace_plot`, `segment_plot` and `profile_plot` as pages that need no network. On a command line:

    python -m rushlight.cuda._memory_viz stats|trace|segments|memory snapshot.pickle
    python -m rushlight.cuda._memory_viz compare before.pickle after.pickle
    python -m rushlight.cuda._memory_viz trace_plot|segment_plot snapshot.pickle -o page.html

Files are read as plain data: a pickle that would run something is refused (`pickle.UnpicklingError`), and so is one
that holds no snapshot (`ValueError`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..serialization.restricted import Unpickler
from .flame_graph import flame_graph
from .profiled_memory import snapshot_of
from .snapshot_page import page_of

__all__ = ["Bytes", "calc_active", "compare", "filter_alloc_free_pairs", "format_flamegraph", "memory", "profile_plot",
           "segment_plot", "segments", "segsum", "trace", "trace_plot"]

Snapshot = dict[str, Any]
PAGE_SIZE = 20 << 20                    # bytes of a letter in `segsum`
NAMELESS = ("<non-python>", "<no-context>")
UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi")
# Frames that every allocation has: those of the interpreter and of the core's own unwinding.
HIDDEN_NAMES = ("unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main",
                "PyEval_", "PyObject_", "PyFunction_")
HIDDEN_FILES = ("core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c",
                "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")


class Bytes:
    """A number of bytes that prints itself as people read it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, rhs: float) -> Bytes:
        return Bytes(self.value + rhs)

    def __repr__(self) -> str:
        number = self.value
        for unit in UNITS:
            if abs(number) < 1024:
                return f"{number:3.1f}{unit}B"
            number /= 1024
        return f"{number:.1f}YiB"


# --- blocks as collapsed stacks ---------------------------------------------------------------------------------------


def frame_names(frames: Iterable[dict[str, Any]]) -> list[str]:
    """Frames as `file:line:function`, in their order, without those that say nothing of the program."""
    return [
        f"{frame['filename'].rsplit('/', 1)[-1]}:{frame['line']}:{frame['name']}"
        for frame in frames
        if not any(part in frame["name"] for part in HIDDEN_NAMES)
        and not any(part in frame["filename"] for part in HIDDEN_FILES)
    ]


def parts_of(block: dict[str, Any]) -> Iterator[tuple[list[dict[str, Any]] | None, int]]:
    """(frames, bytes asked for) of a block; several where an old snapshot has a history; None: nobody noted frames."""
    if "history" in block:
        for entry in block["history"]:
            yield entry.get("frames"), entry["real_size"]
    elif "frames" in block:
        yield block["frames"], block["requested_size"]
    else:
        yield [], block.get("requested_size", block["size"])


def asked_for(block: dict[str, Any]) -> int:
    """Bytes that the program asked for, of a block in use."""
    return next(parts_of(block))[1]


def collapsed(prefix: str, blocks: Iterable[dict[str, Any]]) -> str:
    """A line for each stack with the bytes under it, as flame graphs are made from."""
    lines = []
    for block in blocks:
        left = block["size"]
        for frames, size in parts_of(block):
            names = ";".join(frame_names(frames[::-1])) if frames else NAMELESS[frames is None]
            lines.append(f"{prefix};{block['state']};{names} {size}\n")
            left -= size
        if left:
            lines.append(f"{prefix};{block['state']};<gaps> {left}\n")
    return "".join(lines)


def format_flamegraph(flamegraph_lines: str, flamegraph_script: str | None = None) -> str:
    """The flame graph of collapsed stacks, an SVG. With a script, which is given the lines, what that prints."""
    if flamegraph_script is None:
        return flame_graph(flamegraph_lines)
    command = [flamegraph_script, "--countname", "bytes"]
    return subprocess.run(command, input=flamegraph_lines, capture_output=True, text=True, check=True).stdout


Formatter = Callable[[str], str]


def segments(snapshot: Snapshot, format_flamegraph: Formatter = format_flamegraph) -> str:
    """What each segment holds, by who asked for it."""
    return format_flamegraph("".join(
        collapsed(f"stream_{s['stream']};seg_{s['address']}", s["blocks"]) for s in snapshot["segments"]))


def memory(snapshot: Snapshot, format_flamegraph: Formatter = format_flamegraph) -> str:
    """What is held in all, by who asked for it."""
    return format_flamegraph("".join(
        collapsed(f"stream_{s['stream']}", s["blocks"]) for s in snapshot["segments"]))


def compare(before: Any, after: Any, format_flamegraph: Formatter = format_flamegraph) -> str:
    """Segments that only one of two snapshots has. Takes snapshots or their lists of segments; prints addresses."""
    both = [one["segments"] if isinstance(one, dict) else one for one in (before, after)]
    known = [{(segment["address"], segment["total_size"]) for segment in one} for one in both]
    lines = []
    for label, here, mine, others in (("only_before", both[0], known[0], known[1]),
                                      ("only_after", both[1], known[1], known[0])):
        print(f"{label} = {[address for address, _ in mine - others]}")
        for segment in here:
            if (segment["address"], segment["total_size"]) not in others:
                where = f"{label};stream_{segment['stream']};seg_{segment['address']}"
                lines.append(collapsed(where, segment["blocks"]))
    return format_flamegraph("".join(lines))


# --- texts ------------------------------------------------------------------------------------------------------------

LEGEND = f"""
Legend: a line is a segment, a letter in it {Bytes(PAGE_SIZE)}.
    a-z: one block lies there, another letter another block
    0-9: several do; how full it is, in tenths (*: all of it)
    ' ': nothing does
    (X% internal): the share of free memory that is there because sizes of blocks were rounded up
"""


def calc_active(seg: dict[str, Any]) -> int:
    """Bytes of a segment's blocks that are in use."""
    return sum(block["size"] for block in seg["blocks"] if block["state"] == "active_allocated")


def _free(between: int, within: int) -> str:
    whole = between + within
    return f"{Bytes(whole)}" + (f" ({100 * within / whole:.1f}% internal)" if whole else "")


def _pages(segment: dict[str, Any]) -> str:
    """A letter for each page of a segment, by the blocks in use there."""
    count = -(-segment["total_size"] // PAGE_SIZE)
    marks, full, offset, number = [" "] * count, [0.0] * count, 0, 0
    for block in segment["blocks"]:
        if block["state"] == "active_allocated":
            begin, end = offset, offset + asked_for(block)
            for page in range(begin // PAGE_SIZE, -(-end // PAGE_SIZE)):
                inside = min(end, (page + 1) * PAGE_SIZE) - max(begin, page * PAGE_SIZE)
                full[page] += inside / PAGE_SIZE
                alone = marks[page] == " "
                marks[page] = chr(ord("a") + number % 26) if alone else "0123456789*"[int(full[page] * 10)]
            number += 1
        offset += block["size"]
    return "".join(marks)


def segsum(data: Snapshot) -> str:
    """How segments are filled, a line for each large one, then sums. Free memory is that between blocks ("external")
    and what rounding added to them ("internal")."""
    lines = [f"Summary of segments >= {Bytes(PAGE_SIZE)} in size\n"]
    reserved = used = outside = inside = 0
    for segment in sorted(data["segments"], key=lambda s: (s["total_size"], calc_active(s))):
        active = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
        asked = sum(asked_for(block) for block in active)
        rounding = sum(block["size"] for block in active) - asked
        between = sum(block["size"] for block in segment["blocks"]) - asked - rounding
        if between + rounding + asked != segment["total_size"]:
            raise AssertionError(f"segsum: the segment at {segment['address']} has {segment['total_size']} bytes,"
                                 f" its blocks have {between + rounding + asked}")
        reserved, used = reserved + segment["total_size"], used + asked
        outside, inside = outside + between, inside + rounding
        if segment["total_size"] >= PAGE_SIZE:
            stream = f" stream_{segment['stream']}" if segment["stream"] else ""
            lines.append(f"[{_pages(segment)}] {Bytes(segment['total_size'])} allocated,"
                         f" {_free(between, rounding)} free{stream}\n")
    lines += [f"segments: {len(data['segments'])}\n", f"total_reserved: {Bytes(reserved)}\n",
              f"total_allocated: {Bytes(used)}\n", f"total_free: {_free(outside, inside)}\n", LEGEND]
    return "".join(lines)


class _Teller:
    """The events of a trace as statements. Every block and segment gets a name, which it keeps."""

    def __init__(self, held: list[dict[str, Any]]) -> None:
        self.held = held
        self.named = 0
        self.blocks: dict[int, str] = {}
        self.made: list[tuple[str, int, int]] = []       # segments of the trace itself

    def name(self) -> str:
        round_, letter = divmod(self.named, 26)
        self.named += 1
        return chr(ord("a") + letter) + (str(round_) if round_ else "")

    def place(self, address: int) -> str:
        """Where a block is: a segment and the offset there."""
        known = [*self.made, *((f"seg_{number}", s["address"], s["allocated_size"])
                               for number, s in enumerate(self.held))]
        for name, begin, size in known:
            if begin <= address < begin + size:
                return f"{name}[{address - begin}:"
        return f"MEM[{address}:"

    def segment(self, address: int) -> str | int:
        return next((name for name, begin, _ in reversed(self.made) if begin == address), address)

    def line(self, event: dict[str, Any]) -> str:
        action, size, address = event["action"], Bytes(event.get("size", 0)), event.get("addr", 0)
        if action == "alloc":
            name, place = self.name(), self.place(address)
            self.blocks[address] = name
            return f"{name} = {place}{size}]"
        if action == "free_requested":
            return f"del {self.blocks.get(address, address)} # {size}"
        if action == "free_completed":
            return f"# free completed for {self.blocks.get(address, address)} {size}"
        if action == "segment_alloc":
            self.made.append((self.name(), address, event["size"]))
            return f"{self.made[-1][0]} = cudaMalloc({address}, {size})"
        if action == "segment_free":
            return f"cudaFree({self.segment(address)}) # {size}"
        if action == "oom":
            return f"raise OutOfMemoryError # {size} requested, {Bytes(event['device_free'])} free in CUDA"
        return str(event)


def _last_number(events: list[dict[str, Any]]) -> int:
    """What PyTorch prints as the total, for those who compare: the last event's number and its own bytes, not a sum."""
    signs = {"alloc": 1, "free_completed": -1}
    return len(events) - 1 + signs.get(events[-1]["action"], 0) * events[-1].get("size", 0)


def trace(data: Snapshot) -> str:
    """The events of each device's trace in the manner of Python: `a = b[0:2.0MiB]`, `del a`, `b = cudaMalloc(...)`."""
    text = []
    for number, events in enumerate(data["device_traces"]):
        if events:
            teller = _Teller(data["segments"])
            told = "".join(f"{teller.line(event)}\n" for event in events)
            text.append(f"Device {number} ----------------\n{len(events)} entries\n{told}"
                        f"TOTAL MEM: {Bytes(_last_number(events))}")
    return "".join(text)


# --- pages ------------------------------------------------------------------------------------------------------------


def filter_alloc_free_pairs(data: Snapshot) -> Snapshot:
    """Takes out of the traces, in place, what was taken and given back within them."""
    for number, events in enumerate(data["device_traces"]):
        taken: dict[int, int] = {}
        requested: set[int] = set()
        gone: set[int] = set()
        for at, event in enumerate(events):
            action, address = event["action"], event.get("addr")
            if action == "alloc":
                taken[address] = at
            elif action == "free_requested":
                requested.add(address)
                if address in taken:
                    gone |= {at, taken.pop(address)}
            elif action == "free_completed":
                if address in requested:
                    requested.discard(address)
                    gone.add(at)
                else:
                    print(f"free_completed without free_requested: {event}")
        data["device_traces"][number] = [event for at, event in enumerate(events) if at not in gone]
    return data


def _page(data: Snapshot, view: str, device: Any) -> str:
    if device is not None:
        warnings.warn("_memory_viz: device is deprecated and changes nothing: a page has all devices", FutureWarning,
                      stacklevel=3)
    return page_of(data, view)


def trace_plot(data: Snapshot, device: Any = None, plot_segments: bool = False, filter_freed: bool = False) -> str:
    """A page: memory in use over the events of a trace, each block a band; of segments with `plot_segments`, without
    what was given back again with `filter_freed`."""
    if filter_freed:
        data = filter_alloc_free_pairs(data)
    return _page(data, "Active Cached Memory Timeline" if plot_segments else "Active Memory Timeline", device)


def segment_plot(data: Snapshot, device: Any = None) -> str:
    """A page: how segments are filled, at each event of a trace."""
    return _page(data, "Allocator State History", device)


def profile_plot(profile: Any, device: Any = None) -> str:
    """A page: memory in use over time as a profile with `profile_memory=True` (and `record_shapes`, `with_stack`) saw
    it; the host's is the last device."""
    return _page(snapshot_of(profile), "Active Memory Timeline", device)


# --- the command line -------------------------------------------------------------------------------------------------


def _no_storages(name: Any) -> Any:
    raise ValueError(f"_memory_viz: a snapshot is plain data, this file refers to {name!r}")


def read(name: str) -> Snapshot:
    """A snapshot from a pickle, or from the standard input where the name is `-`."""
    data = Unpickler(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes(), 0, _no_storages).load()
    if isinstance(data, list):      # segments alone
        data = {"segments": data, "device_traces": []}
    if not isinstance(data, dict) or not isinstance(data.get("segments"), list):
        raise ValueError(f"_memory_viz: {name} holds no snapshot of memory")
    return data


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    pickled = "a snapshot, as cuda.memory._dump_snapshot writes it"
    found = argparse.ArgumentParser("_memory_viz", description="Looks at snapshots of a device's memory.")
    actions = found.add_subparsers(dest="action", required=True)
    for name, what in {
        "stats": "prints how segments are filled", "trace": "prints the events of a snapshot",
        "segments": "draws a flame graph of each segment's blocks", "memory": "draws a flame graph of all blocks",
        "compare": "draws a flame graph of segments that only one of two snapshots has",
        "trace_plot": "writes a page of memory in use over the events",
        "segment_plot": "writes a page of segments over the events",
    }.items():
        action = actions.add_parser(name, description=what, help=what)
        for given in ("before", "after") if name == "compare" else ("input",):
            action.add_argument(given, help=pickled)
        if name in ("segments", "memory", "compare"):
            action.add_argument("-o", "--output", default="output.svg", help="the picture (output.svg)")
        if name.endswith("plot"):
            action.add_argument("-d", "--device", type=int, default=None, help="nothing: pages have all devices")
            action.add_argument("-o", "--output", default="output.html", help="the page (output.html)")
        if name == "trace_plot":
            action.add_argument("-s", "--segments", action="store_true", help="segments, not blocks")
            action.add_argument("-f", "--filter_freed", action="store_true", help="only what was not given back")
    return found


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    given = parser().parse_args(arguments)
    if given.action == "compare":
        Path(given.output).write_text(compare(read(given.before), read(given.after)))
        return
    data = read(given.input)
    if given.action in ("stats", "trace"):
        print({"stats": segsum, "trace": trace}[given.action](data))
    elif given.action in ("segments", "memory"):
        Path(given.output).write_text({"segments": segments, "memory": memory}[given.action](data))
    elif given.action == "trace_plot":
        page = trace_plot(data, device=given.device, plot_segments=given.segments, filter_freed=given.filter_freed)
        Path(given.output).write_text(page)
    else:
        Path(given.output).write_text(segment_plot(data, device=given.device))


if __name__ == "__main__":
    main()
