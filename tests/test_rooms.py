"""docs/rooms.md says what the rooms are now; the tool that writes it refuses rooms that say nothing of themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SMALL_TREE = {
    "rushlight/__init__.py": '"""The package."""\n',
    "rushlight/loops/__init__.py": (
        '"""Loops. More about them.\n\nEnters: scalars,\ntraced. Leaves: nests. Then more.\nRefuses:\nthe rest.\n"""\n'
    ),
    "rushlight/codegen/__init__.py": '"""Machine code: from nests."""\nfrom rushlight.loops import nest\n',
    "rushlight/codegen/tiles/__init__.py": '"""Register tiles."""\n',
    "rushlight/codegen/tiles/strips.py": '"""Strips of tiles."""\nfrom ... import loops\n' + "x = 1\n" * 100,
}


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """The tool, pointed at a tree of a few files."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    for name in ("check_layers", "draw_pictures", "draw_rooms"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import check_layers
    import draw_rooms

    monkeypatch.setattr(check_layers, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["draw_rooms"])
    for table in ("EAGER", "COMPILED", "SHARED"):
        monkeypatch.setattr(draw_rooms, table, (("loops", "nests"),))
    monkeypatch.setattr(draw_rooms, "STAYED", {})
    for name, text in SMALL_TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield draw_rooms
    for name in ("check_layers", "draw_pictures", "draw_rooms"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_page_of_rooms_is_up_to_date(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import draw_rooms

    monkeypatch.setattr(sys, "argv", ["draw_rooms", "--check"])
    assert draw_rooms.main() == 0, capsys.readouterr().out


def test_a_room_says_what_enters_and_leaves_and_who_imports_it(rooms, tmp_path):
    assert rooms.main() == 0
    text = (tmp_path / "docs" / "rooms.md").read_text()
    of_loops = text.partition("## loops\n")[2].partition("\n## ")[0]
    assert "Loops. 1 files" in of_loops
    assert "- **Enters**: scalars, traced.\n- **Leaves**: nests.\n- **Refuses**: the rest.\n" in of_loops
    assert "- **Imports**: none.\n- **Imported by**: codegen." in of_loops
    assert "| `tiles` | Register tiles. | loops | none | 103 |" in text
    assert text.index("## loops") < text.index("## codegen") < text.index("## rushlight")


def test_a_room_without_a_docstring_is_refused(rooms, tmp_path, capsys):
    (tmp_path / "rushlight/codegen/tiles/__init__.py").write_text("x = 1\n")
    assert rooms.main() == 1
    assert "rushlight/codegen/tiles" in capsys.readouterr().out
    (tmp_path / "rushlight/codegen/tiles/__init__.py").unlink()
    assert rooms.main() == 1
    assert not (tmp_path / "docs" / "rooms.md").exists()


def test_rows_that_name_no_room_are_refused(rooms, monkeypatch, capsys):
    monkeypatch.setattr(rooms, "STAYED", {"moved_long_ago": "it resisted"})
    assert rooms.main() == 1
    assert "moved_long_ago" in capsys.readouterr().out


def test_rooms_that_stayed_are_listed_with_the_reason(rooms, monkeypatch, tmp_path):
    monkeypatch.setattr(rooms, "STAYED", {"codegen": "it resisted"})
    assert rooms.main() == 0
    assert "- `codegen`: it resisted" in (tmp_path / "docs" / "rooms.md").read_text()


@pytest.mark.parametrize("file, more, is_old", [
    ("rushlight/codegen/tiles/strips.py", "x = 2\n", False),                   # a line more: not worth a new page
    ("rushlight/codegen/tiles/strips.py", "x = 2\n" * 90, True),
    ("rushlight/codegen/tiles/strips.py", "import rushlight.codegen\n", True),
    ("rushlight/loops/record.py", '"""Records."""\nimport rushlight.codegen.tiles\n', True),
])
def test_a_page_that_says_something_else_is_out_of_date(rooms, monkeypatch, tmp_path, capsys, file, more, is_old):
    assert rooms.main() == 0
    monkeypatch.setattr(sys, "argv", ["draw_rooms", "--check"])
    assert rooms.main() == 0
    with (tmp_path / file).open("a") as out:
        out.write(more)
    assert rooms.main() == is_old
    assert ("rooms.md is out of date" in capsys.readouterr().out) == is_old
