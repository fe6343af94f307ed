"""Which names of `torch` a program mentions, and which of them Rushlight lacks. Nothing of the program is run.

Enters: files, folders or names of installed packages. Leaves: for each dotted `torch` name that has no counterpart here, the
places that mention it; `python -m rushlight check PROGRAM` prints them. A name found here may still refuse some argument; a
name reported missing may sit on a path the program never takes (a GPU, several machines).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType


def sources(target: str) -> Iterator[Path]:
    """The Python files of a path or of an installed package."""
    path = Path(target)
    if not path.exists():
        spec = importlib.util.find_spec(target)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"rushlight check: {target!r} is neither a path nor an installed package")
        path = Path(spec.origin)
        path = path.parent if path.name == "__init__.py" else path
    yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def mentions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every dotted name below `torch` in a program, with its line: imports, and chains of attributes on imported modules."""
    aliases = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name.partition(".")[0] == "torch":
                    aliases[item.asname or "torch"] = item.name if item.asname else "torch"
                    yield item.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "torch":
            for item in node.names:
                name = node.module if item.name == "*" else f"{node.module}.{item.name}"
                aliases[item.asname or item.name] = name
                yield name, node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (chain := _chain(node)) and chain[0] in aliases:
            yield ".".join([aliases[chain[0]], *chain[1:]]), node.lineno


def _chain(node: ast.AST) -> list[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def has(name: str) -> bool:
    """Whether Rushlight has a dotted `torch` name. Beyond a class or function, attributes are not followed."""
    found: object = importlib.import_module("rushlight")
    path = "rushlight"
    for part in name.split(".")[1:]:
        if not isinstance(found, ModuleType):
            return True
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except (AttributeError, ImportError):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
    return True


def missing(targets: Iterable[str]) -> dict[str, list[str]]:
    """From each missing name to the places (`file:line`) that mention it."""
    places: dict[str, list[str]] = defaultdict(list)
    for target in targets:
        for path in sources(target):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            except SyntaxError:
                continue
            for name, line in mentions(tree):
                places[name].append(f"{path}:{line}")
    absent = sorted(name for name in places if not has(name))
    shortest = [name for name in absent if not any(name.startswith(f"{other}.") for other in absent)]
    return {name: sorted(set(places[name])) for name in shortest}
