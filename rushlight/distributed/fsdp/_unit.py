"""`Unit`: parameters that are gathered, freed and reduced together.

Between uses each process keeps a part of every parameter, all of them in one buffer. `gather` makes them whole with one
collective, `free` gives the memory back, `end_backward` sends the gradients of whole parameters, of which the reduced
part of this process stays. How parameters are cut is a subclass's: `DimUnit` cuts each along a dimension
(`fully_shard`), `FlatUnit` all of them as one line of elements (`FullyShardedDataParallel`).

Whole parameters are the same tensors every time, over memory that comes and goes: what the tape has saved of them in
the forward pass is there again when the backward pass needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...op import find_op
from .. import options as opt
from ..reduce_op import ReduceOp

_empty = find_op("empty")
Owner = tuple[Module, str]


def memory_of(tensor: Any) -> Any:
    """What holds a tensor's elements."""
    return tensor.untyped_storage()


class Unit:
    """Parameters that are gathered, freed and reduced together.

    `owners[i]` are the modules (and names) that have parameter i, `whole[i]` is it as a whole, `parts[i]` is what
    modules have while it is cut, and optimizers always."""

    def __init__(self, group: Any, replicas: Any = None) -> None:
        self.group, self.replicas = group, replicas
        self.size, self.rank = group.size() if group else 1, group.rank() if group else 0
        self.owners: list[list[Owner]] = []
        self.whole: list[Any] = []
        self.parts: list[Any] = []
        self.compute_dtype: Any = None              # of whole parameters; None for their own
        self.reduce_dtype: Any = None
        self.device: Any = None                     # where whole parameters are
        self.is_whole = False                       # modules have whole parameters
        self.frees_after_forward = self.frees_after_backward = True
        self.is_synced = self.is_reduced_over_replicas = True
        self.gathers_in_backward = True
        self.reduces_unused = False
        self.divisor: float | None = None           # None for the number of processes
        self.uses_sums_only = False
        self.custom_gather: Any = None
        self.custom_reduce: Any = None
        self.comm_hook: tuple[Any, Callable] | None = None      # (state, function) that reduces instead
        self.reduced_hook: Callable[[Any], None] | None = None
        self._gathering: tuple[Any, Any] | None = None
        self._reducing: tuple[Any, Any, list[int]] | None = None
        self._unreduced: dict[int, Any] = {}        # gradients of passes that were not synced, as whole tensors
        self._replica_sum: Any = None               # parts that are not yet reduced over replicas

    # --- what subclasses say

    def part_buffer(self) -> Any:
        """This process's parts, one behind the other."""
        raise NotImplementedError

    def spread(self, gathered: Any) -> None:
        """Bring all processes' parts to the whole parameters, whose memory there is."""
        raise NotImplementedError

    def memories(self) -> list[tuple[Any, int]]:
        """What holds whole parameters, and how many bytes it must have."""
        raise NotImplementedError

    def pack(self, gradients: list[Any], dtype: Any) -> Any:
        """Gradients of whole parameters (None for zeros) as what is reduced: process 0's part first."""
        raise NotImplementedError

    def keep_gradient(self, flat: Any, used: list[int]) -> None:
        """Add the reduced part of this process to the gradients of the parts."""
        raise NotImplementedError

    def send_parts(self, sent: Any, options: Any) -> tuple[Any, Any]:
        """Start to gather: what to wait for, and all processes' parts (None if they go to their places at once)."""
        out = _empty(sent.numel() * self.size, dtype=sent.dtype, device=sent.device)
        return self.group._allgather_base(out, sent, options), out

    def refresh(self) -> None:
        """Parts may have been replaced by the program: bring them into the buffer."""

    # --- whole and cut

    def begin_gather(self, in_background: bool = True) -> None:
        """Start making parameters whole, unless they are or it was begun."""
        if self.is_whole or self._gathering is not None:
            return
        self.refresh()
        own = self.part_buffer()
        with no_grad():
            sent = own.to(device=self.device, dtype=self.compute_dtype or own.dtype)
        if self.size == 1:
            self._gathering = (None, sent)
            return
        if self.custom_gather is not None:
            out = self.custom_gather.allocate((sent.numel() * self.size,), dtype=sent.dtype, device=sent.device)
            self._gathering = (self.custom_gather(out, sent, self.group, async_op=in_background), out)
            return
        self._gathering = self.send_parts(sent, opt.AllgatherOptions(asyncOp=in_background))

    def gather(self) -> None:
        """Modules have whole parameters when this returns."""
        if self.is_whole:
            return
        self.begin_gather(in_background=False)
        assert self._gathering is not None, "begin_gather leaves something to wait for"
        work, gathered = self._gathering
        if work is not None:
            work.wait()
        self._gathering = None
        with no_grad():
            for memory, size in self.memories():
                if memory.nbytes() != size:
                    memory.resize_(size)
            self.spread(gathered)
        self.is_whole = True
        self.show(self.whole)

    def free(self) -> None:
        """Modules have parts when this returns; whole parameters hold no memory."""
        if self._gathering is not None:
            work, _ = self._gathering
            if work is not None:
                work.wait()
            self._gathering = None
        elif not self.is_whole:
            return
        if self.is_whole:
            self.is_whole = False
            self.show(self.parts)
        for memory, _ in self.memories():
            if memory.nbytes():
                memory.resize_(0)

    def show(self, tensors: list[Any]) -> None:
        """Let modules have these tensors as their parameters."""
        for owners, tensor in zip(self.owners, tensors, strict=True):
            for module, name in owners:
                module._parameters[name] = tensor

    # --- gradients

    def take_gradients(self) -> list[Any]:
        """Gradients of whole parameters, with those kept from passes that were not synced."""
        taken = []
        for i, p in enumerate(self.whole):
            gradient, p.grad = p.grad, None
            kept = self._unreduced.pop(i, None)
            if gradient is not None and kept is not None:
                gradient = kept.add_(gradient)
            taken.append(kept if gradient is None else gradient)
        return taken

    def end_backward(self) -> None:
        """A backward pass of this unit has ended: free its parameters and start reducing."""
        if not self.is_synced:
            self._keep_unreduced()
            if self.frees_after_backward:
                self.free()
            return
        with no_grad():
            gradients = self.take_gradients()
            used = [i for i, g in enumerate(gradients) if g is not None]
            if self.reduces_unused:
                used = [i for i, p in enumerate(self.whole) if p.requires_grad]
            if self.frees_after_backward:
                self.free()
            if used:
                self._begin_reduce(gradients, used)

    def _keep_unreduced(self) -> None:
        for i, p in enumerate(self.whole):
            if p.grad is None:
                continue
            gradient, p.grad = p.grad, None
            if self.reduce_dtype is not None and gradient.dtype != self.reduce_dtype:
                gradient = gradient.to(self.reduce_dtype)
            self._unreduced[i] = self._unreduced[i].add_(gradient) if i in self._unreduced else gradient

    def _divisors(self, dtype: Any) -> tuple[float, float]:
        """Before and after the sum: half floats would overflow if all of it came after."""
        total = self.size * (self.replicas.size() if self.replicas is not None else 1)
        if self.divisor is not None:
            return 1.0, self.divisor
        before = 1.0
        if dtype == _C.float16:
            while total % before == 0 and total / before > before:
                before *= 2
        return before, total / before

    def _begin_reduce(self, gradients: list[Any], used: list[int]) -> None:
        self.end_reduce()
        given = next((g.dtype for g in gradients if g is not None), self.whole[0].dtype)
        dtype = self.reduce_dtype or given
        packed = self.pack(gradients, dtype)
        if self.comm_hook is not None:
            state, hook = self.comm_hook
            if self.size == 1:
                hook(state, packed)
            else:
                out = _empty(packed.numel() // self.size, dtype=dtype, device=packed.device)
                hook(state, packed, out)
                packed = out
            self._reducing = (None, packed, used)
            return
        before, _ = self._divisors(dtype)
        if before != 1.0:
            packed.div_(before)
        if self.size == 1:
            self._reducing = (None, packed, used)
            return
        op = ReduceOp.SUM
        if self.custom_reduce is not None:
            out = self.custom_reduce.allocate((packed.numel() // self.size,), dtype=dtype, device=packed.device)
            self._reducing = (self.custom_reduce(out, packed, self.group, op, async_op=True), out, used)
            return
        out = _empty(packed.numel() // self.size, dtype=dtype, device=packed.device)
        options = opt.ReduceScatterOptions(reduceOp=op, asyncOp=True)
        self._reducing = (self.group._reduce_scatter_base(out, packed, options), out, used)

    def end_reduce(self) -> None:
        """What was being reduced is in the gradients of the parts when this returns."""
        if self._reducing is None:
            return
        work, flat, used = self._reducing
        self._reducing = None
        if work is not None:
            work.wait()
        with no_grad():
            if self.replicas is not None and self.comm_hook is None:
                if self._replica_sum is not None:
                    flat.add_(self._replica_sum)
                    self._replica_sum = None
                if not self.is_reduced_over_replicas:
                    self._replica_sum = flat
                    return
                self.replicas.allreduce([flat], opt.AllreduceOptions(reduceOp=ReduceOp.SUM)).wait()
            _, after = self._divisors(flat.dtype)
            if after != 1.0 and self.comm_hook is None:
                flat.div_(after)
            if self.reduced_hook is not None:
                self.reduced_hook(flat)
            self.keep_gradient(flat, used)

    def reset(self) -> None:
        """Forget what an aborted pass left."""
        for pending in (self._gathering, self._reducing):
            if pending is not None and pending[0] is not None:
                pending[0].wait()
        self._reducing, self._replica_sum = None, None
        self._unreduced.clear()
        for p in self.whole:
            p.grad = None
        self.free()
