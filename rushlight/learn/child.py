"""The child in which an answer runs: `python -m rushlight.learn.child ID FILE DESCRIPTOR`.

Enters: an exercise, a file, and the pipe that records go to, a line of JSON each. Leaves: those lines, the last of
which says that nothing was left out; the process ends without waiting for threads. Refuses: more memory, larger files
and deeper dumps than an exercise needs. What the answer prints goes elsewhere, and what it does to this process harms
only itself.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path

from . import catalogue, running

MEMORY = 2 << 30              # of private data, not of addresses: runtimes reserve many of those
FILE_SIZE = 256 << 20


def limit(kind: int, amount: int) -> None:
    """A limit of this process, no higher than the one it was given."""
    _, hard = resource.getrlimit(kind)
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(kind, (amount, amount))


def main(name: str, path: str, descriptor: int) -> None:
    # Held here, since an answer may replace or delete them.
    leave, write, dumps, alive, here = os._exit, os.write, json.dumps, threading.enumerate, threading.current_thread()
    try:
        limit(resource.RLIMIT_DATA, MEMORY)
        limit(resource.RLIMIT_FSIZE, FILE_SIZE)
        limit(resource.RLIMIT_CORE, 0)
        threading.excepthook = lambda wrong: None
        sys.unraisablehook = lambda wrong: None
        text = running.decoded(Path(path).read_bytes()[: running.TEXT_LIMIT])
        for record in running.records(catalogue.find(name), text, path):
            send(write, descriptor, dumps(record))
        left = [thread.name for thread in alive() if thread is not here and not thread.daemon]
        send(write, descriptor, dumps({"done": True, "left": left[:3]}))
    except BaseException:     # the answer broke what we need: its parent sees that a record is missing
        leave(1)
    leave(0)


def send(write: object, descriptor: int, text: str) -> None:
    data = memoryview(f"{text}\n".encode())
    while data:
        data = data[write(descriptor, data) :]  # type: ignore[operator]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
