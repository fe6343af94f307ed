"""Whole derivatives of a function: vjp, jvp, jacobian, hessian and their products with vectors.

Enters: a function of tensors returning tensors, and inputs as a tensor or a tuple. Leaves: results in the structure
PyTorch gives them (a tensor for a tensor, tuples for tuples). Everything is built on `grad`; `vectorize` only promises
the same numbers. Refuses, with `strict=True`, outputs that do not depend on an input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..op.definition import find_op
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
        raise RuntimeError("an output of the function does not require gradients: it is independent of the inputs, which strict=True does not allow")


def _pull(outputs: tuple, inputs: tuple, weights: tuple, create_graph: bool, strict: bool) -> tuple:
    """grad with zeros where an output or an input is out of reach."""
    pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    made: tuple = (None,) * len(inputs)
    if pairs:
        made = grad([o for o, _ in pairs], inputs, [w for _, w in pairs], create_graph=create_graph, retain_graph=True, allow_unused=True)
    if strict and any(g is None for g in made):
        i = next(i for i, g in enumerate(made) if g is None)
        raise RuntimeError(f"the output of the function is independent of input {i}, which strict=True does not allow")
    return tuple(_zeros(x) if g is None else g for g, x in zip(made, inputs, strict=True))


def _check_vector(v: Any, like: tuple, what: str) -> tuple:
    if v is None:
        if len(like) == 1 and like[0].numel() == 1:
            return (_zeros(like[0]).fill_(1),)
        raise RuntimeError(f"the vector v can only be left out when the {what} is a single element")
    _, vectors = _as_tuple(v, "v")
    if len(vectors) != len(like) or any(tuple(a.shape) != tuple(b.shape) for a, b in zip(vectors, like, strict=True)):
        raise RuntimeError(f"v must have the structure and shapes of the {what}: {[tuple(t.shape) for t in like]}, got {[tuple(t.shape) for t in vectors]}")
    return vectors


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v' J)."""
    with enable_grad():
        many_in, xs = _as_tuple(inputs, "inputs")
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "the output of the function")
        _check_depends(outputs, strict)
        made = _pull(outputs, xs, _check_vector(v, outputs, "output"), create_graph, strict)
    return _unwrap(many_out, _finished(outputs, create_graph)), _unwrap(many_in, _finished(made, create_graph))


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
        made: tuple = (None,) * len(outputs)
        if pairs:
            made = grad([p for p, _ in pairs], weights, [d for _, d in pairs], create_graph=create_graph, allow_unused=True)
        made = tuple(_zeros(o) if t is None else t for t, o in zip(made, outputs, strict=True))
    return _unwrap(many_out, _finished(outputs, create_graph)), _unwrap(many_out, _finished(made, create_graph))


def jacobian(
    func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False, strategy: str = "reverse-mode"
) -> Any:
    """J[out][in], each of shape (*output shape, *input shape)."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'strategy must be "reverse-mode" or "forward-mode", got {strategy!r}')
    with enable_grad():
        many_in, xs = _as_tuple(inputs, "inputs")
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "the output of the function")
        _check_depends(outputs, strict)
        rows = tuple(_rows(o, xs, create_graph, strict) for o in outputs)
    return _unwrap(many_out, tuple(_unwrap(many_in, _finished(r, create_graph)) for r in rows))


def _rows(output: Any, inputs: tuple, create_graph: bool, strict: bool) -> tuple:
    """The Jacobian of one output: one backward pass per element."""
    columns: list[tuple] = []
    for k in range(output.numel()):
        weight = _C.empty((output.numel(),), None, output.dtype, output.device).zero_()
        weight[k] = 1
        columns.append(_pull((output,), inputs, (weight.reshape(tuple(output.shape)),), create_graph, strict))
    stack = find_op("stack")
    made = []
    for i, x in enumerate(inputs):
        shape = (*output.shape, *x.shape)
        made.append(stack([c[i] for c in columns]).reshape(shape) if columns else output.new_zeros(shape))
    return tuple(made)


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
    func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode"
) -> Any:
    """H[in][in] of a function with one element as its result."""
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        return _pull((single(*inputs),), inputs, (None,), True, strict)

    made = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return tuple(made) if many_in else made[0][0]


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), H v)."""
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        return _pull((single(*inputs),), inputs, (None,), True, strict)

    _, made = jvp(gradient, xs, v, create_graph, strict)
    return _value(func, xs, create_graph), _unwrap(many_in, made)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v' H): cheaper than hvp."""
    many_in, xs = _as_tuple(inputs, "inputs")
    single = _scalar(func)

    def gradient(*inputs: Any) -> tuple:
        return _pull((single(*inputs),), inputs, (None,), True, strict)

    _, made = vjp(gradient, xs, v, create_graph, strict)
    return _value(func, xs, create_graph), _unwrap(many_in, made)


def _value(func: Callable, xs: tuple, create_graph: bool) -> Any:
    out = func(*xs)
    return out if create_graph else out.detach()
