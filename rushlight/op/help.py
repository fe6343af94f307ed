"""What `help` says of an op: its schemas, its definition's promise, its arguments and an example.

Enters: an op. Leaves: the text of its `__doc__`, made when somebody asks. The promise is the docstring of the
definition; the rest is text beside it, in the `help.txt` of its folder: under the name of the op lines
`argument: meaning` and an example as a session of Python shows it, in which `rl` is the package (under `*`, arguments
that the folder's ops share). An argument that is not there is looked up by its name in `arguments.txt`. In-place forms
and other names show the example of the op they belong to, in their own spelling. `python tools/fill_examples.py` writes
what the examples print. Refuses: nothing; what nobody wrote down is left out.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
from dataclasses import dataclass, field

from .. import _C
from ..base.tables import rows

FILE = "help.txt"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OUT = "a tensor that the result is written into"


@dataclass
class Entry:
    """What a help.txt says of one op."""

    arguments: dict[str, str] = field(default_factory=dict)
    example: list[str] = field(default_factory=list)


def help_of(op: _C.Op) -> str | None:
    """The documentation of an op; None for one that has no definition."""
    overloads = op.overload_list
    first = type(overloads[0].definition)
    if not hasattr(first, "schema"):
        return None
    name, entries = overloads[0].name.removesuffix("_"), entries_of(first.__module__)
    base = entries.get(name, Entry())
    own = entries.get(f"{name}_", Entry()) if overloads[0].name != name else Entry()
    schemas = (first.schema,) if isinstance(first.schema, str) else first.schema
    parts = [" | ".join(schemas), _promise(op, overloads[0].name, first)]
    lines = _arguments(op, {**entries.get("*", Entry()).arguments, **base.arguments, **own.arguments})
    if lines:
        parts.append("Arguments:\n" + "\n".join(lines))
    example = own.example or _spelled(base.example, name, op)
    if example:
        parts.append("Example:\n" + "\n".join(f"    {line}" for line in example))
    return "\n\n".join(parts)


def _promise(op: _C.Op, name: str, definition: type) -> str:
    """What the definition promises, and which form of it this is."""
    text = definition.__doc__ or ""
    if name.endswith("_") and not getattr(definition, "only_inplace", False):
        return f"`{name[:-1]}`, written into its first argument, which is returned. {text}"
    known = {name, name.rpartition("_functional_")[2], name.removeprefix("linalg_")}
    return text if op.__name__ in known or op.__name__.startswith("_") else f"{text}\n\nAnother name of `{name}`."


def _arguments(op: _C.Op, texts: dict[str, str]) -> list[str]:
    """A line for each argument that somebody describes, in the order of the signature."""
    from .signature import signature_of  # noqa: PLC0415 - few programs read documentation

    lines = []
    for name in signature_of(op).parameters:
        text = texts.get(name) or _table().get(name)
        if text is not None:
            lines.append(f"    {name}: {text}")
    return lines


def _spelled(example: list[str], name: str, op: _C.Op) -> list[str]:
    """An example that calls `name`, as the op is called here."""
    plain, label = name.removeprefix("linalg_").removeprefix("_functional_"), op.__name__
    if label in (name, plain) or label.startswith("_"):
        return example
    space = (op.__module__ or "").partition(".")[2]
    label = label.removeprefix(f"{space}_")
    if label.endswith("_") and hasattr(_C.Tensor, label):
        return [_as_method(line, plain, label) for line in example]
    call = re.compile(rf"\brl\.(?:[a-z]+\.)*{re.escape(plain)}\(")
    whole = f"rl.{space}.{label}(" if space else f"rl.{label}("
    return [call.sub(whole, line) if line[:3] in (">>>", "...") else line for line in example]


def _as_method(line: str, plain: str, label: str) -> str:
    """A line that calls the function `plain`, as one that calls the method `label` of its first argument."""
    code = line.removeprefix(">>> ")
    if code == line:
        return line
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == plain and node.args:
            own, rest = node.args[0], [ast.get_source_segment(code, part) for part in node.args[1:]]
            rest += [f"{word.arg}={ast.get_source_segment(code, word.value)}" for word in node.keywords]
            call = f"{ast.get_source_segment(code, own)}.{label}({', '.join(filter(None, rest))})"
            return ">>> " + code[:node.col_offset] + call + code[node.end_col_offset:]
    return line


@functools.cache
def _table() -> dict[str, str]:
    """What an argument means, by its name, where no folder says otherwise."""
    return dict(row.split(": ", 1) for row in rows(__file__, "arguments")) | {"out": _OUT}


def entries_of(module: str) -> dict[str, Entry]:
    """What the help.txt beside a module of definitions says, by op. Nothing for modules outside the package."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return _read(os.path.dirname(file)) if file.startswith(_PACKAGE + os.sep) else {}


@functools.cache
def _read(folder: str) -> dict[str, Entry]:
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return parse(file.read())
    except FileNotFoundError:
        return {}


def parse(text: str) -> dict[str, Entry]:
    """A help.txt by op: a line that is not indented names one or several, what follows belongs to them."""
    entries: dict[str, Entry] = {}
    entry = Entry()
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            entry = Entry()
            entries.update(dict.fromkeys(line.split(), entry))
        elif entry.example or line.startswith("    >>>"):
            entry.example.append(line[4:])
        else:
            name, _, meaning = line.strip().partition(": ")
            entry.arguments[name] = meaning
    return entries

