"""Kernels of the GPU puzzles on a true GPU: Python of whole numbers as CUDA C.

Enters: a kernel that the interpreter of `gpu.py` found no fault in, with its arguments and the shapes of its shared
memories. Leaves: its text in CUDA C, and what `out` holds after CUDA ran it. Refuses (`Untranslatable`) what C has
not: other types than whole numbers, calls of anything but what a `Thread` offers.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from ..devices.cuda import sources
from .gpu import Memory

PLACES = {"thread": "threadIdx", "block": "blockIdx", "block_dim": "blockDim", "grid_dim": "gridDim"}
SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "&&", ast.Or: "||", ast.USub: "-", ast.UAdd: "+", ast.Not: "!", ast.Invert: "~",
}  # fmt: skip
ROUNDING = {ast.FloorDiv: "quotient", ast.Mod: "remainder"}
HEAD = """typedef long long number;
static __device__ number quotient(number a, number b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static __device__ number remainder(number a, number b) { return a - quotient(a, b) * b; }
"""


class Untranslatable(Exception):  # noqa: N818 - no fault of the kernel
    """The kernel uses what CUDA C does not have."""


class Translation:
    """The text of one kernel, statement by statement."""

    def __init__(
        self, function: ast.FunctionDef, arguments: tuple[Any, ...], shared: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.function, self.shared = function, shared
        names = [argument.arg for argument in function.args.args]
        if len(names) != len(arguments) + 1:
            raise Untranslatable("a signature of its own")
        self.thread = names[0]
        self.kinds = dict(zip(names[1:], arguments))
        self.shapes = {name: one.shape for name, one in self.kinds.items() if isinstance(one, Memory)}
        self.memories = {name: f"v_{name}" for name in self.shapes}      # names of Python, names of C
        self.numbers: dict[str, None] = {}
        self.loops = 0

    def text(self) -> str:
        """The whole kernel."""
        lines = [line for statement in self.function.body for line in self.statement(statement, 1)]
        head = ", ".join(f"{'number *' if name in self.shapes else 'int '}v_{name}" for name in self.kinds)
        declared = [f"    __shared__ number s_{name}[{math.prod(shape)}];" for name, shape in self.shared.items()]
        declared += [f"    number v_{name} = 0;" for name in self.numbers if name not in self.kinds]
        return "\n".join([f'{HEAD}extern "C" __global__ void kernel({head}) {{', *declared, *lines, "}", ""])

    def statement(self, node: ast.stmt, depth: int) -> list[str]:
        """The lines of a statement."""
        pad = "    " * depth
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return []
            case ast.Expr(value=ast.Yield(value=None)):
                return [f"{pad}__syncthreads();"]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="atomic_add"), args=given)):
                if name == self.thread and len(given) == 3:
                    at, value = self.element(given[0], given[1]), self.value(given[2])
                    return [f"{pad}atomicAdd((unsigned long long *)&{at}, (unsigned long long)({value}));"]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = [(one, of) for one, of in zip(targets, values, strict=True) if not self.is_alias(one, of)]
                held = [f"number t{k} = {self.value(of)};" for k, (_, of) in enumerate(pairs)]
                given = [f"{self.target(one)} = t{k};" for k, (one, _) in enumerate(pairs)]
                return [f"{pad}{{ {' '.join([*held, *given])} }}"]
            case ast.Assign(targets=[target], value=value):
                if self.is_alias(target, value):
                    return []
                text = self.value(value)
                return [f"{pad}{self.target(target)} = {text};"]
            case ast.AugAssign(target=target, op=op, value=value):
                text = self.binary(op, self.target(target), self.value(value))
                return [f"{pad}{self.target(target)} = {text};"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"{pad}if ({self.value(test)}) {{", *self.block(body, depth), f"{pad}}}"]
                return [*lines, f"{pad}else {{", *self.block(orelse, depth), f"{pad}}}"] if orelse else lines
            case ast.While(test=test, body=body, orelse=[]):
                return [f"{pad}while ({self.value(test)}) {{", *self.block(body, depth), f"{pad}}}"]
            case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body, orelse=[]):
                return self.loop(target, [self.value(bound) for bound in bounds], body, depth)
            case ast.Break() | ast.Continue() | ast.Return(value=None):
                return [f"{pad}{type(node).__name__.lower()};"]
        raise Untranslatable(ast.unparse(node))

    def block(self, body: list[ast.stmt], depth: int) -> list[str]:
        return [line for statement in body for line in self.statement(statement, depth + 1)]

    def loop(self, target: ast.expr, bounds: list[str], body: list[ast.stmt], depth: int) -> list[str]:
        """`for … in range(…)`: the counter is not the variable, which keeps its last value."""
        k, self.loops, pad = self.loops, self.loops + 1, "    " * depth
        start, stop, step = {1: ["0", *bounds, "1"], 2: [*bounds, "1"]}.get(len(bounds), bounds)
        going = f"d{k} > 0 ? i{k} < e{k} : i{k} > e{k}"
        head = f"{pad}for (number i{k} = {start}, e{k} = {stop}, d{k} = {step}; {going}; i{k} += d{k}) {{"
        return [head, f"{pad}    {self.target(target)} = i{k};", *self.block(body, depth), f"{pad}}}"]

    def is_alias(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether a name is given to shared memory; it is noted, and takes no code."""
        match target, value:
            case ast.Name(id=name), ast.Call(func=ast.Attribute(attr="shared"), args=[ast.Constant(str(called)), *_]):
                if called not in self.shared or name in self.numbers or name in self.kinds:
                    raise Untranslatable(f"shared memory {called}")
                self.memories[name], self.shapes[name] = f"s_{called}", self.shared[called]
                return True
        return False

    def target(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name) if name not in self.shapes and name != self.thread:
                self.numbers[name] = None
                return f"v_{name}"
            case ast.Subscript(value=memory, slice=index):
                return self.element(memory, index)
        raise Untranslatable(ast.unparse(node))

    def element(self, memory: ast.expr, index: ast.expr) -> str:
        """An element of a memory of one or two dims."""
        if not isinstance(memory, ast.Name) or memory.id not in self.memories:
            raise Untranslatable(ast.unparse(memory))
        shape = self.shapes[memory.id]
        places = [self.value(one) for one in (index.elts if isinstance(index, ast.Tuple) else [index])]
        at = places[0] if len(places) == 1 else f"({places[0]}) * {shape[-1]} + ({places[1]})"
        return f"{self.memories[memory.id]}[{at}]"

    def value(self, node: ast.expr) -> str:
        """The text of an expression."""
        match node:
            case ast.Constant(value=bool() | int() as number):
                return f"{int(number)}LL"
            case ast.Name(id=name) if name in self.numbers or (name in self.kinds and name not in self.shapes):
                return f"v_{name}"
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=name), attr=place), attr="x" | "y" as axis):
                if name == self.thread and place in PLACES:
                    return f"(number){PLACES[place]}.{axis}"
            case ast.Subscript(value=memory, slice=index):
                return self.element(memory, index)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return f"({SIGNS[type(op)]}{self.value(operand)})"
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in SIGNS for op in ops):
                texts = [self.value(one) for one in (left, *others)]
                parts = [f"({a} {SIGNS[type(op)]} {b})" for a, op, b in zip(texts, ops, texts[1:])]
                return f"({' && '.join(parts)})"
            case ast.BoolOp(op=op, values=values) if all(isinstance(one, ast.Compare | ast.BoolOp) for one in values):
                return f"({f' {SIGNS[type(op)]} '.join(self.value(one) for one in values)})"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self.value(test)} ? {self.value(body)} : {self.value(orelse)})"
        raise Untranslatable(ast.unparse(node))

    def binary(self, op: ast.operator, left: str, right: str) -> str:
        if type(op) in ROUNDING:
            return f"{ROUNDING[type(op)]}({left}, {right})"
        if type(op) not in SIGNS:
            raise Untranslatable(type(op).__name__)
        return f"({left} {SIGNS[type(op)]} {right})"


def translate(kernel: Callable[..., Any], arguments: tuple[Any, ...], shared: Mapping[str, tuple[int, ...]]) -> str:
    """A kernel called `kernel` in CUDA C, for arguments of these kinds and shapes."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel))).body[0]
    except (OSError, TypeError, SyntaxError) as unknown:
        raise Untranslatable("no source") from unknown
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
        raise Untranslatable("no plain function")
    return Translation(tree, arguments, shared).text()


def on_cuda(
    kernel: Callable[..., Any], grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...],
    shared: Mapping[str, tuple[int, ...]],
) -> list[list[int]] | None:
    """What all memories hold after CUDA ran a kernel; None where there is no CUDA, or no way to say it in C."""
    import rushlight as torch

    if not torch.cuda.is_available() or sources.find() is None:
        return None
    try:
        text = translate(kernel, arguments, shared)
        tensors = [torch.tensor(one.values, device="cuda") if isinstance(one, Memory) else one for one in arguments]
        if any(one.dtype != torch.int64 for one in tensors if isinstance(one, torch.Tensor)):
            return None
    except Untranslatable:
        return None
    except RuntimeError:     # a GPU that is full is no fault of the answer
        return None
    torch.cuda._compile_kernel(text, "kernel")((*grid, 1, 1)[:3], (*block, 1, 1)[:3], tensors)
    return [one.tolist() for one in tensors if isinstance(one, torch.Tensor)]
