"""What `help` says of a class of a family (a layer, an optimizer): its own docstring, completed by what others share.

Enters: the classes of a file. Leaves: their `__doc__`, whole when it is asked for. A docstring has a summary and the
sections `Arguments`, `Shape` and `Example`; a class writes what is its own, and the rest is found:

- an argument, in the docstrings of the classes it extends, or by its name in the family's descriptions.txt;
- a section, in the docstring of the nearest class it extends, or of the file. There `{name}` is the class's name,
  `{sizes}` stands for `L`, `H, W` or `D, H, W`, and `{8}` for 8 as often: `Conv2d` has two, as its name says.

Refuses: an argument that nobody describes.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from .tables import rows

SECTIONS = ("Arguments", "Shape", "Example")
SIZES = {1: "L", 2: "H, W", 3: "D, H, W"}


class Description:
    """The `__doc__` of a class: the docstring that is written, that of its file, and the family's table of arguments,
    which lies beside the module `table`; whole when it is read."""

    def __init__(self, written: str, file: str, table: str) -> None:
        self.written, self.file, self.table = written, file, table

    def __get__(self, instance: Any, layer: type) -> str:
        return _described(layer, self)


def describe(names: dict[str, Any], family: type, table: str) -> None:
    """Give the public classes of a file that derive from `family`, by its globals, their descriptions. Without
    docstrings there are none."""
    for name, value in names.items():
        if isinstance(value, type) and issubclass(value, family) and not name.startswith("_"):
            if value.__module__ == names["__name__"] and value.__doc__ is not None:
                type.__setattr__(value, "__doc__", Description(value.__doc__, names["__doc__"], table))


@functools.cache
def _described(layer: type, description: Description) -> str:
    """The whole docstring of a layer."""
    # Whoever may say something: the layer, the classes it extends, its file.
    docs = [found.written if isinstance(found, Description) else found
            for found in (cls.__dict__.get("__doc__") for cls in layer.__mro__)]
    sources = [_sections(doc) for doc in (*docs, description.file) if doc]
    parts = [sources[0][""], f"Arguments:\n{_arguments(layer, sources, description.table)}"]
    for heading in ("Shape", "Example"):
        written = next((source[heading] for source in sources if heading in source), None)
        if written is not None:
            parts.append(f"{heading}:\n{_in_terms_of(layer, written)}")
    return "\n\n".join(parts)


def _sections(docstring: str) -> dict[str, str]:
    """The body of each section by its heading; the summary under the empty one."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", _inspect().cleandoc(docstring), flags=re.MULTILINE)
    return {heading: body.rstrip() for heading, body in zip(["", *parts[1::2]], parts[0::2])}


def _arguments(layer: type, sources: list[dict[str, str]], table: str) -> str:
    """A line for each argument, in the order of the signature; the first section that describes one counts."""
    texts = _table(table).copy()
    for section in reversed([source.get("Arguments", "") for source in sources]):
        texts.update(re.findall(r"^    (\**\w+): (.*(?:\n     .*)*)", section, re.MULTILINE))
    lines = []
    for name, parameter in _inspect().signature(layer).parameters.items():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if not name.startswith("_"):
            lines.append(f"    {stars}{name}: {texts[stars + name]}")
    return "\n".join(lines)


@functools.cache
def _table(module_file: str) -> dict[str, str]:
    """What an argument means, by its name, where no class says otherwise."""
    return dict(row.split(": ", 1) for row in rows(module_file, "descriptions"))


def _inspect() -> Any:
    import inspect  # noqa: PLC0415 - few programs read docstrings

    return inspect


def _in_terms_of(layer: type, section: str) -> str:
    """A section that layers share, for one of them. Prose is broken into lines anew."""
    digit = re.search(r"(\d)d$", layer.__name__)
    count = int(digit[1]) if digit else 1
    text = section.replace("{name}", layer.__name__).replace("{sizes}", SIZES[count])
    text = re.sub(r"\{(\d+)\}", lambda match: ", ".join([match[1]] * count), text)
    if ">>>" in text:
        return text
    import textwrap  # noqa: PLC0415 - few programs read docstrings

    return textwrap.fill(" ".join(text.split()), 116, initial_indent="    ", subsequent_indent="    ")
