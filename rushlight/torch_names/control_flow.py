"""Control flow as functions: `cond` and `while_loop`, and `associative_scan`.
In eager execution they are what they say.

Enters: predicates (Python bools or one-element tensors), functions and their tensors. Leaves: what the chosen function
returns. They exist so that one program can run eagerly and be captured whole. Refuses: what is not callable, operands
that are not a tuple or list, predicates of more than one element,
and loop bodies that change the number of carried values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..op import ops
from ..utils import _pytree as pytree


def _decide(pred: Any, what: str) -> bool:
    if isinstance(pred, _C.Tensor):
        if pred.numel() != 1:
            raise RuntimeError(f"{what}: expected a predicate of one element, got one of shape {tuple(pred.shape)}")
        if pred.dtype is not _C.bool:
            raise RuntimeError(f"{what}: expected a boolean predicate, got {pred.dtype}")
        return bool(pred.item())
    if not isinstance(pred, bool):
        raise RuntimeError(f"{what}: expected a bool or a tensor as predicate, got {type(pred).__name__}")
    return pred


def _check(functions: dict[str, Any], operands: Any, what: str) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise RuntimeError(f"{what}: {name} must be callable, got {type(function).__name__}")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"{what}: operands must be a tuple or list, got {type(operands).__name__}")


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple | list = ()) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`."""
    _check({"true_fn": true_fn, "false_fn": false_fn}, operands, "cond")
    return (true_fn if _decide(pred, "cond") else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple | list) -> Any:
    """Replace the carried values by `body_fn(*carried)` while `cond_fn(*carried)`; returns the last ones."""
    _check({"cond_fn": cond_fn, "body_fn": body_fn}, carried_inputs, "while_loop")
    carried = tuple(carried_inputs)
    while _decide(cond_fn(*carried), "while_loop"):
        result = body_fn(*carried)
        result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(result) != len(carried):
            raise RuntimeError(
                f"while_loop: body_fn must return {len(carried)} values, as many as are carried, got {len(result)}"
            )
        carried = result
    return carried


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """All prefixes of `xs` along `dim` combined by an associative function: y[i] = combine(y[i - 1], x[i])."""
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, structure = pytree.tree_flatten(xs)
    if not leaves or any(not isinstance(leaf, _C.Tensor) for leaf in leaves):
        raise RuntimeError("associative_scan: expected at least one tensor, and only tensors, in xs")
    if len({leaf.shape[dim] for leaf in leaves}) > 1:
        raise RuntimeError(
            f"associative_scan: the tensors differ in size along dim {dim}: {[leaf.shape[dim] for leaf in leaves]}"
        )
    scanned = _scan(
        lambda a, b: pytree.tree_leaves(
            combine_fn(pytree.tree_unflatten(a, structure), pytree.tree_unflatten(b, structure))
        ),
        [leaf.flip(dim) if reverse else leaf for leaf in leaves],
        dim,
    )
    return pytree.tree_unflatten([leaf.flip(dim) if reverse else leaf for leaf in scanned], structure)


def _scan(combine: Callable[[list, list], list], leaves: list[Any], dim: int) -> list[Any]:
    """Doubling strides: after step k every element holds the last 2^k elements up to it."""
    length, stride = leaves[0].shape[dim], 1
    while stride < length:
        early = [leaf.narrow(dim, 0, length - stride) for leaf in leaves]
        late = [leaf.narrow(dim, stride, length - stride) for leaf in leaves]
        joined = combine(early, late)
        leaves = [ops["cat"]([leaf.narrow(dim, 0, stride), new], dim) for leaf, new in zip(leaves, joined)]
        stride *= 2
    return leaves
