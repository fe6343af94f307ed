"""The pages of `examples/browser` in a real browser without a network: digits drawn with the mouse, letters a second.

Enters: a folder with the pages, and a browser that Playwright drives. Leaves: what a visitor sees: the digits read,
the text written and how fast. The drawings are not those that the network learned from: `drawn_digits` makes none of
them, and each is drawn in another place and size.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
SOFTWARE_GPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
PATIENCE = 120_000      # milliseconds

# Digits as strokes of "x,y" points in a square of 100; the mouse goes straight from point to point.
DRAWINGS: tuple[tuple[int, str], ...] = (
    (0, "52,8 34,14 22,34 18,58 26,80 44,92 62,88 76,70 80,44 72,20 56,9 50,7"),
    (0, "40,10 28,30 26,60 38,90 56,90 68,62 66,30 56,12 42,9"),
    (0, "70,20 50,12 28,24 14,50 24,76 50,86 78,74 88,48 74,22"),
    (1, "50,8 49,30 51,60 50,94"),
    (1, "34,30 44,20 55,6 55,50 54,95"),
    (1, "62,6 55,40 46,92"),
    (2, "24,30 30,14 48,8 66,14 72,30 64,48 46,66 26,88 50,88 80,87"),
    (2, "20,24 40,10 64,14 70,32 52,60 22,84 18,92 30,86 48,92 66,96 82,90"),
    (2, "28,20 50,10 70,24 66,44 30,90 76,90"),
    (3, "26,14 46,8 66,14 70,30 56,44 42,48 60,52 76,66 72,84 50,94 24,88"),
    (3, "24,10 72,10 46,42 68,52 74,74 56,92 24,86"),
    (3, "30,20 52,10 68,24 58,42 40,46 / 40,46 66,54 74,76 52,92 26,84"),
    (4, "34,8 28,34 22,56 50,57 82,55 / 64,30 62,60 60,95"),
    (4, "60,94 62,50 64,6 40,36 16,66 50,66 86,64"),
    (4, "22,10 20,50 72,48 / 70,8 70,92"),
    (5, "72,10 34,10 30,44 52,40 72,50 76,70 62,88 40,92 22,84"),
    (5, "30,12 28,46 50,42 70,56 68,80 46,92 24,86 / 30,12 74,10"),
    (5, "76,8 50,8 32,14 30,36 48,44 66,54 70,74 54,90 26,88"),
    (6, "64,8 44,26 30,50 26,72 36,90 56,92 70,78 66,60 50,54 34,62 28,74"),
    (6, "40,6 30,40 28,74 42,92 64,88 70,70 56,56 36,62"),
    (6, "76,14 52,18 32,42 24,70 38,88 62,88 72,72 60,58 36,66"),
    (7, "20,12 50,11 80,10 64,44 50,70 42,94"),
    (7, "22,14 76,12 44,92 / 38,52 72,50"),
    (7, "24,26 24,12 52,14 78,10 60,52 54,94"),
    (8, "66,22 50,10 34,18 34,34 50,46 68,60 72,80 52,92 32,82 34,62 50,48 66,34 66,20"),
    (8, "50,10 34,22 40,40 54,44 66,32 62,14 48,10 / 52,46 30,60 32,84 54,92 74,80 70,58 52,46"),
    (8, "70,16 46,8 30,22 48,44 70,66 66,88 40,92 28,74 48,48 68,30 70,18"),
    (9, "70,30 58,12 38,12 28,28 36,44 56,46 70,30 70,60 66,94"),
    (9, "68,20 48,10 30,24 36,44 58,44 68,24 66,58 54,84 34,94"),
    (9, "66,16 42,12 30,34 48,48 68,36 68,14 52,94"),
)


def browser() -> str | None:
    """The browser of this machine."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


@contextmanager
def open_page(path: Path, width: int = 900, is_dark: bool = False, has_gpu: bool = False) -> Iterator[Any]:
    """The page, read from disk with the network off; what its scripts throw is raised here at the end. `has_gpu`: with
    an adapter of WebGPU that computes on the processor."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an optional package

    with sync_playwright() as play:
        options = [one for one in OPTIONS if one != "--disable-gpu"] + SOFTWARE_GPU if has_gpu else OPTIONS
        chromium = play.chromium.launch(executable_path=browser(), args=options)
        page = chromium.new_page(offline=True, viewport={"width": width, "height": 900},
                                 color_scheme="dark" if is_dark else "light")
        page.set_default_timeout(PATIENCE)
        thrown: list[Any] = []
        page.on("pageerror", lambda problem: thrown.append(problem))
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("body[data-ready=true]")
        yield page
        chromium.close()
    if thrown:
        raise RuntimeError(f"{path.name}: {thrown[0]}")


def draw(page: Any, strokes: str, size: float = 0.8, left: float = 0.1, top: float = 0.1) -> str:
    """Draw one digit with the mouse; what the page says it is. Size and place are shares of the pad."""
    pad = page.locator("[data-pad]")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    page.click("[data-clear]")
    for stroke in strokes.split(" / "):
        for number, point in enumerate(stroke.split()):
            x, y = (float(part) / 100 * size for part in point.split(","))
            page.mouse.move(box["x"] + (left + x) * box["width"], box["y"] + (top + y) * box["height"], steps=4)
            if number == 0:
                page.mouse.down()
        page.mouse.up()
    page.wait_for_function("document.body.dataset.reading !== 'true'")
    return page.inner_text("[data-answer]")


def draw_all(page: Any) -> list[tuple[int, str]]:
    """Every one of DRAWINGS, in sizes and places that differ: what was meant, and what was read."""
    read = []
    for number, (digit, strokes) in enumerate(DRAWINGS):
        size = (0.85, 0.45, 0.65)[number % 3]
        left, top = ((1 - size) * (number * step % 5) / 5 for step in (2, 3))
        read.append((digit, draw(page, strokes, size, left, top)))
    return read


def write(page: Any, prompt: str) -> tuple[str, float]:
    """Let the GPT go on after `prompt`: its text, and letters a second by the clock of the one who waits."""
    page.fill("[data-prompt]", prompt)
    started = time.perf_counter()
    page.click("[data-go]")
    page.wait_for_function("document.querySelector('[data-speed]').textContent.includes('a second')")
    text = page.text_content("[data-text]")
    return text, (len(text) - len(prompt)) / (time.perf_counter() - started)


def built(example: str, folder: Path) -> tuple[str, float]:
    """What `examples/EXAMPLE/build.py FOLDER` says, and how long it takes."""
    started = time.perf_counter()
    command = [sys.executable, str(EXAMPLES / example / "build.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{example}: {done.stderr.strip()}")
    return done.stdout, time.perf_counter() - started


def tell_pages() -> Iterator[str]:
    """Both pages built in full, and visited."""
    if find_spec("playwright") is None or browser() is None:
        yield "left out: pages need playwright and chromium"
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        said, seconds = built("browser", folder)
        loss = re.search(r"held-out loss ([\d.]+)", said)[1]
        yield f"pages built in {seconds:.0f} s; the GPT's held-out loss {loss} nats a letter"
        for path in sorted(folder.glob("*.html")):
            yield f"{path.name} {path.stat().st_size:,} bytes"
        with open_page(folder / "digits.html") as page:
            read = draw_all(page)
        missed = [pair for pair in read if str(pair[0]) != pair[1]]
        yield f"digits drawn with the mouse: {len(read) - len(missed)} of {len(read)} right, missed {missed}"
        with open_page(folder / "gpt.html") as page:
            yield f"letters a second: {write(page, 'Return the ')[1]:.0f}"


def tell_mobile() -> Iterator[str]:
    """The C program for AArch64, run."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            said, _ = built("mobile", Path(scratch))
        except RuntimeError as problem:
            yield f"left out: {problem}"
            return
        size = Path(scratch, "libdigits.a").stat().st_size
        count = re.search(r"^\d+ of 100$", said, re.M)
        yield f"AArch64: {count[0] if count else 'built, not run'}, libdigits.a {size:,} bytes"


def tell() -> Iterator[str]:
    yield from tell_pages()
    yield from tell_mobile()
