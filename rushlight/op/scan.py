"""Scans: a running state along one dim, with an output for every element.

Enters: a definition with `init`, `step` and `emit` over a tuple of accumulators. Leaves: Lowereds with a walk, and
plans of what the target's scheduler makes of them; with `merge`, long rows can be divided.
Refuses: dims out of range.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..loops.expr import Value, cast, const
from ..loops.lowered import Lowered, Memory, Rare, Walk
from .definition import KIND_PLANNED, OpDefinition
from .pack import lowered_steps
from .pointwise import scalars
from .reduction import Types
from .results import result_type
from .view import wrap_dim


class Scan(OpDefinition):
    """A definition that accumulates along `dim` and keeps every intermediate result."""

    kind = KIND_PLANNED
    uses_index: ClassVar[bool] = False
    way: ClassVar[str] = ""                   # how elements are joined: "add", "mul", "max", "min", "logaddexp"
    divides_on_host: ClassVar[bool] = True    # False: only devices with many threads need it

    def types(self, input: Any, *args: Any) -> Types:
        """Dtypes elements are read as, computed in and stored as."""
        raise NotImplementedError

    def init(self, s: Any, code: str) -> tuple[Value, ...]:
        """Accumulators before the first element."""
        raise NotImplementedError

    def step(self, s: Any, acc: tuple[Value, ...], x: Value, index: Value) -> tuple[Value, ...]:
        """Accumulators after one more element."""
        raise NotImplementedError

    def emit(self, s: Any, acc: tuple[Value, ...]) -> tuple[Value, ...]:
        """Outputs for the element just seen."""
        return acc

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def plan(self, args: tuple) -> Any:
        if self.is_inplace:
            return None
        input = args[0]
        dim = wrap_dim(self.name, args[1], input.ndim)
        types = self.types(*args)
        shape = tuple(input.shape)
        slots = [("new", d, shape, None, 0, 0) for d in types.outs]
        wrap = result_type(self.spec.name, self.spec.return_names) if self.spec.return_names else None
        steps = (
            []
            if input.device.type == "meta"
            else lowered_steps(self.lowered(input, dim, types), input.device, self.kernels, slots)
        )
        return _C.Plan(1, input.device, slots, steps, len(types.outs) == 1, wrap)

    def lower(self, args: tuple) -> Lowered:
        return self.lowered(args[0], wrap_dim(self.name, args[1], args[0].ndim), self.types(*args))

    def lowered(self, input: Any, dim: int, types: Types) -> Lowered:
        """The walk over one tensor."""
        compute = types.compute

        def body(at: Any, sources: Any) -> tuple[Value]:
            return (cast(cast(sources[0].read(at), types.read), compute),)

        def init() -> Any:
            return self.init(scalars, compute)

        def step(acc: Any, x: Value, index: Value) -> Any:
            return self.step(scalars, tuple(acc), x, index)

        def emit(acc: Any) -> Any:
            return self.emit(scalars, tuple(acc))

        def merge(a: Any, b: Any) -> Any:
            return self.merge(scalars, a, b)

        def single(x: Value) -> Any:
            return self.single(scalars, x)

        # Dividing a long row costs one more pass over it. Integers come out the same without.
        on_host = self.divides_on_host and (compute[0] not in "iu" or _C.get_num_threads() > 1)
        divides = type(self).merge is not Scan.merge and (input.device.type != "cpu" or on_host)
        shape = tuple(input.shape)
        memory = Memory(self.spec.params[0].name, input.dtype.code, shape, input.stride(), tuple(range(input.ndim)))
        code = input.dtype.code
        plain = self.way and types.read in (code, "i64" if code in ("b1", "i8", "i16", "i32") else code)
        walk = Walk(
            dim, compute, init, step, emit, merge if divides else None, single, body if plain else None,
            self.rare(scalars, compute), self.way,
        )
        return Lowered(
            self.spec.name,
            (self, types.read, compute),
            shape,
            shape,
            tuple([d.code for d in types.outs]),
            (memory,),
            body,
            walk=walk,
        )

    def rare(self, s: Any, code: str) -> Rare | None:
        """How many elements at once tell that none of them changes the accumulators, where most do not."""
        return None

    def single(self, s: Any, x: Value) -> tuple[Value, ...]:
        """Accumulators of one element, in the type that is computed in."""
        return self.step(s, self.init(s, x.dtype), x, const(0, "i64"))

    def merge(self, s: Any, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, ...]:
        """Accumulators of a run from those of its two halves. Scans without one walk long rows on one thread."""
        raise NotImplementedError
