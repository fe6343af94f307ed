"""Symbolic numbers as nodes: where a symbol was seen, and how to compute a formula of symbols in a graph.

Enters: sizes of traced tensors, integer arguments and elements that are symbols. Leaves: proxies for any formula over
them, made when first used: `sym_size` of the tensor that has the symbol, and arithmetic of `operator`,
`math` and `sym_*` functions.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from ..._C import Tensor
from ...base import assertions
from ...op import find_op
from ...symbols import Expression, Real, SymBool, SymFloat, SymInt, Truth
from ...symbols.expression import Atom, of_atom
from ...symbols.numbers import wrapped
from ..node import Node
from ..proxy import Proxy

SYMBOLIC = (SymInt, SymFloat, SymBool)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "//": operator.floordiv, "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift, "**": operator.pow, "max": assertions.sym_max,
    "min": assertions.sym_min, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    "if": assertions.sym_ite, "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "neg": operator.neg, "abs": operator.abs, "float": assertions.sym_float, "sqrt": assertions.sym_sqrt,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    "not": assertions.sym_not, "and": operator.and_, "or": operator.or_,
}


def hidden_symbols(node: Node, with_known: bool = False) -> set[str]:
    """The symbols without a hint in the sizes of a node's value, or that it is; with those that turned out to be
    numbers, or other symbols, if told so."""
    value = node.meta.get("val")
    if value is None:      # several results: their items have values
        return set().union(*(hidden_symbols(n, with_known) for n in node.users if n.target is operator.getitem))
    found: set[str] = set()
    for x in value if isinstance(value, (tuple, list)) else (value,):
        for n in x.shape if isinstance(x, Tensor) else (x,):
            if isinstance(n, SYMBOLIC):
                names = n.formula.names if with_known else n.expression.names
                found |= {name for name in names if name in n.env.stand_ins}
    return found


@contextlib.contextmanager
def same_symbols(env: Any, node: Node) -> Iterator[None]:
    """Inside, a node runs once more: numbers that only elements can tell are the symbols that they were."""
    if env is None:
        yield
        return
    known = set().union(*(hidden_symbols(n, True) for n in node.all_input_nodes))
    env.again = sorted(hidden_symbols(node, True) - known, key=lambda name: (len(name), name))
    try:
        yield
    finally:
        env.again = []


class SizeProxies:
    """The symbols of one trace."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[Proxy, int | None]] = {}    # symbol -> the value that has it, and in which dim
        self.whole: dict[Any, tuple[Proxy, int]] = {}          # formulas that are sizes of a value
        self.known: dict[Any, Any] = {}
        self.env: Any = None      # whose symbols they are

    def note(self, number: Any, proxy: Proxy, dim: int | None) -> None:
        """`number` is the size of `proxy` in `dim`, or (None) its value."""
        if not isinstance(number, SYMBOLIC):
            return
        name = symbol_of(number.formula)
        self.env = number.env
        if name is not None:
            self.seen.setdefault(name, (proxy, dim))
        elif dim is not None:
            self.whole.setdefault(number.formula, (proxy, dim))

    def proxy(self, number: Any) -> Any:
        """A proxy for a symbolic number; the number itself, with a guard, if nothing in the graph has the symbols."""
        formula = number.expression
        if not formula.names <= set(self.seen) and formula in self.whole:
            return self.size_of(*self.whole[formula])
        if not formula.names <= set(self.seen):
            return number.env.specialize(formula) if not isinstance(formula, Truth) else bool(number)
        return self.build(formula)

    def build(self, formula: Any) -> Any:
        known = formula.constant
        if known is not None:
            return known
        if formula not in self.known:
            self.known[formula] = result = self.compute(formula)
            if isinstance(formula, Real) and isinstance(result, Proxy):
                result.node.meta.setdefault("val", wrapped(formula, self.env))
        return self.known[formula]

    def compute(self, formula: Any) -> Any:
        if isinstance(formula, Expression):
            return self.polynomial(formula)
        name = symbol_of(formula)
        if name is not None:
            return self.symbol(name)
        function = formula.function if isinstance(formula, Real) else formula.relation
        parts = [self.build(a) for a in formula.arguments]
        if function in ("and", "or"):
            result = parts[0]
            for part in parts[1:]:
                result = self.call(_OPERATIONS[function], result, part)
            return result
        return self.call(_OPERATIONS.get(function) or getattr(math, function), *parts)

    def polynomial(self, e: Expression) -> Any:
        total: Any = None
        for monomial, coefficient in e.terms.items():
            product: Any = None
            for atom, power in monomial:
                for _ in range(power):
                    factor = self.atom(atom)
                    product = factor if product is None else product * factor
            term = coefficient if product is None else product if coefficient == 1 else product * coefficient
            total = term if total is None else total + term
        return total

    def atom(self, atom: Atom) -> Any:
        key = of_atom(atom)
        if key not in self.known:
            self.known[key] = (
                self.call(_OPERATIONS[atom.name], *map(self.build, atom.arguments))
                if atom.arguments
                else self.symbol(atom.name)
            )
        return self.known[key]

    def symbol(self, name: str) -> Any:
        proxy, dim = self.seen[name]
        return proxy if dim is None else self.size_of(proxy, dim)

    def size_of(self, proxy: Proxy, dim: int) -> Any:
        return proxy.tracer.create_proxy(
            "call_function", find_op("sym_size").overload_list[0], (proxy, dim), {}, name="sym_size_int"
        )

    def call(self, function: Callable[..., Any], *parts: Any) -> Any:
        """A node for a function of numbers; the extremes of many are taken two by two."""
        tracer = next(p.tracer for p in parts if isinstance(p, Proxy))
        if function in (assertions.sym_max, assertions.sym_min) and len(parts) > 2:
            parts = parts[0], self.call(function, *parts[1:])
        return tracer.create_proxy("call_function", function, tuple(parts), {})


def symbol_of(formula: Any) -> str | None:
    """The name of the symbol a formula is, if it is one."""
    if isinstance(formula, Expression):
        return formula.sole_symbol
    return (
        (formula.function if isinstance(formula, Real) else formula.relation)
        if not formula.arguments and formula.constant is None
        else None
    )
