"""The runner of pages: order, one process, no network, an empty folder, exemptions, errors by the page's own lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import blocks  # noqa: E402


def run(folder: Path, text: str) -> blocks.Run:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return blocks.run_page(page, limit=60)


def test_blocks_share_names_and_print_each_for_itself(tmp_path: Path) -> None:
    done = run(tmp_path, "# A\n\n```python\nx = 1\nprint('a')\n```\n\ntext\n\n```python\nprint(x + 1)\n```\n")
    assert not done.error and done.printed == {3: "a\n", 10: "2\n"}


def test_the_folder_is_empty_and_goes(tmp_path: Path) -> None:
    text = "```python\nimport os\nprint(os.listdir())\nopen('f', 'w').write('x')\nprint(os.getcwd())\n```\n"
    listed, folder = run(tmp_path, text).printed[1].splitlines()
    assert listed == "[]" and not Path(folder).exists()


def test_exempt_blocks_do_not_run_and_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python norun\nraise SystemExit(3)\n```\n```python\nprint(1)\n```\n", encoding="utf-8")
    assert blocks.main([str(page)]) == 0
    assert "1 blocks, 1 exempt" in capsys.readouterr().out


def test_gpu_blocks_wait_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python gpu\nprint('card')\n```\n", encoding="utf-8")
    for there in (False, True):
        monkeypatch.setattr(blocks, "has_gpu", lambda there=there: there)
        assert blocks.run_page(page).printed == ({1: "card\n"} if there else {})


def test_an_error_names_the_page_and_its_line(tmp_path: Path) -> None:
    done = run(tmp_path, "one\n\ntwo\n\n```python\nx = 1\nassert x == 2, 'not two'\n```\n")
    assert 'page.md", line 7' in done.error and "AssertionError: not two" in done.error


def test_other_machines_cannot_be_reached(tmp_path: Path) -> None:
    text = (
        "```python\nimport socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 1)\nexcept OSError as error:\n"
        "    print(error)\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "print(bool(socket.create_connection(server.getsockname())))\n```\n"
    )
    assert run(tmp_path, text).printed[1] == "pages run offline, and 192.0.2.1 is another machine\nTrue\n"


def test_names_are_not_asked_of_other_machines(tmp_path: Path) -> None:
    text = (
        "```python\nimport socket\ntry:\n    socket.getaddrinfo('example.org', 80)\n"
        "except OSError as e:\n    print(e)\n```\n"
    )
    assert "offline" in run(tmp_path, text).printed[1]


def test_functions_of_a_page_have_their_source(tmp_path: Path) -> None:
    text = "```python\nimport inspect\n\n\ndef f():\n    return 1\n\n\nprint(inspect.getsource(f))\n```\n"
    assert run(tmp_path, text).printed[1] == "def f():\n    return 1\n\n"


def test_a_page_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nwhile True:\n    pass\n```\n", encoding="utf-8")
    assert "did not end within 1 s" in blocks.run_page(page, limit=1).error


def test_pages_say_what_they_need(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- needs: json no_such_module -->\n", encoding="utf-8")
    assert blocks.missing(page) == ["no_such_module"]


def test_every_page_of_docs_is_found() -> None:
    names = {page.name for page in blocks.pages()}
    assert {"fx.md", "compile.md", "01_compile.md"} <= names
