"""`torch.distributed.autograd`: gradients through calls between workers.

Inside a context, tensors that require gradients are remembered where they are sent, and marked where they are received.
`backward` goes back through this worker's graph; what arrives at a received tensor is sent to the worker it came from,
which goes on in its own graph, and so on. Gradients of parameters are kept per context on the worker that has them
(`get_gradients`), not in `.grad`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd import Function, grad
from ...autograd.grad_mode import enable_grad
from ...op import find_op

__all__ = ["backward", "context", "get_gradients", "is_available"]

_empty = find_op("empty")
_NONE = -1


def is_available() -> bool:
    """Whether there are gradients through calls."""
    return True


class _Context:
    """What this worker knows of one pass: what it sent, what it received, the gradients so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.RLock()
        self.sent: dict[tuple[int, int], list[Tensor]] = {}
        self.workers: set[int] = set()
        self.gradients: dict[Tensor, Tensor] = {}
        self.arrived: dict[tuple[int, int, int], list[Any]] = {}       # at received tensors, in the pass under way

    def _context_id(self) -> int:
        return self.number


class _State:
    rank = 0
    numbers = itertools.count()
    contexts: dict[int, _Context] = {}      # noqa: RUF012 - of this worker's life
    lock = threading.Lock()
    call: Any = None      # `rpc_async`, while there are workers


_local = threading.local()


def _init(rank: int, call: Any = None) -> None:
    _State.rank, _State.call = rank, call
    _State.numbers = itertools.count()
    _State.contexts = {}


def _forget() -> None:
    _State.contexts, _State.call = {}, None


def _new_number() -> int:
    return _State.rank << 48 | next(_State.numbers)


def _current_id() -> int:
    return getattr(_local, "number", _NONE)


def _find(number: int, makes: bool = False) -> _Context:
    with _State.lock:
        if makes:
            return _State.contexts.setdefault(number, _Context(number))
        found = _State.contexts.get(number)
    if found is None:
        raise RuntimeError(f"Could not find autograd context with id: {number}")
    return found


_retrieve_context = _find


def _is_valid_context(number: int) -> None:
    _find(number)


@contextmanager
def _within(number: int) -> Iterator[None]:
    """Calls of this thread belong to a context."""
    before = _current_id()
    _local.number = number
    try:
        yield
    finally:
        _local.number = before


class context:      # noqa: N801 - PyTorch's name
    """A pass over several workers: `with context() as context_id`."""

    def __enter__(self) -> int:
        if _current_id() != _NONE:
            raise RuntimeError("Already have an autograd context in this thread: contexts cannot be nested")
        self._number = _new_number()
        _find(self._number, makes=True)
        _local.number = self._number
        return self._number

    def __exit__(self, *error: object) -> None:
        _local.number = _NONE
        _release(self._number)


# --- messages ---------------------------------------------------------------------------------------------------------


def _sent(number: int, to: int, tensors: list[Tensor]) -> Any:
    """Remember tensors that go to a worker. What it is to be told: (message, which of them require gradients)."""
    if number == _NONE:
        return None
    found = _find(number, makes=True)
    found.workers.add(to)
    wanted = [i for i, t in enumerate(tensors) if t.requires_grad and _C.is_grad_enabled()]
    if not wanted:
        return None
    message = _State.rank, next(_State.numbers)
    with found.lock:
        found.sent[message] = [tensors[i] for i in wanted]
    return message, wanted


class _Received(Function):
    """Tensors as they came. Their gradients are noted, for the worker they came from."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, number: int, source: int, message: tuple, *tensors: Tensor) -> Any:
        ctx.where = number, (source, *message)
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        number, key = ctx.where
        _find(number).arrived[key] = list(grads)
        return (None,) * (4 + len(grads))


def _received(number: int, source: int, sent: Any, tensors: list[Tensor]) -> list[Tensor]:
    """The tensors of a message, those that require gradients as results of it."""
    if number == _NONE:
        return tensors
    _find(number, makes=True).workers.add(source)
    if sent is None:
        return tensors
    message, wanted = sent
    anchor = _empty(0).requires_grad_()
    with enable_grad():
        marked = _Received.apply(anchor, number, source, tuple(message), *(tensors[i] for i in wanted))
    result = list(tensors)
    for i, tensor in zip(wanted, marked, strict=True):
        result[i] = tensor
    return result


# --- going back -------------------------------------------------------------------------------------------------------


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Go back from tensors of one element each, through all workers that had a part in them."""
    if not roots:
        raise RuntimeError("backward: give at least one tensor to go back from")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("backward: a root does not require gradients: nothing was computed from parameters")
        if root.numel() != 1:
            raise RuntimeError(f"backward: roots have one element, got one of shape {tuple(root.shape)}")
    _go_back(_find(context_id), list(roots), [None] * len(roots))


def _leaves(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors that a graph begins with: parameters, and anchors of received messages."""
    found: dict[int, Tensor] = {id(t): t for t in tensors if t.grad_fn is None}
    waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.setdefault(id(leaf), leaf)
        for following, _ in node._edges:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(found.values())


def _go_back(found: _Context, tensors: list[Tensor], grads: list[Any]) -> None:
    """Through this worker's graph, then on the workers it leads to; when this returns all of them are done."""
    with found.lock:
        leaves = _leaves(tensors)
        # The graph is kept: gradients for other messages may pass through parts of it. The context's end frees it.
        results = grad(tensors, leaves, grads, retain_graph=True, allow_unused=True)
        for leaf, value in zip(leaves, results, strict=True):
            if value is not None and leaf.numel() == value.numel():
                before = found.gradients.get(leaf)
                found.gradients[leaf] = value if before is None else before + value
        arrived, found.arrived = found.arrived, {}
    with _within(_NONE):
        futures = [
            _State.call(source, _go_back_from, (found.number, message, values), timeout=0)
            for (source, *message), values in arrived.items()
        ]
    for future in futures:
        future.wait()


def _go_back_from(number: int, message: tuple[int, int], grads: list[Any]) -> None:
    """Gradients have come for a message that this worker sent."""
    found = _find(number)
    tensors = found.sent[tuple(message)]      # type: ignore[index]
    pairs = [(t, g) for t, g in zip(tensors, grads, strict=True) if g is not None]
    if pairs:
        _go_back(found, [t for t, _ in pairs], [g for _, g in pairs])


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """The gradients of this worker's tensors in a context."""
    found = _find(context_id)
    with found.lock:
        return dict(found.gradients)


def _release(number: int) -> None:
    """Forget a context, here and wherever it led."""
    with _State.lock:
        found = _State.contexts.pop(number, None)
    if found is None or _State.call is None:
        return
    with _within(_NONE):
        for worker in found.workers - {_State.rank}:
            try:
                _State.call(worker, _release, (number,))
            except RuntimeError:       # it has gone, and its contexts with it
                pass
