"""Whether C++ sources use layers or optimizers, whose declarations are half of what torch/extension.h holds.

Enters: paths of sources, folders of headers, flags. Leaves: the flag that leaves those declarations out, where nothing
that is compiled names them. Refuses nothing: what cannot be read counts as a use.

The text decides, not the preprocessor: a name in a comment or in a branch that is not compiled is a use too, which
costs seconds and no more. Headers that ask for layers by their own header (torch/nn.h) get them in any case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from . import build
from .build import Step

WITHOUT_LAYERS = "-DRUSHLIGHT_WITHOUT_LAYERS"
_NAMES = re.compile(r"\b(?:nn|optim)\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S+))', re.MULTILINE)
_SPLICE = re.compile(r"\\\r?\n")
_INSTALLED = "/usr/local/include"          # what users install; what lies in /usr/include is the system's


def without_layers(sources: Iterable[str], flags: Sequence[str], folders: Iterable[str]) -> list[str]:
    """The flag for a compiler, or none. `folders`: where the sources' own headers lie, ours not among them."""
    given, more, macros = _read_flags(flags)
    if any(map(_NAMES.search, macros)):
        return []
    listed = [path for path in map(os.path.realpath, (*folders, *given, _INSTALLED)) if not _is_known(path)]
    waiting, seen = [os.path.realpath(path) for path in (*sources, *more)], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        found = _included(path, listed)
        if found is None:
            return []
        waiting += found
    return [WITHOUT_LAYERS]


def run_with_fallback(run: Callable[[list[Step]], None], steps: list[Step]) -> None:
    """Run the commands; once more with every declaration where one failed that was kept from layers and speaks of them.

    That happens to headers in folders that are not known here: those of a compiler's own variables.
    """
    try:
        run(steps)
    except Exception as error:
        lean = any(WITHOUT_LAYERS in step.command for step in steps)
        if not lean or (isinstance(error, RuntimeError) and not _NAMES.search(str(error))):
            raise
        run([step._replace(command=tuple(p for p in step.command if p != WITHOUT_LAYERS)) for step in steps])


def _included(path: str, folders: Sequence[str]) -> list[str] | None:
    """The headers of a program that a file includes; None where it names layers, or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = _SPLICE.sub("", file.read())
    except OSError:
        return None
    if _NAMES.search(_INCLUDE.sub("", text)):
        return None
    found = []
    for quoted, angled, other in _INCLUDE.findall(text):
        if other:                              # a macro names it
            return None
        near = [os.path.dirname(path)] if quoted else []
        candidates = (os.path.join(folder, quoted or angled) for folder in (*near, *folders))
        there = next((os.path.realpath(one) for one in candidates if os.path.isfile(one)), None)
        if there is not None:
            found.append(there)
    return found


def _is_known(folder: str) -> bool:
    """Whether a folder's headers are ours, or of what is compiled with us: they use no layers of their own accord."""
    known = (build.HEADERS, *build.python_includes(), build.pybind11_include() or build.HEADERS)
    home = build.cuda_home()
    return (folder in {os.path.realpath(path) for path in known}
            or os.path.isdir(os.path.join(folder, "ATen", "generated"))
            or (home is not None and folder == os.path.realpath(os.path.join(home, "include"))))


def _read_flags(flags: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Folders, files and macros that flags add."""
    folders: list[str] = []
    files: list[str] = []
    macros: list[str] = []
    lists = dict.fromkeys(("-include", "-imacros"), files) | {"-D": macros}
    lists |= dict.fromkeys(("-isystem", "-iquote", "-idirafter", "-I"), folders)
    waiting = iter(flags)
    for flag in waiting:
        head = next((name for name in lists if flag.startswith(name)), None)
        if head is not None:
            lists[head].append(flag[len(head):] or next(waiting, ""))
    return folders, files, macros
