"""Small integers that sizes are computed of: they stay Python's numbers, and never become tensors.

Enters: numbers and tuples of numbers, which stand for tensors without dims and with one. Leaves: the same. Sizes that
inputs decide so stay what tracing makes of them, symbols: a module has no size in it that an example had. `HOST` says
of an operator what it does to such values, and how many dims its result has (None: it makes a tensor).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...base.assertions import sym_float, sym_not
from ...symbols import SymFloat
from ...tensors.interop import tensor

aten = ops.aten
LARGEST = 64          # elements of a constant that is taken for numbers


def shape(x: Any, *, start: int = 0, end: int | None = None) -> tuple:
    """The sizes of a tensor."""
    return tuple(x.shape)[start:end]


def size(x: Any) -> int:
    """The number of elements of a tensor."""
    return math.prod(tuple(x.shape))


def shape_of_numbers(x: Any, *, start: int = 0, end: int | None = None) -> tuple:
    """The sizes of what stands for a tensor."""
    return ((len(x),) if isinstance(x, tuple) else ())[start:end]


def count(x: Any) -> int:
    """The number of elements of what stands for a tensor."""
    return len(x) if isinstance(x, tuple) else 1


def to_tensor(value: Any, like: Any, dtype: Any) -> Any:
    """Numbers as a tensor on the device of another one."""
    if isinstance(value, tuple):
        if all(isinstance(v, (int, float)) for v in value):
            return tensor(list(value), dtype=dtype, device=like.device)
        parts = [aten.scalar_tensor(v, dtype=dtype, device=like.device) for v in value]
        return aten.stack(parts) if parts else tensor([], dtype=dtype, device=like.device)
    return aten.scalar_tensor(value, dtype=dtype, device=like.device)


def numbers_of(x: Any) -> Any:
    """A tensor as numbers: those of its one dim, or its only one."""
    if not hasattr(x, "shape"):
        return x
    found = x.reshape(-1).tolist() if x.ndim > 1 else x.tolist()
    return tuple(found) if isinstance(found, list) else found


def as_tuple(value: Any) -> tuple | None:
    """Numbers of one dim; a single number is a tuple of one."""
    return value if value is None or isinstance(value, tuple) else tuple(value) if isinstance(value, list) else (value,)


def gather(data: tuple, indices: Any, *, axis: int = 0) -> Any:
    return tuple([data[i] for i in indices]) if isinstance(indices, tuple) else data[indices]


def take(data: tuple, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> tuple:
    step = as_tuple(steps)[0] if steps is not None else 1
    begin, end = as_tuple(starts)[0], as_tuple(ends)[0]
    if step < 0:
        indices = range(len(data))[begin:end if end >= -len(data) else None:step]
        return tuple([data[i] for i in indices])
    return data[begin:end:step]


def take_by_settings(data: tuple, *, starts: Sequence[int], ends: Sequence[int], axes: Any = None) -> tuple:
    return data[starts[0]:ends[0]]


def concat(*parts: tuple, axis: int = 0) -> tuple:
    return tuple([n for part in parts for n in part])


def unsqueeze(x: Any, axes: Any = None) -> tuple:
    return (x,)


def unsqueeze_by_setting(x: Any, *, axes: Any) -> tuple:
    return (x,)


def squeeze(x: tuple, axes: Any = None) -> Any:
    if len(x) != 1:
        raise ValueError(f"Squeeze: expected one element, got {len(x)}")
    return x[0]


def squeeze_by_setting(x: tuple, *, axes: Any = None) -> Any:
    return squeeze(x)


def reshape(x: Any, target: Any, *, allowzero: int = 0) -> Any:
    flat = as_tuple(x)
    return flat if len(target) else squeeze(flat)


def same(x: Any, **settings: Any) -> Any:
    return x


def where(condition: Any, x: Any, y: Any) -> Any:
    count = max([len(v) for v in (condition, x, y) if isinstance(v, tuple)], default=0)
    if not count:
        return x if condition else y
    c, a, b = [v * count if isinstance(v, tuple) and len(v) == 1 else v if isinstance(v, tuple) else (v,) * count
               for v in (condition, x, y)]
    return tuple([p if q else r for q, p, r in zip(c, a, b, strict=True)])


def _each(compute: Callable[..., Any]) -> Callable[..., Any]:
    def apply(a: Any, b: Any) -> Any:
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return compute(a, b)
        a, b = as_tuple(a), as_tuple(b)
        count = len(b) if len(a) == 1 else len(a)
        a, b = (a * count if len(a) == 1 else a), (b * count if len(b) == 1 else b)
        return tuple([compute(p, q) for p, q in zip(a, b, strict=True)])

    return apply


def _quotient(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and (a < 0) != (b < 0):
        return -(abs(a) // abs(b))       # rounded towards 0; sizes are not negative
    return a // b


def add(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p + q)(a, b)


def sub(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p - q)(a, b)


def mul(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p * q)(a, b)


def div(a: Any, b: Any) -> Any:
    return _each(_quotient)(a, b)


def mod(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p % q)(a, b)


def equal(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p == q)(a, b)


def less(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p < q)(a, b)


def greater(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p > q)(a, b)


def at_most(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p <= q)(a, b)


def at_least(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p >= q)(a, b)


def both(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p & q)(a, b)


def either(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p | q)(a, b)


def is_any(x: Any) -> Any:
    """Numbers as truths."""
    return tuple([v != 0 for v in x]) if isinstance(x, tuple) else x != 0


def as_reals(x: Any) -> Any:
    """Numbers as reals."""
    return tuple([sym_float(v) for v in x]) if isinstance(x, tuple) else sym_float(x)


def as_whole(x: Any) -> Any:
    """Numbers as integers, rounded towards 0."""
    return tuple([_whole(v) for v in x]) if isinstance(x, tuple) else _whole(x)


def _whole(x: Any) -> Any:
    return math.trunc(x) if isinstance(x, (float, SymFloat)) else x


def divide_reals(a: Any, b: Any) -> Any:
    return _each(lambda p, q: p / q)(a, b)


def floor(x: Any) -> Any:
    return as_reals(tuple([math.floor(v) for v in x]) if isinstance(x, tuple) else math.floor(x))


def ceil(x: Any) -> Any:
    return as_reals(tuple([math.ceil(v) for v in x]) if isinstance(x, tuple) else math.ceil(x))


def smaller(a: Any, b: Any) -> Any:
    return _each(min)(a, b)


def larger(a: Any, b: Any) -> Any:
    return _each(max)(a, b)


def negative(x: Any) -> Any:
    return tuple([-v for v in x]) if isinstance(x, tuple) else -x


def is_not(x: Any) -> Any:
    return tuple([sym_not(v) for v in x]) if isinstance(x, tuple) else sym_not(x)


def prod(x: Any, axes: Any = None, *, keepdims: int = 1) -> Any:
    found = math.prod(as_tuple(x))
    return (found,) if keepdims else found


Ranks = Sequence[int]


def _largest(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return max(ranks)


def _gathered(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return ranks[1] if ranks[0] == 1 else None


def _vector(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return 1 if all(r == 1 for r in ranks[:1]) else None


def _vectors(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return 1 if all(r == 1 for r in ranks) else None


def _scalar(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return 1 if ranks[0] == 0 else None


def _single(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return 0 if ranks[0] == 1 else None


def _reshaped(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    target = constants[1]
    return len(target) if isinstance(target, tuple) and len(target) < 2 else None


def _cast(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return ranks[0] if settings.get("to") in CASTS else None


def _kept(ranks: Ranks, settings: dict, constants: Sequence[Any]) -> int | None:
    return (1 if settings.get("keepdims", 1) else 0) if ranks[0] == 1 else None


REALS = (1, 11)       # types of numbers that are reals
CASTS = {1: as_reals, 11: as_reals, 6: as_whole, 7: as_whole, 9: is_any}
# Of reals: what differs, or is not there.
OF_REALS = {"Div": divide_reals, "Mod": None}
# By operator: what it is when its inputs are numbers, and the dims of its result. Truths are marked as such.
HOST: dict[str, tuple[Callable[..., Any], Callable[..., int | None], bool]] = {
    "Gather": (gather, _gathered, False), "Concat": (concat, _vectors, False), "Identity": (same, _largest, False),
    "Add": (add, _largest, False), "Sub": (sub, _largest, False), "Mul": (mul, _largest, False),
    "Div": (div, _largest, False), "Mod": (mod, _largest, False), "Neg": (negative, _largest, False),
    "Min": (smaller, _largest, False), "Max": (larger, _largest, False), "Equal": (equal, _largest, True),
    "Less": (less, _largest, True), "Greater": (greater, _largest, True), "Not": (is_not, _largest, True),
    "LessOrEqual": (at_most, _largest, True), "GreaterOrEqual": (at_least, _largest, True),
    "And": (both, _largest, True), "Or": (either, _largest, True),
    "Floor": (floor, _largest, False), "Ceil": (ceil, _largest, False),
    "Where": (where, _largest, False), "Cast": (same, _cast, False), "Reshape": (reshape, _reshaped, False),
    "ReduceProd": (prod, _kept, False),
    "Slice": (take, _vector, False), "Unsqueeze": (unsqueeze, _scalar, False), "Squeeze": (squeeze, _single, False),
}
BY_SETTINGS = {"Slice": take_by_settings, "Unsqueeze": unsqueeze_by_setting, "Squeeze": squeeze_by_setting}
