"""Which node of backward belongs to which forward call.

Enters: a log. Leaves: row -> (number of the arrow, whether it begins there). A node carries the sequence number and the
thread of the call that recorded it; of several calls within each other with one number, the innermost made the node.
"""

from __future__ import annotations

from .activities import Kind
from .recording import Log


def backward_links(log: Log) -> dict[int, tuple[int, bool]]:
    """The arrows of a recording, numbered in the order in which nodes of backward ran."""
    kind, sequence, thread = log.kind, log.sequence, log.thread
    if Kind.NODE not in kind:
        return {}
    ids = [number for _, _, number in log.threads]
    forward: dict[tuple[int, int], int] = {}       # (thread, sequence number) -> row; thread 0: whichever it was
    nodes = []
    for row in range(log.host_rows):
        if sequence[row] < 0:
            continue
        if kind[row] == Kind.NODE:
            nodes.append(row)
        elif kind[row] != Kind.EVALUATE and not log.forward_thread[row]:
            # rows are in the order of their beginning: the last one is the innermost
            forward[ids[thread[row]], sequence[row]] = forward[0, sequence[row]] = row
    nodes.sort(key=log.begin.__getitem__)
    links: dict[int, tuple[int, bool]] = {}
    for row in nodes:
        start = forward.get((log.forward_thread[row], sequence[row]))
        if start is not None and start not in links:
            number = len(links) // 2 + 1
            links[start], links[row] = (number, True), (number, False)
    return links


def outermost_calls(log: Log) -> dict[tuple[int, int], int]:
    """(thread, sequence number) -> the outermost call outside of backward with that number; thread 0: of any."""
    ids = [number for _, _, number in log.threads]
    found: dict[tuple[int, int], int] = {}
    for row in range(log.host_rows):
        number = log.sequence[row]
        if number >= 0 and log.kind[row] not in (Kind.NODE, Kind.EVALUATE):
            found.setdefault((ids[log.thread[row]], number), row)
            found.setdefault((0, number), row)
    return found
