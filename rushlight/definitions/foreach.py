"""Lists of tensors at once: `_foreach_add(xs, ys)` is `add` of each pair, `_foreach_add_` in place.

Enters: the definitions of the ops named in the tables below. Leaves: one op per name and form. Each takes lists of
tensors first; what follows may be a list (one entry per tensor), one tensor, or one number for all. Optimizers are
written with these. Refuses: lists of different lengths, and empty ones.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.dispatch import modes
from rushlight.op import OpDefinition, find_op, ops
from rushlight.op.extern import own_function
from rushlight.rules import levels

from . import foreach_together

ONE = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)
TWO = {   # op: what follows the second operand
    "add": ", *, Scalar alpha=1", "sub": ", *, Scalar alpha=1", "mul": "", "div": "", "pow": "",
    "clamp_max": "", "clamp_min": "", "maximum": "", "minimum": "",
}
SECOND = {"pow": "exponent"}
NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}   # the op that takes a number where this one takes tensors


def each(name: str, value: Any, count: int) -> list[Any]:
    """`value` for every tensor: a list as it is, anything else repeated."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(f"{name}: expected lists with the same number of tensors, got {count} and {len(value)}")
    return list(value)


class _Foreach(OpDefinition):
    """What the list forms share."""

    body = True
    method = False
    out = False
    base: str

    def run(self, *args: Any) -> Any:
        count = self.length(args)
        found = self.at_once(args)
        if found is not None:
            return None if self.writes else found
        op = self.operation(self.base)
        result = [self.call(op, *row) for row in zip(*(each(self.spec.name, a, count) for a in args), strict=True)]
        return None if self.writes else tuple(result)

    def at_once(self, args: tuple) -> tuple | None:
        """The results by one launch for many, where a device has that."""
        lists = [a for a in args if isinstance(a, (list, tuple))]
        tensors = [t for one in lists for t in one if isinstance(t, _C.Tensor)]
        if not tensors or tensors[0].device.type in ("cpu", "meta") or not are_plain(tensors):
            return None
        if self.base in TWO and args[2:] not in ((), (1,)):      # another factor is rounded as its op does it
            return None
        return foreach_together.attempt(self.base, self.writes, args[:2] if self.base in TWO else args)

    @property
    def writes(self) -> bool:
        return self.spec.name.endswith("_")

    def operation(self, base: str) -> Any:
        """The op for one tensor, in place where this one is."""
        if not self.writes:
            return find_op(base)
        return ops[base + "_"] if base + "_" in ops else lambda x, *rest: x.copy_(find_op(base)(x, *rest))

    def length(self, args: tuple) -> int:
        first = next((a for a in args if isinstance(a, (list, tuple))), ())
        if not first:
            raise RuntimeError(f"{self.spec.name}: expected a list of at least one tensor.")
        return len(first)

    def call(self, op: Any, *row: Any) -> Any:
        return op(*row)


class _Two(_Foreach):
    """Two operands; the second may be numbers. A number that scales it comes last."""

    def call(self, op, x, y, alpha=1):
        if not isinstance(y, _C.Tensor) and self.base in NUMBERS:
            op = self.operation(NUMBERS[self.base])
        return op(x, y) if alpha is not True and alpha == 1 else op(x, y, alpha=alpha)


class _Scaled(_Foreach):
    """addcmul and addcdiv: the last list, or 1-D tensor, scales."""

    def run(self, tensors, first, second, value):
        return super().run(
            tensors, first, second, value.tolist() if isinstance(value, _C.Tensor) and value.ndim else value
        )

    def call(self, op, x, y, z, value):
        return op(x, y, z, value=value.item() if isinstance(value, _C.Tensor) else value)


class ForeachNorm(_Foreach):
    """The vector norm of each tensor."""

    schema = "_foreach_norm(Tensor[] self, Scalar ord=2, dtype? dtype=None) -> Tensor[]"

    def run(self, tensors, ord, dtype):
        self.length((tensors,))
        if ord == 2 and dtype is None and are_plain(tensors):
            own = own_function("_norms_of_many", tensors[0].device)
            found = None if own is None else own(tensors)
            if found is not None:
                return found
        norm = find_op("linalg_vector_norm")
        return tuple(norm(t, ord, dtype=dtype) for t in tensors)


def are_plain(tensors: Any) -> bool:
    """Whether nobody watches what is done with these tensors, and no gradient is asked for."""
    watched = modes.state.dispatch_modes or levels.state.stack or any(t._keys for t in tensors)
    return not watched and not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors))


class ForeachPowSum(_Foreach):
    """The sum of powers of the magnitudes in each tensor."""

    schema = "_foreach_powsum(Tensor[] self, Scalar ord=2, dtype? dtype=None) -> Tensor[]"

    def run(self, tensors, ord, dtype):
        self.length((tensors,))
        return tuple((t if dtype is None else t.to(dtype)).abs().pow(ord).sum() for t in tensors)


class ForeachMax(_Foreach):
    """The largest element of each tensor."""

    schema = "_foreach_max(Tensor[] self) -> Tensor[]"
    base = "max"


class ForeachClone(_Foreach):
    """A copy of each tensor."""

    schema = "_foreach_clone(Tensor[] self, *, memory_format? memory_format=None) -> Tensor[]"

    def run(self, tensors, memory_format):
        self.length((tensors,))
        return tuple(t.clone(memory_format=memory_format) for t in tensors)


class ForeachZero(_Foreach):
    """Zeros in every tensor."""

    schema = "_foreach_zero_(Tensor[] self) -> ()"
    base = "zero"


class ForeachCopy(_Foreach):
    """Every tensor overwritten by its source."""

    schema = "_foreach_copy_(Tensor[] self, Tensor[] src, bool non_blocking=False) -> ()"
    base = "copy"

    def call(self, op, x, src, non_blocking):
        return op(x, src)


class ForeachMm(_Foreach):
    """Matrix products, pair by pair."""

    schema = "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]"
    base = "mm"


class ForeachLerp(_Foreach):
    """Between tensor and tensor, `weight` of the way."""

    schema = "_foreach_lerp(Tensor[] self, Tensor[] tensors1, any weight) -> Tensor[]"
    base = "lerp"


class ForeachLerpInPlace(_Foreach):
    """Every tensor moved `weight` of the way to another."""

    schema = "_foreach_lerp_(Tensor[] self, Tensor[] tensors1, any weight) -> ()"
    base = "lerp"


def define(kind: type, base: str, params: str) -> None:
    """The list forms of `base`: new tensors, and in place."""
    for suffix, result in (("", "Tensor[]"), ("_", "()")):
        schema = f"_foreach_{base}{suffix}({params}) -> {result}"
        doc = f"`{base}{suffix}` of every tensor of a list."
        type(
            f"Foreach_{base}{suffix}", (kind,), {"schema": schema, "base": base, "__doc__": doc, "__module__": __name__}
        )


def define_all() -> None:
    """Every op of the tables."""
    for base in ONE:
        define(_Foreach, base, "Tensor[] self")
    for base, rest in TWO.items():
        first = "any self" if base == "pow" else "Tensor[] self"
        define(_Two, base, f"{first}, any {SECOND.get(base, 'other')}{rest}")
    for base in ("addcmul", "addcdiv"):
        define(_Scaled, base, "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, any value=1")


define_all()
