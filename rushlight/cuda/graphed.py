"""Functions and modules whose forward and backward work is captured once and replayed.

Enters: callables over tensors and sample arguments of the shapes they will get. Leaves: callables that copy what they
are given to the captured memory, replay, and return the captured results; gradients come from a second graph. Refuses:
arguments that are no tensors, and modules with hooks, which a replay would not call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C, autograd
from ..autograd.function import Function
from ..torch_names.streams import Stream
from .captured import CUDAGraph, graph, graph_pool_handle


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """The callable, or a tuple of them, by replayed graphs. Modules are changed in place and returned."""
    single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    if len(functions) != len(samples):
        raise ValueError(f"make_graphed_callables: {len(functions)} callables, but sample_args for {len(samples)}")
    shared = graph_pool_handle() if pool is None else pool
    made = [_Graphed(f, args, num_warmup_iters, allow_unused_input) for f, args in zip(functions, samples, strict=True)]
    for one in made:
        one.capture_forward(shared)
    for one in reversed(made):
        one.capture_backward(shared)
    done = [one.replaying() for one in made]
    return done[0] if single else tuple(done)


class _Graphed:
    """One callable: its captured memory and graphs."""

    def __init__(self, function: Any, args: Sequence[Any], warmup: int, unused: bool) -> None:
        if not all(isinstance(a, _C.Tensor) for a in args):
            raise TypeError("make_graphed_callables: expected sample_args to be a tuple of tensors")
        for kind in ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks"):
            if getattr(function, kind, None):
                raise RuntimeError(f"make_graphed_callables: the module has hooks ({kind}), which no replay would call")
        self.function, self.args, self.unused = function, tuple(args), unused
        self.params = tuple(function.parameters()) if hasattr(function, "parameters") else ()
        self.inputs = (*self.args, *self.params)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Any, ...] = ()
        self.grads_out: tuple[Any, ...] = ()
        self.grads_in: tuple[Any, ...] = ()
        side = Stream(args[0].device if args else None)
        with side:      # what is made at first use must not be captured
            for _ in range(warmup):
                outputs = self.called()[1]
                wanted = [o for o in outputs if o.requires_grad]
                if wanted and self.leaves():
                    autograd.grad(
                        wanted, self.leaves(), [o.detach() for o in wanted], allow_unused=self.unused
                    )
        side.synchronize()

    def leaves(self) -> list[Any]:
        return [t for t in self.inputs if t.requires_grad]

    def called(self) -> tuple[bool, tuple[Any, ...]]:
        made = self.function(*self.args)
        return (True, (made,)) if isinstance(made, _C.Tensor) else (False, tuple(made))

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward_graph, pool=pool):
            self.single, self.outputs = self.called()

    def capture_backward(self, pool: Any) -> None:
        wanted = [o for o in self.outputs if o.requires_grad]
        self.grads_out = tuple([o.detach().new_empty(o.shape) if o.requires_grad else None for o in self.outputs])
        if not wanted or not self.leaves():
            self.backward_graph = None
            return
        given = [g for g in self.grads_out if g is not None]
        with graph(self.backward_graph, pool=pool):
            found = iter(autograd.grad(wanted, self.leaves(), given, allow_unused=self.unused))
        self.grads_in = tuple([next(found) if t.requires_grad else None for t in self.inputs])

    def replaying(self) -> Any:
        """The callable that replays."""
        mine, count = self, len(self.args)

        class Replay(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                for static, value in zip(mine.args, inputs, strict=False):
                    if static.data_ptr() != value.data_ptr():
                        static.detach().copy_(value)
                mine.forward_graph.replay()
                return tuple([o.detach() for o in mine.outputs])

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                for static, value in zip(mine.grads_out, grads, strict=True):
                    if static is not None and value is not None and static.data_ptr() != value.data_ptr():
                        static.copy_(value)
                mine.backward_graph.replay()
                return tuple([None if g is None else g.detach() for g in mine.grads_in])

        def call(*args: Any) -> Any:
            if len(args) != count:
                raise TypeError(f"a graphed callable takes the {count} tensors it was captured with, got {len(args)}")
            made = Replay.apply(*args, *mine.params)
            return made[0] if mine.single else made

        return _in_module(self.function, call) if hasattr(self.function, "parameters") else call


def _in_module(module: Any, call: Callable) -> Any:
    """The module with a forward that replays in the mode (training or not) it was captured in."""
    plain, mode = module.forward, module.training
    module.forward = lambda *args: call(*args) if module.training == mode else plain(*args)
    return module
