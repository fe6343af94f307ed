"""A module that can be called.

Enters: text. Leaves: a `LoadedModule`, an `nn.Module` whose `graph_module` is an `fx` graph of ATen calls. Refuses
arguments that are not the tensors which the entry takes.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...fx import GraphModule
from ...nn import Module as NNModule
from ..parsing import parse
from ..syntax import Module, Operation, TupleType
from ..types import TensorType
from . import control, elementwise, indexing, library, products, reductions, shapes, sorting  # noqa: F401 - they register what they can write
from .verify import verify
from .writer import Writer, dtype


def load(text: str | bytes, entry: str | None = None, device: str = "cpu") -> LoadedModule:
    """The text of a StableHLO module as something to call.

    `entry`: the name of the function; `main` otherwise, or the only one that is not private. `device`: where constants
    are made, and so where the arguments must be.
    """
    if isinstance(text, (bytes, bytearray)):
        raise TypeError("mlir.load: expected the text of a module as str, got bytes. Bytecode is not read; decode"
            " text.")
    module = parse(text)
    verify(module)
    function = entry_of(module, entry)
    return LoadedModule(module, function, device)


def entry_of(module: Module, name: str | None) -> Operation:
    """The function that is called."""
    named = {n: f for n, f in module.functions.items() if f.blocks}
    public = [n for n, f in named.items() if f.attributes.get("sym_visibility") != "private"]
    if name is None:
        name = "main" if "main" in named else public[0] if len(public) == 1 else None
    if name is None:
        raise module.lexer.error(f"a module without @main needs an entry, one of {', '.join(public) or 'none'}", 0)
    if name not in named:
        raise module.lexer.error(f"the module has no function @{name}, only {', '.join(named)}", 0)
    return named[name]


class LoadedModule(NNModule):
    """The entry of a module: called with the tensors that it takes, it gives one tensor, or a tuple of several."""

    def __init__(self, module: Module, function: Operation, device: str = "cpu") -> None:
        super().__init__()
        block = function.blocks[0]
        self.name = function.text("sym_name")
        self.argument_types = [v.type for v in block.arguments]
        self.result_types = list(function.attributes["function_type"].results)
        w = Writer(module, device)
        w.op = function
        w.calls.append(self.name)
        arguments = [placeholder(w, v.type, [i]) for i, v in enumerate(block.arguments)]
        found = w.apply(block, arguments)
        w.graph.output(found[0] if len(found) == 1 else tuple(found))
        w.graph.eliminate_dead_code()
        self.graph_module = GraphModule(w.attributes, w.graph)
        self.checked = [check_of(kind) for kind in self.argument_types]

    def forward(self, *arguments: Any) -> Any:
        if len(arguments) != len(self.checked):
            raise TypeError(f"@{self.name}: expected {len(self.checked)} arguments, got {len(arguments)}")
        flat: list[Any] = []
        for i, (given, wanted) in enumerate(zip(arguments, self.checked, strict=True)):
            check(self.name, f"argument {i}", given, wanted, flat)
        return self.graph_module(*flat)

    def extra_repr(self) -> str:
        takes, gives = ", ".join(map(str, self.argument_types)), ", ".join(map(str, self.result_types))
        return f"@{self.name}: ({takes}) -> ({gives})"


def placeholder(w: Writer, kind: Any, path: list[int]) -> Any:
    """Arguments of the graph: one for each tensor, of tuples too."""
    if isinstance(kind, TupleType):
        return tuple([placeholder(w, k, [*path, i]) for i, k in enumerate(kind.items)])
    if not isinstance(kind, TensorType):
        assert w.op is not None
        raise w.op.refusal(f"arguments of type {kind} are not supported")
    return w.graph.placeholder("arg_" + "_".join(map(str, path)))


def check_of(kind: Any) -> Any:
    """What an argument must be: a dtype and sizes, or a list of such."""
    if isinstance(kind, TupleType):
        return [check_of(k) for k in kind.items]
    return dtype(kind.element), kind.shape, str(kind)


def check(name: str, what: str, given: Any, wanted: Any, flat: list[Any]) -> None:
    """Refuse what is not the tensor, or tuple of tensors, that is wanted; collect the tensors."""
    if isinstance(wanted, list):
        if not isinstance(given, (tuple, list)) or len(given) != len(wanted):
            raise TypeError(f"@{name}: {what} must be a tuple of {len(wanted)}, got {type(given).__name__}")
        for i, (g, t) in enumerate(zip(given, wanted, strict=True)):
            check(name, f"{what}[{i}]", g, t, flat)
        return
    wanted_dtype, shape, text = wanted
    if not isinstance(given, Tensor):
        raise TypeError(f"@{name}: {what} must be a tensor, got {type(given).__name__}")
    if given.dtype != wanted_dtype:
        raise TypeError(f"@{name}: {what} must be {text}, got a tensor of {given.dtype}")
    fits = len(given.shape) == len(shape)
    for a, b in zip(given.shape, shape, strict=False):
        fits = fits and (b is None or a == b)
    if not fits:
        raise ValueError(f"@{name}: {what} must be {text}, got a tensor of shape {tuple(given.shape)}")
    flat.append(given)
