"""The suite itself: it can be collected, and passes, on a machine that has nothing but what the README's test command installs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The package, what it depends on, and its `test` extra; everything else must be asked for with pytest.importorskip.
PRESENT = {"rushlight", "tests", "benchmarks", "numpy", "llvmlite", "pytest", "xdist", "hypothesis", "mpmath", *sys.stdlib_module_names}


def imported(node: ast.stmt) -> list[str]:
    """The top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module.partition(".")[0]]
    return []


def asked_for(node: ast.stmt) -> list[str]:
    """The packages a statement asks for with `importorskip`."""
    return [call.args[0].value.partition(".")[0] for call in ast.walk(node)
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "importorskip" and isinstance(call.args[0], ast.Constant)]


def of_the_tests(node: ast.stmt, path: Path) -> Path | None:
    """The file of the tests that a statement imports from: by its full name, or as a neighbour."""
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name if isinstance(node, ast.Import) else ""
    places = (HERE.parent / (name.replace(".", "/") + ".py"), path.parent / f"{name}.py", HERE / "devices" / f"{name}.py")
    return next((place for place in places if place.is_relative_to(HERE) and place.exists()), None)


@cache
def statements(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text()).body


def unguarded(path: Path, asked: frozenset[str] = frozenset()) -> Iterator[str]:
    """Packages that importing a file needs and that may be absent; modules of the tests that it imports are followed."""
    for node in statements(path):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.If)):
            asked = asked | set(asked_for(node))
        if other := of_the_tests(node, path):
            yield from unguarded(other, asked)
            continue
        for package in imported(node):
            if package not in PRESENT and package not in asked:
                yield f"{path.relative_to(HERE)}:{node.lineno}: {package}"


def test_every_module_of_tests_can_be_imported_with_nothing_else_installed() -> None:
    found = [problem for path in sorted(HERE.rglob("test_*.py")) for problem in unguarded(path)]
    assert not found, "\n".join(found)
