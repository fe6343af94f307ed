"""Graphs as modules of StableHLO, with `main` as their entry.

Enters: an `fx` graph module, and tensors (real or fake) for its placeholders. Leaves: a `Module`, or its text. Refuses:
results that are no tensors, and donations of inputs that no result can take over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from .. import types
from ..building import drop_unused
from ..errors import UnsupportedOp
from ..printing import Function, Module, Operation, Value, elementwise, returned
from .building import Hlo, value
from .dialect import StableHlo

_ELEMENTWISE = (
    "abs add and atan2 ceil cosine divide exponential exponential_minus_one floor log log_plus_one logistic maximum "
    "minimum multiply negate not or power remainder round_nearest_even rsqrt shift_left shift_right_arithmetic "
    "shift_right_logical sine sqrt subtract tan tanh xor"
).split()


def _constant(o: Operation, name: Any) -> str:
    return f"stablehlo.constant {o.attributes['value']}"


PRETTY = {**{f"stablehlo.{n}": elementwise for n in _ELEMENTWISE}, "stablehlo.constant": _constant,
          "func.return": returned}


def translate(graph_module: Any, examples: Sequence[Any], *, donated: Sequence[int] | Mapping[int, int] = (),
              weights: str = "inline", locations: bool = False) -> str:
    """A graph as the text of a StableHLO module with the entry `main`.

    `graph_module`: a functional graph of ATen ops, as `aot.capture` or a decomposed program has it. `examples`: a
    tensor for each placeholder, real or fake; None takes what tracing noted. `donated`: inputs that are not needed
    afterwards; the first result of the same type takes the memory of each (`{input: result}` says which does).
    """
    return module_of(graph_module, examples, donated=donated, weights=weights).text(locations)


def module_of(graph_module: Any, examples: Sequence[Any], *, donated: Sequence[int] | Mapping[int, int] = (),
              weights: str = "inline", names: Sequence[str] = (), constants: Mapping[int, tuple[str, Tensor]] = {},
              results: Sequence[int] | None = None) -> Module:  # noqa: B006 - never changed
    """The same as a module. `constants`: placeholders that are tensors of the program, by their number; `results`:
    which of the graph's results `main` returns."""
    b = Hlo()
    walk = StableHlo(b, weights == "inline")
    given: list[Any] = []
    nodes = graph_module.graph.find_nodes(op="placeholder")
    for i, node in enumerate(nodes):
        example = node.meta.get("val") if i >= len(examples) or examples[i] is None else examples[i]
        noted = node.meta.get("val", example)
        if i in constants:
            given.append(walk.constant(*constants[i]))
        elif isinstance(example, Tensor):
            shape = noted.shape if isinstance(noted, Tensor) else example.shape
            argument = b.argument(value(example.dtype, shape))
            note_symbols(b, argument)
            given.append(argument)
        elif isinstance(noted, _C.SymbolicInt):
            argument = b.argument(value(_C.int64, ()))
            b.scalars[str(noted.expression)] = argument
            given.append(noted)
        else:
            given.append(example)
    made = walk.run(graph_module, given)
    kept = made if results is None else [made[i] for i in results]
    finished = [as_value(b, v) for v in kept]
    b.location = None
    b.finish("func.return", finished)
    drop_unused(b.block)
    notes = donations(b.block.arguments, finished, donated)
    main = Function("main", b.block, [v.type for v in finished], notes, names=names)
    return Module([main], used_resources(b), PRETTY)


def note_symbols(b: Hlo, argument: Value) -> None:
    """Which sizes an argument tells."""
    for d, n in enumerate(argument.shape):
        if isinstance(n, _C.SymbolicInt):
            sole = n.expression.sole_atom
            if sole is not None and not sole.arguments:
                b.symbols.setdefault(sole.name, (argument, d))


def as_value(b: Hlo, v: Any) -> Value:
    """A result: tensors as they are, sizes and numbers as scalars."""
    if isinstance(v, Value):
        return v
    if isinstance(v, bool):
        return b.constant(v, _C.bool)
    if isinstance(v, (int, _C.SymbolicInt)):
        return b.extent(v)
    if isinstance(v, float):
        return b.constant(v, _C.float64)
    raise UnsupportedOp(f"mlir: a graph returns a {type(v).__name__}; modules return tensors")


def donations(arguments: Sequence[Value], results: Sequence[Value], donated: Sequence[int] | Mapping[int, int]
              ) -> dict[int, dict[str, str]]:
    """`tf.aliasing_output` for inputs whose memory a result takes over."""
    notes, taken = {}, set(donated.values()) if isinstance(donated, Mapping) else set()
    for i in donated:
        kind = str(arguments[i].type)
        if isinstance(donated, Mapping):
            at = donated[i]
        else:
            at = next((k for k, r in enumerate(results) if k not in taken and str(r.type) == kind), -1)
            if at < 0:
                continue      # nothing to take it over
            taken.add(at)
        if str(results[at].type) != kind:
            raise ValueError(f"mlir: input {i} is a {kind}, result {at}, which is to take its memory, a "
                             f"{results[at].type}. Leave it out of `donated`.")
        notes[i] = {"tf.aliasing_output": types.integer(at, 32)}
    return notes


def used_resources(b: Hlo) -> dict[str, bytes]:
    """The tensors behind the module that something still reads."""
    text = {o.attributes["value"].partition(">")[0].removeprefix("dense_resource<")
            for o in b.block.operations if o.name == "stablehlo.constant"}
    return {name: data for name, data in b.resources.items() if name in text}


__all__ = ["PRETTY", "module_of", "translate"]
