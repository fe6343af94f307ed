"""The pages of the book keep their form, and their pictures are what the tree draws."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import blocks  # noqa: E402
import page_form  # noqa: E402
import page_pictures  # noqa: E402

PAIR = [(language, name) for name in page_form.chapters() for language in page_form.LANGUAGES]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one chapter, to break."""
    for language in page_form.LANGUAGES:
        (tmp_path / language / "pictures").mkdir(parents=True)
        for source in (page_form.BOOK / language).rglob("01_compile*"):
            (tmp_path / source.relative_to(page_form.BOOK)).write_bytes(source.read_bytes())
    monkeypatch.setattr(page_form, "BOOK", tmp_path)
    return tmp_path


def change(page: Path, old: str, new: str) -> None:
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("language", "name"), PAIR)
def test_a_chapter_keeps_the_form(language: str, name: str) -> None:
    assert page_form.faults_of_chapter(language, name) + page_form.faults_of_page(language, name) == []


@pytest.mark.parametrize("name", page_form.chapters())
def test_both_languages_have_the_same_code(name: str) -> None:
    assert page_form.faults_of_twins(name) == []


@pytest.mark.parametrize("language", page_form.LANGUAGES)
@pytest.mark.parametrize("name", page_form.PAGES)
def test_a_page_beside_the_chapters_is_whole(language: str, name: str) -> None:
    assert page_form.faults_of_page(language, name) == []


def test_chapters_have_numbers_of_their_own() -> None:
    numbers = [name[:2] for name in page_form.chapters()]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("x.sigmoid()", "x.tanh()", "differ by more than comments and strings"),
        ("](pictures/01_compile_bytes.svg)", "](pictures/gone.svg)", "the languages show different pictures"),
        ("```python\nimport contextlib", "```python norun\nimport contextlib", "differ by more than comments"),
    ],
)
def test_a_twin_that_differs_is_found(book: Path, old: str, new: str, fault: str) -> None:
    assert page_form.faults_of_twins("01_compile") == []
    change(book / "zh" / "01_compile.md", old, new)
    assert fault in str(page_form.faults_of_twins("01_compile"))


def test_a_twin_that_is_gone_is_found(book: Path) -> None:
    (book / "zh" / "01_compile.md").unlink()
    assert "is not there" in str(page_form.faults_of_twins("01_compile"))


def test_translated_strings_and_comments_are_no_difference(book: Path) -> None:
    change(book / "zh" / "01_compile.md", 'print("图的数目：", seen', 'print("共有", seen')
    change(book / "zh" / "01_compile.md", "assert refused", "assert refused      # 说到做到")
    assert page_form.faults_of_twins("01_compile") == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("## Summary", "## In short", "no heading"),
        ("learn start compile.2", "learn start other.2", "exercise compile.2 is not named"),
        ("`docs/life_of_compile.py`", "`docs/life_of_nobody.py`", "not in the tree"),
        ("pictures/01_compile_bytes.svg", "pictures/gone.svg", "is not there"),
        ("assert ", "print ", "assertions"),
        ("(", "", "words of prose"),
    ],
)
def test_a_broken_page_is_found(book: Path, old: str, new: str, fault: str) -> None:
    page = book / "en" / "01_compile.md"
    assert page_form.faults_of_chapter("en", "01_compile") + page_form.faults_of_page("en", "01_compile") == []
    if old == "(":
        page.write_text("# Short\n", encoding="utf-8")
    elif old == "assert ":
        page.write_text(page.read_text(encoding="utf-8").replace("\nassert ", "\n"), encoding="utf-8")
    else:
        change(page, old, new)
    found = page_form.faults_of_chapter("en", "01_compile") + page_form.faults_of_page("en", "01_compile")
    assert fault in str(found)


def test_half_width_punctuation_is_found(book: Path) -> None:
    page = book / "zh" / "01_compile.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n先看图,再看代码。\n", encoding="utf-8")
    assert "half-width" in str(page_form.faults_of_page("zh", "01_compile"))


@pytest.mark.share(4)
@pytest.mark.parametrize("chapter", page_pictures.with_pictures())
def test_pictures_are_what_the_tree_draws(chapter: str) -> None:
    for path, svg in page_pictures.redraw(chapter).items():
        held = (page_form.BOOK / path).read_text(encoding="utf-8")
        assert held == svg, f"{path} differs: python tools/book.py pictures {chapter}"


def test_every_chapter_has_a_file_that_draws() -> None:
    assert page_pictures.with_pictures() == page_form.chapters()


def test_every_picture_is_shown() -> None:
    for language in page_form.LANGUAGES:
        shown = "".join(page.read_text(encoding="utf-8") for page in (page_form.BOOK / language).glob("*.md"))
        for picture in (page_form.BOOK / language / "pictures").glob("*.svg"):
            assert f"(pictures/{picture.name})" in shown, picture


def test_words_behind_python_are_known(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python nrun\nx\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="page.md:1: .*got nrun"):
        blocks.blocks_of(page)
