"""Whole derivatives of a function: vjp, jvp, jacobian, hessian and their products with vectors.

Enters: a function of tensors returning tensors, and inputs as a tensor or a tuple. Leaves: results in the structure
PyTorch gives them (a tensor for a tensor, tuples for tuples). Built on `grad`; with `vectorize` all rows of a Jacobian
come from one pass under vmap, or all columns from one forward pass. Refuses, with `strict=True`,
outputs that do not depend on an input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..op import find_op
from ..rules import levels
from .backward import grad
from .grad_mode import enable_grad


def _as_tuple(value: Any, what: str) -> tuple[bool, tuple]:
    """Whether it was a tuple already, and the tuple; TypeError for anything but tensors."""
    is_tuple = isinstance(value, tuple)
    items = value if is_tuple else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, _C.Tensor):
            where = f"the value at index {i} of {what}" if is_tuple else what
            raise TypeError(f"{where} must be a Tensor, got {type(item).__name__}")
    return is_tuple, items


def _fresh(inputs: tuple, create_graph: bool) -> tuple:
    """The inputs as tensors of their own: connected to the caller's graph only if that is wanted."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _unwrap(is_tuple: bool, values: tuple) -> Any:
    return values if is_tuple else values[0]


def _finished(values: tuple, create_graph: bool) -> tuple:
    return values if create_graph else tuple(v.detach() for v in values)


def _zeros(like: Any) -> Any:
    return like.detach().clone().zero_()


def _check_depends(outputs: tuple, strict: bool) -> None:
    if strict and any(not o.requires_grad for o in outputs):
        raise RuntimeError(
            "an output of the function does not require gradients: it is independent of the inputs, which strict=True"
            " does not allow"
        )


def _pull(outputs: tuple, inputs: tuple, weights: tuple, create_graph: bool, strict: bool) -> tuple:
    """grad with zeros where an output or an input is out of reach."""
    pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    result: tuple = (None,) * len(inputs)
    if pairs:
        result = grad(
            [o for o, _ in pairs],
            inputs,
            [w for _, w in pairs],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    if strict and any(g is None for g in result):
        i = next(i for i, g in enumerate(result) if g is None)
        raise RuntimeError(f"the output of the function is independent of input {i}, which strict=True does not allow")
    return tuple(_zeros(x) if g is None else g for g, x in zip(result, inputs, strict=True))


def _check_vector(v: Any, like: tuple, what: str) -> tuple:
    if v is None:
        if len(like) == 1 and like[0].numel() == 1:
            return (_zeros(like[0]).fill_(1),)
        raise RuntimeError(f"the vector v can only be left out when the {what} is a single element")
    _, vectors = _as_tuple(v, "v")
    if len(vectors) != len(like) or any(tuple(a.shape) != tuple(b.shape) for a, b in zip(vectors, like, strict=True)):
        raise RuntimeError(
            f"v must have the structure and shapes of the {what}: {[tuple(t.shape) for t in like]}, got"
            f" {[tuple(t.shape) for t in vectors]}"
        )
    return vectors


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v' J)."""
    with enable_grad():
        many_in, xs = _as_tuple(inputs, "inputs")
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "the output of the function")
        _check_depends(outputs, strict)
        result = _pull(outputs, xs, _check_vector(v, outputs, "output"), create_graph, strict)
    return _unwrap(many_out, _finished(outputs, create_graph)), _unwrap(many_in, _finished(result, create_graph))


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), J v): the vjp is linear in its vector, and its transpose is the jvp."""
    with enable_grad():
        _, xs = _as_tuple(inputs, "inputs")
        vectors = _check_vector(v, xs, "input")
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "the output of the function")
        _check_depends(outputs, strict)
        weights = tuple(_zeros(o).requires_grad_() for o in outputs)
        pulled = _pull(outputs, xs, weights, True, strict)
        pairs = [(p, d) for p, d in zip(pulled, vectors, strict=True) if p.requires_grad]
        result: tuple = (None,) * len(outputs)
        if pairs:
            result = grad(
                [p for p, _ in pairs], weights, [d for _, d in pairs], create_graph=create_graph, allow_unused=True
            )
        result = tuple(_zeros(o) if t is None else t for t, o in zip(result, outputs, strict=True))
    return _unwrap(many_out, _finished(outputs, create_graph)), _unwrap(many_out, _finished(result, create_graph))


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """J[out][in], each of shape (*output shape, *input shape). `vectorize`: all rows (or columns) in one pass."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            f'jacobian: expected strategy to be "forward-mode" or "reverse-mode", got {strategy!r}. Use "reverse-mode"'
            " where outputs are fewer than inputs."
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    if vectorize and strict:
        raise RuntimeError(
            "jacobian: strict=True and vectorize=True are not supported together. Set one of them to False."
        )
    with enable_grad():
        many_in, xs = _as_tuple(inputs, "inputs")
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "the output of the function")
        _check_depends(outputs, strict)
        rows = tuple(
            (_all_rows(o, xs, create_graph) if vectorize else _rows(o, xs, create_graph, strict)) for o in outputs
        )
    return _unwrap(many_out, tuple(_unwrap(many_in, _finished(r, create_graph)) for r in rows))


def _basis(total: int, start: int, like: Any) -> Any:
    """Unit vectors of a space of `total` numbers, of which those from `start` on are the elements of `like`."""
    block = _C.empty((total, like.numel()), None, like.dtype, like.device).zero_()
    if like.numel():
        block.diagonal(-start).fill_(1)
    return block.reshape((total, *like.shape))


def _all_rows(output: Any, inputs: tuple, create_graph: bool) -> tuple:
    """The Jacobian of one output: one backward pass for all its elements."""
    shapes = [(*output.shape, *x.shape) for x in inputs]
    if not output.numel() or not output.requires_grad:
        return tuple(output.new_zeros(s) for s in shapes)
    result = grad(
        output,
        inputs,
        _basis(output.numel(), 0, output),
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
    )
    return tuple(output.new_zeros(s) if g is None else g.reshape(s) for g, s in zip(result, shapes, strict=True))


def _forward_jacobian(func: Callable, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    """The Jacobian by columns: one forward pass for all elements of the inputs."""
    if strict:
        raise RuntimeError(
            'jacobian: strict=True and strategy="forward-mode" are not supported together. Use strategy="reverse-mode".'
        )
    if not vectorize:
        raise NotImplementedError(
            'jacobian: strategy="forward-mode" needs vectorize=True. Computing it column by column is not supported.'
        )
    if create_graph:
        raise NotImplementedError(
            'jacobian: create_graph=True and strategy="forward-mode" are not both supported. Use'
            ' strategy="reverse-mode".'
        )
    many_in, xs = _as_tuple(inputs, "inputs")
    xs = tuple(x.detach() for x in xs)
    total, start, bases = sum(x.numel() for x in xs), 0, []
    for x in xs:
        bases.append(_basis(total, start, x))
        start += x.numel()
    every, along = levels.VmapLevel(total), levels.JvpLevel()
    with levels.opened(every):
        directions = [levels.batch(every, b, 0) for b in bases]
        with levels.opened(along):
            many_out, outputs = _as_tuple(
                func(*(levels.dual(along, x, t) for x, t in zip(xs, directions, strict=True))),
                "the output of the function",
            )
    blocks = []
    for o in outputs:
        value = levels.lowered(levels.lowered(o, along), every)
        w = levels.behind(o, along)
        tangent = None if w is None else w.tangent
        blocks.append(_unwrap(many_in, _columns(tangent, every, tuple(o.shape), value, xs)))
    return _unwrap(many_out, tuple(blocks))


def _columns(tangent: Any, level: Any, shape: tuple[int, ...], value: Any, inputs: tuple) -> tuple:
    """Tangents along every direction, [directions, *shape], as one block per input."""
    if tangent is None:
        return tuple(value.new_zeros((*shape, *x.shape)) for x in inputs)
    w = levels.behind(tangent, level)
    whole = tangent.unsqueeze(0).expand((level.batch_size, *shape)) if w is None else w.value.movedim(w.dim, 0)
    parts = whole.detach().split([x.numel() for x in inputs])
    return tuple(p.movedim(0, -1).reshape((*shape, *x.shape)) for p, x in zip(parts, inputs, strict=True))


def _rows(output: Any, inputs: tuple, create_graph: bool, strict: bool) -> tuple:
    """The Jacobian of one output: one backward pass per element."""
    columns: list[tuple] = []
    for k in range(output.numel()):
        weight = _C.empty((output.numel(),), None, output.dtype, output.device).zero_()
        weight[k] = 1
        columns.append(_pull((output,), inputs, (weight.reshape(tuple(output.shape)),), create_graph, strict))
    stack = find_op("stack")
    result = []
    for i, x in enumerate(inputs):
        shape = (*output.shape, *x.shape)
        result.append(stack([c[i] for c in columns]).reshape(shape) if columns else output.new_zeros(shape))
    return tuple(result)


def _scalar(func: Callable) -> Callable:
    """`func`, checked to return one element."""

    def checked(*inputs: Any) -> Any:
        out = func(*inputs)
        if not isinstance(out, _C.Tensor):
            raise RuntimeError("the function must return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(f"the function must return a Tensor with a single element, got shape {tuple(out.shape)}")
        return out.squeeze()

    return checked


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """H[in][in] of a function with one element as its result."""
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('hessian: expected outer_jacobian_strategy to be either "forward-mode" or "reverse-mode".')
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        if outer_jacobian_strategy == "forward-mode":   # the inputs are duals: leaves of a graph at that level
            inputs = tuple(x.requires_grad_() for x in inputs)
        with enable_grad():
            return _pull((single(*inputs),), inputs, (None,), True, strict)

    result = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return tuple(result) if many_in else result[0][0]


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), H v)."""
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        return _pull((single(*inputs),), inputs, (None,), True, strict)

    _, result = jvp(gradient, xs, v, create_graph, strict)
    return _value(func, xs, create_graph), _unwrap(many_in, result)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v' H): cheaper than hvp."""
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        return _pull((single(*inputs),), inputs, (None,), True, strict)

    _, result = vjp(gradient, xs, v, create_graph, strict)
    return _value(func, xs, create_graph), _unwrap(many_in, result)


def _value(func: Callable, xs: tuple, create_graph: bool) -> Any:
    out = func(*xs)
    return out if create_graph else out.detach()
