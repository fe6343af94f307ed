"""`cond`: one of two functions, as a tensor says.

Enters: a predicate (a Python bool, a comparison of sizes, or a tensor of one bool), two functions, and their operands.
Leaves: what the chosen function returns. In a graph both functions are graphs, and must return tensors of the same
types and ranks; a size in which they differ is one that only elements can tell. Refuses: what is not callable, operands
that are not a tuple or list, predicates of more than one element.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..fake import FakeTensor
from ..op import ops
from ..rules import levels
from ..rules.levels import Batch
from ..symbols.real import negation
from ..utils import _pytree as pytree
from . import core


class CondOp(core.HigherOrderOp):
    """cond(pred, true_function, false_function, operands)"""

    name = "cond"

    def functions(self, arguments: tuple) -> dict[str, tuple[int, list[Tensor]]]:
        operands = list(arguments[3])
        return {"true_graph": (1, operands), "false_graph": (2, operands)}

    def assuming(self, name: str, arguments: tuple) -> Any:
        return supposing(arguments[0], name == "true_graph")

    def run(self, pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        return core.as_results(self, (true_fn if decided(pred, "cond") else false_fn)(*operands))

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        first, second = result["true_graph"], result["false_graph"]
        if core.are_alike_but_for_sizes(second, first):
            return [core.of_either(a, b) for a, b in zip(first, second, strict=True)]
        core.expect_alike(self, second, first, "both functions must return tensors alike")
        return first

    def differentiated(self, arguments: tuple) -> Sequence[Tensor]:
        pred, true_fn, false_fn, operands = arguments
        count = len(operands)

        def forward(*tensors: Tensor) -> tuple:
            return self(pred, true_fn, false_fn, tensors), ()

        def backward(tensors: Sequence[Tensor], kept: Any, grads: Sequence[Any]) -> list[Any]:
            wanted = [i for i, t in enumerate(tensors) if core.is_differentiable(t)]
            given = [g for g in grads if g is not None]

            def gradient(function: Callable) -> Callable:
                return lambda *values: core.vjp(function, values[:count], values[count:], wanted)

            found = self(pred, gradient(true_fn), gradient(false_fn), (*tensors, *given))
            result: list[Any] = [None] * count
            for i, g in zip(wanted, found, strict=True):
                result[i] = g
            return result

        return core.Step.apply((forward, backward), *operands)


cond_op = core.register(CondOp())


def supposing(pred: Any, holds: bool) -> Any:
    """Inside, a predicate is known to hold, or not to, if it compares sizes."""
    compares = isinstance(pred, _C.SymbolicBool)
    if not compares:
        return contextlib.nullcontext()
    return pred.env.assuming(pred.expression if holds else negation(pred.expression))


def decided(pred: Any, what: str) -> bool:
    """A predicate as a bool."""
    check_predicate(pred, what)
    return bool(pred.item()) if isinstance(pred, Tensor) else pred


def check_predicate(pred: Any, what: str) -> None:
    if isinstance(pred, Tensor):
        if pred.numel() != 1:
            raise RuntimeError(f"{what}: expected a predicate of one element, got one of shape {tuple(pred.shape)}")
        if pred.dtype is not _C.bool:
            raise RuntimeError(f"{what}: expected a boolean predicate, got {pred.dtype}")
    elif not isinstance(pred, (bool, _C.SymbolicBool)):
        raise RuntimeError(f"{what}: expected a bool or a tensor as predicate, got {type(pred).__name__}")


def check_functions(functions: dict[str, Any], operands: Any, what: str) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise RuntimeError(f"{what}: {name} must be callable, got {type(function).__name__}")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"{what}: operands must be a tuple or list, got {type(operands).__name__}")


def is_recorded(tensors: Sequence[Any]) -> bool:
    """Whether a call belongs into a graph: one is being made, or tensors have no elements to look at."""
    return core.recording_mode() is not None or any(isinstance(t, FakeTensor) for t in tensors)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple | list = ()) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`.

    Arguments:
        pred: a truth, or a tensor of one
        true_fn: called if it holds
        false_fn: called otherwise; gives what is of the same kind
        operands: the arguments of both

    Example:
        >>> rl.cond(rl.tensor(True), lambda x: x + 1, lambda x: x - 1, (rl.zeros(2),))
        tensor([1., 1.])
    """
    check_functions({"true_fn": true_fn, "false_fn": false_fn}, operands, "cond")
    check_predicate(pred, "cond")
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*operands)
    if isinstance(pred, Tensor) and _is_batched(pred):
        return _chosen(pred, true_fn(*operands), false_fn(*operands))
    leaves, spec = pytree.tree_flatten(tuple(operands))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    if not is_recorded([pred, *tensors]):
        return (true_fn if decided(pred, "cond") else false_fn)(*operands)
    flat = [Flat(f, leaves, spec) for f in (true_fn, false_fn)]
    functions, lifted = core.closed([(f, tensors) for f in flat], [supposing(pred, holds) for holds in (True, False)])
    result = cond_op(pred, *functions, (*tensors, *lifted))
    if flat[0].spec != flat[1].spec or flat[0].others != flat[1].others:
        raise RuntimeError(
            f"cond: both functions must return the same structure, got {flat[0].spec} and {flat[1].spec}"
        )
    return flat[0].restored(result)


class Flat:
    """A function of nested arguments as one of the tensors among them, whose result is the tensors of its result."""

    def __init__(self, function: Callable, leaves: Sequence[Any], spec: Any) -> None:
        self.function, self.leaves, self.arguments = function, list(leaves), spec
        self.spec: Any = None
        self.others: dict[int, Any] = {}      # leaves of the result that are no tensors

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        given = iter(tensors)
        filled = [next(given) if isinstance(x, Tensor) else x for x in self.leaves]
        result, self.spec = pytree.tree_flatten(self.function(*pytree.tree_unflatten(filled, self.arguments)))
        self.others = {i: x for i, x in enumerate(result) if not isinstance(x, Tensor)}
        return [x for x in result if isinstance(x, Tensor)]

    def restored(self, tensors: Sequence[Tensor]) -> Any:
        """Tensors as the nested result that the function returned."""
        given = iter(tensors)
        count = len(tensors) + len(self.others)
        leaves = [self.others[i] if i in self.others else next(given) for i in range(count)]
        return pytree.tree_unflatten(leaves, self.spec)


def _is_batched(pred: Tensor) -> bool:
    """Whether a predicate differs from example to example of a vmap."""
    return bool(levels.state.stack) and isinstance(levels.alive(pred)._wrapped, Batch)


def _chosen(pred: Tensor, a: Any, b: Any) -> Any:
    """Of two results, what each example asks for."""
    first, spec = pytree.tree_flatten(a)
    second, other = pytree.tree_flatten(b)
    if spec != other:
        raise RuntimeError(f"cond: both functions must return the same structure, got {spec} and {other}")
    pred = pred.reshape(())
    return pytree.tree_unflatten([ops["where"](pred, x, y) for x, y in zip(first, second, strict=True)], spec)
