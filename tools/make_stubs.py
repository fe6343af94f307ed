"""Write the type stubs of the public names: rushlight/__init__.pyi, from the registry and the package itself.

Enters: an importable rushlight. Leaves: the stub file, functions and methods of ops typed from their schemas, other
public names from their Python signatures. It refuses nothing silently: a name whose signature cannot be read is
typed as accepting anything. `--check` compares instead of writing, and fails when the file is out of date.
"""

from __future__ import annotations

import inspect
import keyword
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "rushlight" / "__init__.pyi"

HEADER = '''"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Sequence
from typing import Any, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool

'''

# The spelling of schema types as annotations. Built-in names are qualified: rushlight has its own int, float and bool.
TYPES = {
    "Tensor": "Tensor", "Tensor[]": "Sequence[Tensor]", "Tensor?[]": "Sequence[Tensor | None]",
    "Tensor|Scalar": "Tensor | Number", "Scalar": "Number", "Scalar[]": "Sequence[Number]", "int": "builtins.int",
    "SymInt": "builtins.int", "int[]": "builtins.int | Sequence[builtins.int]",
    "SymInt[]": "builtins.int | Sequence[builtins.int]", "float": "builtins.float",
    "float[]": "Sequence[builtins.float]", "bool": "builtins.bool", "bool[]": "Sequence[builtins.bool]",
    "str": "builtins.str", "str[]": "Sequence[builtins.str]", "dtype": "dtype",
    "device": "device | builtins.str | builtins.int", "any": "Any", "layout": "Any", "memory_format": "Any",
    "Generator": "Any",
}  # fmt: skip


def annotation(text: str) -> str:
    """`int[]?` -> `builtins.int | Sequence[builtins.int] | None`."""
    if text.endswith("?"):
        return annotation(text[:-1]) + " | None"
    return TYPES.get(text, "Any")


def literal(value: Any) -> str:
    """A default as stub text; anything that is not a plain literal is left as `...`."""
    if isinstance(value, bool | int | str | None) or (isinstance(value, float) and value == value and abs(value) < 1e300):
        return repr(value)
    return "..."


def result_of(schema: Any) -> str:
    kinds = [annotation(kind) for kind in schema.returns]
    if len(kinds) == 1:
        # A list of tensors is given back as a tuple.
        return "tuple[Tensor, ...]" if schema.returns[0] == "Tensor[]" else kinds[0]
    return f"tuple[{', '.join(kinds)}]" if kinds else "None"


def parameter_list(schema: Any, is_method: bool, has_out: bool) -> str:
    """The parameters of one schema. A trailing `int[]` is also accepted as separate numbers, so it is spelled `*`."""
    parts: list[str] = []
    keyword_only = False
    params = list(schema.params)
    for position, param in enumerate(params):
        if position == 0 and is_method:
            parts.append("self")
            continue
        if param.keyword_only and not keyword_only:
            keyword_only = True
            parts.append("*")
        name = param.name + "_" if keyword.iskeyword(param.name) else param.name
        text = f"{name}: {annotation(param.type)}"
        parts.append(text if param.required else f"{text} = {literal(param.default)}")
    if has_out:
        parts += ([] if keyword_only else ["*"]) + ["out: Tensor | tuple[Tensor, ...] | None = None"]
    return ", ".join(parts)


def takes_separate_numbers(schema: Any, is_method: bool) -> bool:
    positional = [param for param in schema.params if not param.keyword_only][1 if is_method else 0 :]
    return len(positional) == 1 and positional[0].type in ("int[]", "int[]?")


def variants(label: str, schemas: list[tuple[Any, bool]], is_method: bool, indent: str) -> list[str]:
    """The definitions of one name: one per schema, and one more for `x.view(2, 3)` beside `x.view((2, 3))`."""
    made: list[str] = []
    for schema, has_out in schemas:
        made.append(f"def {label}({parameter_list(schema, is_method, has_out)}) -> {result_of(schema)}: ...")
        if takes_separate_numbers(schema, is_method):
            rest = [f"{p.name}: {annotation(p.type)}{'' if p.required else ' = ' + literal(p.default)}"
                    for p in schema.params if p.keyword_only]
            name = next(p.name for p in schema.params[1 if is_method else 0 :] if not p.keyword_only)
            first = ["self"] if is_method else []
            parts = [*first, f"*{name}: builtins.int", *rest]
            made.append(f"def {label}({', '.join(parts)}) -> {result_of(schema)}: ...")
    made = list(dict.fromkeys(made))
    mark = [f"{indent}@overload"] if len(made) > 1 else []
    return [line for text in made for line in (*mark, indent + text)]


def collect(definitions: dict[str, list[type]], parse: Any, schemas_of: Any) -> tuple[dict, dict]:
    """({namespace: {label: schemas}}, {method: schemas}); a schema is paired with whether it takes out=."""
    functions: dict[str, dict[str, list]] = {}
    methods: dict[str, list] = {}
    for name, classes in definitions.items():
        for cls in classes:
            schemas = [parse(text) for text in schemas_of(cls)]
            for label in (name, *cls.aliases):
                for suffix in ("", "_") if cls.inplace else ("",):
                    entries = [(schema, cls.out and not suffix) for schema in schemas]
                    if cls.function:
                        functions.setdefault(cls.namespace or "", {}).setdefault(label + suffix, []).extend(entries)
                    if cls.method:
                        methods.setdefault(label + suffix, []).extend(entries)
            for special in cls.dunder:
                methods.setdefault(special, []).extend((schema, False) for schema in schemas)
    return functions, methods


def plain_signature(value: Any) -> str:
    """A Python function's parameters without annotations that a stub could not resolve."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "*args: Any, **kwargs: Any"
    parts, star = [], False
    for param in signature.parameters.values():
        if param.kind is param.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            star = star or param.kind is param.VAR_POSITIONAL
            parts.append(f"{'*' if param.kind is param.VAR_POSITIONAL else '**'}{param.name}: Any")
        else:
            parts.append(f"{param.name}: Any" + ("" if param.default is param.empty else " = ..."))
    return ", ".join(parts)


def other_name(name: str, value: Any, dtype_type: type) -> str:
    """One public name that is not an op."""
    if isinstance(value, dtype_type):
        return f"{name}: dtype"
    if isinstance(value, type):
        return (f"class {name}:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"
                "    def __getattr__(self, name: builtins.str) -> Any: ...")
    if isinstance(value, types.ModuleType):
        return f"{name}: Any"
    if callable(value):
        return f"def {name}({plain_signature(value)}) -> Any: ..."
    plain = type(value) in (int, float, bool, str)
    return f"{name}: builtins.{type(value).__name__}" if plain else f"{name}: Any"


def make_text() -> str:
    """The whole stub file."""
    sys.path.insert(0, str(ROOT))
    import rushlight
    from rushlight.op.definition import definitions, schemas_of
    from rushlight.op.schema import parse

    functions, methods = collect(definitions, parse, schemas_of)
    lines = [HEADER, "class Tensor:", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    # Attributes and methods that are not ops (shape, grad, backward, numpy, ...).
    lines += ["    def __getattr__(self, name: builtins.str) -> Any: ..."]
    for label in sorted(methods):
        lines += variants(label, methods[label], True, "    ")
    lines.append("")
    here = functions.pop("", {})
    for label in sorted(here):
        lines += variants(label, here[label], False, "")
    lines.append("")
    for namespace in sorted(functions):
        lines.append(f"class {namespace.replace('.', '_')}_namespace:  # rushlight.{namespace}")
        for label in sorted(functions[namespace]):
            text = variants(label, functions[namespace][label], False, "    ")
            lines += [line for item in text for line in (["    @staticmethod"] if item.strip() != "@overload" else []) + [item]]
        lines.append("")
    for namespace in sorted(name for name in functions if "." not in name):
        lines.append(f"{namespace}: {namespace}_namespace")
    known = {*here, "Tensor", *functions}
    for name in sorted(set(dir(rushlight)) - known):
        if not name.startswith("_"):
            lines.append(other_name(name, getattr(rushlight, name), rushlight.dtype))
    return "\n".join(lines) + "\n"


def main() -> int:
    text = make_text()
    compile(text, str(TARGET), "exec")
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print(f"{TARGET.relative_to(ROOT)} is out of date. Run: python tools/make_stubs.py")
        return 1
    TARGET.write_text(text)
    print(f"make_stubs: {TARGET.relative_to(ROOT)}, {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
