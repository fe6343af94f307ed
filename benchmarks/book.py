"""`python -m benchmarks book`: the figures of the book and its site.

Enters: this tree. Leaves: lines of text: blocks that run and blocks that are exempt, bad links, time of a build,
searches that find their page, mutants refused, shares of help(), bytes; digits right and letters a second of the demos.
What needs a package or a browser that is not there is said to be left out.

    python -m benchmarks book               every part
    python -m benchmarks book blocks site   some of them
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from . import demos, help_shares, learn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import blocks  # noqa: E402
import book_site  # noqa: E402

SEARCHES = {            # what a reader asks, and a page that must be among the answers
    "guards": "en/05_dynamo",
    "graph break": "en/01_compile",
    "functionalization": "en/06_aotautograd",
    "fallthrough": "en/07_dispatcher",
    "roofline": "en/15_performance",
    "all-reduce": "en/16_distributed",
    "coalescing": "en/17_gpu",
    "calibration": "en/18_quantization_and_pruning",
    "bufferization": "en/20_mlir",
    "守卫": "zh/05_dynamo",
    "融合": "zh/01_compile",
    "函数化": "zh/06_aotautograd",
    "惰性张量": "zh/04_lazy",
    "字节码": "zh/05_dynamo",
    "屋顶线": "zh/15_performance",
    "全归约": "zh/16_distributed",
    "合并访问": "zh/17_gpu",
    "零点": "zh/18_quantization_and_pruning",
    "方言": "zh/20_mlir",
}


class Addresses(HTMLParser):
    """What a page leads to, and the names that can be led to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.names.add(value)
            elif value and ((tag == "a" and name == "href") or name == "src"):
                self.targets.append(value)


def read_page(page: Path) -> Addresses:
    found = Addresses()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def bad_links(site: Path) -> list[str]:
    """Links and sources of a built site that lead to no file, or to no place in one."""
    read = {page: read_page(page) for page in sorted(site.rglob("*.html"))}
    bad = []
    for page, found in read.items():
        if page.name == "404.html":             # its addresses begin at the root of a server
            continue
        for target in found.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = place / "index.html" if place.is_dir() else place
            if not place.is_file():
                bad.append(f"{page.relative_to(site)}: {target}")
            elif parts.fragment and place in read and unquote(parts.fragment) not in read[place].names | {"__top"}:
                bad.append(f"{page.relative_to(site)}: no {target}")
    return bad


def search_hits(site: Path, browser: Any) -> dict[str, bool]:
    """Of each of SEARCHES, whether its page is among the answers, the network off."""
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto((site / "book" / "zh" / "index.html").as_uri())
    page.wait_for_timeout(1500)                 # the index is read
    hits = {}
    for words, answer in SEARCHES.items():
        page.click("input[name=query]")
        page.fill("input[name=query]", words)
        page.keyboard.press("End")
        address = f".md-search-result__link[href*='{answer}']"
        try:
            page.wait_for_selector(address, state="attached", timeout=5000)
            hits[words] = True
        except Exception:  # playwright's own, which is not imported here
            hits[words] = False
    context.close()
    return hits


def tell_blocks() -> Iterable[str]:
    """Every page of docs/, run."""
    ran = exempt = failed = 0
    start = time.perf_counter()
    for page in blocks.pages():
        if absent := blocks.missing(page):
            yield f"left out: {page.name} needs {', '.join(absent)}"
            continue
        done = blocks.run_page(page)
        ran += len(done.printed)
        exempt += sum(not block.runs() for block in blocks.blocks_of(page))
        failed += bool(done.error)
    yield f"blocks run {ran}, exempt {exempt}, pages that failed {failed}, {time.perf_counter() - start:.0f} s"


def tell_site() -> Iterable[str]:
    """A build with outputs, its links, its bytes, its search."""
    if find_spec("material") is None:
        yield "left out: pip install 'rushlight[docs]'"
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "site")
        start = time.perf_counter()
        if book_site.build(folder):
            yield "the site does not build"
            return
        site = folder / book_site.release()
        yield f"build {time.perf_counter() - start:.0f} s"
        files = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
        yield f"{len(files)} files, {sum(files):,} bytes; bad links {len(bad_links(site))}"
        yield from tell_search(site)


def tell_search(site: Path) -> Iterable[str]:
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        yield "left out: searches need playwright and chromium"
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        hits = search_hits(site, browser)
        browser.close()
    missed = [words for words, hit in hits.items() if not hit]
    yield f"searches that find their page {len(hits) - len(missed)} of {len(hits)}, not found: {missed}"


def tell_bytes() -> Iterable[str]:
    """Pages and pictures as they are in the tree."""
    for language in ("en", "zh"):
        pages = list((ROOT / "docs" / "book" / language).glob("*.md"))
        drawn = list((ROOT / "docs" / "book" / language / "pictures").glob("*.svg"))
        words = sum(len(re.findall(r"\S+", page.read_text(encoding="utf-8"))) for page in pages)
        size = sum(path.stat().st_size for path in (*pages, *drawn))
        yield f"{language}: {len(pages)} pages, {words:,} words with code, {len(drawn)} pictures, {size:,} bytes"


def tell_mutants() -> Iterable[str]:
    """Of wrong answers made from the solutions of the exercises, those refused."""
    told = learn.mutants_killed()
    yield "{killed} of {mutants} mutants and {refused} of {hollow} hollow answers refused".format(**told)


def tell_help() -> Iterable[str]:
    """What `help()` shows and explains, by group of names."""
    for group, row in help_shares.shares().items():
        yield (f"{group}: examples {row['examples']} of {row['names']}, "
               f"arguments explained {row['explained']} of {row['arguments']}")


# A part is a function that yields lines.
PARTS: dict[str, Callable[[], Iterable[str]]] = {
    "bytes": tell_bytes, "blocks": tell_blocks, "site": tell_site, "mutants": tell_mutants,
    "help": tell_help, "demos": demos.tell,
}


def run(names: list[str]) -> int:
    """Print the parts asked for, all unless any is named; exit status 2 for a part that nobody knows."""
    if strange := [name for name in names if name not in PARTS]:
        print(f"benchmarks book: the parts are {', '.join(PARTS)}, got {strange[0]}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        for line in PARTS[name]():
            print(f"{name:8} {line}", flush=True)
    return 0
