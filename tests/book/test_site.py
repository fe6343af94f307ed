"""The site: it builds strictly, opens from disk, is searched in both languages, and refuses folders of others."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import book_site  # noqa: E402


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    assert book_site.build(tmp_path) == 2 and [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    assert book_site.build(tmp_path / "thesis.txt") == 2
    assert book_site.refusal(tmp_path / "new") == ""


def test_an_interrupted_build_keeps_the_old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / book_site.MARK).touch()
    page = tmp_path / book_site.release() / "index.html"
    page.parent.mkdir()
    page.write_text("old", encoding="utf-8")

    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(book_site.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        book_site.build(tmp_path)
    assert page.read_text(encoding="utf-8") == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([book_site.MARK, book_site.release()])


def test_a_site_is_exchanged_whole(tmp_path: Path) -> None:
    made, place = tmp_path / "made", tmp_path / "site"
    for folder in (made, place):
        folder.mkdir()
        (folder / folder.name).touch()
    book_site.exchange(made, place, tmp_path / "before")
    assert [p.name for p in place.iterdir()] == ["made"] and not (tmp_path / "before").exists()


def test_outputs_stand_behind_their_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_site, "printed", lambda page: {3: "1\n", 6: ""})
    text = "# A\n\n```python\nprint(1)\n```\n```python\nx = 1\n```\n"
    assert book_site.with_outputs(text, Path("a.md"), "en") == (
        '# A\n\n```python\nprint(1)\n```\n\n```text title="prints"\n1\n```\n```python\nx = 1\n```\n'
    )


def test_pages_know_their_twins() -> None:
    assert book_site.twin_of("book/en/01_compile.md") == "book/zh/01_compile.md"
    assert book_site.twin_of("book/zh/index.md") == "book/en/index.md"
    assert book_site.twin_of("fx.md") is None


def test_terms_of_the_glossary_are_chinese_words() -> None:
    assert {"守卫", "计算图", "符号追踪"} <= set(book_site.terms())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    pytest.importorskip("jieba")
    folder = tmp_path_factory.mktemp("site") / "site"
    assert book_site.build(folder, outputs=False) == 0
    return folder / book_site.release()


@pytest.mark.slow
def test_no_page_links_into_nothing(site: Path) -> None:
    from benchmarks.book import bad_links

    assert bad_links(site) == []


@pytest.mark.slow
def test_every_page_of_the_book_leads_to_its_twin(site: Path) -> None:
    for page in sorted((site / "book").rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        language, other = (("en", "zh"), ("zh", "en"))[page.parent.name == "zh"]
        (target,) = re.findall(rf'<a hreflang="{other}"[^>]*href="([^"]+)"', text)
        assert (page.parent / target).resolve() == site / "book" / other / page.name
        assert f'<html lang="{language}"' in text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as play:
        own = shutil.which("chromium")
        try:
            running = play.chromium.launch(executable_path=own, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield running
        running.close()


@pytest.mark.slow
def test_the_site_is_searched_from_disk(site: Path, browser: Any) -> None:
    from benchmarks.book import search_hits

    assert all(search_hits(site, browser).values())


@pytest.mark.slow
def test_pages_fit_a_phone_and_have_no_errors(site: Path, browser: Any) -> None:
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    # A favicon is still on its way when the next page is opened: that request is aborted, and none is missing.
    page.on("requestfailed", lambda request: request.failure == "net::ERR_ABORTED" or errors.append(request.url))
    for path in sorted((site / "book").rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert errors == []
    context.close()
