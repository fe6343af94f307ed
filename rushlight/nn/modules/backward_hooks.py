"""Full backward hooks: gradients of a module's inputs and outputs, seen where they pass its border.

Enters: the tensors that go into and come out of a forward. Leaves: the same tensors behind identity nodes, on whose
gradients the user's hooks run. Refuses: hooks that answer with another number of gradients, in-place changes of what
left the module are up to autograd's own checks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd.function import Function

NO_INPUTS = (
    "a full backward hook runs as soon as the gradients of its module's outputs are known, without those of the inputs,"
    " since no input requires gradients: call requires_grad_() on one if the hook needs them."
)


class Border(Function):
    """Identity of several tensors under one node."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        return grads


def _spread(index: Sequence[int], values: Sequence[Any], length: int) -> tuple:
    """`values` at the places `index` of a tuple of Nones."""
    result: list[Any] = [None] * length
    for i, value in zip(index, values):
        result[i] = value
    return tuple(result)


class BackwardHook:
    """The hooks of one call of one module."""

    def __init__(self, module: Any, user_hooks: list[Callable], user_pre_hooks: list[Callable]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple | None = None
        self.n_inputs = self.n_outputs = -1
        self.input_index: list[int] | None = None
        self.output_index: list[int] = []

    def setup_input_hook(self, args: tuple) -> tuple:
        """The arguments, those that need gradients behind a border where `user_hooks` run."""
        result, self.input_index = self._behind_border(args, self._at_input)
        self.n_inputs = len(args)
        return result

    def setup_output_hook(self, result: Any) -> Any:
        """The result behind a border where its gradients are noted and `user_pre_hooks` run."""
        alone = not isinstance(result, tuple)
        values = (result,) if alone else result
        answer, index = self._behind_border(values, self._at_output)
        self.n_outputs = len(values)
        self.output_index = index or []
        if alone:
            return answer[0]
        return type(result)(*answer) if hasattr(result, "_fields") else answer

    def _behind_border(self, values: tuple, hook: Callable) -> tuple[tuple, list[int] | None]:
        index = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not (_C.is_grad_enabled() and any(values[i].requires_grad for i in index)):
            return values, None
        passed = Border.apply(*[values[i] for i in index])
        nodes = [t.grad_fn for t in passed if t.grad_fn is not None]
        if not nodes:
            raise RuntimeError(
                "Error while setting up the backward hooks: no tensor needs a gradient after the border node."
            )
        nodes[0].register_hook(hook)
        result = list(values)
        for i, tensor in zip(index, passed):
            result[i] = tensor
        return tuple(result), index

    def _replaced(self, answer: Any, expected: int) -> tuple:
        answer = answer if isinstance(answer, tuple) else (answer,)
        if len(answer) != expected:
            raise RuntimeError(
                f"a backward hook returns one gradient for each input: expected {expected}, got {len(answer)}"
            )
        return answer

    def _at_input(self, grad_input: tuple, _: tuple) -> tuple | None:
        if self.grad_outputs is None:  # backward did not pass through the outputs
            return None
        grads = _spread(self.input_index or (), grad_input, self.n_inputs)
        for hook in self.user_hooks:
            answer = hook(self.module, grads, self.grad_outputs)
            if answer is not None:
                grads = self._replaced(answer, self.n_inputs)
        self.grad_outputs = None
        return tuple(grads[i] for i in self.input_index or ())

    def _at_output(self, _: tuple, grad_output: tuple) -> tuple:
        grads = _spread(self.output_index, grad_output, self.n_outputs)
        for hook in self.user_pre_hooks:
            answer = hook(self.module, grads)
            if answer is not None:
                grads = self._replaced(answer, self.n_outputs)
        self.grad_outputs = grads
        if self.input_index is None:  # nothing flows further: the hooks see no gradients of inputs
            if self.user_hooks:
                warnings.warn(NO_INPUTS, stacklevel=2)
            for hook in self.user_hooks:
                answer = hook(self.module, (None,) * self.n_inputs, grads)
                if answer is not None and any(g is not None for g in answer):
                    raise RuntimeError(
                        "no input of the module requires gradient, so its backward hook may return only None, or None"
                        " for each of them."
                    )
            self.grad_outputs = None
        return tuple(grads[i] for i in self.output_index)
