"""Which names of `torch` a program mentions, and which of them Rushlight lacks or refuses.
Nothing of the program is run.

Enters: files, folders or names of installed packages. Leaves: for each dotted `torch` name that has no counterpart
here, and for each that exists only to say why it is missing (`absent`), the places that mention it; `rushlight check
PROGRAM` prints them. A name found here may still refuse some argument; a name reported may sit on a path the program
never takes (a GPU, several machines).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from ..base import late, refusals

MISSING = object()


def sources(target: str) -> Iterator[Path]:
    """The Python files of a path or of an installed package."""
    path = Path(target)
    if not path.exists():
        try:
            spec = importlib.util.find_spec(target)
        except (ImportError, ValueError):   # "train.py" is asked of a package `train`
            spec = None
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"rushlight check: {target!r} is neither a path nor an installed package")
        path = Path(spec.origin)
        path = path.parent if path.name == "__init__.py" else path
    yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def mentions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every dotted name below `torch` in a program, with its line: imports,
    and chains of attributes on imported modules."""
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


def find(name: str) -> object:
    """What a dotted `torch` name is here, or MISSING. Beyond a class or function, attributes are not followed."""
    found: object = late.provided("package")
    path = "rushlight"
    for part in name.split(".")[1:]:
        if not isinstance(found, ModuleType):
            return found
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except (AttributeError, ImportError):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return MISSING
    return found


def why_refused(name: str) -> str | None:
    """The reason that a name gives for being there in name only; None for any other. The table has it,
    or the stand-in that a name leads to."""
    reason = refusals.reason_of(name)
    if reason is not None:
        return reason
    found = find(name)
    return vars(found).get("_absent_reason") if isinstance(found, type) else None


def places_of(targets: Iterable[str]) -> dict[str, list[str]]:
    """From each `torch` name to the places (`file:line`) that mention it."""
    places: dict[str, list[str]] = defaultdict(list)
    for target in targets:
        for path in sources(target):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            except SyntaxError:
                continue
            for name, line in mentions(tree):
                places[name].append(f"{path}:{line}")
    return {name: sorted(set(found)) for name, found in places.items()}


def missing(places: dict[str, list[str]]) -> dict[str, list[str]]:
    """Those of the names that Rushlight does not have; the shortest of each,
    since what is below a missing name is missing too."""
    absent = sorted(name for name in places if find(name) is MISSING)
    return {name: places[name] for name in absent if not any(name.startswith(f"{other}.") for other in absent)}


def refused(places: dict[str, list[str]]) -> dict[str, list[str]]:
    """Those of the names that can be imported but raise NotImplementedError when used."""
    return {name: found for name, found in places.items() if why_refused(name)}
