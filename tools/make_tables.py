"""Write the tables of ops that a wheel ships, so that the first import of an installation is a quick one.

Enters: the native modules just built, and the sources of this tree. Leaves: one file, which the build installs as
rushlight/op/ops.tables. CMake runs this while a wheel is built; by hand:

    python tools/make_tables.py rushlight/_C.*.so rushlight/_extras.*.so ops.tables
    python tools/make_tables.py --check ops.tables          whether a file is of this tree's sources

The file holds a checksum of the sources that it was made from, and `rushlight.op.registry` takes it for these alone.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import marshal
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Built:
    """A finder: modules called `names` are these files, wherever they are."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        file = self.files.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


def make_tables(target: str) -> None:
    from rushlight.op import registry

    Path(target).write_bytes(registry.packed_tables(registry.content_identity()))


def is_current(file: str) -> bool:
    """Whether the file says of these sources what importing them says. (Equal tables may differ as bytes.)"""
    from rushlight.op import registry

    identity, data = registry.content_identity(), Path(file).read_bytes()
    return data.startswith(identity) and marshal.loads(data[len(identity) + 4 :]) == vars(registry.tables)


def main(arguments: list[str]) -> int:
    if len(arguments) != (2 if arguments[:1] == ["--check"] else 3):
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    sys.dont_write_bytecode = True   # nothing of a build stays in the source tree
    with tempfile.TemporaryDirectory() as empty:
        os.environ["RUSHLIGHT_CACHE"] = empty   # the tables come from the sources, not from an earlier process
        if arguments[0] == "--check":
            current = is_current(arguments[1])
            print(f"make_tables: {arguments[1]} is {'of these sources' if current else 'out of date'}")
            return int(not current)
        sys.meta_path.insert(0, Built({"rushlight._C": arguments[0], "rushlight._extras": arguments[1]}))
        make_tables(arguments[2])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
