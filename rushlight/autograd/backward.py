"""`backward` and `grad`: checks what the user gave and hands it to the engine.

Enters: tensors (or gradient edges) and their gradients. Leaves: .grad of leaves, or a tuple of gradients. Refuses
gradients whose shape does not fit, and outputs that were never recorded.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _C, _extras
from ..base import logs
from ..base.shape import memory_format
from ..devices.private_use import PRIVATE
from ..op import find_op
from ..rules import levels
from .grad_mode import no_grad
from .graph import iter_graph
from .hooks import hook_before, one_of_several

_ATEN = 1 << 6     # as `dispatch.keys` counts: a program's mode sees calls


def as_tuple(value: Any) -> tuple:
    """A tensor or an edge alone counts as a sequence of one."""
    if isinstance(value, (list,)) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return tuple(value)
    return tuple(value) if not isinstance(value, (_C.Tensor, tuple)) else (value,)


def is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "node")


def _shape_of(output: Any) -> tuple:
    if not is_edge(output):
        return tuple(output.shape)
    if output.node._step[0] is not None:
        raise one_of_several(output.node, "GradientEdge", "a tensor, or the first of them")
    return tuple(output.node._input_metadata[output.output_nr].shape)


def _is_made_of_others(t: Any) -> bool:
    """Whether a tensor is of a program's class that computes by `__torch_dispatch__`: so are its gradients."""
    handler = getattr(type(t), "__torch_dispatch__", None)
    return handler not in (None, _C._disabled_torch_function_impl) and not hasattr(t, "_fresh") \
        and not hasattr(t, "__compose__")


def _implicit(output: Any, index: int) -> Any:
    """The gradient of one that a scalar gets when none is given."""
    meta = output.node._input_metadata[output.output_nr] if is_edge(output) else output
    needs = is_edge(output) or output.requires_grad
    if not needs:
        return None
    if meta.numel() != 1:
        raise RuntimeError(
            f"grad can be implicitly created only for scalar outputs, but output {index} has shape {tuple(meta.shape)}"
        )
    if not meta.is_floating_point():
        raise RuntimeError(
            f"grad can be implicitly created only for real outputs, got {meta.dtype}. Pass the gradient."
        )
    if not is_edge(output) and (
            _is_made_of_others(output) or output._keys & PRIVATE or _C.get_thread_keys()[0] & _ATEN):
        with no_grad():
            return _C.own_call(lambda: find_op("ones_like")(output, memory_format=memory_format("preserve_format")))
    result = _C.empty(tuple(meta.shape), None, meta.dtype, meta.device)
    if hasattr(output, "_fresh"):     # more than memory (a fake, a distributed tensor): so is its gradient
        result = output._fresh(tuple(output.shape), None, output.dtype, output.device)
    return _C.own_call(result.fill_, 1)


def make_gradients(outputs: Sequence[Any], given: Sequence[Any], is_batched: bool = False) -> tuple:
    """One gradient per output, checked; ones where a scalar's is missing."""
    result = []
    for i, (output, grad) in enumerate(zip(outputs, given, strict=True)):
        if grad is None:
            handle = 0 if is_edge(output) else _extras.named_begin("aten::ones_like", (output,))
            try:
                result.append(_implicit(output, i))
            finally:
                _extras.record_end(handle)
            continue
        if not isinstance(grad, _C.Tensor):
            raise TypeError(f"gradients: expected Tensors or None, got {type(grad).__name__}")
        shape = tuple(grad.shape)[1:] if is_batched else tuple(grad.shape)
        if shape != _shape_of(output):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {shape} and output[{i}] has a shape of"
                f" {_shape_of(output)}."
            )
        if not is_edge(output) and output.is_complex() != grad.is_complex():
            raise RuntimeError(
                f"the gradient of a complex output has its dtype. "
                f"grad_output[{i}] has dtype {grad.dtype}, output[{i}] {output.dtype}."
            )
        result.append(grad)
    return tuple(result)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors`, weighted by `grad_tensors`, to the .grad of the leaves (or of `inputs`)."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (its old name) were both given: use `grad_tensors`")
        grad_tensors = grad_variables
    wanted = None
    if inputs is not None:
        wanted = as_tuple(inputs)
        if not wanted:
            raise RuntimeError("backward: expected at least one tensor in inputs, got none.")
    roots = as_tuple(tensors)
    given = (None,) * len(roots) if grad_tensors is None else as_tuple(grad_tensors)
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    if create_graph:
        warnings.warn(
            "backward() with create_graph=True makes a reference cycle between a leaf and its gradient, which can leak"
            " memory. Use autograd.grad() to differentiate again, or set .grad to None when done.",
            stacklevel=2,
        )
    keep = create_graph if retain_graph is None else retain_graph
    weights = make_gradients(roots, given)
    if not (create_graph or wanted is not None or running.otherwise is None):
        if running.otherwise(roots, weights, keep):
            return
    with _told(roots) if logs.heard() is not None else contextlib.nullcontext():
        _C._run_backward(roots, weights, keep, create_graph, wanted, True)


@contextlib.contextmanager
def _told(roots: tuple) -> Iterator[None]:
    """Inside, every node that the engine runs is told to those who listen (TORCH_LOGS=+autograd)."""
    log = logs.messages("torch.autograd.graph", logs.DEBUG)
    if log is None:
        yield
        return

    def telling(node: Any) -> Callable[[tuple], None]:
        def tell(grads: tuple) -> None:
            given = [None if g is None else f"{g.dtype}{list(g.shape)}" for g in grads]
            log.debug("Executing: %s with grad_outputs: %s", node.name(), given)

        return tell

    nodes = iter_graph(t.grad_fn for t in roots if isinstance(t, _C.Tensor))
    handles = [hook_before(node, telling(node)) for node in nodes]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Running(threading.local):
    """Who runs this thread's backward() calls instead of the engine: a function of roots, gradients and whether the
    tape is kept, which says whether it did."""

    otherwise: Callable[[tuple, tuple, bool], bool] | None = None


running = _Running()


def tensor_backward(
    self: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Tensor.backward with arguments."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of `outputs`, weighted by `grad_outputs`, with respect to `inputs`, as a tuple.

    Arguments:
        outputs: what is differentiated: tensors of one element, or give `grad_outputs`
        inputs: with respect to what
        grad_outputs: weights of the outputs' elements; None for 1
        retain_graph: whether the graph can be gone through again; None for as `create_graph` says
        create_graph: whether the gradients can be differentiated in turn
        only_inputs: must be True
        allow_unused: whether an input that no output depends on gives None, in place of an error
        is_grads_batched: whether `grad_outputs` has a first dim of many weights
        materialize_grads: whether an input that no output depends on gives zeros

    Example:
        >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
        >>> rl.autograd.grad((x ** 3).sum(), x)
        (tensor([ 3., 12.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("allow_unused=False contradicts materialize_grads=True: zeros stand for unused inputs.")
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported. Use backward() to accumulate into leaves.")
    allow = materialize_grads if allow_unused is None else allow_unused
    roots, wanted = as_tuple(outputs), as_tuple(inputs)
    given = (None,) * len(roots) if grad_outputs is None else as_tuple(grad_outputs)
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} outputs and {len(given)} grad_outputs")
    weights = make_gradients(roots, given, is_grads_batched)
    keep = create_graph if retain_graph is None else retain_graph
    level = levels.state.stack[-1] if levels.state.stack else None
    if isinstance(level, levels.VmapLevel) and any(
        isinstance(r, _C.Tensor) and levels.behind(r, level) is not None for r in roots
    ):
        return _of_examples(level, roots, wanted, weights, keep, create_graph, allow, materialize_grads)
    if is_grads_batched:
        result = _batched(roots, wanted, weights, keep, create_graph)
    else:
        result = _C._run_backward(roots, weights, keep, create_graph, wanted, False)
    return _fill_unused(result, wanted, allow, materialize_grads)


def _of_examples(
    level: Any,
    roots: tuple,
    wanted: tuple,
    weights: tuple,
    keep: bool,
    create_graph: bool,
    allow: bool,
    materialize: bool,
) -> tuple:
    """Gradients of examples by examples: those of the batch by the batch, since no example depends on another."""
    if any(levels.behind(x, level) is None for x in wanted):
        raise RuntimeError("grad: under vmap, examples can only be differentiated by tensors that have the batch too")

    def spread(w: Any, root: Any) -> Any:
        like, own = levels.behind(root, level), levels.behind(w, level)
        if like is None:
            return w
        v = (
            w.unsqueeze(0).expand((level.batch_size, *w.shape))
            if own is None
            else own.value if own.dim == 0 else own.value.movedim(own.dim, 0)
        )
        return v if like.dim == 0 else v.movedim(0, like.dim)

    def run() -> tuple:
        given = [None if w is None else spread(w, r) for w, r in zip(weights, roots, strict=True)]
        lower = [levels.lowered(x, level) for x in wanted]
        return grad(
            [levels.lowered(r, level) for r in roots],
            lower,
            given,
            keep,
            create_graph,
            allow_unused=allow,
            materialize_grads=materialize,
        )

    result = levels.below(level, run)
    return tuple(
        [
            None if g is None else levels.batch(level, g, levels.behind(x, level).dim)
            for g, x in zip(result, wanted, strict=True)
        ]
    )


def _batched(roots: tuple, wanted: tuple, weights: tuple, keep: bool, create_graph: bool) -> tuple:
    """One pass for all entries of the weights' leading dimension."""
    level = levels.VmapLevel(next(w.shape[0] for w in weights if w is not None), "different")
    with levels.opened(level):
        rows = tuple(None if w is None else levels.batch(level, w, 0) for w in weights)
        result = _C._run_backward(roots, rows, keep, create_graph, wanted, False)
    return tuple([None if g is None else _whole(g, level) for g in result])


def _whole(g: Any, level: Any) -> Any:
    """All examples of a gradient, the batch in front."""
    w = levels.behind(g, level)
    if w is None:
        return g.unsqueeze(0).expand((level.batch_size, *g.shape))
    return w.value if w.dim == 0 else w.value.movedim(w.dim, 0)


def _fill_unused(result: tuple, wanted: tuple, allow: bool, materialize: bool) -> tuple:
    if not allow and any(g is None for g in result):
        i = next(i for i, g in enumerate(result) if g is None)
        raise RuntimeError(
            f"grad: the input at index {i} was not used in the graph. "
            "allow_unused=True gives None for such inputs."
        )
    if not materialize:
        return result
    described = (w.node._input_metadata[w.output_nr] if is_edge(w) else w for w in wanted)
    return tuple(
        _C.empty(tuple(d.shape), None, d.dtype, d.device).zero_() if g is None else g
        for g, d in zip(result, described, strict=True)
    )
