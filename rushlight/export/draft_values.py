"""Real values beside the fakes of a trace: what a draft export answers with where only elements can tell.

Enters: a trace whose nodes are also run on copies of the example's tensors. Leaves: `DraftEnv`, which answers questions
about elements as the example does, keeps each answer as a check of the program, and lists it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp, dispatching
from ..autograd.grad_mode import no_grad
from ..fake import FakeTensor, GuardOnDataDependentSymNode, ShapeEnv
from ..fx.experimental.symbolic_sizes import SYMBOLIC
from ..fx.node import map_aggregate
from ..symbols.env import user_location
from ..symbols.expression import Expression, number
from ..symbols.real import Truth, negation, truth
from ..utils import _pytree as pytree


class DraftEnv(ShapeEnv):
    """Symbols whose hidden ones have values too: those of the example."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.real_values: dict[str, Any] = {}
        self.taken: list[str] = []

    def note(self, symbolic: Any, value: Any) -> None:
        """The value that a hidden number has for the example."""
        names = set(symbolic.formula.names)
        if len(names) == 1:
            self.real_values.setdefault(names.pop(), value)

    def value_of(self, formula: Any) -> Any:
        """What a formula is for the example; None where that is not known."""
        known = {**self.hints, **self.real_values}
        return formula.evaluate(known) if set(formula.names) <= set(known) else None

    def guard(self, t: Truth) -> bool:
        try:
            return super().guard(t)
        except GuardOnDataDependentSymNode:
            answer = self.value_of(t)
            if answer is None:
                raise
        self.taken.append(f"whether {t!r} holds depends on elements (asked at {user_location()}): taken to be"
                          f" {answer}, as for the example, and checked when the program runs")
        self.expect(t if answer else negation(t))
        return bool(answer)

    def specialize(self, f: Any) -> Any:
        try:
            return super().specialize(f)
        except GuardOnDataDependentSymNode:
            answer = self.value_of(f)
            if answer is None or not isinstance(f, Expression):
                raise
        self.taken.append(f"the number {f!r} depends on elements (wanted at {user_location()}): taken to be {answer}, "
                          "as for the example, and checked when the program runs")
        self.expect(truth("==", f, number(answer)))
        return answer


class RealValues:
    """Runs what is recorded on real tensors too. A fake's real tensor is its attribute `example`."""

    def __init__(self, env: DraftEnv) -> None:
        self.env = env

    def start(self, fake: Any, real: Any) -> None:
        """What a fake of an argument or parameter stands for: a copy, since programs may write to it."""
        if isinstance(fake, FakeTensor) and isinstance(real, Tensor):
            with dispatching((), ()), no_grad():
                fake.example = real.detach().clone()

    def follow(self, target: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Run a call that was recorded; its results belong to the fakes that it gave."""
        if isinstance(target, HigherOrderOp):
            return
        try:
            given = map_aggregate((args, kwargs), self.real_of)
            with dispatching((), ()), no_grad():
                found = target(*given[0], **given[1])
        except (_Unknown, RuntimeError, TypeError):
            return                  # nothing is known of what it gives
        for fake, real in zip(pytree.tree_leaves(result), pytree.tree_leaves(found), strict=False):
            if isinstance(fake, FakeTensor) and isinstance(real, Tensor):
                fake.example = real
                for size, value in zip(fake.shape, real.shape, strict=False):
                    if isinstance(size, SYMBOLIC):
                        self.env.note(size, value)

    def real_of(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            real = getattr(value, "example", None)
            if real is None:
                raise _Unknown
            return real
        if isinstance(value, SYMBOLIC):
            known = self.env.value_of(value.formula)
            if known is None:
                raise _Unknown
            return known
        return value

    def noting(self, told: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """`told`, which hears of every element that is read, after noting its value."""

        def note(t: Any, symbolic: Any) -> None:
            real = getattr(t, "example", None)
            if real is not None:
                with dispatching((), ()):
                    self.env.note(symbolic, real.item())
            told(t, symbolic)

        return note


class _Unknown(Exception):
    """A value that the example has not."""
