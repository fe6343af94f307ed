"""`rearrange(x, "b (h w) c -> b c h w", h=2)`: dims by name, split, joined and put in another order.

Enters: a tensor (or a list of equal ones, stacked in front), a pattern, sizes of split dims. Leaves: a view where there
is one. Refuses patterns whose sides do not name the same dims, and sizes that do not fit.
"""

from __future__ import annotations

import re
from typing import Any

from .._C import Tensor
from ..op import find_op

_TOKEN = re.compile(r"\.\.\.|[()]|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|\S")


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """The elements of `tensor` with dims split, joined and ordered as the pattern says."""
    x = tensor if isinstance(tensor, Tensor) else find_op("stack")(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected a pattern with one '->', got {pattern!r}")
    left, right = (_groups(side, pattern) for side in sides)
    rest = x.ndim - sum(group != ["..."] for group in left)
    if ["..."] not in left and rest:
        raise ValueError(f"rearrange: {pattern!r} names {len(left)} dims on the left, and the tensor has {x.ndim}")
    names = {"...": [f"...{i}" for i in range(rest)]}
    left, right = (_spread(side, names) for side in (left, right))
    before, after = ([name for group in side for name in group] for side in (left, right))
    if sorted(n for n in before if n != "1") != sorted(n for n in after if n != "1") or len(set(before) - {"1"}) != len(
        [n for n in before if n != "1"]
    ):
        raise ValueError(f"rearrange: expected every dim once on both sides of {pattern!r}")
    sizes = _sizes(left, x.shape, axes_lengths, pattern)
    split = x.reshape([sizes[name] for name in before if name != "1"])
    order = [n for n in before if n != "1"]
    moved = split.permute([order.index(name) for name in after if name != "1"])
    return moved.reshape([_product(sizes[name] for name in group) for group in right])


def _groups(side: str, pattern: str) -> list[list[str]]:
    """The dims of one side, each a list of the names joined in it."""
    groups: list[list[str]] = []
    is_open = False
    for token in _TOKEN.findall(side):
        if token in "()":
            if is_open == (token == "("):
                raise ValueError(f"rearrange: parentheses in {pattern!r} do not match")
            is_open = token == "("
            if is_open:
                groups.append([])
        elif token != "..." and not token.isidentifier() and token != "1":
            raise ValueError(f"rearrange: {token!r} in {pattern!r} is no name of a dim")
        elif is_open:
            groups[-1].append(token)
        else:
            groups.append([token])
    if is_open:
        raise ValueError(f"rearrange: parentheses in {pattern!r} do not match")
    return groups


def _spread(side: list[list[str]], names: dict[str, list[str]]) -> list[list[str]]:
    """The side with every dim that `...` stands for."""
    result: list[list[str]] = []
    for group in side:
        if group == ["..."]:
            result += [[name] for name in names["..."]]
        else:
            result.append([part for name in group for part in (names["..."] if name == "..." else [name])])
    return result


def _sizes(left: list[list[str]], shape: Any, given: dict[str, int], pattern: str) -> dict[str, int]:
    sizes = {"1": 1, **given}
    for group, size in zip(left, shape, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = _product(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1 or size % max(known, 1) or (not unknown and known != size):
            raise ValueError(
                f"rearrange: a dim of size {size} cannot be split as ({' '.join(group)}) in {pattern!r} with the sizes"
                f" {given}"
            )
        if unknown:
            sizes[unknown[0]] = size // max(known, 1)
    return sizes


def _product(sizes: Any) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
