"""Several recordings, one after the other, as one.

Enters: recordings as `_extras.profile_stop` gives them. Leaves: one such, whose rows are ordered as theirs are: by
thread, then by beginning. Names, arguments and threads that several have are there once.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts as one recording; a single one is itself."""
    if len(parts) == 1:
        return parts[0]
    names: dict[str, int] = {}
    threads: dict[tuple, int] = {}
    inputs: list[Any] = []
    calls: list[Any] = []
    sources: dict[tuple, int] = {}
    columns: list[dict[str, np.ndarray]] = []
    rows = 0
    for part in parts:
        own = {key: np.frombuffer(held, np.int64).copy() for key, held in part["columns"].items()}
        numbers = [names.setdefault(name, len(names)) for name in part["names"]]
        own["name"], own["module"] = renumbered(own["name"], numbers), renumbered(own["module"], [*numbers, -1])
        keys = [(native, name) for native, name, _ in part["threads"]]
        own["thread"] = renumbered(own["thread"], [threads.setdefault(key, len(threads)) for key in keys])
        own["inputs"][own["inputs"] >= 0] += len(inputs)
        own["parent"][own["parent"] >= 0] += rows
        places = [sources.setdefault(place, len(sources) + 1) for place in part["sources"]]
        own["source"] = renumbered(own["source"], [0, *places])
        inputs += part["inputs"]
        calls += part["calls"]
        rows += len(own["begin"])
        columns.append(own)
    whole = {key: np.concatenate([own[key] for own in columns]) for key in columns[0]}
    order = np.lexsort((whole["begin"], whole["thread"]))      # stable: parents stay before their children
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    whole = {key: column[order] for key, column in whole.items()}
    has_parent = whole["parent"] >= 0
    whole["parent"][has_parent] = place[whole["parent"][has_parent]]
    return {
        **parts[-1],
        "columns": {key: column.tobytes() for key, column in whole.items()},
        "names": list(names), "inputs": inputs, "calls": calls, "sources": sources,
        "threads": [(*key, number + 1) for key, number in threads.items()],
        "base": parts[0]["base"],
        "dropped": sum([part["dropped"] for part in parts]),
    }


def renumbered(column: np.ndarray, numbers: list[int]) -> np.ndarray:
    """Places in one list as places in another."""
    table = np.asarray(numbers, np.int64)
    return table[column] if len(table) else column
