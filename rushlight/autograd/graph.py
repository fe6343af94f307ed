"""The graph as users inspect and steer it: saved-tensor hooks, multi-tensor hooks, gradient edges.

Enters: tensors and nodes. Leaves: context managers and handles. What the tape saves goes through the innermost
`saved_tensors_hooks` of the thread that records.
"""

from __future__ import annotations

import abc
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .. import _C
from ..base import late
from .hooks import RemovableHandle


class Node(abc.ABC):  # noqa: B024 (nothing to implement: natives are registered)
    """Base of everything `grad_fn` can be: `isinstance(x.grad_fn, Node)`."""


Node.register(_C.Node)
Node.register(_C.FunctionNode)


class GradientEdge(NamedTuple):
    """A place in the graph a gradient goes to: `grad` and `backward` accept it where they accept a tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge at which `tensor`'s gradient arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the Tensor does not require gradients, so it has no edge")
    node, output_nr = _C._gradient_edge(tensor)
    return GradientEdge(node, output_nr)


def increment_version(tensor: Any) -> None:
    """Say that a tensor (or each of several) was modified behind the tape's back."""
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C.bump_version(t)


class saved_tensors_hooks:  # noqa: N801 (PyTorch's name)
    """Within the block, tensors saved for backward are replaced by `pack_hook(t)` and restored by `unpack_hook`."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: Any) -> None:
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Within the block, saved tensors wait in host memory."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if pin_memory:
            raise NotImplementedError("save_on_cpu: pin_memory=True needs a device with pinned host memory")
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within the block, entering saved_tensors_hooks raises RuntimeError(error_message)."""
    previous = _C._disable_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_hooks(previous)


class _MultiHandle(RemovableHandle):
    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple:
        return self.handles

    def __setstate__(self, state: tuple) -> None:
        self.handles = state


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """Call `fn` once per backward pass: with all gradients when the last is known ("all"), or the first one ("any")."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    state: dict[str, Any] = {"pass": None}
    # Held weakly: hooks live as long as what they hang on, and must not keep it, nor what nodes saved, alive. The node
    # of a leaf is made when it is needed, and holds the leaf.
    nodes = [weakref.ref(t if t.grad_fn is None else _C._gradient_edge(t)[0]) for t in tensors]

    def starts_new_pass() -> bool:
        current = _C._current_backward()
        if state["pass"] == current:
            return False
        state.update({"pass": current, "seen": 0, "grads": [None] * len(nodes), "fired": False})
        return True

    def reachable() -> int:
        alive = (_C._gradient_edge(x)[0] if isinstance(x, _C.Tensor) else x for x in (node() for node in nodes))
        return sum(_C._will_run(node) for node in alive if node is not None)

    def collect(index: int) -> Callable:
        def hook(grad: Any) -> None:
            with lock:
                if starts_new_pass():
                    state["expected"] = reachable()
                state["seen"] += 1
                state["grads"][index] = grad
                complete = state["seen"] == state["expected"]
                grads = state["grads"]
                if complete:
                    state["grads"] = [None] * len(nodes)      # nobody needs them any more
            if complete:
                fn(grads)

        return hook

    def first(grad: Any) -> None:
        with lock:
            starts_new_pass()
            fire, state["fired"] = not state["fired"], True
        if fire:
            fn(grad)

    handles = tuple(t.register_hook(collect(i) if mode == "all" else first) for i, t in enumerate(tensors))
    return _MultiHandle(handles)


def iter_graph(roots: Iterable[Any]) -> Iterator[Any]:
    """Every node reachable from `roots`, each once, parents before what they feed."""
    seen: set[int] = set()
    queue = [r for r in roots if r is not None]
    while queue:
        node = queue.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        queue.extend(next_node for next_node, _ in node.next_functions if next_node is not None)


_stream_settings = {"override": False, "warn": True}


def set_override_stale_capture_stream(enabled: bool) -> None:
    """What backward does with a stream left over from a capture; kept,
    since there are no streams here to be left over."""
    _stream_settings["override"] = bool(enabled)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether gradients that arrive on another stream are warned about; kept, since everything runs on one."""
    _stream_settings["warn"] = bool(enabled)


def region_activation_memory_budget(budget: float) -> Any:
    """Refused: how much the compiler may keep for backward in a region. There is no such compiler yet."""
    raise NotImplementedError(
        "region_activation_memory_budget: it steers the compiler's choice of what to save, which is not written yet"
    )


def __getattr__(name: str) -> Any:
    if name == "allow_mutation_on_saved_tensors":
        return late.provided(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
