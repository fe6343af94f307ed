"""einsum: sums of products named by letters, reduced to batched matrix products."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from importlib.util import find_spec
from typing import Any

from ... import _C
from ...base.promotion import promote_types
from ...base.settings import get_einsum_strategy
from ...dispatch.overrides import overridable
from ...op import Composite, find_op


def plain_einsum(*args: Any) -> Any:
    """`einsum` where nobody has a say in the call: one op, which the core replays."""
    if len(args) > 1 and isinstance(args[0], str):
        tensors = operands_of(args)
        if all(isinstance(t, _C.Tensor) for t in tensors):
            return find_op("_contract")(tensors, args[0], get_einsum_strategy() if len(tensors) > 2 else None)
    return einsum.__wrapped__(*args)


@partial(overridable, plain=plain_einsum)
def einsum(*args: Any) -> Any:
    """einsum(equation, *operands), or einsum(operand, letters, ..., [letters of the output]).

    Arguments:
        args: the equation, such as "ij,jk->ik": a letter for each dim, those that the result lacks are summed over;
          then the tensors

    Example:
        >>> a, b = rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.eye(2)
        >>> rl.einsum("ij,jk->ik", a, b)
        tensor([[1., 2.],
                [3., 4.]])
        >>> rl.einsum("ii", a)
        tensor(5.)
    """
    if args and not isinstance(args[0], str):
        equation, tensors = from_sublists(args)
        return contract(equation, tensors)
    if len(args) < 2:
        raise ValueError("einsum: expected an equation and operands, or operands each followed by its subscripts list")
    return contract(args[0], operands_of(args))


def operands_of(args: tuple) -> list[Any]:
    """The tensors behind an equation, which may come as a list."""
    return list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])


class Contract(Composite):
    """`einsum` of plain tensors; the strategy by which the order of three or more is chosen is part of the call."""

    schema = "_contract(Tensor[] tensors, str equation, str? strategy=None) -> Tensor"
    function = method = out = False
    replays = True
    views = "keep"

    def compute(self, tensors, equation, strategy):
        return contract(equation, list(tensors))


def from_sublists(args: tuple) -> tuple[str, list[Any]]:
    """The interleaved form as an equation."""
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def spell(items: Any) -> str:
        return "".join("..." if item is Ellipsis else names[item] for item in items)

    pairs = len(args) // 2
    tensors = [args[2 * i] for i in range(pairs)]
    equation = ",".join(spell(args[2 * i + 1]) for i in range(pairs))
    return (equation + "->" + spell(args[-1]) if len(args) % 2 else equation), tensors


@lru_cache(maxsize=1024)
def parse(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Labels of every operand and of the output; the dims of an ellipsis get labels of their own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise RuntimeError(f"einsum: equation {equation!r} names {len(parts)} operands, got {len(ranks)}")
    widest = 0
    labels = []
    for k, (part, rank) in enumerate(zip(parts, ranks, strict=True)):
        letters = part.replace("...", "")
        if "." in letters or part.count("...") > 1 or not all(c.isalpha() for c in letters):
            raise RuntimeError(
                f"einsum(): invalid subscript in {part!r}, subscripts must be in [a-zA-Z] and an ellipsis"
            )
        dots = rank - len(letters)
        if dots < 0 or (dots and "..." not in part):
            raise RuntimeError(
                f"einsum: operand {k} has {rank} dimensions, the equation {len(letters)} subscripts for it and no"
                " ellipsis"
            )
        widest = max(widest, dots if "..." in part else 0)
        head, _, tail = part.partition("...")
        labels.append((*head, *(f".{i}" for i in range(dots, 0, -1)), *tail))
    ellipsis = [f".{i}" for i in range(widest, 0, -1)]
    if arrow:
        head, dots, tail = right.partition("...")
        output = [*head, *(ellipsis if dots else []), *tail]
    else:
        flat = [c for part in labels for c in part if not c.startswith(".")]
        output = ellipsis + sorted(c for c in set(flat) if flat.count(c) == 1)
    known = {c for part in labels for c in part} | set(ellipsis)
    for c in output:
        if c not in known:
            raise RuntimeError(f"einsum: output subscript {c} belongs to no operand")
        if output.count(c) > 1:
            raise RuntimeError(f"einsum: output subscript {c} stands more than once")
    return tuple(labels), tuple(output)


def take_diagonals(t: Any, labels: tuple[str, ...]) -> tuple[Any, list[str]]:
    """A label that appears twice in one operand keeps the diagonal."""
    names = list(labels)
    while len(set(names)) < len(names):
        c = next(c for c in names if names.count(c) > 1)
        first, second = (i for i, x in enumerate(names) if x == c)
        if t.shape[first] != t.shape[second]:
            raise RuntimeError(
                f"einsum(): subscript {c} is repeated but the sizes don't match, {t.shape[second]} != {t.shape[first]}"
            )
        t = t.diagonal(0, first, second)
        names = [x for i, x in enumerate(names) if i not in (first, second)] + [c]
    return t, names


def contract(equation: str, operands: list[Any]) -> Any:
    """Evaluate pair by pair, dropping each letter as soon as nothing later needs it."""
    labels, named = parse(equation, tuple([t.ndim for t in operands]))
    output = list(named)
    pairs = [take_diagonals(t, part) for t, part in zip(operands, labels, strict=True)]
    check_sizes(pairs)
    for first, second in order_of(pairs, output):
        b, lb = pairs.pop(second)
        a, la = pairs.pop(first)
        later = {c for _, part in pairs for c in part} | set(output)
        pairs.insert(0, multiply(a, la, b, lb, later))
    result, names = pairs[0]
    gone = [i for i, c in enumerate(names) if c not in output]
    if gone:
        result = result.sum(gone)
        names = [c for c in names if c in output]
    for c in output:   # an ellipsis dim that no operand has
        if c not in names:
            result, names = result.unsqueeze(0), [c, *names]
    return result if gone and names == output else result.permute([names.index(c) for c in output])


def order_of(pairs: list[tuple[Any, list[str]]], output: list[str]) -> list[tuple[int, int]]:
    """Which two operands to contract, step by step (first < second; the product goes to the front of those that are
    left)."""
    strategy = get_einsum_strategy()
    if len(pairs) < 3 or strategy is None or not has_opt_einsum():
        return [(0, 1)] * (len(pairs) - 1)
    import opt_einsum

    symbols = {c: opt_einsum.get_symbol(i) for i, c in enumerate(dict.fromkeys(c for _, part in pairs for c in part))}
    spelled = (
        ",".join("".join(symbols[c] for c in part) for _, part in pairs)
        + "->"
        + "".join(symbols[c] for c in output if c in symbols)
    )
    path, _ = opt_einsum.contract_path(spelled, *(tuple(t.shape) for t, _ in pairs), optimize=strategy, shapes=True)
    if any(len(step) != 2 for step in path):
        return [(0, 1)] * (len(pairs) - 1)
    return _renumbered(path, len(pairs))


@cache
def has_opt_einsum() -> bool:
    """Whether the library is installed."""
    return find_spec("opt_einsum") is not None


def _renumbered(path: list[tuple[int, ...]], count: int) -> list[tuple[int, int]]:
    """opt_einsum puts each product last; here it goes first."""
    theirs, ours, steps = list(range(count)), list(range(count)), []
    for new, step in enumerate(path, count):
        chosen = [theirs[i] for i in step]
        first, second = sorted(ours.index(x) for x in chosen)
        steps.append((first, second))
        theirs = [x for x in theirs if x not in chosen] + [new]
        ours = [new] + [x for x in ours if x not in chosen]
    return steps


def check_sizes(pairs: list[tuple[Any, list[str]]]) -> None:
    """One size per label, with 1 broadcasting."""
    sizes: dict[str, int] = {}
    for k, (t, part) in enumerate(pairs):
        for c, s in zip(part, t.shape, strict=True):
            if sizes.setdefault(c, s) != s:
                if 1 not in (sizes[c], s):
                    raise RuntimeError(
                        f"einsum: subscript {c} has size {s} in operand {k}, and does not broadcast with {sizes[c]} in"
                        " an earlier one"
                    )
                sizes[c] = max(sizes[c], s)


def multiply(a: Any, la: list[str], b: Any, lb: list[str], later: set[str]) -> tuple[Any, list[str]]:
    """One pairwise contraction as a batched matrix product."""
    a, la = drop(a, la, set(lb) | later)
    b, lb = drop(b, lb, set(la) | later)
    shared = [c for c in la if c in lb]
    summed = [c for c in shared if c not in later]
    # A size-1 side of a broadcast letter is summed or multiplied elementwise.
    batch = [c for c in shared if c in later]
    sizes = {c: max(_size(a, la, c), _size(b, lb, c)) for c in shared}
    only_a, only_b = [c for c in la if c not in lb], [c for c in lb if c not in la]
    a = _expand(a, la, sizes)
    b = _expand(b, lb, sizes)
    if not summed:
        order = batch + only_a + only_b
        return _aligned(a, la, order) * _aligned(b, lb, order), order
    x = a.permute([la.index(c) for c in batch + only_a + summed]).reshape(
        [_count(a, la, batch), _count(a, la, only_a), _count(a, la, summed)]
    )
    y = b.permute([lb.index(c) for c in batch + summed + only_b]).reshape(
        [_count(b, lb, batch), _count(b, lb, summed), _count(b, lb, only_b)]
    )
    if x.dtype is not y.dtype:   # integers that were summed have become int64
        common = promote_types(x.dtype, y.dtype)
        x, y = x.to(common), y.to(common)
    shape = [_size(a, la, c) for c in batch + only_a] + [_size(b, lb, c) for c in only_b]
    return find_op("bmm")(x, y).reshape(shape), batch + only_a + only_b


def drop(t: Any, labels: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    """Sum over labels nothing else needs."""
    gone = [i for i, c in enumerate(labels) if c not in needed]
    return (t.sum(gone), [c for c in labels if c in needed]) if gone else (t, labels)


def _size(t: Any, labels: list[str], c: str) -> int:
    return t.shape[labels.index(c)]


def _count(t: Any, labels: list[str], chosen: list[str]) -> int:
    total = 1
    for c in chosen:
        total *= _size(t, labels, c)
    return total


def _expand(t: Any, labels: list[str], sizes: dict[str, int]) -> Any:
    return t.expand([sizes.get(c, t.shape[i]) for i, c in enumerate(labels)])


def _aligned(t: Any, labels: list[str], order: list[str]) -> Any:
    present = [c for c in order if c in labels]
    t = t.permute([labels.index(c) for c in present])
    return t.reshape([_size(t, present, c) if c in present else 1 for c in order])
