"""One op call on symbolic sizes, held against the same call on other sizes.

Enters: an op and arguments. Its tensors become fakes whose sizes are symbols; the call gives result formulas and
guards. Then sizes that nobody showed, but that meet the guards, are put into the formulas and given to the op itself,
without data. Both must agree: a size that was used without a guard shows as a difference. Leaves: `Finding`s,
and how many other sizes were tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl
from rushlight.fake import FakeTensor, FakeTensorMode, GuardOnDataDependentSymNode, ShapeEnv
from rushlight.symbols import SymBool, SymFloat, SymInt

SYMBOLIC = (SymInt, SymFloat, SymBool)
CHANGES: tuple[Callable[[int, int], int], ...] = (
    lambda n, i: n + 1 + i, lambda n, i: 2 * n, lambda n, i: n + (i == 0), lambda n, i: n + (i == 1),
    lambda n, i: 4 * n + 3 * i, lambda n, i: max(2, n - 1), lambda n, i: 3 if i % 2 else n + 7,
    lambda n, i: n + 6 * (i == 2),
)


class Finding(AssertionError):
    """A symbolic result that is not what the op gives."""


def leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in leaves(value)]
    if isinstance(x, (list, tuple)) and not isinstance(x, rl.Size):
        return [leaf for value in x for leaf in leaves(value)]
    return [x]


def mapped(fn: Callable[[Any], Any], x: Any) -> Any:
    """`fn` over the tensors of a tree."""
    if isinstance(x, rl.Tensor):
        return fn(x)
    if type(x) in (list, tuple):
        return type(x)(mapped(fn, item) for item in x)
    return {key: mapped(fn, item) for key, item in x.items()} if isinstance(x, dict) else x


def value(x: Any, sizes: dict[str, int]) -> Any:
    """A number of a symbolic result, for given sizes."""
    return x.expression.evaluate(sizes) if isinstance(x, SYMBOLIC) else x


def form(x: Any, sizes: dict[str, int]) -> Any:
    """What is compared of a result."""
    if isinstance(x, rl.Tensor):
        shape = tuple(value(n, sizes) for n in x.shape)
        strides = tuple(value(s, sizes) if n > 1 else 0 for s, n in zip(x.stride(), shape, strict=True))
        return shape, x.dtype, strides if 0 not in shape else ()
    return value(x, sizes) if isinstance(x, (int, float, *SYMBOLIC)) else type(x)


def concrete(t: Any, sizes: dict[str, int]) -> Any:
    """A tensor without data, laid out as a fake one is for given sizes."""
    if not isinstance(t, FakeTensor):
        return t
    shape, strides = tuple(value(n, sizes) for n in t.shape), tuple(value(s, sizes) for s in t.stride())
    return rl.empty_strided(shape, strides, dtype=t.dtype, device="meta").requires_grad_(t.requires_grad)


def other_sizes(env: ShapeEnv) -> Iterator[dict[str, int]]:
    """Sizes near those seen."""
    seen: list[dict[str, int]] = [dict(env.hints)]
    for change in CHANGES:
        sizes = {name: change(n, i) for i, (name, n) in enumerate(env.hints.items())}
        if sizes not in seen:
            seen.append(sizes)
            yield sizes


def check(fn: Callable, tree: tuple, where: str) -> tuple[int, ShapeEnv] | None:
    """How many other sizes agree, and what was assumed. None where the call has no symbolic sizes,
    or elements decide its result."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    given = mapped(lambda t: mode.from_tensor(t) if t.layout is rl.strided else t, tree)
    if not env.hints:
        return None
    try:
        with mode:
            result = fn(given[0], *given[1], **given[2])
    except GuardOnDataDependentSymNode:
        return None
    if env.stand_ins and not all(isinstance(r, FakeTensor) for r in leaves(result) if isinstance(r, rl.Tensor)):
        return None      # tensors made of others, whose parts have such sizes
    if any(
        n in env.stand_ins
        for r in leaves(result)
        if isinstance(r, FakeTensor)
        for s in r.shape
        if isinstance(s, SymInt)
        for n in s.expression.names
    ):
        return None
    tried = 0
    for sizes in (dict(env.hints), *other_sizes(env)):
        if not env.holds_for(sizes):
            continue
        again = mapped(lambda t: concrete(t, sizes), given)  # noqa: B023
        try:
            expected = fn(again[0], *again[1], **again[2])
        except Exception as error:   # the op refuses what the guards allow: a guard is missing
            raise Finding(
                f"{where}: sizes {sizes} meet {env.guards}, but {type(error).__name__}: {str(error)[:160]}"
            ) from error
        got = [form(r, {**env.stand_ins, **sizes}) for r in leaves(result)]
        want = [form(r, sizes) for r in leaves(expected)]
        if got != want:
            raise Finding(f"{where}: at {sizes} (guards {env.guards}) the formulas give {got}, the op {want}")
        tried += 1
    return tried - 1, env
