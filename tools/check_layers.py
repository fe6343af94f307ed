"""Enforce the shape of the tree: which way imports point, how long files are, what they may be called.

Enters: the source tree (nothing is imported or run; files are parsed). Leaves: one line per violation on
stdout and a non-zero exit status, or a line saying what was checked. It refuses to guess: a new top-level
module of the package must be given its place in `LAYERS` below.

    python tools/check_layers.py            check this tree
    python tools/check_layers.py --graph    print the package-level import graph instead
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "rushlight"
MAX_LINES = 800
SOURCE_SUFFIXES = {".py", ".cpp", ".h", ".cu"}
CHECKED_FOLDERS = (PACKAGE, "csrc", "tests", "tools", "benchmarks", "docs", "examples")

# From the bottom up. A module may import only from lines before its own, or from its own package. Names on
# one line do not see each other. `_C` is the native core; "" is rushlight/__init__.py itself.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("environment",),
    ("errors", "version", "config", "show", "notice", "tracebacks", "absent", "disk_cache", "late", "futures", "homes", "core_finder"),
    ("_jit_internal",),
    ("_C",),
    ("settings",),
    ("symbols",),
    ("shape",),
    ("assertions",),
    ("dtype", "device"),
    ("promotion",),
    ("devices",),
    ("loops",),
    ("codegen",),
    ("runtime",),
    ("op",),
    ("autograd",),
    ("dispatch",),
    ("overrides",),
    ("transforms",),
    ("ops",),
    ("random",),
    ("printing", "indexing", "interop", "storage"),
    ("legacy",),
    ("functions",),
    ("functional",),
    ("_utils",),
    ("_tensor",),
    ("rare", "qschemes", "classes", "unbuilt"),
    ("tensor",),
    ("serialization",),
    ("hub",),
    ("multiprocessing",),
    ("library",),
    ("special", "linalg", "fft", "signal", "masked", "nested", "sparse", "distributions", "quasirandom"),
    ("utils",),
    ("func", "fake"),
    ("control_flow", "_subclasses", "return_types", "streams", "types", "_tensor_str", "_custom_ops"),
    ("_higher_order_ops",),
    ("nn",),
    ("core_names",),
    ("optim", "data", "datasets", "amp"),
    ("cpu",),
    ("backends", "accelerator", "monitor", "numa"),
    ("__config__",),
    ("testing",),
    ("fx",),
    ("dynamo", "_dynamo"),
    ("aot",),
    ("inductor",),
    ("compile", "compiler"),
    ("distributed", "cuda", "mps", "xpu", "mtia"),
    ("ao",),
    ("export", "onnx", "serve", "lazy", "jit", "quantization", "profiler", "package"),
    ("",),
    ("compat",),
    ("demo", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
# PyTorch's own public names, which compatibility obliges us to keep.
PUBLIC_NAMES = {"rushlight/utils", "rushlight/nn/utils", "rushlight/nn/modules/utils", "rushlight/autograd/utils", "rushlight/_dynamo/utils",
                "rushlight/distributions/utils", "tests/utils", "rushlight/cuda/amp/common",
                "rushlight/fx/passes/utils", "rushlight/fx/passes/utils/common", "rushlight/fx/passes/dialect/common"}

# Start-up budget: `import rushlight` must not load these, so nothing it reaches may import them eagerly.
HEAVY = {"numpy", "llvmlite", "scipy_openblas64", "hypothesis", "torch"}


@dataclass(frozen=True)
class Import:
    """One import of `target` (a dotted module name) by `module`; `eager` when it runs at import time."""

    module: str
    target: str
    path: Path
    line: int
    eager: bool


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def is_type_checking(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def targets_of(node: ast.AST, module: str, is_package: bool, known: set[str]) -> list[str]:
    """Dotted names of the modules that an import statement (or `import_module("...")` call) loads."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".") if is_package else module.split(".")[:-1]
            package = package[: len(package) - (node.level - 1)]
            base = ".".join([*package, base]) if base else ".".join(package)
        # `from package import submodule` depends on the submodule, not on everything the package holds.
        names = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in known or name == f"{PACKAGE}._C" else base for name in names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
        if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            name = node.args[0].value
            return [] if name.startswith(".") else [name]
    return []


def imports_of(path: Path, known: set[str]) -> Iterator[Import]:
    """Every import in `path`, those for the type checker alone left out."""
    module, is_package = module_name(path), path.name == "__init__.py"

    def visit(node: ast.AST, eager: bool) -> Iterator[Import]:
        for target in dict.fromkeys(targets_of(node, module, is_package, known)):
            yield Import(module, target, path, node.lineno, eager)
        if isinstance(node, ast.If) and is_type_checking(node):
            children: list[ast.AST] = list(node.orelse)
        else:
            children = list(ast.iter_child_nodes(node))
        inside = eager and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in children:
            yield from visit(child, inside)

    yield from visit(ast.parse(path.read_text(encoding="utf-8"), str(path)), True)


def layer_of(module: str) -> str:
    """The name in LAYERS that `module` belongs to: rushlight.ops.pointwise.trig -> ops."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def place(path: Path, line: int = 0) -> str:
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def check_direction(imports: list[Import]) -> Iterator[str]:
    for entry in imports:
        if entry.target.split(".")[0] != PACKAGE:
            continue
        here, there = layer_of(entry.module), layer_of(entry.target)
        if here not in RANK:
            continue  # check_declared reports it once
        if there not in RANK:
            # `from rushlight import name` where name is a public function: an import of rushlight itself.
            there = ""
        if here != there and RANK[there] >= RANK[here]:
            shown = f"{PACKAGE}.{there}" if there else PACKAGE
            yield f"{place(entry.path, entry.line)}: {entry.module} imports {shown}, which is not below it"


def check_declared(modules: dict[str, Path]) -> Iterator[str]:
    for layer in sorted({layer_of(module) for module in modules} - set(RANK)):
        yield f"{PACKAGE}/{layer}: not in LAYERS. Give it a place in tools/check_layers.py."


def check_cycles(imports: list[Import], modules: dict[str, Path]) -> Iterator[str]:
    """Cycles among modules that import each other while loading."""
    edges: dict[str, set[str]] = {module: set() for module in modules}
    for entry in imports:
        if entry.eager and entry.target in modules and entry.target != entry.module:
            edges[entry.module].add(entry.target)
    settled: set[str] = set()

    def walk(module: str, trail: list[str]) -> Iterator[str]:
        if module in trail:
            yield "import cycle: " + " -> ".join([*trail[trail.index(module) :], module])
            return
        if module in settled:
            return
        for target in sorted(edges[module]):
            yield from walk(target, [*trail, module])
        settled.add(module)

    for module in sorted(edges):
        yield from walk(module, [])


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
            if relative.parts[length - 1] in FORBIDDEN_NAMES and prefix not in PUBLIC_NAMES:
                yield f"{place(path)}: `{relative.parts[length - 1]}` says nothing. Name it after what it does."


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


def main() -> int:
    modules = {module_name(path): path for path in (ROOT / PACKAGE).rglob("*.py") if "__pycache__" not in path.parts}
    imports = [entry for path in modules.values() for entry in imports_of(path, set(modules))]
    if "--graph" in sys.argv:
        print_graph(imports)
        return 0
    problems = [*check_declared(modules), *check_direction(imports), *check_cycles(imports, modules),
                *check_start_up(imports, modules), *check_files(), *check_test_names()]
    for problem in dict.fromkeys(problems):
        print(problem)
    if not problems:
        print(f"check_layers: {len(modules)} modules, {len(imports)} imports, no violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
