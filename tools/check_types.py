"""Check the package's own types with mypy, room by room, and count what is still untyped.

Enters: the source tree; the rooms that are held to be typed are listed once, under `files` in pyproject.toml's
[tool.mypy], bottom layer first. Leaves: mypy's complaints and its exit status; or, with --count, the share of
parameters that are `Any` or have no annotation at all, for each room. Nothing of the package is imported.

    python tools/check_types.py                 check the held rooms
    python tools/check_types.py rushlight/op    check these folders or files as if they were held
    python tools/check_types.py --count         count parameters, in all and by room
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "rushlight"
CACHE = ROOT / "build" / "mypy"


def held_rooms() -> list[str]:
    """The folders and files that pyproject.toml holds to be typed, as it writes them: `rushlight/base`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["tool"]["mypy"]["files"])


def check(paths: list[str]) -> int:
    """mypy's exit status over `paths` (the held rooms where there are none); its cache is under build/."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(CACHE)]
    return subprocess.run([*command, *paths], cwd=ROOT, check=False).returncode


@dataclass(frozen=True)
class Share:
    """How many parameters a part of the tree has, how many are `Any`, and how many bare."""

    parameters: int = 0
    vague: int = 0
    bare: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.parameters + other.parameters, self.vague + other.vague, self.bare + other.bare)

    def __str__(self) -> str:
        whole = self.parameters or 1
        return f"{self.parameters:6} parameters, {self.vague / whole:6.1%} Any, {self.bare / whole:6.1%} bare"


def parameters(tree: ast.Module) -> Iterator[ast.arg]:
    """Every parameter of every function but lambdas, without a method's first one."""
    methods = {
        id(child)
        for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if not any(ast.unparse(mark) == "staticmethod" for mark in child.decorator_list)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            plain = [*node.args.posonlyargs, *node.args.args]
            yield from plain[id(node) in methods :]
            yield from node.args.kwonlyargs
            yield from (extra for extra in (node.args.vararg, node.args.kwarg) if extra is not None)


def share_of(path: Path) -> Share:
    """What one file's parameters say of themselves."""
    kinds = Counter(
        "" if one.annotation is None else ast.unparse(one.annotation)
        for one in parameters(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    )
    return Share(kinds.total(), kinds["Any"] + kinds["typing.Any"], kinds[""])


def count() -> None:
    """Print the shares of each room of the package, the held ones marked, then of all."""
    held = tuple(ROOT / name for name in held_rooms())
    rooms: dict[str, Share] = {}
    kept, every = Share(), Share()
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        is_held = any(path.is_relative_to(room) for room in held)
        room = path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py") + (" (held)" if is_held else "")
        share = share_of(path)
        rooms[room] = rooms.get(room, Share()) + share
        every += share
        kept += share if is_held else Share()
    for room, share in rooms.items():
        print(f"{room:24} {share}")
    print(f"{'held rooms':24} {kept}")
    print(f"{'the package':24} {every}")


def main(arguments: list[str]) -> int:
    if arguments == ["--count"]:
        count()
        return 0
    return check(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
