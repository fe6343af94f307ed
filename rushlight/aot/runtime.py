"""Wrappers around compiled graphs: from the function's arguments to its results, with the effects the graph left out.

Enters: a `GraphMeta`, a compiled forward and (joint) a way to compile the backward. Leaves: a callable from the flat
list of tensors to the flat list of outputs: mutated inputs get their new values, outputs that look at inputs or at each
other are made views again, and one node on the tape runs the compiled backward. Refuses:
differentiating the backward again.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _C
from .._C import Tensor
from ..autograd.function import _FRESH, _NOT_DIFFERENTIABLE
from ..autograd.grad_mode import no_grad
from ..base import collector
from ..base.bits import BITS, CONJUGATE, NEGATIVE
from .metadata import GraphMeta, OutputInfo, OutputKind

if TYPE_CHECKING:
    from .partition import Partition

Compiled = Callable[[list[Any]], Sequence[Any]]
_INPUT, _RESULT, _EXTRA = range(3)
_PLACES = {"input": _INPUT, "result": _RESULT, "extra": _EXTRA}


class CompiledRegion:
    """One captured function, compiled: call it with the flat list of its tensors."""

    def __init__(
        self,
        meta: GraphMeta,
        forward: Compiled,
        partition: Partition | None,
        compile_backward: Callable[[], Compiled] | None,
        saved: Sequence[tuple[str, int]] = (),
    ) -> None:
        """`saved`: where what the backward needs comes from, unless a partition says so."""
        self.meta, self.forward, self.partition = meta, forward, partition
        self._compile_backward, self._backward = compile_backward, None
        places = saved if partition is None else [(s.place, s.index) for s in partition.saved]
        saved = tuple([(_PLACES[place], index) for place, index in places])
        wants = tuple(meta.differentiable) if meta.is_joint else (False,) * meta.num_results
        self.native = _C.Region(
            native_graph(forward), wants, saved, meta.gradients, lambda: native_graph(self.backward), refusing
        )
        self._saved, self._wants = saved, wants
        ahead = getattr(forward, "compiled", None)
        ahead = getattr(ahead, "compiled", ahead)      # of one that is replayed
        if compile_backward is not None and hasattr(ahead, "follower"):
            ahead.follower = weakref.WeakMethod(self._rehearse_backward)
        self.plain = not meta.mutated and all(
            o.kind is OutputKind.NEW and o.source == i for i, o in enumerate(meta.outputs)
        )

    @property
    def backward(self) -> Compiled:
        """The compiled backward, made when first needed."""
        if self._backward is None:
            assert self._compile_backward is not None, "a graph without a backward has none to compile"
            with collector.paused():
                self._backward = self._compile_backward()
        return self._backward

    def _rehearse_backward(self, inputs: Mapping[int, Any], results: Sequence[Any]) -> None:
        """Compile the backward while a device's compilers are busy with the forward's kernels, and have its own begun.
        Nothing is in `results`: nothing runs."""
        found = [inputs.get(i) if place == _INPUT else results[i if place == _RESULT else len(self._wants) + i]
                 for place, i in self._saved]
        found += [results[i] for i, wants in enumerate(self._wants) if wants]      # gradients are laid out as these
        with contextlib.suppress(Exception):      # what fails here is raised when the backward is needed
            ahead = getattr(self.backward, "compiled", None)
            rehearse = getattr(ahead, "rehearse", None)
            if rehearse is not None and ahead.preparation is None and all(isinstance(t, Tensor) for t in found):
                rehearse(ahead.arguments(found))

    def __call__(self, inputs: list[Any]) -> list[Any]:
        meta = self.meta
        result = self.native(inputs)
        if self.plain:
            return result
        for i, info in enumerate(meta.inputs):
            if info.layout_after is not None:
                look_otherwise(inputs[i], info.layout_after)
        for position, i in enumerate(meta.mutated):
            write_back(inputs[i], result[position], meta.differentiable[position])
        return self.outputs(inputs, result)

    def outputs(self, inputs: list[Any], result: Sequence[Any]) -> list[Any]:
        results: list[Any] = []
        for info in self.meta.outputs:
            results.append(output(info, inputs, result, results))
        return results


def boxed(compiled: Any) -> Callable:
    """A compiled graph as a function of one list, with the parts that the core runs by itself."""

    def call(args: list[Any]) -> Any:
        return compiled(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    call.compiled = compiled  # type: ignore[attr-defined]
    call.native_parts = getattr(compiled, "native_parts", None)  # type: ignore[attr-defined]
    return call


def native_graph(compiled: Compiled) -> Any:
    """A compiled graph as the core runs it: the parts of its plan where it has them, else the function."""
    parts = getattr(compiled, "native_parts", None)
    return compiled if parts is None else parts


def write_back(target: Tensor, value: Tensor | None, is_differentiable: bool) -> None:
    """The new value of an input that the function wrote to; None where the graph has put it there."""
    if value is None:
        _C.bump_version(target)
        return
    is_there = value.data_ptr() == target.data_ptr() and value.stride() == target.stride()
    if is_there and (value._keys ^ target._keys) & BITS == 0 and not is_differentiable:
        _C.bump_version(target)     # only its layout was written to
    elif is_differentiable:
        target.copy_(value)
    else:
        with no_grad():
            target.copy_(value)


def look_otherwise(target: Tensor, layout: tuple) -> None:
    """An input that the function turned or reshaped in place."""
    sizes, strides, offset = layout
    target.as_strided_(sizes, strides, target.storage_offset() + offset)


def output(info: OutputInfo, inputs: list[Any], result: Sequence[Any], earlier: list[Any]) -> Any:
    """One output as the function would have returned it."""
    kind = info.kind
    if kind is OutputKind.NEW:
        return result[info.source]
    if kind is OutputKind.CONSTANT:
        return info.value
    if kind is OutputKind.SAME:
        return earlier[info.source]
    if kind is OutputKind.INPUT:
        return inputs[info.source]
    source = inputs[info.source] if kind is OutputKind.VIEW_OF_INPUT else result[info.source]
    if info.layout is None:
        shown = result[info.shown_at]
        layout = tuple(shown.shape), shown.stride(), shown.storage_offset()
    else:
        sizes, strides, offset = info.layout
        layout = sizes, strides, source.storage_offset() + offset
    if source.requires_grad and not info.requires_grad:
        source = source.detach()
    shown = source.as_strided(*layout)
    shown = shown.conj() if info.flips & CONJUGATE else shown
    return shown._neg_view() if info.flips & NEGATIVE else shown




def refusing(grads: tuple, result: tuple, node: Any) -> tuple:
    """Gradients that were asked for with a graph: theirs refuses to be used. They depend on what came in and on the
    inputs of the region, whose `node` is on the tape."""
    results = tuple(g.detach() if isinstance(g, Tensor) else g for g in result)
    roles = tuple(_FRESH if isinstance(g, Tensor) else _NOT_DIFFERENTIABLE for g in results)
    edges = *_C._collect_edges(*grads), *node._edges
    _C._function_node(_refuse_twice, edges, results, roles, (), True)
    return results


def _refuse_twice(*grads: Any) -> None:
    raise RuntimeError(
        "compile: the backward of a compiled function is a graph without a history, so it cannot be differentiated"
        " again. Run that part uncompiled (compiler.disable, or backend='eager') for gradients of gradients."
    )
