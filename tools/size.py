"""Print how many lines each room has, and what it may have: where the package grows, and how far it is from its plan.

Enters: the source tree. Leaves: a table on stdout, largest first, with the ceilings of tools/check_layers.py, which
refuses a room that is over its own.

    python tools/size.py            rooms directly below the package, and csrc
    python tools/size.py codegen    rooms within a room, one by one
"""

from __future__ import annotations

import sys

from check_layers import CEILINGS, PACKAGE, ROOT, SMALL_ROOM, lines_of, sizes


def within(room: str) -> dict[str, int]:
    """Lines of every folder below a room, its own files included."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / PACKAGE / room).rglob("*.py")):
        name = path.parent.relative_to(ROOT / PACKAGE).as_posix()
        found[name] = found.get(name, 0) + lines_of(path)
    return found


def main(arguments: list[str]) -> int:
    if arguments:
        if not (ROOT / PACKAGE / arguments[0]).is_dir():
            print(f"size: {PACKAGE}/{arguments[0]} is no room", file=sys.stderr)
            return 2
        for room, lines in sorted(within(arguments[0]).items(), key=lambda item: -item[1]):
            print(f"{lines:8,}  {room}")
        return 0
    found = sizes()
    print("   lines  ceiling  room")
    for room, lines in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{lines:8,} {CEILINGS.get(room, SMALL_ROOM):8,}  {room}")
    native = found.pop("csrc")
    print(f"{sum(found.values()):8,}           Python in all; C++ {native:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
