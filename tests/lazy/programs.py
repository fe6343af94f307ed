"""Random programs of views and writes, to be made on any device.

Enters: `draw(n)`, a number below n, and a device. Leaves: what all tensors of the program hold at its end, as lists.
The same draws make the same program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def sliced(x: Any, draw: Callable[[int], int]) -> Any:
    d = draw(x.ndim)
    at: list[Any] = [slice(None)] * x.ndim
    at[d] = slice(draw(max(x.shape[d], 1)), None, 1 + draw(3))
    return x[tuple(at)]


def selected(x: Any, draw: Callable[[int], int]) -> Any:
    d = draw(x.ndim)
    return x.select(d, draw(x.shape[d])) if x.shape[d] else x


def flattened(x: Any, draw: Callable[[int], int]) -> Any:
    return x.view(-1) if x.is_contiguous() else x.t() if x.ndim == 2 else x


def halved(x: Any, draw: Callable[[int], int]) -> Any:
    d = next((d for d in range(x.ndim) if x.shape[d] and x.shape[d] % 2 == 0), None)
    return x if d is None else x.unflatten(d, (2, x.shape[d] // 2))


VIEWS: tuple[Callable, ...] = (
    sliced, selected, flattened, halved,
    lambda x, draw: x.transpose(draw(x.ndim), draw(x.ndim)),
    lambda x, draw: x.movedim(draw(x.ndim), 0),
    lambda x, draw: x.diagonal(draw(3) - 1) if x.ndim > 1 else x,
    lambda x, draw: x.unsqueeze(draw(x.ndim + 1)),
    lambda x, draw: x.squeeze(),
    lambda x, draw: x.detach(),
    lambda x, draw: x.data,
    lambda x, draw: x.split(1 + draw(3), draw(x.ndim))[-1],
    lambda x, draw: x.chunk(2, draw(x.ndim))[0],
    lambda x, draw: x.narrow(0, 0, max(x.shape[0] - 1, min(x.shape[0], 1))),
)


def rows_at(x: Any, draw: Callable[[int], int]) -> Any:
    return x.new_tensor([draw(x.shape[0])]).long()


def index_add(x: Any, draw: Callable[[int], int]) -> None:
    if x.shape[0]:
        x.index_add_(0, rows_at(x, draw), x[:1] * 0 + 3)


def index_put(x: Any, draw: Callable[[int], int]) -> None:
    if x.shape[0]:
        x.index_put_((rows_at(x, draw),), x[:1] * 0 + 2, accumulate=bool(draw(2)))


def scatter(x: Any, draw: Callable[[int], int]) -> None:
    if x.numel():
        x.scatter_(0, (x[:1] * 0).long() + draw(x.shape[0]), 5.0)


WRITES: tuple[Callable, ...] = (
    lambda x, draw: x.add_(1 + draw(3)),
    lambda x, draw: x.mul_(2),
    lambda x, draw: x.zero_(),
    lambda x, draw: x.fill_(draw(7)),
    lambda x, draw: x.copy_(x * 0 + draw(5)),
    lambda x, draw: x.masked_fill_(x > draw(9), -1),
    lambda x, draw: x.__setitem__(x > 6, 0.5),
    lambda x, draw: x.sub_(x.sum()),
    lambda x, draw: x.clamp_(-50, 50),
    index_add, index_put, scatter,
)


def run(draw: Callable[[int], int], rl: Any, device: str, step: Callable[[], None]) -> list[Any]:
    """The program, on a device; `step` ends what is written down."""
    sizes = ((4, 6), (12,), (2, 3, 4), (6, 6), (1, 5))[draw(5)]
    base = rl.arange(float(rl.Size(sizes).numel())).reshape(sizes).to(device)
    pool = [base]
    for _ in range(3 + draw(9)):
        x = pool[draw(len(pool))]
        what = draw(8)
        if what < 4 and x.ndim:
            pool.append(VIEWS[draw(len(VIEWS))](x, draw))
        elif what < 7 and x.ndim:
            WRITES[draw(len(WRITES))](x, draw)
        elif draw(3):
            step()
        else:
            pool.append(x * 2 + 1)
    return [(tuple(t.shape), t.cpu().tolist()) for t in pool]
