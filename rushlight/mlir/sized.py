"""Walks over programs whose sizes may vary: sizes are computed in the module, from the arguments that have them.

Enters: an exported program without writes, and the walk of a dialect with its own numbers. Leaves: its `Module`.
Refuses: sizes that no argument has.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor
from ..export.graph_signature import OutputKind
from .building import Builder, drop_unused
from .expanding import Expanding
from .exporting import held_tensors, user_inputs
from .printing import Function, Module, Value, returned

SIZES = ("sym_size", "sym_numel", "sym_stride", "sym_storage_offset")      # ops that ask, not compute
PRETTY = {"func.return": returned}


class Sized(Expanding):
    """A walk whose dialect computes with sizes."""

    def __init__(self, b: Builder, keeps_inline: bool = True) -> None:
        """`keeps_inline`: whether tensors of the program stand in the text, or behind it."""
        super().__init__(b)
        self.keeps_inline = keeps_inline
        self.symbols: dict[str, tuple[Value, int]] = {}      # where each symbol's size can be asked for
        self.scalars: dict[str, Value] = {}                  # symbols that are arguments themselves

    # --- what a dialect says ------------------------------------------------------------------------------------------

    def argument(self, t: Tensor) -> Value:
        """A tensor like this as an argument of the function."""
        raise NotImplementedError

    def scalar_argument(self) -> Value:
        """A size as an argument of the function."""
        raise NotImplementedError

    def number(self, n: int) -> Value:
        """A number to compute sizes with."""
        raise NotImplementedError

    def computed(self, name: str, a: Value, b: Value) -> Value:
        """`add`, `sub`, `mul`, `floordiv` or `remainder` of two such numbers."""
        raise NotImplementedError

    def dim_of(self, t: Value, d: int) -> Value:
        """A size of a tensor."""
        raise NotImplementedError

    def from_scalar(self, scalar: Value) -> Value:
        """What `scalar_argument` brought, as a number to compute with."""
        return scalar

    def as_result(self, v: Any) -> Value:
        """What the program returns, as the function returns it."""
        raise NotImplementedError

    # --- sizes --------------------------------------------------------------------------------------------------------

    def learn(self, t: Value) -> None:
        """Symbols that are sizes of an argument."""
        for d, n in enumerate(t.shape):
            sole = None if type(n) is int else n.expression.sole_atom
            if sole is not None and not sole.arguments:
                self.symbols.setdefault(sole.name, (t, d))

    def size_of(self, n: Any) -> Value:
        """The number that a symbolic size is."""
        result = n.expression.evaluate({name: Size(self, self.symbol(name)) for name in n.expression.names})
        return result.value if isinstance(result, Size) else self.number(int(result))

    def symbol(self, name: str) -> Value:
        if name in self.scalars:
            return self.from_scalar(self.scalars[name])
        if name not in self.symbols:
            raise NotImplementedError(f"the size {name} is that of no argument")
        return self.dim_of(*self.symbols[name])


class Size:
    """A number in the arithmetic of sizes: each operation builds one of the dialect."""

    def __init__(self, walk: Sized, value: Value) -> None:
        self.walk, self.value = walk, value

    def of(self, name: str, a: Any, b: Any) -> Size:
        left, right = (x.value if isinstance(x, Size) else self.walk.number(int(x)) for x in (a, b))
        return Size(self.walk, self.walk.computed(name, left, right))

    def __add__(self, other: Any) -> Size:
        return self.of("add", self, other)

    def __sub__(self, other: Any) -> Size:
        return self.of("sub", self, other)

    def __rsub__(self, other: Any) -> Size:
        return self.of("sub", other, self)

    def __mul__(self, other: Any) -> Size:
        return self.of("mul", self, other)

    def __floordiv__(self, other: Any) -> Size:
        return self.of("floordiv", self, other)

    def __mod__(self, other: Any) -> Size:
        return self.of("remainder", self, other)

    def __neg__(self) -> Size:
        return self.of("sub", 0, self)

    def __pow__(self, exponent: int) -> Size:
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    __radd__, __rmul__ = __add__, __mul__


def module_of_walk(program: Any, walk: Sized) -> Module:
    """The module of a program without writes, `main` its entry."""
    b, held = walk.b, held_tensors(program)
    given: list[Any] = []
    for i, node in enumerate(program.graph.find_nodes(op="placeholder")):
        seen = node.meta.get("val")
        if i in held:
            given.append(walk.constant(*held[i]))
        elif isinstance(seen, Tensor):
            given.append(b.argument(walk.argument(seen)))
            walk.learn(given[-1])
        else:
            if isinstance(seen, _C.SymbolicInt):
                walk.scalars[str(seen.expression)] = b.argument(walk.scalar_argument())
            given.append(seen)
    made = walk.run(program.graph_module, given)
    kinds = [s.kind for s in program.graph_signature.output_specs]
    finished = [walk.as_result(v) for v, kind in zip(made, kinds, strict=True)
                if kind is OutputKind.USER_OUTPUT and v is not None]
    b.location = None
    b.finish("func.return", finished)
    drop_unused(b.block)
    main = Function("main", b.block, [v.type for v in finished], names=user_inputs(program))
    return Module([main], b.resources, PRETTY)
