"""A hook of mkdocs: writes the reference pages from the registry, and a page for each tour.

Enters: an importable rushlight. Leaves: in-memory pages `reference/*.md` (ops by namespace, layers, optimizers) and
`life_of_*.md` (what the program of that name prints, and its source) that the site builder renders like those on disk,
so nothing generated is committed. Run by `mkdocs build`; see mkdocs.yml.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Section

import rushlight
from rushlight import nn, optim
from rushlight.base import refusals
from rushlight.op import definitions, load_all

DOCS = Path(__file__).resolve().parent.parent / "docs"
KINDS = ("Pointwise", "Reduction", "View", "Indexed", "Fused", "Composite", "Extern")
SPACES = {
    None: "rushlight",
    "nn.functional": "rushlight.nn.functional",
    "linalg": "rushlight.linalg",
    "fft": "rushlight.fft",
    "special": "rushlight.special",
}


def kind_of(definition: type) -> str:
    """The kind a definition derives from, as its reader would name it."""
    names = [base.__name__ for base in definition.__mro__]
    return next((kind for kind in KINDS if kind in names), "")


def op_entry(name: str, classes: list[type]) -> str:
    """One op: signatures, the first class's docstring, and what it can be called as."""
    first: Any = classes[0]
    schemas = [text for cls in classes for text in (cls.schema if isinstance(cls.schema, tuple) else (cls.schema,))]
    forms = [
        form for form, given in (("method", first.method), ("in place", first.inplace), ("out=", first.out)) if given
    ]
    facts = [kind_of(first), *forms, *(f"also `{alias}`" for alias in first.aliases)]
    signatures = "\n".join(schemas)
    told = ", ".join(fact for fact in facts if fact)
    return f"### {name}\n\n```text\n{signatures}\n```\n\n{inspect.cleandoc(first.__doc__ or '')}\n\n*{told}*\n"


def op_pages() -> dict[str, str]:
    """One page for each namespace of ops."""
    load_all()
    spaces: dict[Any, list[str]] = {}
    for name, classes in sorted(definitions.items()):
        if name.startswith("_") or not (classes[0].function or classes[0].method):
            continue
        spaces.setdefault(classes[0].namespace, []).append(op_entry(name, classes))
    pages = {}
    for space, entries in spaces.items():
        title = SPACES.get(space, f"rushlight.{space}")
        pages[f"reference/{title}.md"] = (
            f"# {title}\n\n{len(entries)} ops, from their definitions. In-place forms end in `_`.\n\n"
            + "\n".join(entries)
        )
    return pages


def class_page(title: str, module: Any, base: type) -> str:
    """The public classes of a module that derive from `base`."""
    entries = []
    for name in sorted(dir(module)):
        cls = getattr(module, name, None)
        if not (isinstance(cls, type) and issubclass(cls, base) and not name.startswith("_")):
            continue
        try:
            signature = str(inspect.signature(cls))
        except (TypeError, ValueError):
            signature = "(...)"
        entries.append(f"### {name}\n\n```text\n{name}{signature}\n```\n\n{inspect.cleandoc(cls.__doc__ or '')}\n")
    return f"# {title}\n\n{len(entries)} classes.\n\n" + "\n".join(entries)


def refusal_page() -> str:
    """The names that can be imported and refuse when used, system by system."""
    systems: dict[str, dict[str, list[str]]] = {}
    for title, reason, name in refusals.listed():
        systems.setdefault(title, {}).setdefault(reason, []).append(name)
    parts = [
        "# Names that refuse\n\nThese names of PyTorch can be imported, annotated with and asked `isinstance` of; using"
        " one raises `NotImplementedError` and says why. `rushlight check` lists those that a program mentions.\n"
    ]
    for title, reasons in systems.items():
        parts.append(f"## {title}\n")
        parts += [
            f"{reason[0].upper()}{reason[1:].rstrip('.')}:\n\n{', '.join(f'`{name}`' for name in names)}\n"
            for reason, names in reasons.items()
        ]
    return "\n".join(parts)


def tour_page(program: Path) -> str:
    """A tour of docs/: what its docstring says, what it prints, and how it is written."""
    source = program.read_text(encoding="utf-8")
    title, _, told = (ast.get_docstring(ast.parse(source)) or program.stem).partition("\n\n")
    printed = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True).stdout
    return (
        f"# {title.partition(':')[0]}\n\n{title.partition(': ')[2]}\n\n{told}\n\n## What it prints\n\n"
        f"```text\n{printed.strip()}\n```\n\n## The program\n\n```python\n{source}```\n"
    )


def pages() -> dict[str, str]:
    result = op_pages()
    result |= {f"{program.stem}.md": tour_page(program) for program in sorted(DOCS.glob("life_of_*.py"))}
    result["reference/refused.md"] = refusal_page()
    result["reference/rushlight.nn.md"] = class_page("rushlight.nn", nn, nn.Module)
    result["reference/rushlight.optim.md"] = class_page("rushlight.optim", optim, optim.Optimizer)
    result["reference/rushlight.optim.lr_scheduler.md"] = class_page(
        "rushlight.optim.lr_scheduler", optim.lr_scheduler, optim.lr_scheduler.LRScheduler
    )
    rows = "\n".join(
        f"- [{path.removeprefix('reference/').removesuffix('.md')}]({path.removeprefix('reference/')})"
        for path in sorted(result)
        if path.startswith("reference/")
    )
    result["reference/index.md"] = (
        f"# Reference\n\nMade from the registry of Rushlight {rushlight.version.__version__}.\n\n{rows}\n"
    )
    return result


def on_files(files: Files, config: Any) -> Files:
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_nav(nav: Any, config: Any, files: Files) -> Any:
    """The pages made above, below the reference's index."""
    reference = next(item for item in nav.items if isinstance(item, Section) and item.title == "Reference")
    listed = {page.file.src_uri for page in nav.pages}
    for file in files.documentation_pages():
        if file.src_uri.startswith("reference/") and file.src_uri not in listed and file.page:
            file.page.parent = reference
            reference.children.append(file.page)
    return nav
