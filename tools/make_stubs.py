"""Write the type stubs of the public modules, from the registry and the package itself.

Enters: an importable rushlight. Leaves: a .pyi file beside each module of MODULES, functions and methods of ops
typed from their schemas, other public names from their Python signatures. It refuses nothing silently: a name whose signature cannot be read is
typed as accepting anything. `--check` compares instead of writing, and fails when a file is out of date.
"""

from __future__ import annotations

import inspect
import keyword
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("rushlight", "rushlight.special", "rushlight.linalg", "rushlight.nn.functional")

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
    "str": "builtins.str", "str[]": "Sequence[builtins.str]", "dtype": "_dtype",
    "device": "_device | builtins.str | builtins.int", "any": "Any", "layout": "Any", "memory_format": "Any",
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


def schemas_of_op(op: Any) -> list[tuple[Any, bool]]:
    """The schemas behind an op object, each with whether it takes out=; none if it is no op of the registry."""
    from rushlight.op.registry import definitions, schemas_of
    from rushlight.op.schema import parse

    label = getattr(op, "__name__", "")
    name = label if label in definitions else label.removesuffix("_")
    is_inplace = label != name
    return [(parse(text), cls.out and not is_inplace) for cls in definitions.get(name, ())
            if cls.inplace or not is_inplace for text in schemas_of(cls)]


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
        return f"{name}: _dtype"
    if isinstance(value, type):
        return (f"class {name}:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"
                "    def __getattr__(self, name: builtins.str) -> Any: ...")
    if callable(value):
        return f"def {name}({plain_signature(value)}) -> Any: ..."
    plain = type(value) in (int, float, bool, str)
    return f"{name}: builtins.{type(value).__name__}" if plain else f"{name}: Any"


def operator(name: str, schema: Any) -> str:
    """`x + y` and the like: one operand besides self, or none."""
    other = [f"other: {annotation(param.type)}" for param in schema.params[1:] if param.required]
    # object's own comparison gives a bool; ours, as PyTorch's, gives a tensor.
    mark = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"    def {name}({', '.join(['self', *other])}) -> Tensor: ...{mark}"


def tensor_class(tensor_type: type, op_type: type) -> list[str]:
    """The class, methods of ops typed, everything else present by name."""
    lines = ["class Tensor:", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    for name, value in sorted(vars(tensor_type).items()):
        if (name.startswith("_") and not name.startswith("__")) or name in ("__init__", "__new__", "__dict__", "__doc__"):
            continue
        schemas = schemas_of_op(value) if isinstance(value, op_type) else []
        if schemas and name.startswith("__"):
            lines.append(operator(name, schemas[0][0]))
        elif schemas:
            lines += variants(name, schemas, True, "    ")
        elif name.startswith("__"):
            continue  # the language's own protocols
        elif callable(value):
            lines.append(f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ...")
        else:
            lines.append(f"    {name}: Any")
    # Operators and protocols that are not ops.
    lines += [f"    def {name}(self) -> {result}: ..." for name, result in (
        ("__len__", "builtins.int"), ("__bool__", "builtins.bool"), ("__int__", "builtins.int"),
        ("__float__", "builtins.float"))]
    lines += ["    def __getitem__(self, index: Any) -> Tensor: ...",
              "    def __setitem__(self, index: Any, value: Tensor | Number) -> None: ..."]
    return lines


def module_text(module: types.ModuleType, is_root: bool) -> str:
    """The stub of one public module."""
    from rushlight import _C

    names = [name for name in dir(module) if not name.startswith("_")]
    lines = [HEADER]
    # Tensor has attributes called dtype and device, which would hide the classes inside it.
    aliases = ["_dtype = dtype", "_device = device"]
    lines += [*aliases, *tensor_class(_C.Tensor, _C.Op)] if is_root else ["from rushlight import Tensor, device as _device, dtype as _dtype"]
    for name in names:
        try:
            value = getattr(module, name)
        except ImportError:
            continue
        if isinstance(value, types.ModuleType):
            if value.__name__ == f"{module.__name__}.{name}":
                lines.append(f"from . import {name} as {name}")
        elif isinstance(value, _C.Op) and (schemas := schemas_of_op(value)):
            lines += variants(name, schemas, False, "")
        elif not (value is _C.Tensor and name == "Tensor") and getattr(value, "__module__", None) != "typing":
            lines.append(other_name(name, value, _C.dtype))
    return "\n".join(lines) + "\n"


def make_stubs() -> dict[Path, str]:
    """The stub files: the package itself, and the modules that only publish ops of a namespace."""
    sys.path.insert(0, str(ROOT))
    import importlib

    from rushlight.op import load_all

    load_all()   # methods that arrive late are in place then
    made = {}
    for name in MODULES:
        module = importlib.import_module(name)
        made[Path(module.__file__).with_suffix(".pyi")] = module_text(module, name == "rushlight")
    return made


def main() -> int:
    stale = []
    for path, text in make_stubs().items():
        compile(text, str(path), "exec")
        if "--check" not in sys.argv:
            path.write_text(text)
            print(f"make_stubs: {path.relative_to(ROOT)}, {text.count(chr(10))} lines")
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        print(f"Out of date: {', '.join(stale)}. Run: python tools/make_stubs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
