"""Where the code of an archive came from: its `.debug_pkl` files.

Enters: pickles of (offset, place of the original) rows, and places in an archive's code. Leaves: `Origins`, which finds
for a stretch of code the lines of the program it was compiled from. A file that cannot be read only costs the lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..source import Range, Source

FORMAT = "FORMAT_WITH_STRING_TABLE"


class Origins:
    """Starts of stretches of code, in order, and the place each comes from."""

    def __init__(self, starts: Sequence[int] = (), places: Sequence[Range | None] = ()) -> None:
        self._starts, self._places = starts, places

    def of(self, here: Range) -> Range:
        """The original of a stretch; the stretch itself where nothing is known."""
        at = bisect_right(self._starts, here.start) - 1
        found = self._places[at] if at >= 0 else None
        return here if found is None else found


def read_origins(held: Any, text: str) -> Origins:
    """The rows of a debug file. Offsets count bytes."""
    if isinstance(held, tuple) and len(held) == 3 and held[0] == FORMAT:
        table, rows = held[1], held[2]
    else:
        table, rows = None, held
    if not isinstance(rows, tuple):
        return Origins()
    sources: dict[Any, Source | None] = {}
    is_ascii = text.isascii()
    starts, places = [], []
    for row in rows:
        offset, place = row[0], row[1]
        starts.append(offset if is_ascii else len(text.encode()[:offset].decode("utf-8", "ignore")))
        places.append(_place(place, table, sources))
    return Origins(starts, places)


def _place(place: Any, table: Any, sources: dict[Any, Source | None]) -> Range | None:
    (words, name, first), start, end = place
    key = (tuple(words) if isinstance(words, list) else words, name, first)
    if key not in sources:
        sources[key] = _source(words, name, first, table)
    source = sources[key]
    return None if source is None or not 0 <= start <= end <= len(source.text) else Range(source, start, end)


def _source(words: Any, name: Any, first: Any, table: Any) -> Source | None:
    if table is not None:
        text = "".join(table[at] for at in words)
        name = table[name] if isinstance(name, int) else name
    else:
        text, name, first = words, name or "", first or 0
    is_sound = isinstance(text, str) and isinstance(name, str) and isinstance(first, int)
    return Source(text, name, first) if is_sound else None


# --- writing ----------------------------------------------------------------------------------------------------------


def written_origins(ranges: Sequence[tuple[int, Range | None]]) -> bytes:
    """The pickle of a debug file: a table of lines and file names, and for each stretch of code its place."""
    from .. import types as t
    from .pickler import Pickler

    table: dict[str, int] = {"": 0}
    sources: dict[int, tuple[Any, ...]] = {}
    tags: dict[Any, int] = {}
    rows = []
    nowhere = (([], 0, 0), 0, 0)
    before: Any = object()
    for offset, place in ranges:
        if place == before:
            continue
        before = place
        if place is None or not place.source.text:
            rows.append((offset, nowhere, 0))
            continue
        source = place.source
        if id(source) not in sources:
            lines = [table.setdefault(line, len(table)) for line in source.text.splitlines(keepends=True)]
            name = table.setdefault(source.filename or "", len(table))
            sources[id(source)] = (lines, name, source.first_line)
        rows.append((offset, (sources[id(source)], place.start, place.end), tags.setdefault(place, len(tags) + 1)))
    ints = t.ListType(t.IntType())
    source_type = t.TupleType([ints, t.IntType(), t.IntType()])
    row_type = t.TupleType([t.IntType(), t.TupleType([source_type, t.IntType(), t.IntType()]), t.IntType()])
    words, places = t.TupleType([t.StringType()] * len(table)), t.TupleType([row_type] * len(rows))
    whole = t.TupleType([t.StringType(), words, places])
    return Pickler().dumped((FORMAT, tuple(table), tuple(rows)), whole)
