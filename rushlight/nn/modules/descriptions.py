"""What `help` says of a layer: its own docstring, completed by what it shares with others.

Enters: the classes of a file. Leaves: their `__doc__`, whole when it is asked for. A docstring has a summary and the
sections `Arguments`, `Shape` and `Example`; a layer writes what is its own, and the rest is found:

- an argument, in the docstrings of the classes it extends, or by its name in descriptions.txt;
- a section, in the docstring of the nearest class it extends, or of the file. There `{name}` is the layer's name,
  `{sizes}` stands for `L`, `H, W` or `D, H, W`, and `{8}` for 8 as often: `Conv2d` has two, as its name says.

Refuses: an argument that nobody describes.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from ...base.tables import rows
from .module import Module

SECTIONS = ("Arguments", "Shape", "Example")
SIZES = {1: "L", 2: "H, W", 3: "D, H, W"}


class Description:
    """The `__doc__` of a layer: the docstring that is written, and that of its file; whole when it is read."""

    def __init__(self, written: str, file: str) -> None:
        self.written, self.file = written, file

    def __get__(self, instance: Any, layer: type) -> str:
        return _described(layer, self)


def describe_layers(names: dict[str, Any]) -> None:
    """Give the public layers of a file, by its globals, their descriptions. Without docstrings there are none."""
    for name, value in names.items():
        if isinstance(value, type) and issubclass(value, Module) and not name.startswith("_"):
            if value.__module__ == names["__name__"] and value.__doc__ is not None:
                type.__setattr__(value, "__doc__", Description(value.__doc__, names["__doc__"]))


@functools.cache
def _described(layer: type, description: Description) -> str:
    """The whole docstring of a layer."""
    # Whoever may say something: the layer, the classes it extends, its file.
    docs = [found.written if isinstance(found, Description) else found
            for found in (cls.__dict__.get("__doc__") for cls in layer.__mro__)]
    sources = [_sections(doc) for doc in (*docs, description.file) if doc]
    parts = [sources[0][""], f"Arguments:\n{_arguments(layer, [source.get('Arguments', '') for source in sources])}"]
    for heading in ("Shape", "Example"):
        written = next((source[heading] for source in sources if heading in source), None)
        if written is not None:
            parts.append(f"{heading}:\n{_in_terms_of(layer, written)}")
    return "\n\n".join(parts)


def _sections(docstring: str) -> dict[str, str]:
    """The body of each section by its heading; the summary under the empty one."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {heading: body.rstrip() for heading, body in zip(["", *parts[1::2]], parts[0::2])}


def _arguments(layer: type, sections: list[str]) -> str:
    """A line for each argument, in the order of the signature; the first section that describes one counts."""
    texts = _table().copy()
    for section in reversed(sections):
        texts.update(re.findall(r"^    (\**\w+): (.*(?:\n     .*)*)", section, re.MULTILINE))
    lines = []
    for name, parameter in inspect.signature(layer).parameters.items():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if not name.startswith("_"):
            lines.append(f"    {stars}{name}: {texts[stars + name]}")
    return "\n".join(lines)


@functools.cache
def _table() -> dict[str, str]:
    """What an argument means, by its name, where no class says otherwise."""
    return dict(row.split(": ", 1) for row in rows(__file__))


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
