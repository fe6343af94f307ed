"""Saving and loading: state dicts of 200 MB in one, 100 and 1000 tensors, and 2000 small ones.

Enters: the session's settings. Leaves: one section, each case at least as fast as torch, with what the machine needs
for the bytes alone: writing 200 MB to a new file, reading them into memory that is there, and copying them. Files lie
in the page cache; nothing waits for a disk on purpose, but a file system may start writing back by itself.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

STATES = {
    "1 x 200 MB": "{'weight': torch.ones(51200, 1024)}",
    "100 x 2 MB": "{f'layer{i}.weight': torch.ones(1024, 512) for i in range(100)}",
    "1000 x 200 KB": "{f'layer{i}.weight': torch.ones(256, 200) for i in range(1000)}",
    "2000 x 256 B": "{f'layer{i}.weight': torch.ones(64) for i in range(2000)}",
}
SETUP = """
import atexit, io, os, shutil, tempfile, warnings
warnings.simplefilter("ignore")
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, True)
path = os.path.join(folder, "state.pt")
state = {state}
torch.save(state, path{options})
"""
STATEMENTS = {
    "save": "torch.save(state, path)",
    "load": "torch.load(path)",
    "load, mmap": "torch.load(path, mmap=True)",
    "load, weights_only=False": "torch.load(path, weights_only=False)",
}
OTHERS = (
    Case("save to BytesIO, 100 x 2 MB", "torch.save(state, io.BytesIO())",
         SETUP.format(state=STATES["100 x 2 MB"], options="")),
    Case("load from BytesIO, 100 x 2 MB", "torch.load(file); file.seek(0)",
         SETUP.format(state=STATES["100 x 2 MB"], options="") + "file = io.BytesIO(open(path, 'rb').read())"),
    Case("load the older format, 100 x 2 MB", "torch.load(path)",
         SETUP.format(state=STATES["100 x 2 MB"], options=", _use_new_zipfile_serialization=False")),
)


def cases() -> tuple[Case, ...]:
    result = [
        Case(f"{name}, {state}", code, SETUP.format(state=build, options=""))
        for state, build in STATES.items()
        for name, code in STATEMENTS.items()
    ]
    return (*result, *OTHERS)


def fastest(run: Callable[[], None], turns: int) -> float:
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def floors(turns: int) -> list[str]:
    """What the machine needs for 200 MB alone."""
    data, target = bytearray(os.urandom(1 << 20)) * 200, bytearray(200 << 20)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "raw")

        def write() -> None:
            with open(path + ".new", "wb", buffering=0) as file:
                for at in range(0, len(data), 1 << 21):
                    file.write(memoryview(data)[at : at + (1 << 21)])
            os.replace(path + ".new", path)

        def read() -> None:
            with open(path, "rb", buffering=0) as file:
                file.readinto(target)

        def copy() -> None:
            memoryview(target)[:] = data

        found = {
            "write to a new file": fastest(write, turns),
            "read into memory": fastest(read, turns),
            "copy in memory": fastest(copy, turns),
        }
    return [
        f"floor of 200 MB, one thread, {name}: {seconds * 1e3:.0f} ms ({len(data) / seconds / 1e9:.1f} GB/s)"
        for name, seconds in found.items()
    ]


def run(session: Session) -> list[Section]:
    section = session.compare(Group("files", "Saving and loading state dicts", cases(), worst_bar=1.0))
    section.notes += floors(session.rounds)
    return [section]
