"""Write docs/rooms.md and docs/pictures/rooms.svg: the rooms (folders) of the package, and the data's way through them.

Enters: the docstrings and imports of the package, parsed by check_layers (nothing is imported or run), and the tables
below. Leaves: a page that says of every room what it is for, what enters and leaves, what it imports and what imports
it, and its lines. Refuses: a room whose docstring is missing or empty, and a row of the tables that names no room.

    python tools/draw_rooms.py            write both
    python tools/draw_rooms.py --check    say what is out of date instead, and exit with 1 if anything is
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import check_layers
from draw_pictures import Picture

PAGE = "docs/rooms.md"
PICTURE = "docs/pictures/rooms.svg"
# Lines are not kept to the digit, or every change would make the page old: this share may differ.
TOLERANCE = 0.1
NAMED = 12           # rooms listed by name before they are a number
LARGEST = 6          # files of a room whose docstring does not say what enters and leaves

# Folders that were to be moved or divided and were not, each with the reason. room -> why.
STAYED: dict[str, str] = {
    "definitions": "`exported`, `internal` and `foreach` stay loose: they spell ops of every family for others (graphs,"
    " PyTorch's own Python code, lists of tensors) and belong to none.",
    "export": "`functional` rewrites writes on ATen's overloads, with a table of inverses of its own, where all others"
    " use `dispatch/levels/functionalize`: joining it means to trace programs at a level, and to name its ops again.",
}

# The data's way, for the picture: rows of (room, what it hands on). Each box hands on to the next of its row; the last
# boxes of EAGER and COMPILED hand on to the first of SHARED.
EAGER: tuple[tuple[str, str], ...] = (
    ("tensors", "a call: x + y"),
    ("dispatch", "the call, if unusual"),
    ("definitions", "what the op means"),
    ("op", "a Lowered, a plan"),
    ("planners", "plans of libraries"),
)
COMPILED: tuple[tuple[str, str], ...] = (
    ("dynamo", "graph and guards"),
    ("fx", "the graph itself"),
    ("aot", "forward, backward"),
    ("inductor", "fused Lowereds"),
)
SHARED: tuple[tuple[str, str], ...] = (
    ("loops", "the loop language"),
    ("codegen/schedule", "loop nests"),
    ("codegen/llvm", "machine code"),
    ("codegen/stored", "the same, on disk"),
    ("devices", "launches"),
)


@dataclass
class Room:
    """One folder: its own files, its docstring in parts, and the rooms its files import."""

    name: str                                   # "codegen/schedule"; "" for the package itself
    docstring: str
    files: list[tuple[int, str, str]] = field(default_factory=list)      # lines, name, first sentence
    lines: int = 0
    imports: set[str] = field(default_factory=set)
    rank: int = 0                               # of its lowest layer

    @property
    def top(self) -> str:
        return self.name.partition("/")[0]

    def part(self, word: str) -> str:
        """The sentence of the docstring after `Enters:` and its like."""
        found = re.search(rf"\b{word}:\s(.*?)(?=\s*\b(?:Enters|Leaves|Refuses):|\n\s*\n|\Z)", self.docstring, re.DOTALL)
        return first_sentence(found[1]) if found else ""


def first_sentence(text: str) -> str:
    """The first paragraph up to its first full stop."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[^.\s])\.(?:\s|$)", paragraph)[0].rstrip(":")


def room_of(module: str, sources: dict[str, check_layers.Source]) -> str | None:
    """The room a module is in, as a path below the package; None for what is no file of the package."""
    source = sources.get(module)
    if source is None:
        return None
    return "/".join(source.package.split(".")[1:])


def read_rooms(tree: check_layers.Tree) -> dict[str, Room]:
    """Every room by name. A folder of files without __init__.py is a room without a docstring."""
    rooms: dict[str, Room] = {}
    for module, source in tree.sources.items():
        name = "/".join(source.path.parent.relative_to(check_layers.ROOT / check_layers.PACKAGE).parts)
        room = rooms.setdefault(name, Room(name, "", rank=len(check_layers.LAYERS)))
        docstring = ast.get_docstring(source.tree) or ""
        lines = source.path.read_text(encoding="utf-8").count("\n")
        room.lines += lines
        if source.path.name == "__init__.py":
            room.docstring = docstring
        else:
            room.files.append((lines, source.path.name, first_sentence(docstring)))
        room.rank = min(room.rank, check_layers.RANK.get(check_layers.layer_of(module), room.rank))
        for entry in tree.imports_of(source):
            target = room_of(entry.target, tree.sources)
            if target is not None and target != name:
                room.imports.add(target)
    return rooms


def refusals(rooms: dict[str, Room]) -> Iterator[str]:
    """What keeps the page from being written, a line each."""
    for room in rooms.values():
        if not room.docstring.strip():
            yield f"{check_layers.PACKAGE}/{room.name}: its __init__.py has no docstring. Say what the room is for."
    tables = {"STAYED": STAYED, "EAGER": dict(EAGER), "COMPILED": dict(COMPILED), "SHARED": dict(SHARED)}
    for table, rows in tables.items():
        for name in rows:
            if name not in rooms:
                yield f"tools/draw_rooms.py: {table} names {name}, which is no room"


def listed(names: set[str]) -> str:
    """Some rooms as text: all of them if they are few."""
    if not names:
        return "none"
    shown = sorted(name or check_layers.PACKAGE for name in names)
    return ", ".join(shown) if len(shown) <= NAMED else f"{len(shown)} rooms"


def seen_from(room: Room, others: set[str]) -> set[str]:
    """Other rooms as a room within a folder sees them: neighbours by their place there, the rest by their folder."""
    return {
        name.partition("/")[0] if name.partition("/")[0] != room.top
        else name.removeprefix(room.top + "/") if name != room.top
        else "its folder"
        for name in others
    }


def describe(room: Room) -> Iterator[str]:
    """What enters and leaves, if the docstring says so; if not, what the room's largest files say of themselves."""
    parts = [(word, room.part(word)) for word in ("Enters", "Leaves", "Refuses")]
    told = [f"- **{word}**: {text}." for word, text in parts if text]
    if told:
        yield from told
        return
    largest = sorted(sorted(room.files, reverse=True)[:LARGEST], key=lambda file: file[1])
    yield from (f"- `{name}`: {text}." for _, name, text in largest)
    if len(room.files) > LARGEST:
        yield f"- and {len(room.files) - LARGEST} smaller files."


def within(room: Room, rooms: dict[str, Room], users: dict[str, set[str]]) -> Iterator[str]:
    """The rooms inside of a room, a row each."""
    inner = [other for name, other in sorted(rooms.items()) if name.startswith(room.name + "/")]
    if not inner:
        return
    yield ""
    yield "| room inside | for | imports | imported by | lines |"
    yield "| --- | --- | --- | --- | --- |"
    for other in inner:
        told = [first_sentence(other.docstring) + "."]
        told += [f"{word}: {other.part(word)}." for word in ("Enters", "Leaves") if other.part(word)]
        imports, by = (listed(seen_from(other, names)) for names in (other.imports, users.get(other.name, set())))
        cells = ("`" + other.name.removeprefix(room.name + "/") + "`", " ".join(told), imports, by, f"{other.lines:,}")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def section(room: Room, rooms: dict[str, Room], users: dict[str, set[str]]) -> Iterator[str]:
    """One folder of the package with everything inside it."""
    inside = [other for name, other in rooms.items() if name == room.name or (room.name and other.top == room.name)]
    if not room.name:
        inside = [room]
    names = {other.name for other in inside}
    imports = {name.partition("/")[0] for other in inside for name in other.imports} - {room.name}
    by = {user.partition("/")[0] for name in names for user in users.get(name, set())} - {room.name}
    files = sum(len(other.files) + 1 for other in inside)
    yield f"## {room.name or check_layers.PACKAGE}"
    yield ""
    yield f"{first_sentence(room.docstring)}. {files} files, {sum(other.lines for other in inside):,} lines."
    yield ""
    yield from describe(room)
    yield f"- **Imports**: {listed(imports)}."
    yield f"- **Imported by**: {listed(by)}."
    if room.name:
        yield from within(room, rooms, users)
    yield ""


def page(rooms: dict[str, Room]) -> str:
    users: dict[str, set[str]] = {}
    for room in rooms.values():
        for target in room.imports:
            users.setdefault(target, set()).add(room.name)
    tops = sorted((room for room in rooms.values() if "/" not in room.name),
                  key=lambda room: (not room.name, room.rank, room.name))
    lines = [
        "# Rooms",
        "",
        "A room is a folder of `rushlight/`. `python tools/draw_rooms.py` makes this page from the docstrings and"
        " imports of the files, and a test fails when it is out of date. Do not edit it: edit the room's docstring.",
        "",
        f"![The data's way through the rooms]({PICTURE.removeprefix('docs/')})",
        "",
        "Rooms are listed from the bottom up, each at its lowest file. Imports point down and make no circles:"
        " `LAYERS` in `tools/check_layers.py` has the exact order. Where a lower room needs a higher one,"
        " `rushlight/wiring.py` hands it over.",
        "",
    ]
    for room in tops:
        lines += section(room, rooms, users)
    if STAYED:
        lines += ["## Rooms that stayed", "", "These were to be moved or divided, and are as they were:", ""]
        lines += [f"- `{name}`: {why}" for name, why in STAYED.items()] + [""]
    return "\n".join(lines).rstrip() + "\n"


def picture() -> str:
    """The two ways of a program, and what they share, as SVG."""
    wide, high, gap, left = 152, 62, 24, 24
    rows = (("A call, op by op", 30, EAGER), ("A compiled program", 150, COMPILED), ("Both", 290, SHARED))
    p = Picture(left * 2 + 5 * wide + 4 * gap, 390, "The data's way through the rooms")
    for title, top, boxes in rows:
        p.text(left, top, title, "small")
        for i, (room, hands_on) in enumerate(boxes):
            x = left + i * (wide + gap)
            p.box(x, top + 12, wide, high, room, hands_on, kind="box hot" if boxes is SHARED else "box")
            if i:
                p.arrow((x - gap, top + 12 + high / 2), (x, top + 12 + high / 2))
    into = [(left + wide / 2, 250), (left + wide / 2, 302)]
    for _, top, boxes in rows[:2]:
        last = left + (len(boxes) - 1) * (wide + gap) + wide / 2
        p.arrow((last, top + 12 + high), (last, 250), *into)
    return p.svg()


NUMBER = re.compile(r"(?<=[ |])\d[\d,]*(?= files,| lines\.| \|$)", re.MULTILINE)


def differs(old: str, new: str) -> bool:
    """Whether a page says something else; numbers of lines may differ a little."""
    if NUMBER.sub("", old) != NUMBER.sub("", new):
        return True
    pairs = ([int(text.replace(",", "")) for text in NUMBER.findall(side)] for side in (old, new))
    return any(abs(was - now) > max(50, TOLERANCE * now) for was, now in zip(*pairs, strict=True))


def main() -> int:
    rooms = read_rooms(check_layers.read_tree())
    problems = list(refusals(rooms))
    if problems:
        print("\n".join(problems))
        return 1
    made = {PAGE: page(rooms), PICTURE: picture()}
    old = []
    for name, text in made.items():
        path = check_layers.ROOT / name
        was = path.read_text(encoding="utf-8") if path.exists() else ""
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif differs(was, text):
            old.append(name)
            gone = next((line for line in text.splitlines() if line not in was.splitlines()), "")
            print(f"{name} is out of date: run python tools/draw_rooms.py. It would say: {gone[:200]}")
    print(f"draw_rooms: {len(rooms)} rooms" + (", all as the page says" if "--check" in sys.argv and not old else ""))
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
