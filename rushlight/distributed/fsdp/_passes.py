"""When units are gathered, freed and reduced: hooks around the forward and backward passes of modules.

Before a module's forward its unit is gathered, and freed after it; before its backward it is gathered again (and the
unit that comes next is begun), after it gradients are on their way while earlier modules go on. When the backward pass
ends, all gradients have arrived. One `Passes` belongs to one module (or several that share a unit); the outermost one
that runs forward is the root, and ends the pass.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd.function import Function
from ...nn.modules.module import Module
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten
from ._unit import Unit


class Shared:
    """What the modules below one root know in common."""

    def __init__(self) -> None:
        self.order: list[Passes] = []           # whose forward ended, in order
        self.all: list[Passes] = []
        self.is_ending = False                  # the end of this backward pass was asked for
        self.is_last_backward = True
        self.forward_order: list[Passes] = []   # of the first pass
        self.is_order_known = False
        self.in_flight: list[Unit] = []         # units whose gradients are being reduced
        self.running_root: Passes | None = None


class _AfterBackward(Function):
    """Inputs as they are; their gradients are there when the module's backward has ended."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, *inputs: Any) -> Any:
        ctx.passes = passes
        return inputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.passes.after_backward()
        return (None, *gradients)


class Passes:
    """Forward and backward passes of one module, or of several that share a unit."""

    def __init__(self, modules: list[Module], unit: Unit | None, policy: Any, frees_root: bool | None) -> None:
        self.modules, self.unit, self.policy = modules, unit, policy
        self.frees_root = frees_root            # None: the root's unit stays whole after forward
        self.shared: Shared | None = None
        self.is_root = False
        self.in_backward = False                # modules that run now are being computed again for it
        self.next_forward: list[Passes] = []
        self.next_backward: list[Passes] | None = None
        self.prefetches_in_order = False        # the next forward's unit is the one that followed in the first pass
        self.prefetches_after = False           # the next backward's unit is begun after this one's, not before
        self._to_run: set[int] = set()
        self.max_in_flight = 1
        for module in modules:
            self._hook(module)

    def _hook(self, module: Module) -> None:
        module.register_forward_pre_hook(self._pre_hook, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._post_hook, prepend=False)

    def _pre_hook(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return self.before_forward(module, args, kwargs)

    def _post_hook(self, module: Module, args: Any, output: Any) -> Any:
        return self.after_forward(module, output)

    # --- who belongs together

    def join_root(self) -> None:
        """The first forward of all makes its module the root of those below."""
        if self.shared is not None:
            return
        self.shared, self.is_root = Shared(), True
        self.shared.all.append(self)
        for module in self.modules:
            for below in module.modules():
                other = passes_of(below)
                if other is None or other is self:
                    continue
                if other.shared is not None and other.shared is not self.shared and other.is_root:
                    other.is_root = False
                if other not in self.shared.all:
                    self.shared.all.append(other)
                other.shared = self.shared
        if self.frees_root is None and self.unit is not None:
            self.unit.frees_after_forward = False

    # --- forward

    def before_forward(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Parameters become whole; the module's inputs will tell when its backward has ended."""
        self.join_root()
        shared = self._shared()
        if self.in_backward:
            return self._cast_inputs(args, kwargs)
        if len(self.modules) > 1 and id(module) in self._to_run and len(self._to_run) < len(self.modules):
            # A later one of modules that share a unit, which is whole until the last has run.
            return self._cast_inputs(args, kwargs)
        self._to_run = {id(m) for m in self.modules}
        if shared.running_root in (None, self):     # itself: its last forward pass was aborted
            shared.running_root = self
            shared.order.clear()
            if not shared.is_ending:
                self._finish_reducing()
        args, kwargs = self._cast_inputs(args, kwargs)
        if self.unit is not None:
            self.unit.gather()
            for other in self._following(shared):
                if other.unit is not None:
                    other.unit.begin_gather()
            if _C.is_grad_enabled():
                args, kwargs = self._watch_inputs(args, kwargs)
        return args, kwargs

    def _following(self, shared: Shared) -> list[Passes]:
        if not self.prefetches_in_order:
            return self.next_forward
        order = shared.forward_order
        if not shared.is_order_known:
            order.append(self)
            return []
        return order[order.index(self) + 1 :][:1] if self in order else []

    def _shared(self) -> Shared:
        assert self.shared is not None, "join_root comes first"
        return self.shared

    def _cast_inputs(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        casts = self.policy.cast_forward_inputs or (
            self.is_root and getattr(self.policy, "cast_root_forward_inputs", False)
        )
        dtype = self.policy.param_dtype if casts else None
        return (args, kwargs) if dtype is None else (_cast(args, dtype), _cast(kwargs, dtype))

    def _watch_inputs(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        leaves, structure = tree_flatten((args, kwargs))
        places = [i for i, t in enumerate(leaves) if isinstance(t, _C.Tensor) and t.requires_grad]
        if not places:
            return args, kwargs
        watched = _AfterBackward.apply(self, *[leaves[i] for i in places])
        for i, tensor in zip(places, watched, strict=True):
            leaves[i] = tensor
        return tree_unflatten(leaves, structure)

    def after_forward(self, module: Module, output: Any) -> Any:
        """Parameters are freed; the module's outputs will tell when its backward begins."""
        shared = self._shared()
        if not self.in_backward:
            self._to_run.discard(id(module))
            if self._to_run:
                return output
            if self.unit is not None:
                if self.unit.frees_after_forward:
                    self.unit.free()
                if _C.is_grad_enabled() and self not in shared.order:
                    shared.order.append(self)
            output = self._watch_outputs(output)
            if shared.running_root is self:
                shared.running_root, shared.is_order_known = None, True
        output_dtype = getattr(self.policy, "output_dtype", None)
        if output_dtype is not None:
            output = _cast(output, output_dtype)
        return output

    def _watch_outputs(self, output: Any) -> Any:
        if not _C.is_grad_enabled():
            return output
        for tensor in tree_flatten(output)[0]:
            if isinstance(tensor, _C.Tensor) and tensor.requires_grad:
                tensor.register_hook(self._before_backward)
        return output

    # --- backward

    def _before_backward(self, gradient: Any) -> Any:
        shared = self._shared()
        if not shared.is_ending:
            shared.is_ending = True
            _C.queue_callback(self._end_of_pass)
        if self.in_backward:
            return gradient
        self.in_backward = True
        if self.unit is not None and self.unit.gathers_in_backward:
            self.unit.gather()
            if not self.prefetches_after:
                self._prefetch_backward()
        return gradient

    def _prefetch_backward(self, is_over: bool = False) -> None:
        following = self.next_backward
        if following is None:
            order = self._shared().order
            place = order.index(self) if self in order else 0
            if self._is_first_back() and not is_over:
                return          # all activations are there: only when this one's are gone is the next begun
            following = order[place - 1 : place] if place else []
        for other in following:
            if other.unit is not None and other.unit.gathers_in_backward:
                other.unit.begin_gather()

    def _is_first_back(self) -> bool:
        """Whether its backward is the first of those below the root."""
        inner = [passes for passes in self._shared().order if not passes.is_root]
        return bool(inner) and inner[-1] is self

    def after_backward(self) -> None:
        """The module's gradients are there."""
        self.in_backward = False
        if self.unit is None:
            return
        shared = self._shared()
        waiting = shared.in_flight
        while len(waiting) >= self.max_in_flight:       # what is sent takes memory: not too much of it at once
            waiting.pop(0).end_reduce()
        self.unit.end_backward()
        waiting.append(self.unit)
        if (self.prefetches_after or self._is_first_back()) and shared.is_ending:
            self._prefetch_backward(is_over=True)

    def _end_of_pass(self) -> None:
        """The backward pass is over: all gradients arrive, also of modules whose inputs needed none."""
        shared = self._shared()
        shared.is_ending = False
        for passes in shared.all:
            if passes.in_backward:
                passes.after_backward()
        for passes in shared.all:
            unit = passes.unit
            if unit is not None and not unit.is_whole:
                unit.free()         # what was begun for a module that then had no backward pass
        if shared.is_last_backward:
            self._finish_reducing()
            shared.order.clear()

    def _finish_reducing(self) -> None:
        shared = self._shared()
        for unit in shared.in_flight:
            unit.end_reduce()
        shared.in_flight.clear()

    def reset(self) -> None:
        """Forget what an aborted pass left, here and below."""
        if not self.is_root:
            raise RuntimeError("reset_iter_state: call it on the root, the module whose forward the program calls")
        shared = self._shared()
        shared.is_ending, shared.running_root = False, None
        shared.order.clear()
        shared.in_flight.clear()
        for passes in shared.all:
            passes.in_backward = False
            passes._to_run.clear()
            if passes.unit is not None:
                passes.unit.reset()


def _cast(values: Any, dtype: Any) -> Any:
    def change(value: Any) -> Any:
        is_float = isinstance(value, _C.Tensor) and value.is_floating_point()
        return value.to(dtype) if is_float and value.dtype != dtype else value

    return tree_map(change, values)


def passes_of(module: Module) -> Passes | None:
    """Those of a module, if it is sharded itself."""
    return module.__dict__.get("_fsdp_passes")
