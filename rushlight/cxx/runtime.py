"""What the C++ runtime asks of Python where C++ would be longer.

Enters: calls from rushlight/cxx/runtime/*.cpp. Leaves: tensors, texts, registrations. Refuses what the functions it
calls refuse.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

from .. import _C, autograd
from ..autograd import Function
from ..base import late
from ..library.binaries import check_place
from ..tensors.interop import tensor as tensor_of
from .outs import out_function
from .registering import (
    add_member,
    call_operator,
    calling_form,
    class_word,
    define,
    fall_back,
    implement,
    instance,
    library,
    make_class,
    note_failure,
    operator,
    raise_failures,
    schema_text,
)

__all__ = [
    "add_member",
    "apply_function",
    "backward",
    "call_operator",
    "calling_form",
    "class_word",
    "define",
    "exchange_device",
    "fall_back",
    "grad",
    "implement",
    "instance",
    "library",
    "make_class",
    "note_failure",
    "open_library",
    "open_own",
    "operator",
    "out_function",
    "schema_text",
    "shown",
    "tensor",
]


def shown(tensor: _C.Tensor) -> str:
    """The text that C++ streams print."""
    return str(tensor)


def tensor(values: list[Any], sizes: Sequence[int], dtype: _C.dtype | None, device: Any, requires_grad: bool) -> Any:
    """A tensor of nested braces: the values in order, and the sizes they make."""
    made = tensor_of(values, dtype=dtype, device=device).reshape(tuple(sizes))
    return made.requires_grad_() if requires_grad else made


def exchange_device(index: int) -> int:
    """Make a GPU the current one; gives the index of the one before."""
    cuda = late.provided("cuda")
    before = cuda.current_device()
    if index >= 0:
        cuda.set_device(index)
    return before


class CppFunction(Function):
    """A torch::autograd::Function under a transform of functions: both methods are callables of C++."""

    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, *tensors: _C.Tensor) -> Any:
        ctx.derive = backward
        return forward(ctx)

    @staticmethod
    def backward(ctx: Any, *grads: _C.Tensor | None) -> Any:
        return (None, None, *ctx.derive(ctx, grads))


def apply_function(forward: Any, backward: Any, tensors: tuple[_C.Tensor, ...]) -> tuple[_C.Tensor, ...]:
    """Call such a Function: its results, recorded as the transform has it."""
    return CppFunction.apply(forward, backward, *tensors)


def grad(
    outputs: list[_C.Tensor], inputs: list[_C.Tensor], starts: Any, keep: bool | None, create: bool, unused: bool
) -> tuple[_C.Tensor | None, ...]:
    """torch::autograd::grad."""
    return autograd.grad(outputs, inputs, starts, retain_graph=keep, create_graph=create, allow_unused=unused)


def backward(tensors: list[_C.Tensor], starts: Any, keep: bool | None, create: bool, inputs: Any) -> None:
    """torch::autograd::backward."""
    autograd.backward(tensors, starts, retain_graph=keep, create_graph=create, inputs=inputs)


def open_library(path: str) -> None:
    """Load a library whose static objects register ops; OSError where it cannot."""
    ctypes.CDLL(path)
    raise_failures()


_MARK = b"rushlight: this extension was built for another version of Rushlight"   # interpreter.cpp, in all of ours


def open_own(path: str) -> bool:
    """Load a library if it was compiled against our headers; whether it was. OSError where others may write to it."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(_MARK) < 0:
            return False
    check_place(os.path.realpath(path))
    open_library(path)
    return True
