"""Kernels written in Triton as ops: a launch with its grid and arguments is one node of a graph.

Enters: a kernel (`triton.jit`, autotuned, with heuristics), the layout of a launch's arguments, its grids. Leaves: an
op over the tensors and the numbers that vary, which returns what the kernel leaves in the tensors that it writes;
`wrap_triton`, whose launches inside of `triton_op` do nothing on tensors without data. Triton is never imported here:
who has a kernel has it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._C import Tensor
from .custom_ops import CustomOpDef, custom_op
from .functional_forms import CONSTANT, NUMBER, TENSOR, defined, over_copies

WRITERS = ("store", "scatter")          # of triton.language, and methods of what it makes; so is `atomic_...`
Grid = tuple[Any, ...]


def python_function(kernel: Any) -> Callable:
    """The function that a kernel was made of."""
    while not inspect.isfunction(kernel):
        kernel = kernel.fn
    return kernel


def chain(kernel: Any) -> list[Any]:
    """A kernel and what it wraps, the outermost first."""
    found = [kernel]
    while not inspect.isfunction(found[-1].fn):
        found.append(found[-1].fn)
    return found


def configurations(kernel: Any) -> list[dict[str, Any]]:
    """What the arguments that are tuned may be; one, without any, where nothing is."""
    for one in chain(kernel):
        if hasattr(one, "configs"):
            return [dict(config.kwargs) for config in one.configs]
    return [{}]


@functools.lru_cache(256)
def written_arguments(function: Callable) -> frozenset[str] | None:
    """Names of the arguments that a kernel writes through; None where that cannot be read off its text."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(definition, ast.FunctionDef):
        return None
    arguments = definition.args
    known = {a.arg: {a.arg} for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    before = None
    while before != (now := {name: set(found) for name, found in known.items()}):      # until nothing is new
        before = now
        for node in ast.walk(definition):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for name in names_in(target):
                        known.setdefault(name, set()).update(reached(node.value, known))
    result: set[str] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Call):
            result |= written_by(node, known, function)
    return frozenset(result)


def names_in(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def reached(node: ast.AST, known: Mapping[str, set[str]]) -> set[str]:
    """Arguments that an expression is made of; what is loaded through one is data, not a place."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
        return set()
    found = set(known.get(node.id, ())) if isinstance(node, ast.Name) else set()
    return found.union(*[reached(child, known) for child in ast.iter_child_nodes(node)])


def written_by(call: ast.Call, known: Mapping[str, set[str]], function: Callable) -> set[str]:
    """Arguments that a call inside of a kernel may write through: what `store` is given first, and all that another
    kernel is given."""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        if name in WRITERS or name.startswith("atomic_"):
            pointer = [*call.args[:1], *[k.value for k in call.keywords if k.arg == "pointer"]]
            return reached(call.func.value, known) | {n for p in pointer for n in reached(p, known)}
        return set()
    if isinstance(call.func, ast.Name) and hasattr(function.__globals__.get(call.func.id), "fn"):
        return {n for a in (*call.args, *[k.value for k in call.keywords]) for n in reached(a, known)}
    return set()


class Launch:
    """One way to launch a kernel: which of its arguments are tensors, numbers that vary, or the same each time."""

    def __init__(self, kernel: Any, layout: Sequence[tuple[str, str, Any]], positional: int,
                 choices: Sequence[Mapping[str, Any]]) -> None:
        """`layout`: of each argument its name, what it is, and its place among those or its value; the first
        `positional` are given by position. `choices`: what is tuned, for each of which a launch has a grid."""
        self.kernel, self.layout, self.positional, self.choices = kernel, tuple(layout), positional, choices
        found = written_arguments(python_function(kernel))
        tensors = [(name, value) for name, kind, value in layout if kind == TENSOR]
        self.written = sorted({k for name, k in tensors if found is None or name in found})

    def run(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Launch it, unless there is no data; nothing is returned."""
        if any(is_without_data(t) for t in tensors):
            return []
        values = {TENSOR: tensors, NUMBER: numbers}
        given = [(name, value if kind == CONSTANT else values[kind][value]) for name, kind, value in self.layout]
        positional = [value for _, value in given[: self.positional]]
        self.kernel[self.grid(numbers)](*positional, **dict(given[self.positional :]))
        return []

    def grid(self, numbers: Sequence[int]) -> Grid | Callable:
        """The grid, or where something is tuned the function of that which gives it."""
        last = numbers[len(numbers) - 3 * len(self.choices) :]
        grids = [tuple(last[3 * k : 3 * k + 3]) for k in range(len(self.choices))]
        if len(grids) == 1:
            return grids[0]

        def chosen(meta: Mapping[str, Any]) -> Grid:
            return next(
                grid for grid, choice in zip(grids, self.choices, strict=True)
                if all(meta.get(name) == value for name, value in choice.items())
            )

        return chosen


_launches: dict[Any, Any] = {}


def launch_op(kernel: Any, layout: Sequence[tuple[str, str, Any]], positional: int,
              choices: Sequence[Mapping[str, Any]]) -> tuple[Any, list[int]]:
    """The op of such a launch, over (tensors, numbers with those of the grids last), and which of the tensors its
    results are new values of."""
    key = id(kernel), repr(layout), positional
    if key not in _launches:
        launch = Launch(kernel, layout, positional, choices)
        name = f"triton_{python_function(kernel).__name__}_{len(_launches)}"
        _launches[key] = defined(name, *over_copies(launch.run, launch.written)), launch
    op, launch = _launches[key]
    return op, launch.written


def is_without_data(value: Any) -> bool:
    """Whether a value is a tensor without elements, whichever device it says it is on."""
    return isinstance(value, Tensor) and Tensor.device.__get__(value).type == "meta"


class WrappedKernel:
    """A kernel whose launches are part of an op: on tensors without data they do nothing."""

    def __init__(self, kernel: Any) -> None:
        if not hasattr(kernel, "run") or not hasattr(kernel, "fn"):
            raise RuntimeError(
                f"wrap_triton: expected a function decorated with triton.jit or triton.autotune, got {kernel!r}"
            )
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Callable:
        kernel = self.kernel

        def launch(*args: Any, **kwargs: Any) -> Any:
            if any(is_without_data(a) for a in (*args, *kwargs.values())):
                return None
            return kernel[grid](*args, **kwargs)

        return launch

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        kwargs.pop("warmup", None)
        return self[grid](*args, **kwargs)


def wrap_triton(triton_kernel: Callable, /) -> Any:
    """A Triton kernel whose launches are part of the op that makes them (`triton_op`), and nodes of compiled graphs."""
    return WrappedKernel(triton_kernel)


def triton_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Any:
    """Make a function that launches Triton kernels (through `wrap_triton`) an op. What it makes of tensors without data
    is found by running it on them."""

    def make(function: Callable) -> CustomOpDef:
        result = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        result.register_fake(function)
        return result

    return make if fn is None else make(fn)
