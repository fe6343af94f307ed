"""A case as a script of its own: the imports it needs, what it uses of its file, itself, and a call.

Enters: the function of a case. Leaves: text that `python FILE` runs, and that ends with the case's own error. It
imports nothing that a user has not: Rushlight, and the package that brings the device.
"""

from __future__ import annotations

import ast
import inspect
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .case import Chip


def opening(chip: Chip) -> list[str]:
    """The first lines of every script: where the device comes from."""
    lines = ["import rushlight as rl"]
    if chip.package is not None:
        folders = [f"sys.path.insert(0, {folder!r})" for folder in reversed(used_folders())]
        lines = [*(["import sys", "", *folders, ""] if folders else []), *lines]
        lines.append(f"import {chip.package}   # brings the device {chip.name!r}")
    return lines


def used_folders() -> list[str]:
    """Folders of sys.path that modules were taken from and that another Python would not look in by itself."""
    installed = {str(Path(place).resolve()) for place in (*sysconfig.get_paths().values(), *site.getsitepackages())}
    homes = set()
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if "." not in name and origin is not None:
            place = Path(origin).resolve()
            homes.add(str(place.parent.parent if place.name.startswith("__init__.") else place.parent))
    looked = dict.fromkeys(str(Path(folder).resolve()) for folder in sys.path)
    return [folder for folder in looked if folder in homes and not any(map(folder.startswith, installed))]


def finder(chip: Chip) -> str:
    """The line that makes `chip`."""
    quick = ", quick=True" if chip.quick else ""
    return f"chip = Chip.find({chip.name!r}{quick})"


def alone(function: Callable[..., Any], chip: Chip) -> str:
    """The script of a case that is a function of an area's file."""
    tree, text = parsed(inspect.getsourcefile(function) or "")
    top = {name: node for node in tree.body for name in defined(node)}
    wanted = closure(function.__name__, top)
    imports = sorted({line for name in wanted if name in top for line in imported(top[name], name)})
    parts = [node for node in tree.body if not is_import(node) and wanted & set(defined(node))]
    ours = sorted({"Chip"} | {name for name in wanted if name in top and is_ours(top[name])})
    lines = [
        "from __future__ import annotations", "", *opening(chip),
        *(line for line in imports if line != "import rushlight as rl"),
        f"from rushlight.conform import {', '.join(ours)}", "",
    ]
    for node in parts:
        begin = min([node.lineno, *(one.lineno for one in decorators(node))])
        lines += ["", *text[begin - 1: node.end_lineno], ""]
    return "\n".join([*lines, "", finder(chip), "rl.manual_seed(0)", f"{function.__name__}(chip)", ""])


@cache
def parsed(path: str) -> tuple[ast.Module, list[str]]:
    """A file, read once: its statements, and its lines."""
    source = Path(path).read_text(encoding="utf-8")
    return ast.parse(source), source.splitlines()


def defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a file gives a meaning."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def is_ours(node: ast.stmt) -> bool:
    """Whether a statement takes names from this folder; `rushlight.conform` has them all."""
    return isinstance(node, ast.ImportFrom) and node.level == 1


def imported(node: ast.stmt, name: str) -> Iterator[str]:
    """The import of one name as a line, where it is not one of this folder's."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)) or is_ours(node):
        return
    alias = next(one for one in node.names if (one.asname or one.name.partition(".")[0]) == name)
    renamed = f" as {alias.asname}" if alias.asname else ""
    if isinstance(node, ast.Import):
        yield f"import {alias.name}{renamed}"
    else:
        module = node.module if not node.level else ".".join(filter(None, ("rushlight", node.module)))
        yield f"from {module} import {alias.name}{renamed}"


def closure(name: str, top: dict[str, ast.stmt]) -> set[str]:
    """What a function needs of its file: every name it uses, and what those use."""
    wanted, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in wanted or one not in top:
            continue
        wanted.add(one)
        node = top[one]
        if not is_import(node):
            todo += [part.id for child in body(node) for part in ast.walk(child) if isinstance(part, ast.Name)]
    return wanted


def body(node: ast.stmt) -> list[ast.AST]:
    """The parts of a definition that run; annotations and the decorator of a case do not."""
    if isinstance(node, ast.FunctionDef):
        defaults = (default for default in node.args.kw_defaults if default)
        return [*decorators(node), *node.body, *node.args.defaults, *defaults]
    return [node]


def decorators(node: ast.stmt) -> list[ast.expr]:
    """What decorates a definition; what makes it a case does not belong to it."""
    every = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
    return [one for one in every if not ast.unparse(one).startswith("case(")]
