"""Reductions: an initial state, a step, a merge and a finish; dims, dtypes and kernels follow from them.

Enters: a definition with `init`, `step`, `merge` and `finish` over a tuple of accumulators (a `Fold`). Leaves:
Lowereds, and plans of what the target's scheduler makes of them. Refuses: dims out of range or repeated, empty
reductions of folds without an identity, and dtypes the op cannot take.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..base.promotion import rank
from ..base.shape import surely
from ..codegen.schedule.forms.launch import GRAIN, product  # noqa: F401 - hand-written plans take theirs from here
from ..loops.expr import cast
from ..loops.lowered import Fold, Folding, Lowered, Memory, TwoPass, compute_code  # noqa: F401 - taken from here
from ..loops.record import Record
from .definition import KIND_PLANNED, OpDefinition
from .extern import Spec
from .pack import as_step, lowered_steps  # noqa: F401 - hand-written plans take theirs from here
from .results import result_type
from .view import wrap_dim, wrap_dims


class Types(Record):
    """Dtypes of one call: elements are cast to `read`, computed in `compute`, stored as `outs`."""

    read: str
    compute: str
    outs: tuple[Any, ...]


class Reduction(Fold, OpDefinition):
    """A definition that folds dims away. Parameters called dim, keepdim and dtype mean what they always mean."""

    kind = KIND_PLANNED
    tag = "reduction"
    is_rows: ClassVar[bool] = False                # made by batching: each row of a matrix is folded
    reduce_none_if_empty: ClassVar[bool] = False   # dim=() reduces nothing, instead of everything
    refuse: ClassVar[tuple[str, ...]] = ()         # of "bool", "int", "float", "complex"

    def fold(self, *args: Any) -> Fold:
        """The fold of this call; it must hash, and equal folds share kernels."""
        return self

    def types(self, input: Any, dtype: Any, *args: Any) -> Types:
        """The dtypes of this call; by default the input's throughout."""
        return Types(input.dtype.code, compute_code(input.dtype.code), (dtype or input.dtype,))

    def check(self, input: Any, *args: Any) -> None:
        """Raise for arguments the op refuses."""
        if (label := ("bool", "int", "float", "complex")[rank(input.dtype)]) in self.refuse:
            raise NotImplementedError(
                f'"{self.name}" not implemented for {label if label == "bool" else input.dtype.name} tensors'
            )

    # Planning ---------------------------------------------------------------------------------------------------------

    @cached_property
    def positions(self) -> tuple[int | None, int | None, int | None]:
        names = [p.name for p in self.spec.params]
        dim, keepdim, dtype = (names.index(n) if n in names else None for n in ("dim", "keepdim", "dtype"))
        return dim, keepdim, dtype

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def plan(self, args: tuple) -> Any:
        if not self.is_planned(args):
            return None
        t = args[0]
        dims, shape, fold, types = self.settled(args)
        slots = [("new", d, shape, None, 0, 0) for d in types.outs]
        wrap = None
        if len(slots) > 1:
            wrap = result_type(self.spec.name, self.spec.return_names) if self.spec.return_names else None
        steps = (
            []
            if t.device.type == "meta"
            else lowered_steps(self.lowered(t, dims, shape, fold, types), t.device, self.kernels, slots)
        )
        return _C.Plan(1, t.device, slots, steps, len(types.outs) == 1, wrap)

    def meta(self, *args: Any) -> Any:
        """The results' shape and dtypes; raises for arguments the op refuses."""
        _, shape, _, types = self.settled(args)
        result = tuple([Spec(shape, d) for d in types.outs])
        return result[0] if len(result) == 1 else result

    def settled(self, args: tuple) -> tuple[frozenset[int], tuple[int, ...], Fold, Types]:
        """The dims that go, the results' shape, the fold and the dtypes; raises for what the op refuses."""
        t = args[0]
        at_dim, at_keepdim, at_dtype = self.positions
        self.check(*args)
        dims = self.reduced_dims(t, None if at_dim is None else args[at_dim])
        keepdim = at_keepdim is not None and args[at_keepdim]
        fold = self.fold(*args)
        types = self.types(t, None if at_dtype is None else args[at_dtype], *args[1:])
        sizes = t.shape
        if not fold.has_identity:
            self.check_not_empty(sizes, dims, at_dim is None or args[at_dim] in (None, (), []))
        return (
            dims,
            tuple([1 if d in dims else n for d, n in enumerate(sizes) if keepdim or d not in dims]),
            fold,
            types,
        )

    def lower(self, args: tuple) -> Lowered:
        return self.lowered(args[0], *self.settled(args))

    def lowered(self, t: Any, dims: frozenset[int], shape: tuple[int, ...], fold: Fold, types: Types) -> Lowered:
        """The fold over one tensor."""
        read, compute = types.read, types.compute

        def body(at: Any, sources: Any) -> tuple:
            return (cast(cast(sources[0].read(at), read), compute),)

        memory = Memory(self.spec.params[0].name, t.dtype.code, tuple(t.shape), t.stride(), tuple(range(t.ndim)))
        key = (fold, read, compute)
        return Lowered(
            self.spec.name,
            key,
            memory.sizes,
            shape,
            tuple([d.code for d in types.outs]),
            (memory,),
            body,
            folding=Folding(fold, compute, dims),
        )

    def reduced_dims(self, t: Any, dim: Any) -> frozenset[int]:
        if dim is None:
            return frozenset(range(t.ndim))
        if isinstance(dim, int):
            return frozenset((wrap_dim(self.name, dim, t.ndim),))
        if not dim and not self.reduce_none_if_empty:
            return frozenset(range(t.ndim))
        return frozenset(wrap_dims(self.name, dim, t.ndim))

    def check_not_empty(self, sizes: Sequence[int], dims: frozenset[int], is_full: bool) -> None:
        if not any(surely(n == 0) for n in sizes):
            return
        if is_full:
            raise RuntimeError(
                f"{self.name}: the reduction of no elements (input.numel() == 0) has no value. "
                "Name a dim that has some."
            )
        for d in dims:
            if d < len(sizes) and sizes[d] == 0:
                raise IndexError(f"{self.name}(): Expected reduction dim {d} to have non-zero size.")
