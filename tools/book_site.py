"""Builds the site, and is the hook of mkdocs that gives pages of the book what Markdown cannot say.

Enters: a folder that is new, empty or a site of ours. Leaves: FOLDER/VERSION with every page, FOLDER/versions.js,
FOLDER/index.html that leads to the newest version. As a hook: what blocks print, run while the site is built; a link
with `hreflang` to the page in the other language; the language of the page; terms of the glossary for the search.
Refuses foreign folders. A build that is interrupted leaves what was there before.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))     # mkdocs loads a hook by its path

from blocks import blocks_of, missing, run_page
from page_form import BOOK, LANGUAGES, PAGES, chapters

ROOT = BOOK.parent.parent
MARK = ".rushlight-site"
NAMES = {"en": "English", "zh": "中文"}
PRINTS = {"en": "prints", "zh": "输出"}
OUTPUTS = "RUSHLIGHT_BOOK_OUTPUTS"


def release() -> str:
    import rushlight

    return str(rushlight.version.__version__).partition("+")[0]


def terms() -> list[str]:
    """The Chinese words that the glossary explains, so that the search does not cut them."""
    page = BOOK / "zh" / "glossary.md"
    if not page.is_file():
        return []
    heads = re.findall(r"^\| \*\*([^*|]+)\*\*", page.read_text(encoding="utf-8"), re.M)
    return sorted({word for head in heads for word in re.findall(r"[\u3400-\u9fff]{2,}", head)})


# ----- building -----


def refusal(folder: Path) -> str:
    """Why a site cannot be built there; empty if it can."""
    if folder.exists() and not folder.is_dir():
        return f"build: expected a folder, got the file {folder}. Name another place."
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        return f"build: expected a new folder, an empty one or a site of ours, got {folder}. Name another place."
    return ""


def build(folder: Path, outputs: bool = True) -> int:
    """Build the site of this tree's version. Returns the exit status."""
    if reason := refusal(folder):
        print(reason, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    version = release()
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as scratch:
        words = Path(scratch, "terms.txt")
        words.write_text("".join(f"{term} 100000\n" for term in terms()), encoding="utf-8")
        found = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = dict(os.environ, RUSHLIGHT_BOOK_TERMS=str(words), PYTHONPATH=found)
        environment[OUTPUTS] = "1" if outputs else ""
        environment["NO_MKDOCS_2_WARNING"] = "1"
        made = Path(scratch, "site")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(ROOT / "mkdocs.yml")]
        done = subprocess.run([*command, "-d", str(made)], env=environment, cwd=ROOT, check=False)
        if done.returncode:
            print("build: mkdocs failed, and the site that was there stays.", file=sys.stderr)
            return 1
        exchange(made, folder / version, Path(scratch, "before"))
    versions = sorted((path.name for path in folder.iterdir() if path.is_dir()), key=numbers_of, reverse=True)
    write(folder / "versions.js", f"window.RUSHLIGHT_VERSIONS = {json.dumps(versions)};\n")
    write(folder / "index.html", entrance(versions[0]))
    print(f"{folder / version}: {sum(1 for _ in (folder / version).rglob('*.html'))} pages")
    return 0


def exchange(made: Path, place: Path, before: Path) -> None:
    """The new folder for the old one: two renames on one file system."""
    if place.exists():
        place.rename(before)
    try:
        made.rename(place)
    except OSError:
        if before.exists():
            before.rename(place)
        raise
    shutil.rmtree(before, ignore_errors=True)


def numbers_of(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def entrance(version: str) -> str:
    target = html.escape(f"{version}/index.html")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Rushlight</title>'
        f'<meta http-equiv="refresh" content="0; url={target}"></head><body><a href="{target}">Rushlight {version}</a>'
        "</body></html>\n"
    )


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    fresh = path.with_name(f".{path.name}.fresh")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


# ----- the hook -----


def language_of(path: str) -> str:
    """The language of a page by its path in docs/; English outside of the book."""
    return "zh" if path.startswith("book/zh/") else "en"


def twin_of(path: str) -> str | None:
    """The path of the same page in the other language, if the book has one."""
    for here, there in (LANGUAGES, LANGUAGES[::-1]):
        if path.startswith(f"book/{here}/"):
            twin = f"book/{there}/{path.removeprefix(f'book/{here}/')}"
            return twin if (BOOK.parent / twin).is_file() else None
    return None


@cache
def printed(page: Path) -> dict[int, str]:
    run = run_page(page)
    if run.error:
        raise RuntimeError(run.error)
    return run.printed


def with_outputs(text: str, page: Path, language: str) -> str:
    """The page with what each block printed behind it."""
    shown = printed(page)
    lines, result, inside = text.split("\n"), [], 0
    for number, line in enumerate(lines, 1):
        result.append(line)
        if line.startswith("```python"):
            inside = number
        elif line.rstrip() == "```" and inside:
            told = shown.get(inside, "").strip("\n")
            if told.strip():
                result += ["", f'```text title="{PRINTS[language]}"', *told.replace("```", "'''").split("\n"), "```"]
            inside = 0
    return "\n".join(result)


def on_config(config: Any) -> Any:
    """The book in the site's navigation, behind its first two entries: index, chapters in order, the other pages."""
    sections = []
    for language, title in (("en", "The book"), ("zh", "中文教程")):
        found = {page.stem for page in (BOOK / language).glob("*.md")}
        names = [name for name in ("index", *chapters(), *PAGES[1:]) if name in found]
        sections.append({title: [f"book/{language}/{name}.md" for name in names]})
    config.nav[2:2] = sections
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """What blocks print, if asked for. Front matter would shift lines, and pages of the book have none."""
    source = Path(page.file.abs_src_path or "")
    if os.environ.get(OUTPUTS) and page.file.src_uri.startswith("book/") and blocks_of(source) and not missing(source):
        text = source.read_text(encoding="utf-8")
        return with_outputs(text, source, language_of(page.file.src_uri))
    return re.sub(r"\]\((life_of_\w+)\.py\)", r"](\1.md)", markdown)     # programs in the tree, pages on the site


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """The way to the other language, in front of the page."""
    twin = twin_of(page.file.src_uri)
    target = files.get_file_from_path(twin) if twin else None
    if target is None:
        return content
    other = language_of(target.src_uri)
    address = target.url_relative_to(page.file)
    link = f'<a hreflang="{other}" lang="{other}" href="{address}">{NAMES[other]}</a>'
    return f'<p class="language">{link}</p>\n{content}'


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The page's language for browsers and readers, and the list of versions."""
    up = "../" * (page.file.dest_uri.count("/") + 1)
    depth = "../" * page.file.dest_uri.count("/")
    if language_of(page.file.src_uri) == "zh":
        output = re.sub(r'<html lang="en"', '<html lang="zh"', output, count=1)
    tail = (
        f'<p class="versions" data-versions="{up}"></p><script src="{up}versions.js"></script>'
        f'<script src="{depth}assets/versions.js"></script></body>'
    )
    return output.replace("</body>", tail)
