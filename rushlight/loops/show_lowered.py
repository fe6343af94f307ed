"""Readable listings of Lowereds.

Enters: a `Lowered`. Leaves: its ranges, reads, and the scalar body at position (i0, i1, ...), with operands spelled x0,
x1, ... in the order of the tensors read. Refuses: nothing; what a body needs of a schedule is stood in for by names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .expr import Value, call, cast, var
from .lowered import ZERO, At, Elements, Given, Lowered, Memory, Staged, Table, dims_of, folding_of, number_value
from .text import show
from .vocabulary import Scalars

scalars = Scalars()


class Shown(Elements):
    """A tensor whose elements print as x0[i0, i1]."""

    def __getitem__(self, at: Value | tuple[Value, ...]) -> Value:
        return self.shown(at if isinstance(at, tuple) else (at,))

    def read(self, at: Sequence[Value]) -> Value:
        return self.shown([i for i, d in zip(at, dims_of(self), strict=True) if d is not None])

    def shown(self, at: Sequence[Value]) -> Value:
        """The element at a position, as a call that prints so."""
        return call(f"x{self.operand}", *at, dtype=self.code)


def show_lowered(lowered: Lowered) -> str:
    """The op, a statement a line."""
    position = At(var(f"i{d}") for d in range(len(lowered.ranges)))
    position.checks = []
    sources: list[Any] = []
    lines = [
        f"{lowered.name} over {sized(lowered.ranges)} to {', '.join(lowered.outs)} {sized(lowered.shape)}"
        + (", aligned" if lowered.aligned else "")
    ]
    operand = 0
    for r in lowered.reads:
        if isinstance(r, Staged):
            sources.append(Shown(operand, r.name, r.code, r.classes()))
            sources[-1].all = lambda at, k=operand, outs=r.producer.outs: tuple(
                [call(f"x{k}.{n}", at, dtype=code) for n, code in enumerate(outs)]
            )
            lines += [
                f"  x{operand} = {r.name}: rows of",
                *[f"    {line}" for line in show_lowered(r.producer).splitlines()],
            ]
            operand += 1
        elif isinstance(r, Table):
            sources.append(Shown(operand, r.name, r.code, r.classes()))
            lines.append(f"  x{operand} = {r.name}: {r.code} {sized(r.sizes)}, a table")
            operand += 1
        elif isinstance(r, Memory):
            dims = r.dims if r.dims is not None else None
            sources.append(Shown(operand, r.name, r.code, r.classes(), dims))
            along = "" if dims is None else f", dims {list(dims)}"
            lines.append(
                f"  x{operand} = {r.name}: {r.code} {sized(r.sizes)} strides {list(r.strides)}{along}"
                + (f", offset {r.offset}" if r.offset else "")
            )
            operand += 1
        else:
            sources.append(Given(cast(number_value(r.name, r.value), r.code)))
            lines.append(f"  {r.name}: {r.code} = {r.value}")
    if lowered.scatter is not None:
        out = Shown(operand, "out", lowered.scatter.target.code, lowered.scatter.target.classes())
        place, value = lowered.scatter.writes(position, out, sources)
        lines += listed("value", [value])
        lines += [f"  at {', '.join(map(str, place))} of out, in order along {sorted(lowered.scatter.serial)}"]
        lines += ["  out holds zeros before"] if lowered.scatter.cleared else []
    elif lowered.body is not None:
        result = lowered.body(position, sources)
        lines += listed(
            "element" if lowered.folding or lowered.walk else "result", result[:1] if lowered.folding else result
        )
        if lowered.folding is not None:
            lines += listed("index", result[1:]) if len(result) > 1 else []
            lines += shown_fold(lowered, position, sources)
        if lowered.walk is not None:
            lines.append(f"  walked along i{lowered.walk.dim}")
    for p in lowered.pieces or ():
        lines.append(
            f"  box of x{p.memory}: {sized(p.sizes)} at {sized(p.start)}, strides {list(p.strides)}"
            + (f", backwards along {sorted(p.backwards)}" if p.backwards else "")
        )
    if lowered.layout is not None:
        lines.append(f"  results with strides {list(lowered.layout)}")
    lines += [f"  check {condition}" for condition, _ in position.checks]
    return "\n".join(lines)


def shown_fold(lowered: Lowered, position: At, sources: list[Any]) -> list[str]:
    """What becomes of the elements."""
    folding = folding_of(lowered)
    here = At(i if d not in folding.reduced else ZERO for d, i in enumerate(position))
    here.checks = position.checks
    init = list(folding.start(here, sources) if folding.start else folding.fold.init(scalars, folding.compute))
    folded = ", ".join(f"i{d}" + (" (written out)" if d in folding.written else "") for d in sorted(folding.reduced))
    lines = [f"  folded over {folded} in {folding.compute}, from {', '.join(map(str, init))}"]
    for d, window in folding.windows:
        lines += listed(f"i{d} from, to", window.bounds(here, sources))
        lines += listed(f"i{d} is whole where", [window.whole(here, sources)]) if window.whole is not None else []
    accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)]
    done = folding.result(here, sources, accs) if folding.result else folding.fold.finish(scalars, accs, var("count"))
    return (
        lines
        + listed("finish", done if isinstance(done, (tuple, list)) else (done,))
        + (["  then an epilogue"] if folding.epilogue else [])
    )


def listed(label: str, values: Iterable[Value]) -> list[str]:
    """Expressions under a label."""
    return [f"  {label}:", *[f"    {line}" for line in show(tuple(values)).splitlines()]]


def sized(sizes: Iterable[object]) -> str:
    """Sizes in brackets."""
    return f"[{', '.join(map(str, sizes))}]"
