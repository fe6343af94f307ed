"""Users' ops that write to their arguments, as ops that return what they would have written.

Enters: an overload with arguments that it writes, and the arguments of a call. Leaves: the results of the call, and new
values of what it writes: of an op made for that, over the tensors and the numbers that vary of such calls, which copies
what is written and runs the user's op on the copies. Graphs hold that op as one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from .custom_ops import CustomOpDef

SPACE = "functional_forms"
TENSOR, NUMBER, CONSTANT = "tensor", "number", "constant"
PLAIN = (int, float, bool, str, type(None))
_forms: dict[Any, tuple[Any, Any]] = {}


class Layout:
    """Which arguments of calls are tensors, numbers that vary, or the same each time."""

    def __init__(self) -> None:
        self.kinds: list[Any] = []
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []

    def add(self, value: Any) -> None:
        self.kinds.append(self.placed(value))

    def placed(self, value: Any) -> Any:
        """What an argument is, and where it is among those of its kind; a tensor that comes twice is there once."""
        if isinstance(value, Tensor):
            found = next((k for k, t in enumerate(self.tensors) if t is value), len(self.tensors))
            if found == len(self.tensors):
                self.tensors.append(value)
            return TENSOR, found
        if isinstance(value, (list, tuple)) and any(not isinstance(x, PLAIN) for x in value):
            return type(value).__name__, tuple([self.placed(x) for x in value])
        if hasattr(value, "expression"):      # a symbol
            self.numbers.append(value)
            return NUMBER, len(self.numbers) - 1
        return CONSTANT, value


def filled(kind: Any, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
    """The argument that a `Layout` describes."""
    what, value = kind
    if what == TENSOR:
        return tensors[value]
    if what == NUMBER:
        return numbers[value]
    return value if what == CONSTANT else [filled(one, tensors, numbers) for one in value]


def like(t: Any) -> Any:
    """Memory that is laid out as a tensor's."""
    return t.new_empty_strided(t.shape, t.stride())


def over_copies(run: Callable, written: Sequence[int]) -> tuple[Callable, Callable]:
    """A function of (tensors, numbers) that writes to some of the tensors, as one that returns its results and, behind
    them, copies that were written; and the same for tensors without data, which only need to be there."""

    def real(tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        own = list(tensors)
        for k in written:
            own[k] = like(tensors[k]).copy_(tensors[k])
        return [*run(own, numbers), *[own[k] for k in written]]

    def fake(tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        own = list(tensors)
        for k in written:
            own[k] = like(tensors[k])
        return [*run(own, numbers), *[own[k] for k in written]]

    return real, fake


def defined(name: str, real: Callable, fake: Callable) -> Any:
    """An op over (tensors, numbers) that returns a list of tensors."""
    made = CustomOpDef(f"{SPACE}::{name}", "(Tensor[] tensors, SymInt[] numbers) -> Tensor[]", real, None)
    made.register_fake(fake)
    return made._opoverload


def call(overload: Any, args: tuple) -> tuple[Any, dict[int, Any]]:
    """What a call returns, and the new values of the arguments that it writes, by their numbers."""
    layout = Layout()
    for value in args:
        layout.add(value)
    params = overload.definition.spec.params
    places = {k: layout.kinds[k][1] for k, p in enumerate(params) if p.mutated and isinstance(args[k], Tensor)}
    written = sorted({*places.values()})
    key = overload.name, repr(layout.kinds)
    if key not in _forms:
        kinds, shapes = tuple(layout.kinds), []

        def run(tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
            given = [filled(kind, tensors, numbers) for kind in kinds]
            words = {p.name: a for p, a in zip(params, given, strict=True) if p.keyword_only}
            found = overload(*[a for p, a in zip(params, given, strict=True) if not p.keyword_only], **words)
            shapes[:] = [type(found)]
            return [] if found is None else [found] if isinstance(found, Tensor) else list(found)

        name = f"{overload.name.replace('::', '_').replace('.', '_')}_{len(_forms)}"
        _forms[key] = defined(name, *over_copies(run, written)), shapes
    op, shapes = _forms[key]
    found = op(layout.tensors, layout.numbers)
    outs, news = found[: len(found) - len(written)], dict(zip(written, found[len(found) - len(written) :], strict=True))
    single = shapes[0] is not tuple and shapes[0] is not list
    result = None if not outs else outs[0] if single else tuple(outs)
    return result, {k: news[at] for k, at in places.items()}
