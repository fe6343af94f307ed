"""The rooms of the package that pyproject.toml holds to be typed are clean under mypy, which is strict about them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools" / "check_types.py"


@pytest.mark.slow
def test_held_rooms_are_clean() -> None:
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, str(TOOL)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_a_held_room_must_say_its_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = {
        "def bare(x): return 2 * x": "no-untyped-def",
        "def half(x: int, y) -> int: return 2 * x": "no-untyped-def",
        "def missing(x: int = None) -> int: return 2 * x": "assignment",
        "def other(x: int) -> str: return 2 * x": "return-value",
        "_C.empty('two')": "call-arg",
        "_C.no_such_name": "attr-defined",
        "x: int = 1  # type: ignore": "unused-ignore",
    }
    (tmp_path / "room.py").write_text("\n".join(["from rushlight import _C", *wrong]))
    command = [sys.executable, str(TOOL), str(tmp_path / "room.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    for line, complaint in enumerate(wrong.values(), 2):
        assert re.search(rf"room.py:{line}: error: .*\[{complaint}\]", done.stdout), done.stdout + done.stderr


def test_parameters_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import check_types

    (tmp_path / "room.py").write_text(
        "class Room:\n"
        "    def enter(self, who: str, how: Any, *rest, key=1, **more: Any): ...\n"
        "    @staticmethod\n"
        "    def leave(who): ...\n"
        "def outside(x): return lambda y: y\n"
    )
    assert check_types.share_of(tmp_path / "room.py") == check_types.Share(parameters=7, vague=2, bare=4)


def test_held_rooms_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A room that moved must be listed by its new name: mypy would say nothing of an empty folder."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import check_types

    rooms = check_types.held_rooms()
    assert rooms and all((ROOT / room).is_file() or any((ROOT / room).rglob("*.py")) for room in rooms)
