"""One call on a device and on the host, for inputs of several layouts; forward, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight as rl

from .expect import same

Layout = Callable[[int, rl.Tensor], rl.Tensor]

# How the inputs of a pointwise op, matrices of one size, may lie in memory. Each is made on the device, of a dense one.
LAYOUTS: Mapping[str, Layout] = {
    "dense": lambda number, x: x,
    "transposed": lambda number, x: x.t(),
    "one transposed": lambda number, x: x.t().contiguous().t() if number == 0 else x,
    "every second column": lambda number, x: x[:, ::2],
    "from an offset": lambda number, x: x[1:, 3:],
    "rows by columns": lambda number, x: x if number == 0 else x[:1] if number % 2 else x[:, :1],
    "overlapping": lambda number, x: x[0].unfold(0, 5, 1),
    "one column stretched": lambda number, x: x[:, :1].expand(-1, 5),
    "0-d": lambda number, x: x[3, 5],
    "empty": lambda number, x: x[:0],
}
ARRAYS = tuple(name for name in LAYOUTS if name != "0-d")      # of one kernel; a single number takes another


def against_host(
    device: Any, call: Callable[..., Any], *inputs: rl.Tensor, layouts: Sequence[str] = ("dense",), **how: Any
) -> None:
    """Raise AssertionError where `call` gives something else on the device than on the host; `how` is `same`'s."""
    for name in layouts:
        layout = LAYOUTS[name]
        want = call(*(layout(number, x) for number, x in enumerate(inputs)))
        moved = [layout(number, x.to(device)) for number, x in enumerate(inputs)]
        spoil(device, want)
        got = call(*moved)
        same(got, want, what=f"the result ({name} inputs)" if name != "dense" else "the result", **how)
        for number, (x, before) in enumerate(zip(moved, inputs, strict=True)):
            same(x, layout(number, before), exact=True, what=f"input {number} after the call ({name} inputs)")


def gradients_against_host(device: Any, call: Callable[..., Any], *inputs: rl.Tensor, **how: Any) -> None:
    """The same for the gradients of the inputs that have them, for some gradient of each result."""
    sides: list[Any] = []
    for place in ("cpu", device):
        leaves = [x.to(place).requires_grad_(x.is_floating_point() or x.is_complex()) for x in inputs]
        results = [part for part in parts(call(*leaves)) if part.requires_grad]
        if sides:
            spoil(device, *sides)
        sides.append(rl.autograd.grad(
            results, [x for x in leaves if x.requires_grad], [slopes(part) for part in results], allow_unused=True
        ))
    for number, (want, got) in enumerate(zip(*sides, strict=True)):
        same(got, want, what=f"the gradient of input {number}", **how)


def spoil(device: Any, *wanted: Any) -> None:
    """Leave other numbers in the memory that results of these sizes are going to get: an element that a kernel does not
    write is then not by chance what an earlier one left there."""
    for want in parts(wanted):
        other = ~want if want.dtype is rl.bool else rl.full_like(want, 77)
        other.to(device)


def parts(result: Any) -> list[rl.Tensor]:
    """The tensors of a result."""
    if isinstance(result, rl.Tensor):
        return [result]
    return [part for one in result for part in parts(one)] if isinstance(result, (tuple, list)) else []


def slopes(result: rl.Tensor) -> rl.Tensor:
    """A gradient for a result: numbers that differ, made by the host."""
    count = max(result.numel(), 1)
    numbers = (rl.arange(count, dtype=rl.float64) * 0.37 % 1 + 0.5)[: result.numel()]
    return numbers.reshape(result.shape).to(result.dtype).to(result.device)
