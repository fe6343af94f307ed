"""Shares of long sweeps: which cases a run takes, and that every case has its turn."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import shares

NAMES = [f"op{i}" for i in range(90)]


def test_a_share_is_one_in_so_many_and_the_same_each_time() -> None:
    found = shares.chosen(NAMES, 4, "1")
    assert len(found) == 23 and found == shares.chosen(NAMES[::-1], 4, "1")
    assert shares.chosen(NAMES, 4, shares.ALL) == set(NAMES)
    assert shares.chosen(["alone"], 9, "1") == {"alone"}


def test_every_case_has_its_turn() -> None:
    turns = [shares.chosen(NAMES, 4, str(turn)) for turn in range(60)]
    assert len({frozenset(turn) for turn in turns}) == 60 and set().union(*turns) == set(NAMES)


def test_the_turn_is_another_when_a_source_changes(tmp_path: Path) -> None:
    source = tmp_path / "rushlight" / "base" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1\n")
    before = shares.turn_of_the_tree(tmp_path)
    assert shares.turn_of_the_tree(tmp_path) == before
    source.write_text("x = 2\n")
    changed = shares.turn_of_the_tree(tmp_path)
    source.rename(source.with_name("b.py"))
    assert len({before, changed, shares.turn_of_the_tree(tmp_path)}) == 3


def config(turn: str | None = None, keyword: str = "", args: tuple[str, ...] = ("tests",)) -> Any:
    option = SimpleNamespace(turn=turn, keyword=keyword)
    return SimpleNamespace(option=option, args=list(args), getoption=lambda name: getattr(option, name.lstrip("-")))


def case(test: str, n: int, of: int | None, *group: str) -> Any:
    mark = None if of is None else SimpleNamespace(args=(of, *group))
    return SimpleNamespace(nodeid=f"t.py::{test}[{n}]", get_closest_marker=lambda name: mark)


@pytest.mark.parametrize("turn, left", [("7", 8 + 3), (shares.ALL, 0)])
def test_only_marked_cases_are_left_out(turn: str, left: int) -> None:
    whole = [case("test_whole", n, None) for n in range(9)]
    items = [*whole, *(case("test_a", n, 3) for n in range(12)), *(case("test_b", n, 2) for n in range(6))]
    found = shares.left_out(config(turn), items)
    assert len(found) == left and not any(item in found for item in whole)


def test_tests_that_name_a_group_share_as_one() -> None:
    alone = [case(f"test_{n}", 0, 2) for n in range(6)]
    together = [case(f"test_{n}", 0, 2, "of ranks") for n in range(6)]
    assert not shares.left_out(config("7"), alone) and len(shares.left_out(config("7"), together)) == 3


@pytest.mark.parametrize("given, turn", [
    (config(), None), (config("5"), "5"), (config(keyword="conv"), "all"),
    (config(args=("tests/a.py::test_b",)), "all"), (config("5", "conv"), "5"),
])
def test_what_decides_the_turn(given: Any, turn: str | None) -> None:
    assert shares.Turns(given).turn == (turn or shares.turn_of_the_tree()) == given.getoption("--turn")


def test_the_fixture_keeps_the_order(share: Any) -> None:
    found = share(NAMES, 3)
    assert found == sorted(found, key=NAMES.index) and len(found) in (30, 90)   # 90 where the test was named
