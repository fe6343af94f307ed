"""Symbolic sizes as nodes: where a size was seen, and how to compute an expression of sizes in a graph.

Enters: sizes of traced tensors, or integer arguments, that are symbols. Leaves: proxies for any expression over them, made when first used.
"""

from __future__ import annotations

from typing import Any

from ...fake import Expression, SymInt
from ..proxy import Proxy

_OPERATORS = {"//": lambda a, b: a // b, "%": lambda a, b: a % b}


class SizeProxies:
    """The symbols of one trace."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[Proxy, int | None]] = {}    # symbol -> the value that has it, and in which dim
        self.made: dict[Expression, Proxy] = {}

    def note(self, size: Any, proxy: Proxy, dim: int | None) -> None:
        """`size` is the size of `proxy` in `dim`, or (None) its value."""
        if not isinstance(size, SymInt):
            return
        symbols = size.expression.symbols()
        if len(symbols) == 1 and repr(size.expression) in symbols:
            self.seen.setdefault(repr(size.expression), (proxy, dim))

    def proxy(self, size: SymInt) -> Any:
        """A proxy for a symbolic size; its number if nothing in the graph has the symbols."""
        if not size.expression.symbols() <= set(self.seen):
            return int(size)
        return self.build(size.expression)

    def build(self, expression: Expression) -> Any:
        if expression.constant is not None:
            return expression.constant
        if expression not in self.made:
            self.made[expression] = self.compute(expression)
        return self.made[expression]

    def compute(self, expression: Expression) -> Any:
        total: Any = None
        for monomial, coefficient in expression.terms.items():
            product: Any = None
            for atom, power in monomial:
                for _ in range(power):
                    factor = self.atom(atom)
                    product = factor if product is None else product * factor
            term = coefficient if product is None else product if coefficient == 1 else product * coefficient
            total = term if total is None else total + term
        return total

    def atom(self, atom: Any) -> Any:
        if not atom.arguments:
            proxy, dim = self.seen[atom.name]
            key = Expression({((atom, 1),): 1})
            if key not in self.made:
                self.made[key] = proxy if dim is None else proxy.size(dim)
            return self.made[key]
        parts = [self.build(a) for a in atom.arguments]
        if atom.name in _OPERATORS:
            return _OPERATORS[atom.name](*parts)
        function = min if atom.name == "min" else max
        tracer = next(p.tracer for p in parts if isinstance(p, Proxy))
        return tracer.create_proxy("call_function", function, tuple(parts), {})
