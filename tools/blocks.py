"""Run the code blocks of documentation pages: each page is one program, in a process and an empty folder of its own.

Enters: a page of Markdown. Leaves: what each of its Python blocks printed, and how long the page took; a block that
fails is told with the page's own line. A page runs in order from top to bottom, and the network is refused to it.
Words behind ```python exempt a block, and are counted: `gpu` where there is no such device, `norun` always. A page
whose head says `<!-- needs: onnx jaxlib -->` needs these modules; one that says `<!-- served as torch -->` is a program
for PyTorch, run by `rushlight run`.

    python tools/blocks.py                      every page under docs/
    python tools/blocks.py docs/fx.md -v        one, with what it prints
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WORDS = ("gpu", "norun")
_FENCE = re.compile(r"^```python[ \t]*([^\n]*)\n(.*?)^```[ \t]*$", re.M | re.S)
_NEEDS = re.compile(r"<!-- needs: ([\w. ]+) -->")
_SERVED = "<!-- served as torch -->"
_PACKAGES = sorted((ROOT / "examples").glob("*_package"))     # are to a page as if they were installed
_MARK = "\x1e"                # stands before the number of a block in what a page prints
# Runs in front of a page, and of the Python processes that it starts: they read the same environment.
_GUARD = '''\
import ipaddress, os, sys
_NEAR = {"localhost", "", None, os.uname().nodename}
def _refuse(event, given):
    if event == "socket.getaddrinfo":
        host = given[0]
    elif event == "socket.connect" and isinstance(given[1], tuple):
        host = given[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    try:
        near = host in _NEAR or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        near = False
    if not near and host not in ("0.0.0.0", "::"):
        raise OSError(f"pages run offline, and {host} is another machine")
sys.addaudithook(_refuse)
'''
# Called in front of each block. A process that the page spawns imports its file again, and finds the blocks so far.
_BEGIN = '''\
_whole = []
def begin(name, line, length):
    if name != "__main__":
        return
    print(MARK + str(line), flush=True)
    if not _whole:
        _whole.extend(open(PROGRAM, encoding="utf-8").readlines())
    with open(PROGRAM, "w", encoding="utf-8") as file:
        file.writelines(_whole[: line + length])
'''


@dataclass(frozen=True)
class Block:
    """One ```python block: its code, the line of its fence, and the words behind it."""

    code: str
    line: int
    words: tuple[str, ...] = ()

    def runs(self) -> bool:
        return "norun" not in self.words and ("gpu" not in self.words or has_gpu())


@dataclass
class Run:
    """What came of a page: what each block that ran printed by its line, seconds, and the error if there was one."""

    printed: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


def has_gpu() -> bool:
    import rushlight

    return bool(rushlight.cuda.is_available())


def pages() -> list[Path]:
    """The pages of docs/ that have blocks, generated ones not among them."""
    return [page for page in sorted(DOCS.rglob("*.md")) if blocks_of(page)]


def blocks_of(page: Path) -> list[Block]:
    """The Python blocks of a page, in order. Raises ValueError for a word nobody knows."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        words = tuple(match[1].split())
        line = text.count("\n", 0, match.start()) + 1
        if strange := [word for word in words if word not in WORDS]:
            raise ValueError(f"{page.name}:{line}: behind ```python may stand {', '.join(WORDS)}, got {strange[0]}")
        found.append(Block(match[2], line, words))
    return found


def missing(page: Path) -> list[str]:
    """The modules that a page says it needs, and that are not there."""
    told = _NEEDS.search(page.read_text(encoding="utf-8")[:2000])
    return [name for name in told[1].split() if find_spec(name.partition(".")[0]) is None] if told else []


def program_of(page: Path) -> str:
    """The page as a program: code stands on the lines that it has in the page, so that errors name these."""
    lines = [""] * (page.read_text(encoding="utf-8").count("\n") + 2)
    for block in blocks_of(page):
        if block.runs():
            code = block.code.splitlines()
            lines[block.line - 1] = f"import page_blocks; page_blocks.begin(__name__, {block.line}, {len(code)})"
            lines[block.line : block.line + len(code)] = code
    return "\n".join(lines) + "\n"


def run_page(page: Path, limit: float = 300.0) -> Run:
    """Run a page. Its folder is empty at the start and gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, guard = Path(scratch, "folder"), Path(scratch, "guard")
        folder.mkdir()
        guard.mkdir()
        (guard / "sitecustomize.py").write_text(_GUARD, encoding="utf-8")
        program = Path(scratch, page.stem + ".py")
        program.write_text(program_of(page), encoding="utf-8")
        begin = f"MARK, PROGRAM = {_MARK!r}, {str(program)!r}\n{_BEGIN}"
        (guard / "page_blocks.py").write_text(begin, encoding="utf-8")
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, (guard, ROOT, *_PACKAGES))),
                           HF_HUB_OFFLINE="1", PYTHONIOENCODING="utf-8", PYTHONDONTWRITEBYTECODE="1")
        start = time.perf_counter()
        try:
            served = ["-m", "rushlight", "run"] if _SERVED in page.read_text(encoding="utf-8") else []
            done = subprocess.run([sys.executable, *served, str(program)], cwd=folder, env=environment, timeout=limit,
                                  capture_output=True, text=True, encoding="utf-8")
        except subprocess.TimeoutExpired:
            return Run({}, limit, f"{page.name}: did not end within {limit:.0f} s")
        run = Run({}, time.perf_counter() - start)
        for part in done.stdout.split(_MARK)[1:]:
            line, _, text = part.partition("\n")
            run.printed[int(line)] = text.replace(str(program), page.name)
        if done.returncode:
            run.error = done.stderr.replace(str(program), str(page)) or f"{page.name}: ended with {done.returncode}"
        return run


def main(arguments: list[str] | None = None) -> int:
    reader = argparse.ArgumentParser(description="Run the code blocks of pages.")
    reader.add_argument("pages", nargs="*", type=Path, help="pages of Markdown; unless given, all of docs/")
    reader.add_argument("-v", "--verbose", action="store_true", help="show what the blocks print")
    asked = reader.parse_args(arguments)
    failed = 0
    for page in asked.pages or pages():
        blocks = blocks_of(page)
        if absent := missing(page):
            print(f"{page}: not run, needs {', '.join(absent)}")
            continue
        run = run_page(page)
        left_out = sum(not block.runs() for block in blocks)
        print(f"{page}: {len(run.printed)} blocks, {left_out} exempt, {run.seconds:.1f} s", flush=True)
        if asked.verbose:
            for line, text in run.printed.items():
                print(f"--- line {line}\n{text}", end="")
        if run.error:
            failed += 1
            print(run.error, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
