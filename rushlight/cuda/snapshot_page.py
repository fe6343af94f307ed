"""The page on which a snapshot of memory is looked at: `snapshot_page.html` with the snapshot in it.

Enters: a snapshot and the view it opens with. Leaves: HTML that draws everything itself and asks no network. Stacks and
names are kept once each; addresses are texts, since a browser's numbers have too few digits for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VIEWS = ("Active Memory Timeline", "Active Cached Memory Timeline", "Allocator State History")


class Stacks:
    """Stacks and their frames, each once, by number."""

    def __init__(self) -> None:
        self.frames: dict[str, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {(): 0}

    def number(self, frames: list[dict[str, Any]]) -> int:
        """The number of a stack."""
        shown = (
            frame["name"] if frame["filename"] == "none" else f"{frame['filename']}:{frame['line']}:{frame['name']}"
            for frame in frames
        )
        stack = tuple(self.frames.setdefault(text, len(self.frames)) for text in shown)
        return self.stacks.setdefault(stack, len(self.stacks))


def frames_of(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Who asked for a block, innermost first; of old snapshots, for the last time."""
    return block.get("frames") or next((h["frames"] for h in block.get("history", ()) if "frames" in h), [])


def events_of(trace: list[dict[str, Any]], stacks: Stacks) -> list[list[Any]]:
    """[action, address, bytes, stream, stack, microseconds, what it was for] of each event."""
    return [
        [event["action"], str(event.get("addr", event.get("device_free", 0))), event.get("size", 0),
         event.get("stream", 0), stacks.number(event.get("frames") or []), event.get("time_us", 0),
         event.get("category", "") or event.get("user_metadata", "")]
        for event in trace
    ]


def segments_of(found: list[dict[str, Any]], stacks: Stacks) -> list[dict[str, Any]]:
    """Segments with their blocks, which follow each other without gaps: [address, bytes, asked for, state, stack]."""
    made = []
    for segment in found:
        blocks, address = [], segment["address"]
        for block in segment["blocks"]:
            asked = block.get("requested_size", block["size"])
            blocks.append([str(address), block["size"], asked, block["state"], stacks.number(frames_of(block))])
            address += block["size"]
        made.append({"address": str(segment["address"]), "size": segment["total_size"], "stream": segment["stream"],
                     "blocks": blocks, "stack": stacks.number(segment.get("frames") or [])})
    return made


def page_of(data: dict[str, Any], view: str) -> str:
    """The page. Refuses (ValueError) a view that it does not have."""
    if view not in VIEWS:
        raise ValueError(f"memory page: views are {', '.join(VIEWS)}, got {view!r}")
    stacks, traces = Stacks(), data.get("device_traces") or []
    used = {segment.get("device", 0) for segment in data["segments"]}
    devices = [
        {"device": number,
         "trace": events_of(traces[number], stacks) if number < len(traces) else [],
         "segments": segments_of([s for s in data["segments"] if s.get("device", 0) == number], stacks)}
        for number in range(max(len(traces), max(used, default=-1) + 1))
    ]
    held = {"view": view, "views": VIEWS, "devices": [d for d in devices if d["trace"] or d["segments"]],
            "frames": list(stacks.frames), "stacks": list(stacks.stacks)}
    text = json.dumps(held, separators=(",", ":")).replace("<", "\\u003c")      # no text ends the script
    return Path(__file__).with_suffix(".html").read_text(encoding="utf-8").replace("$SNAPSHOT", text)
