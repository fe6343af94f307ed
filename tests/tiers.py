"""Which tests stand for all in the quick tier: a rule over what was collected; no list is kept by hand.

Nothing marked `slow` or `ecosystem` is in it, nor what takes long by a record of durations (`long.txt`, written by
`python -m tests.clock RECORD --note-long`). Every other test is, and one that is parametrised many times over is
represented by a few of its cases: enough that each value of every argument that takes few values occurs (each dtype,
each kind of check, but not each op), and `FEW` at the least. Which ones is decided by a checksum of their ids: the same
in every process and on every machine, no regular pattern that could miss a value for ever,
and a case added later moves no other out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import pytest

FEW = 2            # cases of one test that are kept in any case
MANY_VALUES = 6    # an argument with more different values is not covered value by value
LEFT_OUT = ("slow", "ecosystem")
NOTED = Path(__file__).with_name("long.txt")
LONG = frozenset(NOTED.read_text().splitlines()) if NOTED.exists() else frozenset()   # tests, without their cases
UNREPRESENTED = pytest.StashKey[set[str]]()


def family(item: pytest.Item) -> str:
    """The test that a case is one of: its id, less the part in brackets."""
    return item.nodeid.partition("[")[0]


def is_wanted(item: pytest.Item) -> bool:
    """Whether the quick tier is to have cases of this test."""
    return family(item) not in LONG and not any(map(item.get_closest_marker, LEFT_OUT))


def values(item: pytest.Item) -> dict[str, object]:
    """The arguments that a case was parametrised with, in a form that can be compared: plain values as they are,
    others by their place."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return {}
    return {
        name: value if isinstance(value, (str, int, float)) else f"#{spec.indices[name]}"
        for name, value in spec.params.items()
    }


def representatives(cases: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The cases of one test that stand for all of them."""
    order = sorted(cases, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))
    if len(order) <= FEW:
        return order
    taken: dict[str, set[object]] = defaultdict(set)
    for item in order:
        for name, value in values(item).items():
            taken[name].add(value)
    missing = {(name, value) for name, found in taken.items() if len(found) <= MANY_VALUES for value in found}
    found = []
    for item in order:
        brings = missing & set(values(item).items())
        if brings:
            missing -= brings
            found.append(item)
    rest = [item for item in order if item not in found]
    return found + rest[: max(0, FEW - len(found))]


def chosen(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The quick tier of what was collected."""
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if is_wanted(item):
            families[family(item)].append(item)
    return [item for cases in families.values() for item in representatives(cases)]


def quick(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """What a run of the quick tier leaves out; tests that it leaves out altogether, which are none, are noted."""
    kept = set(chosen(items))
    wanted = {family(item) for item in items if is_wanted(item)}
    config.stash[UNREPRESENTED] = wanted - {family(item) for item in kept}
    return [item for item in items if item not in kept]
