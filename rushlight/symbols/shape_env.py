"""ShapeEnv: makes the symbolic numbers of one computation, and keeps what is known and assumed of them.

Enters: sizes and numbers that were seen, with where they come from and how they are to be treated. Leaves: SymInt,
SymFloat and SymBool, or plain numbers where the policy says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .env import DimDynamic, SymbolTable
from .expression import Expression
from .numbers import SymBool, expression_of, wrapped
from .ranges import Range

if TYPE_CHECKING:
    from .numbers import Dim


class ShapeEnv(SymbolTable):
    """The symbols of one computation, their hints, and the guards its rules asked for."""

    merges_sizes = False      # whether a size that is one of two gets a symbol, where functions differ in it

    def create_symbol(
        self,
        hint: int,
        source: str | None = None,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        limits: Range = (None, None),
    ) -> Any:
        """A symbolic number for a size that was seen."""
        return wrapped(self.new_symbol(hint, source, dynamic_dim, limits), self)

    def create_symintnode(self, expression: Expression, *, hint: int | None = None, source: object = None) -> Any:
        """An expression of this env's symbols as a number."""
        return wrapped(expression, self)

    def create_unbacked_symint(self, source: object = None) -> Any:
        """An integer that only elements can tell."""
        return wrapped(self.unbacked_symbol(), self)

    def create_unbacked_symfloat(self) -> Any:
        """A real that only elements can tell."""
        return wrapped(self.unbacked_real(), self)

    def create_unbacked_symbool(self) -> Any:
        """A truth that only elements can tell."""
        return wrapped(self.unbacked_truth(), self)

    def create_size(self, most: Dim | None = None) -> Any:
        """A size that only elements can tell: at least 0, at most what is given."""
        result = wrapped(self.unbacked_symbol(0, most if isinstance(most, int) else None), self)
        if most is not None and not isinstance(most, int):
            known = result <= most
            if isinstance(known, SymBool):      # true of every such size: nothing to check
                self.learn(known.expression)
        return result

    def size_of_either(self, a: Dim, b: Dim) -> Any:
        """A size that is one of two: only elements can tell which."""
        bounds = [self.bounds(expression_of(n)) for n in (a, b)]
        low, high = min(max(low or 0, 0) for low, _ in bounds), [high for _, high in bounds if high is not None]
        return wrapped(self.unbacked_symbol(low, max(high) if len(high) == len(bounds) else None), self)

    def symbolic_shape(self, sizes: Sequence[int], policies: Sequence[DimDynamic], source: str) -> tuple:
        """The sizes of one tensor, each treated as its policy says."""
        return tuple(
            self.create_symbol(n, f"{source}.size({d})", policy)
            for d, (n, policy) in enumerate(zip(sizes, policies, strict=True))
        )

    def remember_tensor(self, source: str, sizes: Sequence[Dim], strides: Sequence[Dim]) -> None:
        """An argument of the computation, for `accepts`."""
        self.add_input(source, [expression_of(s) for s in sizes], [expression_of(s) for s in strides])

    def remember_number(self, source: str, value: Dim) -> None:
        """An integer argument of the computation, for `accepts`."""
        self.add_input(source, [expression_of(value)])

    def evaluate_guards_for_args(
        self, placeholders: object, args: Sequence[object], *, ignore_static: bool = True
    ) -> bool:
        """PyTorch's name for `accepts`."""
        return self.accepts(*args)
