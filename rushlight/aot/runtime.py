"""Wrappers around compiled graphs: from the function's arguments to its results, with the effects the graph left out.

Enters: a `GraphMeta`, a compiled forward and (joint) a way to compile the backward. Leaves: a callable from the flat
list of tensors to the flat list of outputs: mutated inputs get their new values, outputs that look at inputs or at each
other are made views again, and one node on the tape runs the compiled backward. Refuses:
differentiating the backward again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.function import _FRESH, _NOT_DIFFERENTIABLE, Function
from ..autograd.grad_mode import no_grad
from .metadata import GraphMeta, OutputInfo, OutputKind
from .partition import Partition

Compiled = Callable[[list[Any]], Sequence[Any]]


class CompiledRegion:
    """One captured function, compiled: call it with the flat list of its tensors."""

    def __init__(
        self,
        meta: GraphMeta,
        forward: Compiled,
        partition: Partition | None,
        compile_backward: Callable[[], Compiled] | None,
    ) -> None:
        self.meta, self.forward, self.partition = meta, forward, partition
        self._compile_backward, self._backward = compile_backward, None
        self.plain = not meta.mutated and all(
            o.kind is OutputKind.NEW and o.source == i for i, o in enumerate(meta.outputs)
        )

    @property
    def backward(self) -> Compiled:
        """The compiled backward, made when first needed."""
        if self._backward is None:
            assert self._compile_backward is not None, "a graph without a backward has none to compile"
            self._backward = self._compile_backward()
        return self._backward

    def __call__(self, inputs: list[Any]) -> list[Any]:
        meta = self.meta
        if meta.is_joint:
            made = _Boundary.apply(self, *inputs)
        else:
            with no_grad():
                made = self.forward(list(inputs))
        if self.plain:
            return list(made)
        for i, info in enumerate(meta.inputs):
            if info.layout_after is not None:
                look_otherwise(inputs[i], info.layout_after)
        for position, i in enumerate(meta.mutated):
            write_back(inputs[i], made[position], meta.differentiable[position])
        return self.outputs(inputs, made)

    def outputs(self, inputs: list[Any], made: Sequence[Any]) -> list[Any]:
        results: list[Any] = []
        for info in self.meta.outputs:
            results.append(output(info, inputs, made, results))
        return results


def write_back(target: Tensor, value: Tensor, is_differentiable: bool) -> None:
    """The new value of an input that the function wrote to."""
    if value.data_ptr() == target.data_ptr() and value.stride() == target.stride() and not is_differentiable:
        _C.bump_version(target)     # only its layout was written to
    elif is_differentiable:
        target.copy_(value)
    else:
        with no_grad():
            target.copy_(value)


def look_otherwise(target: Tensor, layout: tuple) -> None:
    """An input that the function turned or reshaped in place."""
    target.as_strided_(*layout)


def output(info: OutputInfo, inputs: list[Any], made: Sequence[Any], earlier: list[Any]) -> Any:
    """One output as the function would have returned it."""
    kind = info.kind
    if kind is OutputKind.NEW:
        return made[info.source]
    if kind is OutputKind.CONSTANT:
        return info.value
    if kind is OutputKind.SAME:
        return earlier[info.source]
    if kind is OutputKind.INPUT:
        return inputs[info.source]
    source = inputs[info.source] if kind is OutputKind.VIEW_OF_INPUT else made[info.source]
    layout = info.layout
    if layout is None:
        shown = made[info.shown_at]
        layout = tuple(shown.shape), shown.stride(), shown.storage_offset()
    if source.requires_grad and not info.requires_grad:
        source = source.detach()
    return source.as_strided(*layout)


class _Boundary(Function):
    """The node a compiled region leaves on the tape."""

    @staticmethod
    def forward(ctx: Any, region: CompiledRegion, *inputs: Any) -> tuple:
        partition, meta = region.partition, region.meta
        made = region.forward(list(inputs))
        results = tuple(made[: partition.num_results])
        tensors, others = [], []
        for saved in partition.saved:
            value = (
                inputs[saved.index]
                if saved.place == "input"
                else results[saved.index] if saved.place == "result" else made[partition.num_results + saved.index]
            )
            (tensors if isinstance(value, Tensor) else others).append(value)
        ctx.save_for_backward(*tensors)
        ctx.region, ctx.others = region, others
        ctx.strides = [results[i].stride() if results[i]._is_dense() else None for i in meta.tangents]
        ctx.mark_non_differentiable(
            *[r for r, wants in zip(results, meta.differentiable, strict=True) if isinstance(r, Tensor) and not wants]
        )
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        with no_grad():
            made = _run_backward(ctx, grads)
        if not _C.is_grad_enabled():
            return made
        results = tuple(g.detach() if isinstance(g, Tensor) else g for g in made)
        roles = tuple(_FRESH if isinstance(g, Tensor) else _NOT_DIFFERENTIABLE for g in results)
        _C._function_node(_refuse_twice, _C._collect_edges(*grads), results, roles, (), True)
        return results


def _refuse_twice(*grads: Any) -> None:
    raise RuntimeError(
        "compile: the backward of a compiled function is a graph without a history, so it cannot be differentiated"
        " again. Run that part uncompiled (compiler.disable, or backend='eager') for gradients of gradients."
    )


def _run_backward(ctx: Any, grads: tuple) -> tuple:
    region: CompiledRegion = ctx.region
    meta, partition = region.meta, region.partition
    tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
    values = [next(tensors) if saved.is_tensor else next(others) for saved in partition.saved]
    tangents = [laid_out(grads[i], strides) for i, strides in zip(meta.tangents, ctx.strides, strict=True)]
    made = region.backward([*values, *tangents])
    found = dict(zip(meta.gradients, made, strict=True))
    return (None, *(found.get(i) for i in range(len(meta.inputs))))


def laid_out(grad: Tensor, strides: tuple | None) -> Tensor:
    """A tangent in memory as the backward was traced for: as the result is, where that is dense."""
    if strides is None:
        return grad.contiguous()
    if grad.stride() == strides:
        return grad
    made = _C.empty(tuple(grad.shape), strides, grad.dtype, grad.device)
    return made.copy_(grad)
