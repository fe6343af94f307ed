"""How gradients of several processes become one: buckets that are reduced while the backward pass goes on.

Enters: parameters, in the order of the module. Leaves: their `.grad`, averaged over the processes when `backward`
returns. Refuses: a parameter that got two gradients in one pass, or none, in words that say what to do.

Parameters go into buckets from the last to the first, which is about the order in which their gradients appear. When
all gradients of a bucket are there it is reduced in the background; buckets are begun in one order on all ranks. What
is still under way at the end of the pass is waited for then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import _C
from ..futures import Future
from ..op import find_op
from . import options as opt
from .group import ProcessGroup
from .reduce_op import ReduceOp

_empty, _copy_all = find_op("empty"), find_op("_foreach_copy_")
FIRST_BUCKET = 1 << 20      # small, so that reducing begins early


class GradBucket:
    """A bucket as a communication hook sees it."""

    def __init__(self, index: int, buffer: Any, views: list[Any], parameters: list[Any], is_last: bool) -> None:
        self._index, self._buffer, self._views = index, buffer, views
        self._parameters, self._is_last = parameters, is_last

    def index(self) -> int:
        """Its place in the order of buckets."""
        return self._index

    def buffer(self) -> Any:
        """All gradients in one dimension."""
        return self._buffer

    def set_buffer(self, tensor: Any) -> None:
        """Reduce another tensor of that size in place of the buffer."""
        if tensor.numel() != self._buffer.numel():
            raise ValueError(f"set_buffer: expected {self._buffer.numel()} elements, got {tensor.numel()}")
        self._buffer = tensor

    def gradients(self) -> list[Any]:
        """The gradients, as views of the buffer."""
        return list(self._views)

    def parameters(self) -> list[Any]:
        """The parameters that they belong to."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether it is the last bucket of the pass."""
        return self._is_last


class _Bucket:
    """Parameters of one type and their places in one buffer."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        first = parameters[0]
        self.buffer = _empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self.views = self.views_of(self.buffer)
        self.waiting = 0
        self.sparse: list[Any] = []       # works of sparse gradients, which do not fit a buffer
        self.future: Any = None           # None until it is begun

    def views_of(self, buffer: Any) -> list[Any]:
        views, at = [], 0
        for p in self.parameters:
            views.append(buffer[at : at + p.numel()].view(p.shape))
            at += p.numel()
        return views


def make_buckets(parameters: list[Any], sizes: Iterable[int]) -> list[list[Any]]:
    """Parameters in order, together while they are of one type and fit the bucket.

    `sizes` are the buckets' in bytes; the last one stays for all that follow."""
    limits = list(sizes)
    buckets: list[list[Any]] = []
    filled = 0
    for p in parameters:
        limit = limits[min(max(len(buckets) - 1, 0), len(limits) - 1)]
        same = buckets and buckets[-1][0].dtype == p.dtype and buckets[-1][0].device == p.device
        if not same or filled + p.numel() * p.element_size() > limit:
            buckets.append([])
            filled = 0
        buckets[-1].append(p)
        filled += p.numel() * p.element_size()
    return buckets


class Reducer:
    """The buckets of a module, and what has become of them in this pass."""

    def __init__(
        self,
        named: list[tuple[str, Any]],
        group: ProcessGroup,
        bucket_bytes: list[int],
        is_view: bool,
        find_unused: bool,
        is_static: bool,
        skips_unused: bool = False,
        copies_together: bool = False,
    ) -> None:
        self.named, self.group = named, group
        self.is_view, self.find_unused, self.is_static = is_view, find_unused, is_static
        ordered = [p for _, p in reversed(named)]
        self.buckets = [_Bucket(part) for part in make_buckets(ordered, bucket_bytes)]
        self.place = {id(p): (b, i) for b in self.buckets for i, p in enumerate(b.parameters)}
        self.skips_unused, self.copies_together = skips_unused, copies_together
        self.hook: tuple[Any, Callable[[Any, GradBucket], Future]] | None = None
        self.divisor = group.size()
        self.is_armed = False             # the next backward pass is to be reduced
        self.is_running = False
        self.ready: set[int] = set()
        self.next_bucket = 0
        self.unused: list[Any] = []
        self.handles = [p.register_post_accumulate_grad_hook(self._on_gradient) for _, p in named]

    def prepare(self, outputs: list[Any]) -> None:
        """A forward pass has ended whose backward pass is to be reduced."""
        if self.is_running:
            raise RuntimeError(self._unfinished())
        self.is_armed = True
        self.ready.clear()
        self.next_bucket = 0
        for bucket in self.buckets:
            bucket.waiting, bucket.future, bucket.sparse = len(bucket.parameters), None, []
        self.unused = []
        if self.find_unused or self.is_static or self.skips_unused:
            used = _parameters_of(outputs)
            self.unused = [p for _, p in self.named if id(p) not in used]

    def _unfinished(self) -> str:
        missing = [name for name, p in self.named if id(p) not in self.ready]
        self.is_running = self.is_armed = False
        return (
            f"DistributedDataParallel: the last backward pass gave no gradient to {len(missing)} of "
            f"{len(self.named)} parameters ({', '.join(missing[:8])}{', ...' if len(missing) > 8 else ''}), so that "
            f"the other processes still wait for them. If a part of the module does not take part in the loss, give "
            f"find_unused_parameters=True; make sure that all outputs of forward() take part in it"
        )

    def _on_gradient(self, parameter: Any) -> None:
        if not self.is_armed:
            return
        if not self.is_running:
            self.is_running = True
            _C.queue_callback(self._end_of_pass)
            for p in self.unused:
                self._mark(p)
        if id(parameter) in self.ready:
            if self.is_static:
                return
            name = next(name for name, p in self.named if p is parameter)
            raise RuntimeError(
                f"DistributedDataParallel: the parameter {name} got a gradient twice in one backward pass. A module "
                f"that is checkpointed with use_reentrant=True, or parameters used in several forward() calls of one "
                f"pass, do this: give static_graph=True, or use_reentrant=False"
            )
        self._mark(parameter)

    def _mark(self, parameter: Any) -> None:
        self.ready.add(id(parameter))
        if self.is_static:
            return      # a gradient may still be added to: everything is begun at the end of the pass
        bucket, _ = self.place[id(parameter)]
        bucket.waiting -= 1
        while self.next_bucket < len(self.buckets) and not self.buckets[self.next_bucket].waiting:
            self._begin(self.next_bucket)
            self.next_bucket += 1

    def _begin(self, index: int) -> None:
        bucket = self.buckets[index]
        if self.skips_unused and {id(p) for p in bucket.parameters} <= {id(p) for p in self.unused}:
            return
        targets, sources = [], []
        for i, p in enumerate(bucket.parameters):
            grad = p.grad
            if grad is not None and grad.is_sparse:
                bucket.sparse.append(self._all_reduce(grad.div_(self.divisor)))
                bucket.views[i].zero_()
            elif grad is None:
                bucket.views[i].zero_()
            elif grad.data_ptr() != bucket.views[i].data_ptr():
                targets.append(bucket.views[i])
                sources.append(grad.detach())
        if self.copies_together and targets:
            _copy_all(targets, sources)
        else:
            for target, source in zip(targets, sources):
                target.copy_(source)
        if self.hook is None:
            bucket.future = self._all_reduce(bucket.buffer.div_(self.divisor))
            return
        state, function = self.hook
        is_last = index == len(self.buckets) - 1
        seen = GradBucket(index, bucket.buffer, bucket.views, bucket.parameters, is_last)
        bucket.future = function(state, seen)
        if not hasattr(bucket.future, "wait"):
            raise TypeError(f"a communication hook must return a Future, got {type(bucket.future).__name__}")

    def answer(self) -> None:
        """Take part in a pass of the others with nothing of one's own."""
        for bucket in self.buckets:
            bucket.buffer.zero_()
            if self.hook is None:
                self._all_reduce(bucket.buffer).wait()
            else:
                state, function = self.hook
                index = self.buckets.index(bucket)
                is_last = index == len(self.buckets) - 1
                function(state, GradBucket(index, bucket.buffer, bucket.views, bucket.parameters, is_last)).wait()
        if self.find_unused and not self.skips_unused:
            self._all_reduce(self._flags().zero_()).wait()

    def _all_reduce(self, tensor: Any) -> Any:
        options = opt.AllreduceOptions()
        options.reduceOp = ReduceOp.SUM
        return self.group.allreduce([tensor], options)

    def _end_of_pass(self) -> None:
        """Everything that can be begun was: bring the results home."""
        self.is_running = False
        if self.is_static:
            while self.next_bucket < len(self.buckets):
                self._begin(self.next_bucket)
                self.next_bucket += 1
        if self.next_bucket < len(self.buckets):
            self.is_running = True      # said at the next forward pass, as PyTorch does: more may come until then
            return
        self.is_armed = False
        used = self._used_anywhere()
        for bucket in self.buckets:
            for work in bucket.sparse:
                work.wait()
            if bucket.future is None:
                continue        # of parameters that nobody uses
            result = bucket.future.wait()
            if self.hook is not None:
                reduced = result[0] if isinstance(result, (list, tuple)) else result
                if reduced.data_ptr() != bucket.buffer.data_ptr():
                    bucket.buffer.copy_(reduced.detach().view(-1))
            self._write_back(bucket, used)

    def _flags(self) -> Any:
        """A number per parameter, where the parameters are: their group's back end reaches that."""
        return _empty(len(self.named), dtype=_C.int32, device=self.named[0][1].device)

    def _used_anywhere(self) -> set[int] | None:
        """Parameters that took part in the loss of some process; None stands for all."""
        if self.skips_unused:
            away = {id(p) for p in self.unused}
            return {id(p) for _, p in self.named if id(p) not in away}
        if not self.find_unused:
            return None
        flags = self._flags().fill_(1)
        away = {id(p) for p in self.unused}
        for i, (_, p) in enumerate(self.named):
            if id(p) in away:
                flags[i] = 0
        self._all_reduce(flags).wait()
        return {id(p) for (_, p), count in zip(self.named, flags.tolist()) if count}

    def _write_back(self, bucket: _Bucket, used: set[int] | None) -> None:
        for p, view in zip(bucket.parameters, bucket.views, strict=True):
            grad = p.grad
            if grad is not None and grad.is_sparse:
                continue
            if used is not None and id(p) not in used:
                continue        # no process used it: its gradient stays what it was
            if self.is_view:
                if grad is None or grad.data_ptr() != view.data_ptr():
                    p.grad = view
            elif grad is None:
                p.grad = view.clone()
            else:
                grad.detach().copy_(view)

    def close(self) -> None:
        """Let go of the parameters."""
        for handle in self.handles:
            handle.remove()


def _parameters_of(outputs: list[Any]) -> set[int]:
    """The leaves that the outputs were computed from, by identity."""
    found: set[int] = set()
    stack = [t.grad_fn for t in outputs if t.grad_fn is not None]
    found.update(id(t) for t in outputs if t.requires_grad and t.grad_fn is None)
    seen = set(stack)
    while stack:
        node = stack.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.add(id(leaf))
        for following, _ in node._edges:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
    return found
