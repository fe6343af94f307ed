"""Tensors from numbers: filled ones, ranges, random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..building import Builder, Size
from ..model import Value
from .table import INT64, full_size, result_of, rule


def filled(g: Builder, sizes: Sequence[int | Size], value: Any, dtype: Any) -> Value:
    """A tensor of one number."""
    if not sizes:
        return g.scalar(value, dtype)
    return g.node("Expand", g.scalar(value, dtype), g.sizes(sizes), dtype=dtype)


def _sized(value: Any) -> Callable[..., Value]:
    def convert(g: Builder, size: Sequence[Any], fill_value: Any = None, **options: Any) -> Value:
        return filled(g, size, value if fill_value is None else fill_value, result_of(g).dtype)

    return convert


def _like(value: Any) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, fill_value: Any = None, **options: Any) -> Value:
        return filled(g, full_size(g, input), value if fill_value is None else fill_value, result_of(g).dtype)

    return convert


def _new(value: Any) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, size: Sequence[Any], fill_value: Any = None, **options: Any) -> Value:
        return filled(g, size, value if fill_value is None else fill_value, result_of(g).dtype)

    return convert


# What an `empty` holds is anybody's: zeros.
for _name, _value in {"zeros": 0, "ones": 1, "full": None, "empty": 0}.items():
    rule(_name)(_sized(_value))
    rule(f"{_name}_like")(_like(_value))
    rule(f"new_{_name}")(_new(_value))


rule("empty_strided", "empty_permuted")(_sized(0))


@rule("scalar_tensor")
def scalar_tensor(g: Builder, s: Any, **options: Any) -> Value:
    return g.scalar(s, result_of(g).dtype)


@rule("arange")
def arange(g: Builder, end: Any, start: Any = 0, step: Any = 1, **options: Any) -> Value:
    kind = result_of(g).dtype
    own = kind if kind.code in ("f32", "f64", "i16", "i32", "i64") else INT64
    return g.cast(g.node("Range", *[g.scalar(n, own) for n in (start, end, step)]), kind)


@rule("linspace")
def linspace(g: Builder, start: Any, end: Any, steps: Any, **options: Any) -> Value:
    kind = result_of(g).dtype
    if isinstance(steps, Size):
        raise NotImplementedError("linspace of a number of steps that varies")
    if any(isinstance(n, (Size, Value)) for n in (start, end)):
        return _between(g, start, end, steps, kind)
    if not kind.is_floating_point:
        step = (end - start) / (steps - 1) if steps > 1 else 0.0
        return g.constant([int(start + i * step) if i < steps / 2 else int(end - (steps - 1 - i) * step)
                           for i in range(steps)], kind)
    if steps < 2:
        return g.constant([float(start)] * steps, kind)
    distance = (end - start) / (steps - 1)
    numbers = [start + i * distance if i < steps / 2 else end - (steps - 1 - i) * distance for i in range(steps)]
    return g.constant([float(n) for n in numbers], kind)


def _between(g: Builder, start: Any, end: Any, steps: int, kind: Any) -> Value:
    """Numbers from one tensor's to another's, from either end to the middle."""
    own = _C.float64 if kind is _C.float64 or not kind.is_floating_point else _C.float32
    first, last = [g.cast(n, own) if isinstance(n, Value) else g.scalar(n, own) for n in (start, end)]
    if steps < 2:
        return g.cast(g.node("Expand", first, g.ints([steps])), kind)
    step = g.node("Div", g.node("Sub", last, first), g.constant(float(steps - 1), own))
    up = g.node("Add", first, g.node("Mul", step, g.constant([float(i) for i in range(steps)], own)))
    down = g.node("Sub", last, g.node("Mul", step, g.constant([float(steps - 1 - i) for i in range(steps)], own)))
    early = g.constant([i < steps / 2 for i in range(steps)], _C.bool)
    return g.cast(g.node("Where", early, up, down, dtype=own), kind)


@rule("eye")
def eye(g: Builder, n: Any, m: Any = None, **options: Any) -> Value:
    zeros = filled(g, [n, n if m is None else m], 0, _C.float32)
    return g.node("EyeLike", zeros)
