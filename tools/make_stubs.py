"""Write the type stubs of the public modules, from the registry and the package itself.

Enters: an importable rushlight. Leaves: a .pyi file beside each module whose names a checker cannot see in its source:
those made of ops, and those whose names arrive late. Functions and methods of ops are typed from their schemas; a class
or function that a Python file of the package defines is taken from that file, with the types written there; what is
written in C++ is typed in tools/core_stubs.py. A name whose signature cannot be read is typed as accepting anything.
`--check` compares instead of writing, and fails when a file is out of date.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import keyword
import re
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from core_stubs import CLASSES, CORE, RESULTS, TENSOR_MEMBERS, TENSOR_PROTOCOLS  # noqa: E402

WIDTH = 120              # columns of a stub's lines
OF_OPS = ("rushlight", "rushlight.special", "rushlight.linalg", "rushlight.fft", "rushlight.nn.functional")

HEADER = '''"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")

'''

# The spelling of schema types as annotations. Built-in names are qualified: rushlight has its own int, float and bool.
TYPES = {
    "Tensor": "Tensor", "Tensor[]": "Sequence[Tensor]", "Tensor?[]": "Sequence[Tensor | None]",
    "Tensor|Scalar": "Tensor | Number", "Scalar": "Number", "Scalar[]": "Sequence[Number]", "int": "builtins.int",
    "SymInt": "builtins.int", "int[]": "builtins.int | Sequence[builtins.int]",
    "SymInt[]": "builtins.int | Sequence[builtins.int]", "float": "builtins.float",
    "float[]": "Sequence[builtins.float]", "bool": "builtins.bool", "bool[]": "Sequence[builtins.bool]",
    "str": "builtins.str", "str[]": "Sequence[builtins.str]", "dtype": "_dtype",
    "device": "_device | builtins.str | builtins.int", "any": "Any", "layout": "_layout",
    "memory_format": "_memory_format", "Generator": "_Generator",
}


def annotation(text: str) -> str:
    """`int[]?` -> `builtins.int | Sequence[builtins.int] | None`."""
    if text.endswith("?"):
        return annotation(text[:-1]) + " | None"
    return TYPES.get(text, "Any")


def literal(value: Any) -> str:
    """A default as stub text; anything that is not a plain literal is left as `...`."""
    if isinstance(value, bool | int | str | None) or (
        isinstance(value, float) and value == value and abs(value) < 1e300
    ):
        return repr(value)
    return "..."


named_results: dict[str, tuple[str, ...]] = {}   # name of an op -> names of the parts of its result


def result_of(schema: Any) -> str:
    if schema.name in RESULTS:
        return RESULTS[schema.name]
    kinds = [annotation(kind) for kind in schema.returns]
    if len(kinds) == 1:
        # A list of tensors is given back as a tuple.
        return "tuple[Tensor, ...]" if schema.returns[0] == "Tensor[]" else kinds[0]
    if kinds and schema.return_names and set(schema.returns) == {"Tensor"}:
        named_results.setdefault(schema.name, tuple(schema.return_names))
        if named_results[schema.name] == tuple(schema.return_names):
            return f"_return_types.{schema.name}"
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
    result: list[str] = []
    for schema, has_out in schemas:
        result.append(f"def {label}({parameter_list(schema, is_method, has_out)}) -> {result_of(schema)}: ...")
        if takes_separate_numbers(schema, is_method):
            rest = [f"{p.name}: {annotation(p.type)}{'' if p.required else ' = ' + literal(p.default)}"
                    for p in schema.params if p.keyword_only]
            name = next(p.name for p in schema.params[1 if is_method else 0 :] if not p.keyword_only)
            first = ["self"] if is_method else []
            parts = [*first, f"*{name}: builtins.int", *rest]
            result.append(f"def {label}({', '.join(parts)}) -> {result_of(schema)}: ...")
    result = list(dict.fromkeys(result))
    mark = [f"{indent}@overload"] if len(result) > 1 else []
    return [line for text in result for line in (*mark, indent + text)]


def schemas_of_op(op: Any) -> list[tuple[Any, bool]]:
    """The schemas behind an op object, each with whether it takes out=; none if it is no op of the registry."""
    from rushlight.op.registry import definitions, schemas_of
    from rushlight.op.schema import parse

    overloads = getattr(op, "overload_list", None)
    label = overloads[0].definition.name if overloads else getattr(op, "__name__", "")    # an op may go by other names
    name = label if label in definitions else label.removesuffix("_")
    is_inplace = label != name
    return [(parse(text), cls.out and not is_inplace) for cls in definitions.get(name, ())
            if cls.inplace or not is_inplace for text in schemas_of(cls)]


# --- names that are no ops --------------------------------------------------------------------------------------------


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The functions and classes that a Python file defines at its top level."""
    return frozenset(
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )


homes: dict[int, str] = {}       # id of a function or class -> the module whose source defines it
_searched: set[str] = set()


def home_of(value: Any) -> str | None:
    """The module of the package whose source defines a function or class, if one does.
    (`__module__` says where it is public.)"""
    if not isinstance(value, type | types.FunctionType):
        return None
    for name, module in sorted(sys.modules.items()):
        path = Path(str(getattr(module, "__file__", None)))
        if name in _searched or not name.startswith("rushlight.") or path.suffix != ".py":
            continue
        _searched.add(name)
        parts = path.with_suffix("").relative_to(ROOT).parts
        # and not another name of the file's module
        if name == ".".join(parts[:-1] if parts[-1] == "__init__" else parts):
            homes.update(
                (id(found), name) for known in defined_in(path) if (found := vars(module).get(known)) is not None
            )
    return homes.get(id(value))


def known_annotation(text: Any) -> str:
    """An annotation of a method as the stub can say it; Any where it names something that the stub does not import."""
    if not isinstance(text, str):
        return "Any"
    spelled = {
        "Tensor": "Tensor",
        "_C.Tensor": "Tensor",
        "Any": "Any",
        "None": "None",
        "Sequence": "Sequence",
        "Callable": "Callable",
        "dtype": "_dtype",
        "_C.dtype": "_dtype",
        "device": "_device",
        "_C.device": "_device",
        "Iterator": "Iterator",
        "Self": "Self",
    }

    def say(node: ast.AST) -> str:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return f"{say(node.left)} | {say(node.right)}"
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return f"{say(node.value)}[{', '.join(map(say, inner))}]"
        if isinstance(node, ast.List):
            return f"[{', '.join(map(say, node.elts))}]"
        if isinstance(node, ast.Constant) and (node.value is None or node.value is ...):
            return "None" if node.value is None else "..."
        name = ast.unparse(node)
        if name in spelled:
            return spelled[name]
        if isinstance(node, ast.Name) and isinstance(getattr(builtins, name, None), type):
            return f"builtins.{name}"
        raise KeyError(name)

    try:
        return say(ast.parse(text, mode="eval").body)
    except (KeyError, SyntaxError):
        return "Any"


def plain_signature(value: Any, is_method: bool = False) -> str:
    """A Python function's parameters."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ("self, " if is_method else "") + "*args: Any, **kwargs: Any"
    parts, star = [], False
    params = list(signature.parameters.values())
    if is_method:
        parts.append("self")
        params = params[1:]
    for param in params:
        kind = known_annotation(param.annotation)
        if param.kind is param.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            star = star or param.kind is param.VAR_POSITIONAL
            parts.append(f"{'*' if param.kind is param.VAR_POSITIONAL else '**'}{param.name}: {kind}")
        else:
            parts.append(f"{param.name}: {kind}" + ("" if param.default is param.empty else " = ..."))
    return ", ".join(parts)


def plain_result(value: Any) -> str:
    return known_annotation(getattr(value, "__annotations__", {}).get("return"))


def class_text(name: str, value: type) -> str:
    """A class of the module itself: what it inherits of the language, whether it is a context,
    and anything else by name."""
    base = next(
        (
            base.__name__
            for base in value.__mro__[1:]
            if getattr(builtins, base.__name__, None) is base and base is not object
        ),
        None,
    )
    lines = [
        f"class {name}({f'builtins.{base}' if base else ''}):".replace("()", ""),
        "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...",
    ]
    if hasattr(value, "__enter__"):
        lines += ["    def __enter__(self) -> Self: ...", "    def __exit__(self, *exc: object) -> None: ..."]
    return "\n".join([*lines, "    def __getattr__(self, name: builtins.str) -> Any: ..."])


def other_name(name: str, value: Any, dtype_type: type, module: str) -> str:
    """One public name that is not an op."""
    if name in CLASSES:
        return CLASSES[name].strip()
    if isinstance(value, dtype_type):
        return f"{name}: _dtype"
    if (home := home_of(value)) and home != module:
        told = value.__name__      # which may be another name than its file has for it
        return f"from {home} import {told if hasattr(sys.modules[home], told) else name} as {name}"
    if isinstance(value, type):
        return class_text(name, value)
    if callable(value):
        return f"def {name}({plain_signature(value)}) -> {plain_result(value)}: ..."
    if getattr(type(value), "__module__", "") == "rushlight.base.shape":
        return f"{name}: _{type(value).__name__}"
    plain = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    return f"{name}: builtins.{plain.__name__}" if plain else f"{name}: Any"


def operator(name: str, schema: Any) -> str:
    """`x + y` and the like: one operand besides self, or none."""
    other = [f"other: {annotation(param.type)}" for param in schema.params[1:] if param.required]
    # object's own comparison gives a bool; ours, as PyTorch's, gives a tensor.
    mark = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"    def {name}({', '.join(['self', *other])}) -> Tensor: ...{mark}"


def tensor_class(tensor_type: type, op_type: type) -> list[str]:
    """The class: methods of ops typed by their schemas, those of the core by hand, others by their annotations."""
    lines = ["class Tensor:", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    unknown = [name for name in TENSOR_MEMBERS if not hasattr(tensor_type, name)]
    if unknown:
        sys.exit(f"make_stubs: tools/core_stubs.py types members that a tensor does not have: {unknown}")
    for name, value in sorted(vars(tensor_type).items()):
        if name in ("__init__", "__new__", "__dict__", "__doc__"):
            continue
        if name.startswith("_") and not name.startswith("__") and name not in TENSOR_MEMBERS:
            continue
        schemas = schemas_of_op(value) if isinstance(value, op_type) else []
        if name in TENSOR_MEMBERS:
            lines += [f"    {line}" for line in TENSOR_MEMBERS[name].split("\n")]
        elif schemas and name.startswith("__"):
            lines.append(operator(name, schemas[0][0]))
        elif schemas:
            lines += variants(name, schemas, True, "    ")
        elif name.startswith("__"):
            continue  # the language's own protocols
        elif isinstance(value, types.FunctionType):
            lines.append(f"    def {name}({plain_signature(value, True)}) -> {plain_result(value)}: ...")
        elif callable(value):
            lines.append(f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ...")
        else:
            lines.append(
                f"    {name}: {'builtins.bool' if isinstance(value, bool) or name.startswith('is_') else 'Any'}"
            )
    lines += [f"    {line}" for line in TENSOR_PROTOCOLS.strip().split("\n")]
    return lines


# Tensor has attributes called dtype and device, which would hide the classes inside it.
ALIASES = ["_dtype = dtype", "_device = device", "_Generator = Generator"]
IMPORTS = ["from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype"]
SHARED = [
    "from rushlight import return_types as _return_types",
    "from rushlight.base.shape import layout as _layout, memory_format as _memory_format",
]


def module_text(module: types.ModuleType, is_root: bool) -> str:
    """The stub of one public module."""
    from rushlight import _C

    names = [name for name in dir(module) if not name.startswith("_") or (is_root and name == "__version__")]
    lines = [HEADER, *SHARED, *(ALIASES if is_root else IMPORTS)]
    lines += tensor_class(_C.Tensor, _C.Op) if is_root else []
    for name in names:
        try:
            value = getattr(module, name)
        except (ImportError, AttributeError):
            continue
        if isinstance(value, types.ModuleType):
            if value.__name__ == f"{module.__name__}.{name}":
                lines.append(f"from . import {name} as {name}")
        elif isinstance(value, _C.Op) and (schemas := schemas_of_op(value)):
            lines += variants(name, schemas, False, "")
        elif not (value is _C.Tensor and name == "Tensor") and getattr(value, "__module__", None) != "typing":
            if not is_root and name in CLASSES:
                lines.append(f"from rushlight import {name} as {name}")
            else:
                lines.append(other_name(name, value, _C.dtype, module.__name__))
    return "\n".join(lines) + "\n"


def result_types() -> str:
    """The stub of `rushlight.return_types`."""
    classes = [
        f"class {name}(NamedTuple):\n" + "\n".join(f"    {part}: Tensor" for part in parts)
        for name, parts in sorted(named_results.items())
    ]
    return (
        "\n".join(
            [
                '"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""\n',
                "from typing import NamedTuple\n",
                "from rushlight import Tensor\n",
                *classes,
            ]
        )
        + "\n"
    )


def core_names() -> str:
    """The stub of the native module, for checkers that read our sources: its classes are those of the package where
    they are public, the rest is CORE; a name that is not in it may be anything."""
    from rushlight import _C

    shared = [name for name in ("Tensor", "Generator", "UntypedStorage", "device", "dtype") if hasattr(_C, name)]
    said = {match[1] for match in re.finditer(r"(?m)^(?:class |def )?(\w+)(?=[:(])", CORE)}
    aliases = {match[1] for match in re.finditer(r"(?m)^(\w+): TypeAlias", CORE)}
    if unknown := sorted(name for name in said - aliases - {"_Symbolic"} if not hasattr(_C, name)):
        sys.exit(f"make_stubs: tools/core_stubs.py types names that the core does not have: {unknown}")
    rest = [name for name in dir(_C) if not name.startswith("__") and name not in said and name not in shared]
    lines = ['"""Made by tools/make_stubs.py. Do not edit: run the tool."""\n']
    lines += ["import builtins", "from collections.abc import Callable, Mapping, Sequence"]
    lines += ["from typing import Any, TypeAlias\n"]
    lines += [f"from rushlight import {name} as {name}" for name in shared]
    lines += [CORE, *(f"{name}: {'dtype' if isinstance(getattr(_C, name), _C.dtype) else 'Any'}" for name in rest)]
    return "\n".join(lines) + "\n"


def late_modules() -> list[str]:
    """Modules whose names a checker cannot see: they arrive late, or are taken over from ops."""
    found = []
    for path in sorted((ROOT / "rushlight").rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        if (
            name != "rushlight"
            and "late.names(" in path.read_text()
            and "._" not in name
            and not name.startswith("rushlight.definitions")
        ):
            found.append(name)
    return found


def at_commas(text: str) -> list[str]:
    """A list of parameters, cut at the commas that are in no bracket."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def folded(line: str) -> str:
    """A line within the width, where a signature or an import can be cut."""
    indent = line[: len(line) - len(line.lstrip())]
    imported = re.fullmatch(r"(from \S+ import) (.*)", line)
    signature = re.fullmatch(r"(\s*def \w+)\((.*)\)( -> .*: \.\.\.)(  # .*)?", line)
    if len(line) <= WIDTH or not (imported or signature):
        return line
    head, inside = (imported or signature).groups()[:2]
    rows = [f"{indent}    "]
    for part in at_commas(inside):
        if len(rows[-1]) + len(part) + 1 > WIDTH and rows[-1].strip():
            rows.append(f"{indent}    ")
        rows[-1] += f"{part}, "
    rows = [row.rstrip() for row in rows]
    if imported:
        return "\n".join([f"{head} (", *rows, ")"])
    if inside.rpartition(",")[2].lstrip().startswith("*"):      # a comma behind **kwargs is legal, but unusual
        rows[-1] = rows[-1].removesuffix(",")
    return "\n".join([f"{head}({signature[4] or ''}", *rows, f"{indent}){signature[3]}"])


def make_stubs() -> dict[Path, str]:
    """The stub files, by path."""
    sys.path.insert(0, str(ROOT))
    from rushlight.op import load_all

    load_all()   # methods that arrive late are in place then
    result = {}
    for name in (*OF_OPS, *late_modules()):
        module = importlib.import_module(name)
        result[Path(module.__file__).with_suffix(".pyi")] = module_text(module, name == "rushlight")
    result[ROOT / "rushlight" / "return_types.pyi"] = result_types()
    result[ROOT / "rushlight" / "_C.pyi"] = core_names()
    return {path: "\n".join(map(folded, text.split("\n"))) for path, text in result.items()}


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
