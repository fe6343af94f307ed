"""Enforce the shape of the tree: which way imports point, how long files are, what they may be called.

Enters: the source tree (nothing is imported or run; files are parsed). Leaves: one line per violation on
stdout and a non-zero exit status, or a line saying what was checked. It refuses to guess: a new top-level
module of the package must be given its place in `LAYERS` below.

An import counts wherever it stands: at the head of a file, in a function, or as a string (`import_module(".x",
__package__)`, `late` tables, `sys.modules["..."]`); those for the type checker alone do not. Lower layers get what they
need from above by registration: see `late.provided` and rushlight/wiring.py.

    python tools/check_layers.py            check this tree
    python tools/check_layers.py --graph    print the package-level import graph instead
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "rushlight"
MAX_LINES = 800
MAX_ALIKE = 3            # files of one folder whose names begin alike
SMALL_ROOM = 1500        # lines of a room that CEILINGS does not name
LOOSE = "(loose modules)"
SOURCE_SUFFIXES = {".py", ".cpp", ".h", ".cu"}
CHECKED_FOLDERS = (PACKAGE, "csrc", "tests", "tools", "benchmarks", "docs", "examples")

# From the bottom up. A module may import only from lines before its own, or from its own package. Names on
# one line do not see each other. `_C` is the native core, which `_extras` completes; "" is rushlight/__init__.py.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("base.environment", "base.digest", "base.bits"),
    ("base.sources",),
    (
        "base.errors",
        "base.linalg_error",
        "version",
        "base.show",
        "base.notice",
        "base.tracebacks",
        "base.absent",
        "base.collector",
        "base.disk_cache",
        "base.late",
        "base.protobuf",
        "base.tables",
        "futures",
        "base.homes",
        "base.core_finder",
    ),
    ("base.logs", "base.descriptions"),
    ("base.refusals",),
    ("_jit_internal",),
    ("_C", "_extras", "_stable"),
    ("_logging",),
    ("base.settings", "base.core_modules", "base.quantizers", "base.quantized_engines"),
    ("symbols",),
    ("base.shape",),
    ("base.assertions",),
    ("base.dtype", "base.codec"),
    ("base.promotion",),
    ("devices",),
    ("loops",),
    ("codegen.text",),
    ("codegen.tiles",),
    ("codegen.llvm",),
    ("codegen.nvptx",),
    ("codegen.stored",),
    ("codegen.library",),
    ("codegen",),
    ("codegen.schedule.forms",),
    ("codegen.schedule.cpu", "codegen.schedule.gpu"),
    ("codegen.schedule",),
    ("devices.cuda",),
    ("op",),
    ("planners.products", "planners.fourier", "planners.order"),
    ("planners.convolutions", "planners.factors"),
    ("planners",),
    ("rules",),
    ("autograd",),
    ("dispatch.levels",),
    ("dispatch",),
    ("aten",),
    ("definitions",),
    ("ops",),
    ("random",),
    ("tensors.printing", "tensors.pages", "tensors.indexing", "tensors.interop", "tensors.storages",
     "tensors.flat_lists"),
    ("tensors.legacy_types",),
    ("tensors.plain_functions",),
    ("functional",),
    ("tensors.pickling",),
    ("_tensor",),
    ("torch_names.rare", "torch_names.questions", "classes", "torch_names.unbuilt"),
    ("tensors.methods", "_utils"),
    ("serialization",),
    ("hub",),
    ("multiprocessing",),
    ("library",),
    ("quantized", "_library"),
    ("cxx",),
    ("special", "linalg", "fft", "signal", "masked", "nested", "sparse", "distributions", "quasirandom"),
    ("utils",),
    ("func", "fake", "_decomp"),
    ("aten_view",),
    (
        "_subclasses",
        "return_types",
        "torch_names.streams",
        "types",
        "_tensor_str",
        "_custom_ops",
        "overrides",
        "storage",
    ),
    ("_higher_order_ops", "_prims_common"),
    ("_ops",),
    ("nn",),
    ("torch_names.core_names",),
    ("optim", "datasets", "amp"),
    ("cxx_layers",),
    ("cpu",),
    ("backends", "accelerator", "monitor", "numa"),
    ("__config__",),
    ("testing",),
    ("fx",),
    ("dynamo.settings", "dynamo.errors"),
    ("dynamo.bytecode",),
    ("dynamo.record",),
    ("dynamo.values",),
    ("dynamo.frames",),
    ("dynamo.rules",),
    ("dynamo.machine",),
    ("dynamo.stored",),
    ("dynamo",),
    ("aot",),
    ("inductor",),
    ("compiler",),
    ("_functorch",),
    ("functorch",),
    ("_dynamo",),
    ("_inductor",),
    ("distributed", "cuda", "mps", "xpu", "mtia"),
    ("ao",),
    ("_export",),
    ("script",),
    ("export", "jit", "profiler", "package"),
    ("autograd.profiler", "autograd.profiler_util"),
    ("onnx",),
    ("mlir",),
    ("lazy",),
    ("_lazy",),
    ("xla",),
    ("freestanding",),
    ("compat",),
    ("torch_names.home_rows", "wiring"),
    ("",),
    ("conform", "serve", "learn", "welcome"),
    ("__main__",),
)
NATIVE = ("_C", "_extras", "_stable")
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# Lines that a room may have; those not named here stay small. `python tools/size.py` prints what each has.
CEILINGS = {
    LOOSE: 3260,
    "_decomp": 2000,
    "aten_view": 2860,
    "ao": 18500,
    "aot": 4150,
    "aten": 2050,
    "autograd": 2850,
    "base": 2980,
    "codegen": 26900,
    "conform": 5600,
    "cuda": 3350,
    "definitions": 38700,
    "devices": 8000,
    "dispatch": 3150,
    "distributed": 25650,
    "distributions": 5800,
    "dynamo": 15200,
    "export": 5900,
    "freestanding": 1700,
    "fx": 8600,
    "inductor": 5650,
    "jit": 2300,
    "learn": 6600,
    "library": 2300,
    "loops": 6900,
    "nn": 10800,
    "mlir": 12000,
    "onnx": 15850,
    "quantized": 4500,
    "op": 5180,
    "optim": 4100,
    "planners": 11900,
    "profiler": 7400,
    "rules": 1700,
    "serialization": 3100,
    "script": 26000,
    "serve": 9800,
    "symbols": 2700,
    "tensors": 3010,
    "xla": 2200,
    "utils": 12600,
    # transcripts take Python out of backward passes; kernels of users and ONNX files are read in the core
    "csrc": 33400,
    "cxx": 2000,
}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
# PyTorch's own public names, which compatibility obliges us to keep.
PUBLIC_NAMES = {
    "rushlight/utils",
    "rushlight/nn/utils",
    "rushlight/nn/modules/utils",
    "rushlight/autograd/utils",
    "rushlight/_dynamo/utils",
    "rushlight/_export/utils",
    "rushlight/_dynamo/backends/common",
    "rushlight/_inductor/codegen/common",
    "rushlight/ao/pruning/sparsifier/utils",
    "rushlight/ao/quantization/backend_config/utils",
    "rushlight/ao/quantization/fx/utils",
    "rushlight/ao/ns/fx/utils",
    "rushlight/ao/quantization/utils",
    "rushlight/ao/nn/quantized/modules/utils",
    "rushlight/ao/nn/quantized/reference/modules/utils",
    "rushlight/ao/nn/sparse/quantized/utils",
    "rushlight/distributed/algorithms/model_averaging/utils",
    "rushlight/distributions/utils",
    "rushlight/serve/shim/ts/handler_utils/utils",
    "rushlight/serve/shim/ts/utils",
    "rushlight/serve/shim/ts/utils/util",
    "tests/utils",
    "rushlight/cuda/amp/common",
    "rushlight/fx/passes/utils",
    "rushlight/fx/passes/utils/common",
    "rushlight/fx/passes/dialect/common",
}

# Imports that may point up or close a circle, each with its reason. (from, to) -> why.
ALLOWED: dict[tuple[str, str], str] = {}

# Rooms whose packages only list their files (`late.names`), and whose files import files, never packages: PyTorch's
# packages of quantization hold files that need one another across packages. Such a list runs nothing, so it is not a
# step of a circle.
LISTS = ("ao",)

# Start-up budget: `import rushlight` must not load these, so nothing it reaches may import them eagerly.
HEAVY = {"numpy", "llvmlite", "scipy_openblas64", "hypothesis", "torch"}

# The last names of the calls that load a module by a string (`Tree.named`).
LOADERS = {"import_module", "__import__", "names", "provide", "rest", "get"}
# Two million nodes are looked at: classes are asked about as tuples made once.
STATEMENTS = (ast.Import, ast.ImportFrom)
EXPRESSIONS = (ast.Call, ast.Subscript, ast.Compare)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.unaryop)


@dataclass(frozen=True)
class Import:
    """One import of `target` (a dotted module name) by `module`; `eager` when it runs at import time.

    `hidden` says how it escapes a reader of the file's head, if it does: "in a function", "by name", "late",
    "sys.modules".
    """

    module: str
    target: str
    path: Path
    line: int
    eager: bool
    hidden: str = ""


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def is_type_checking(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def is_modules(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith("sys.modules")


@dataclass
class Source:
    """One parsed file: what its names mean, as far as that can be known without running it."""

    path: Path
    module: str
    tree: ast.Module
    assigned: dict[str, ast.expr]      # names given a value at the top of the file
    borrowed: dict[str, tuple[str, str]]   # names imported at the top: (module, its name there)

    @property
    def package(self) -> str:
        return self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]


def read_source(path: Path) -> Source:
    source = Source(path, module_name(path), ast.parse(path.read_text(encoding="utf-8"), str(path)), {}, {})
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            base = absolute("." * node.level + (node.module or ""), source.package)
            source.borrowed.update({alias.asname or alias.name: (base, alias.name) for alias in node.names})
    for node in source.tree.body:
        if isinstance(node, ast.Assign):
            source.assigned.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            source.assigned[node.target.id] = node.value
    return source


def absolute(name: str, package: str) -> str:
    """`..nn.parameter` seen from `package`, as a full name."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - (dots - 1)], *filter(None, [name[dots:]])])


class Tree:
    """All files of the package, and what they import: by statement, or by a name that is a string."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = {source.module: source for source in sources}

    def find(self, source: Source, name: str) -> tuple[Source, ast.expr] | None:
        """The value given to a name at the top of `source`, or of the file it was imported from."""
        if name in source.assigned:
            return source, source.assigned[name]
        module, there = source.borrowed.get(name, ("", ""))
        other = self.sources.get(module)
        return self.find(other, there) if other is not None and other is not source else None

    def text(self, node: ast.expr, source: Source) -> str:
        """A string expression as a pattern: what is only known to the running program is `*`."""
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Name(id="__name__"):
                return source.module
            case ast.Name(id="__package__"):
                return source.package
            case ast.Name(id=name):
                found = self.find(source, name)
                return self.text(found[1], found[0]) if found else "*"
            case ast.JoinedStr(values=values):
                return "".join(self.text(value, source) for value in values)
            case ast.FormattedValue(value=value):
                return self.text(value, source)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.text(left, source) + self.text(right, source)
            case ast.Subscript(
                value=ast.Call(
                    func=ast.Attribute(value=value, attr="partition" | "rpartition" | "split" as cut),
                    args=[ast.Constant(value=str(mark))],
                ),
                slice=ast.Constant(value=0),
            ):
                return getattr(self.text(value, source), cut)(mark)[0]
            case ast.Call(func=ast.Attribute(value=value, attr="rstrip" | "removeprefix" | "removesuffix")):
                return self.text(value, source)
        return "*"

    def words(self, node: ast.AST, source: Source, seen: frozenset = frozenset()) -> set[str]:
        """Every word of every string in an expression, tables that it names included."""
        found: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found.update(part.value.split())
            elif isinstance(part, ast.Name) and (source.module, part.id) not in seen:
                table = self.find(source, part.id)
                if table:
                    found |= self.words(table[1], table[0], seen | {(source.module, part.id)})
        return found

    def matching(self, pattern: str, source: Source) -> list[str]:
        """The modules that a pattern can mean: what stands for its `*` must be written somewhere in the file."""
        if "*" not in pattern:
            return [pattern]
        prose = {node.value for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}     # docstrings
        said = {word for node in ast.walk(source.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
                and node not in prose for word in node.value.split()}
        if pattern == "*":
            return [module for module in sorted(self.sources) if module in said and "." in module]
        shape = re.compile(re.escape(pattern).replace(r"\*", r"([\w.]+)"))
        matches = ((module, shape.fullmatch(module)) for module in sorted(self.sources))
        return [module for module, match in matches if match and said.issuperset(match.groups())]

    def named(self, node: ast.Call | ast.Subscript | ast.Compare, source: Source) -> tuple[list[str], str]:
        """The modules that a call loads by name, and how: import_module, `late` tables, sys.modules."""
        if isinstance(node, ast.Subscript):
            is_table = is_modules(node.value) and isinstance(node.ctx, ast.Load)
            return (self.ours(self.text(node.slice, source), source), "sys.modules") if is_table else ([], "")
        if isinstance(node, ast.Compare):
            is_table = isinstance(node.ops[0], ast.In | ast.NotIn) and is_modules(node.comparators[0])
            return (self.ours(self.text(node.left, source), source), "sys.modules") if is_table else ([], "")
        last = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if last not in LOADERS or not node.args:
            return [], ""
        called = ast.unparse(node.func).removeprefix("_")
        if last in ("import_module", "__import__") and "self." not in called and "importer." not in called:
            where = self.text(node.args[1], source) if len(node.args) > 1 else source.package
            pattern = self.text(node.args[0], source)
            return self.matching(absolute(pattern, where), source), "by name"
        if called == "late.names":
            words = {
                word
                for arg in (*node.args[1:], *(keyword.value for keyword in node.keywords))
                for word in self.words(arg, source)
            }
            return [name for word in sorted(words) if (name := f"{source.package}.{word}") in self.sources], "late"
        if called == "late.provide":
            files = {word.partition(":")[0] for word in self.words(node.args[0], source)}
            return [name for file in sorted(files) if (name := f"{PACKAGE}.{file}") in self.sources], "late"
        if called == "late.rest":
            return [self.text(node.args[1], source)], "late"
        if called.endswith("sys.modules.get"):
            return self.ours(self.text(node.args[0], source), source), "sys.modules"
        return [], ""

    def ours(self, pattern: str, source: Source) -> list[str]:
        return [
            name for name in self.matching(pattern, source) if name.split(".")[0] == PACKAGE and name != source.module
        ]

    def stated(self, node: ast.Import | ast.ImportFrom, source: Source) -> list[str]:
        """The modules that an import statement loads."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = absolute("." * node.level + (node.module or ""), source.package)
        # `from package import submodule` depends on the submodule, not on everything the package holds.
        names = [f"{base}.{alias.name}" for alias in node.names]
        native = tuple(f"{PACKAGE}.{name}" for name in NATIVE)
        return [name if name in self.sources or name in native else base for name in names]

    def imports_of(self, source: Source) -> Iterator[Import]:
        """Every import in a file, those for the type checker alone left out."""
        waiting: list[tuple[ast.AST, bool]] = [(source.tree, True)]     # a list, not recursion: two million nodes
        while waiting:
            node, eager = waiting.pop()
            targets, hidden = [], ""
            if isinstance(node, STATEMENTS):
                targets, hidden = self.stated(node, source), "" if eager else "in a function"
            elif isinstance(node, EXPRESSIONS):
                targets, hidden = self.named(node, source)
            for target in dict.fromkeys(targets) if targets else ():
                yield Import(
                    source.module, target, source.path, node.lineno, eager and hidden in ("", "by name"), hidden
                )
            if isinstance(node, ast.If) and is_type_checking(node):
                children: list[ast.AST] = list(node.orelse)
            else:
                children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, LEAVES)]
            inside = eager and not isinstance(node, FUNCTIONS)
            waiting.extend((child, inside) for child in reversed(children))


def layer_of(module: str) -> str:
    """The longest name in LAYERS that `module` belongs to: rushlight.definitions.pointwise.trig -> definitions,
    rushlight.base.shape -> base.shape."""
    parts = module.split(".")[1:]
    for length in range(len(parts), 1, -1):
        if (name := ".".join(parts[:length])) in RANK:
            return name
    return parts[0] if parts else ""


def place(path: Path, line: int = 0) -> str:
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def check_direction(imports: list[Import]) -> Iterator[str]:
    for entry in imports:
        if entry.target.split(".")[0] != PACKAGE or (entry.module, entry.target) in ALLOWED:
            continue
        here, there = layer_of(entry.module), layer_of(entry.target)
        if here not in RANK:
            continue  # check_declared reports it once
        if there not in RANK:
            # `from rushlight import name` where name is a public function: an import of rushlight itself.
            there = ""
        if here != there and RANK[there] >= RANK[here]:
            shown = f"{PACKAGE}.{there}" if there else PACKAGE
            how = f" ({entry.hidden})" if entry.hidden else ""
            yield f"{place(entry.path, entry.line)}: {entry.module} imports {shown}, which is not below it{how}"


def check_rows(modules: dict[str, Path], rooms: Collection[str]) -> Iterator[str]:
    """Every name in the tables of this file means something."""
    for name in RANK:
        if name and name not in NATIVE and f"{PACKAGE}.{name}" not in modules:
            yield f"tools/check_layers.py: LAYERS names {name}, and there is no such module. Take it out."
    for room in sorted(CEILINGS.keys() - set(rooms)):
        yield f"tools/check_layers.py: CEILINGS names {room}, and there is no such room. Take it out."


def check_declared(modules: dict[str, Path]) -> Iterator[str]:
    split = {name.partition(".")[0] for name in RANK if "." in name}     # packages whose files have places of their own
    for layer in sorted({layer_of(module) for module in modules} - set(RANK)):
        if layer in split and all(module == f"{PACKAGE}.{layer}" for module in modules if layer_of(module) == layer):
            continue     # its __init__.py, which imports nothing
        yield f"{PACKAGE}/{layer}: not in LAYERS. Give it a place in tools/check_layers.py."


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in sorted(edges):
        if root in number:
            continue
        work = [(root, iter(sorted(edges[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            module, rest = work[-1]
            for target in rest:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges[target]))))
                    break
                if target in on_stack:
                    low[module] = min(low[module], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == number[module]:
                    at = stack.index(module)
                    members, stack[at:] = stack[at:], []
                    on_stack.difference_update(members)
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def check_cycles(imports: list[Import], modules: dict[str, Path]) -> Iterator[str]:
    """Files that import each other, however late: each circle once, with the imports that make it.

    Importing a.b.c from outside a.b also runs a.b, so that is an edge too.
    """
    edges: dict[str, set[str]] = {module: set() for module in modules}
    lines: dict[tuple[str, str], Import] = {}
    for entry in imports:
        parts = entry.target.split(".")
        is_own = entry.hidden == "late" and entry.target.startswith(f"{entry.module}.")
        if is_own and layer_of(entry.module) in LISTS:
            continue
        for length in range(2, len(parts) + 1):
            name = ".".join(parts[:length])
            if (length < len(parts) and f"{entry.module}.".startswith(f"{name}.")) or name == entry.module:
                continue
            if name in modules and (entry.module, name) not in ALLOWED:
                edges[entry.module].add(name)
                lines.setdefault((entry.module, name), entry)
        if entry.target == PACKAGE != entry.module and (entry.module, PACKAGE) not in ALLOWED:
            edges[entry.module].add(PACKAGE)
            lines.setdefault((entry.module, PACKAGE), entry)
    for members in circles(edges):
        inside = [
            (target, lines[module, target])
            for module in members
            for target in sorted(edges[module])
            if target in members
        ]
        yield f"import cycle of {len(members)} files: {', '.join(members)}\n" + "\n".join(
            f"    {place(entry.path, entry.line)}: {entry.module} ->"
            f" {target}{f' ({entry.hidden})' if entry.hidden else ''}"
            for target, entry in inside
        )


def check_start_up(imports: list[Import], modules: dict[str, Path]) -> Iterator[str]:
    """No heavy dependency on any path that `import rushlight` runs."""
    eager: dict[str, list[Import]] = {}
    for entry in imports:
        if entry.eager:
            eager.setdefault(entry.module, []).append(entry)
    waiting, seen = [PACKAGE], {PACKAGE}
    while waiting:
        for entry in eager.get(waiting.pop(), []):
            if entry.target.split(".")[0] in HEAVY:
                yield f"{place(entry.path, entry.line)}: `import rushlight` would load {entry.target.split('.')[0]}"
            parts = entry.target.split(".")
            for length in range(1, len(parts) + 1):  # importing a.b.c runs a and a.b as well
                name = ".".join(parts[:length])
                if name in modules and name not in seen:
                    seen.add(name)
                    waiting.append(name)


def source_files() -> Iterator[Path]:
    for folder in CHECKED_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and "__pycache__" not in path.parts:
                yield path


def check_files() -> Iterator[str]:
    for path in source_files():
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > MAX_LINES:
            yield f"{place(path)}: {lines} lines, the limit is {MAX_LINES}. Split it by what its parts do."
        relative = path.relative_to(ROOT).with_suffix("")
        for length in range(1, len(relative.parts) + 1):
            prefix = "/".join(relative.parts[:length])
            # below include/ stand PyTorch's own names of headers
            own = prefix not in PUBLIC_NAMES and relative.parts[:2] != (PACKAGE, "include")
            if relative.parts[length - 1] in FORBIDDEN_NAMES and own:
                yield f"{place(path)}: `{relative.parts[length - 1]}` says nothing. Name it after what it does."


def check_prefixes() -> Iterator[str]:
    """Files of one folder whose names begin alike want a folder of their own. (Tests are all called test_.)"""
    begun: dict[tuple[Path, str], set[str]] = {}
    for path in source_files():
        inside = path.relative_to(ROOT).parts
        if inside[0] != "tests" and inside[:2] != (PACKAGE, "include"):      # PyTorch's own names of headers
            begun.setdefault((path.parent, path.stem.lstrip("_").partition("_")[0]), set()).add(path.stem)
    for (folder, prefix), names in sorted(begun.items()):
        if len(names) > MAX_ALIKE:
            yield f"{place(folder)}: {', '.join(sorted(names))} share a prefix. Make it a folder, `{prefix}/`."


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def sizes() -> dict[str, int]:
    """Lines of every room directly below the package (its loose modules are one), and of csrc."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        inside = path.relative_to(ROOT / PACKAGE).parts
        room = inside[0] if len(inside) > 1 else LOOSE
        found[room] = found.get(room, 0) + lines_of(path)
    found["csrc"] = sum(lines_of(path) for path in (ROOT / "csrc").rglob("*") if path.suffix in SOURCE_SUFFIXES)
    return found


def check_sizes() -> Iterator[str]:
    """No room outgrows its ceiling unnoticed: whoever needs more says so in CEILINGS, and why in the commit."""
    for room, lines in sizes().items():
        if lines > (ceiling := CEILINGS.get(room, SMALL_ROOM)):
            yield f"{room}: {lines} lines, its ceiling is {ceiling}. Simplify, or raise it in tools/check_layers.py."


def check_test_names() -> Iterator[str]:
    """pytest imports test files by their bare name, so two of one name cannot be collected together."""
    seen: dict[str, Path] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("__init__.py", "__main__.py", "conftest.py") or (path.parent / "__init__.py").exists():
            continue
        if path.name in seen:
            yield f"{place(path)}: {place(seen[path.name])} has the same name, and pytest would refuse one of them"
        seen[path.name] = path


def print_graph(imports: list[Import]) -> None:
    pairs = sorted({(layer_of(entry.module), layer_of(entry.target)) for entry in imports
                    if entry.target.split(".")[0] == PACKAGE})
    for here in sorted({here for here, _ in pairs}, key=lambda name: RANK.get(name, -1)):
        print(f"{here or PACKAGE:14} -> {', '.join(there or PACKAGE for h, there in pairs if h == here != there)}")


def read_tree() -> Tree:
    """Every file of the package, parsed. The collector rests: it would walk millions of nodes over and over."""
    paths = sorted(path for path in (ROOT / PACKAGE).rglob("*.py") if "__pycache__" not in path.parts)
    gc.disable()
    try:
        return Tree([read_source(path) for path in paths])
    finally:
        gc.enable()
        gc.freeze()


def main() -> int:
    tree = read_tree()
    modules = {source.module: source.path for source in tree.sources.values()}
    imports = [entry for source in tree.sources.values() for entry in tree.imports_of(source)]
    if "--graph" in sys.argv:
        print_graph(imports)
        return 0
    problems = [
        *check_rows(modules, sizes()), *check_declared(modules), *check_direction(imports),
        *check_cycles(imports, modules), *check_start_up(imports, modules), *check_files(), *check_prefixes(),
        *check_sizes(), *check_test_names(),
    ]
    for problem in dict.fromkeys(problems):
        print(problem)
    if not problems:
        print(
            f"check_layers: {len(modules)} modules, {len(imports)} imports, no circles, no upward imports, no"
            " violations"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
