"""Plans for many shapes: a rule is run once on sizes that remember what was done with them.

Enters: a definition and the arguments of a call whose types and ranks were met before, with other sizes. Its `plan`
runs on `Outline`s, tensors whose sizes and strides are `Extent`s: numbers whose arithmetic is written down, and whose
comparisons are answered for this call and written down as conditions. Leaves: a plan whose numbers the core computes
for any call that meets the conditions (csrc/extents.h, csrc/lookup.cpp), so that a new shape costs no Python. Whatever
asks an Extent for its number (`int`, `hash`, `range`, an index) makes that number a condition: a plan may hold for
fewer shapes than it could, never for one too many. Refuses (returns None): rules that look at anything but types, sizes
and strides, and plans that call Python functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.bits import BITS
from ..base.shape import Size
from ..loops.sizes import larger, smaller  # noqa: F401 - planners find them here

CODES = {
    name: k
    for k, name in enumerate(("+", "-", "*", "//", "%", "min", "max", "&", "|", "<<", ">>", "==", "!=", "<", "<="))
}
COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "min": min, "max": max, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
# and whether the sides change places
OPPOSITE = {"==": ("!=", False), "!=": ("==", False), "<": ("<=", True), "<=": ("<", True)}
LIMIT = 1 << 63
MOST = 900     # registers; the core has a few more
# questions and operations of one trace; a rule that asks for more makes tables, whose lengths are part of its plan
PATIENCE = 20_000


class Untraceable(Exception):  # noqa: N818 - not an error: the call is planned for its own shape
    """The rule wants more than sizes that stand for others can give."""


class Trace:
    """What a rule did with the sizes of a call."""

    def __init__(self, most: int = MOST, patience: int = PATIENCE) -> None:
        self.most, self.patience = most, patience
        self.hints: list[int] = []                          # what each register holds for this call
        # how it comes to be: given (None), or an operation on registers and constants
        self.steps: list[tuple[str, Any, Any] | None] = []
        self.known: dict[tuple[str, Any, Any], Any] = {}
        self.num_given = 0
        self.asked = 0
        self.open = True

    def given(self, value: int) -> Extent:
        """The next number of the call."""
        assert len(self.steps) == self.num_given, "numbers are given before anything is computed"
        self.num_given += 1
        self.steps.append(None)
        self.hints.append(value)
        return Extent(self, self.num_given - 1, value)

    def append(self, step: tuple[str, Any, Any], value: int) -> int:
        if not self.open or len(self.steps) > self.most or not _fits(value):
            raise Untraceable
        self.steps.append(step)
        self.hints.append(value)
        return len(self.steps) - 1

    def count(self) -> None:
        self.asked += 1
        if self.asked > self.patience:
            raise Untraceable("too many questions")

    def compute(self, name: str, a: Any, b: Any) -> Any:
        """An operation on two numbers, at least one of them an Extent."""
        self.count()
        key = (name, _name(a), _name(b))
        found = self.known.get(key)
        if found is None:
            value = COMPUTE[name](_number(a), _number(b))
            found = self.known[key] = Extent(self, self.append(key, value), value)
        return found

    def compare(self, name: str, a: Any, b: Any) -> bool:
        """The answer for this call, which is a condition from now on."""
        self.count()
        answer = COMPUTE[name](_number(a), _number(b))
        # a check against overflow: programs end where a result leaves 64 bits
        if not all(_fits(_number(x)) for x in (a, b)):
            return answer
        if not answer:
            name, swapped = OPPOSITE[name]
            a, b = (b, a) if swapped else (a, b)
        key = (name, _name(a), _name(b))
        if key not in self.known:
            self.append(key, 0)
            self.known[key] = True
        return answer

    def program(self) -> tuple[list[int], list[int]]:
        """(constants, instructions) for the core, whose registers are the given numbers, then results,
        then constants."""
        constants = dict.fromkeys(
            part[0] for step in self.steps if step for part in step[1:] if isinstance(part, tuple)
        )
        places = {value: len(self.steps) + k for k, value in enumerate(constants)}
        words: list[int] = []
        for step in self.steps[self.num_given :]:
            assert step is not None, "given numbers come first"
            name, *parts = step
            words += (CODES[name], *(places[part[0]] if isinstance(part, tuple) else part for part in parts))
        return list(constants), words


def _number(x: Any) -> int:
    return x.hint if isinstance(x, Extent) else x


def _name(x: Any) -> Any:
    """What a step calls a number: a register, or a constant in a tuple."""
    if isinstance(x, Extent):
        return x.register
    if not _fits(x):
        raise Untraceable
    return (int(x),)


def _fits(x: int) -> bool:
    return -LIMIT <= x < LIMIT


def _operator(name: str, reflected: bool = False) -> Callable:
    def call(self: Extent, other: Any) -> Any:
        if isinstance(other, float):
            return COMPUTE[name](other, self.settle()) if reflected else COMPUTE[name](self.settle(), other)
        if not isinstance(other, (int, Extent)):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        plain = _simplified(name, a, b)
        return self.trace.compute(name, a, b) if plain is None else plain

    return call


def _simplified(name: str, a: Any, b: Any) -> Any:
    """The result where nothing has to be computed: x * 1, x + 0, x // 1, x - 0, 0 * x."""
    if isinstance(b, int) and ((b == 1 and name in ("*", "//")) or (b == 0 and name in ("+", "-"))):
        return a
    if isinstance(a, int) and ((a == 1 and name == "*") or (a == 0 and name == "+")):
        return b
    zero = name == "*" and ((isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0))
    return 0 if zero else None


def _comparison(name: str, swapped: bool = False) -> Callable:
    def call(self: Extent, other: Any) -> Any:
        if isinstance(other, float) and self.trace.open:
            a, b = (other, self.settle()) if swapped else (self.settle(), other)
            return COMPUTE[name](a, b)
        # what an earlier trace left in a cache equals nothing
        if not isinstance(other, (int, Extent)) or not self.trace.open:
            return NotImplemented if not isinstance(other, (int, Extent)) else name == "!="
        if self is other:
            return name in ("==", "<=")
        return self.trace.compare(name, other, self) if swapped else self.trace.compare(name, self, other)

    return call


class Extent(_C.Extent):
    """A number of a call, as its rule sees it."""

    __slots__ = ("hint", "trace")

    def __init__(self, trace: Trace, register: int, hint: int) -> None:
        self.trace, self.register, self.hint = trace, register, hint

    def has_hint(self) -> bool:
        return True

    def settle(self) -> int:
        """The number, which is a condition from now on."""
        self.trace.compare("==", self, self.hint)
        return self.hint

    __index__ = __int__ = __trunc__ = settle

    def __float__(self) -> float:
        return float(self.settle())

    def __hash__(self) -> int:
        return hash(self.settle() if self.trace.open else self.hint)

    def __bool__(self) -> bool:
        return self.trace.compare("!=", self, 0)

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> float:
        return self.settle() / other

    def __rtruediv__(self, other: Any) -> float:
        return other / self.settle()

    def __pow__(self, other: Any) -> Any:
        return math.prod([self] * other) if isinstance(other, int) and 0 < other < 8 else self.settle() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self.settle()

    def bit_length(self) -> int:
        return self.settle().bit_length()

    __add__, __radd__ = _operator("+"), _operator("+", reflected=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", reflected=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", reflected=True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", reflected=True)
    __mod__, __rmod__ = _operator("%"), _operator("%", reflected=True)
    __and__, __rand__ = _operator("&"), _operator("&", reflected=True)
    __or__, __ror__ = _operator("|"), _operator("|", reflected=True)
    __lshift__, __rlshift__ = _operator("<<"), _operator("<<", reflected=True)
    __rshift__, __rrshift__ = _operator(">>"), _operator(">>", reflected=True)
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison("<", swapped=True), _comparison("<=", swapped=True)

    def __repr__(self) -> str:
        return f"Extent({self.hint})"


# --- tensors ----------------------------------------------------------------------------------------------------------

_SAME = frozenset(("dtype", "device", "ndim", "dim", "itemsize", "element_size", "is_floating_point", "is_complex",
                   "is_meta", "is_sparse", "layout", "is_nested", "is_quantized", "_is_wrapped_number", "_overlap",
                   "is_cuda", "is_cpu", "_keys", "is_sparse_csr", "is_mkldnn", "is_signed"))
_OWN = frozenset(("shape", "size", "stride", "numel", "nelement", "extents", "_is_contiguous", "_is_channels_last",
                  "_is_dense", "_overlaps_itself", "is_contiguous", "_view_strides", "__class__", "__torch_function__",
                  "__dict__", "expand", "permute"))


class Outline(Tensor):
    """An argument as a traced rule sees it: types, sizes and strides, nothing else."""

    extents: tuple[tuple, tuple]

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name in _SAME:
            return object.__getattribute__(self, name)
        raise Untraceable(name)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Untraceable(function)

    @property
    def shape(self) -> Any:   # type: ignore[override]   # nobody gives an outline another shape
        return Size(self.extents[0])

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.extents[1] if dim is None else self.extents[1][dim]

    def numel(self) -> Any:
        return math.prod(self.extents[0])

    nelement = numel

    def _is_contiguous(self) -> bool:
        return _geometry().is_contiguous(*self.extents)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        if memory_format is not None:
            raise Untraceable("memory_format")
        return self._is_contiguous()

    def _is_channels_last(self) -> bool:
        return _geometry().is_channels_last(*self.extents)

    def _is_dense(self) -> bool:
        return _geometry().is_dense(*self.extents)

    def _overlaps_itself(self) -> bool:
        return _geometry().overlaps_itself(*self.extents)

    def _view_strides(self, sizes: Any) -> Any:
        return _geometry().view_strides(*self.extents, tuple(sizes))

    # Rules expand by one sequence of sizes; any other form is not traced.
    def expand(self, sizes: Sequence[Any]) -> Outline:   # type: ignore[override]
        """The same elements, seen with these sizes."""
        own, strides = self.extents
        extra = len(sizes) - len(own)
        if extra < 0:
            raise RuntimeError(f"expand: {len(own)} dimensions do not fit into {len(sizes)}")
        found = [0] * extra
        for want, have, stride in zip(sizes[extra:], own, strides, strict=True):
            if want != have and have != 1:
                raise RuntimeError(f"expand: the size {want} does not match {have}, which is not 1")
            found.append(stride if want == have else 0)
        return outlined(self, tuple(sizes), tuple(found))

    def permute(self, order: Sequence[int]) -> Outline:   # type: ignore[override]
        """The same elements with the dims in this order."""
        sizes, strides = self.extents
        return outlined(self, tuple([sizes[d] for d in order]), tuple([strides[d] for d in order]))


def _geometry() -> Any:
    from ..symbols import geometry  # noqa: PLC0415 - most programs never need it

    return geometry


def outline(trace: Trace, t: Any) -> Outline:
    """A tensor whose sizes and strides are the next numbers of the trace."""
    if t._keys & ~BITS:      # a tensor that stands for another
        raise Untraceable(type(t))
    return outlined(t, tuple(map(trace.given, t.shape)), tuple(map(trace.given, t.stride())))


def outlined(t: Any, sizes: tuple, strides: tuple) -> Outline:
    """A tensor that shows these sizes and strides."""
    result = _C.shallow_copy(t, True, Outline)
    result.extents = sizes, strides
    return result


def argument(trace: Trace, p: Any, a: Any) -> Any:
    """An argument of the call, with its numbers exchanged for those of the trace;
    in the order in which the core gives them."""
    if isinstance(a, Tensor):
        return outline(trace, a)
    if isinstance(a, (tuple, list)) and any(isinstance(x, Tensor) for x in a):
        return type(a)([outline(trace, x) if isinstance(x, Tensor) else x for x in a])
    if not p.varies or not (type(a) is int or isinstance(a, (tuple, list))):
        return a
    return tuple([trace.given(n) for n in a]) if isinstance(a, (tuple, list)) else trace.given(a)


def generic_plan(definition: Any, args: tuple) -> Any:
    """A plan that holds for many shapes, or None."""
    trace = Trace()
    try:
        plan = definition.plan(
            tuple([argument(trace, p, a) for p, a in zip(definition.spec.params, args, strict=True)])
        )
        if not isinstance(plan, _C.Plan) or plan.calls_python:
            return None
        constants, words = trace.program()
        plan.generalize(trace.num_given, constants, words)
    except Untraceable:
        return None
    finally:
        trace.open = False
    return plan
