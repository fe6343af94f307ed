"""`torch.onnx.testing`: exported models held to the programs they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..op import ops
from ..testing import assert_close
from ..utils import _pytree as pytree

__all__ = ["assert_onnx_program"]

BACKENDS = ("onnxruntime", "reference")


def assert_onnx_program(program: Any, *, rtol: float | None = None, atol: float | None = None,
                        args: tuple | None = None, kwargs: Mapping[str, Any] | None = None,
                        strategy: str | None = "TorchExportNonStrictStrategy", backend: str = "onnxruntime") -> None:
    """Raise AssertionError unless the model gives what its program gives, for its example arguments or for others.

    `backend` is "onnxruntime" or "reference". `strategy`, by which PyTorch's exporter captures a program again, has no
    effect: there is one way here.
    """
    if backend not in BACKENDS:
        raise ValueError(f"assert_onnx_program: backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    exported = program.exported_program
    if args is None and kwargs is None:
        if exported.example_inputs is None:
            raise ValueError("assert_onnx_program: the program has no example arguments; give args")
        args, kwargs = exported.example_inputs
    args, kwargs = tuple(args or ()), dict(kwargs or {})
    with no_grad():
        expected = [x for x in pytree.tree_leaves(exported.module()(*args, **kwargs)) if isinstance(x, Tensor)]
    found = (program if backend == "onnxruntime" else program.call_reference)(*args, **kwargs)
    if len(found) != len(expected):
        raise AssertionError(f"assert_onnx_program: the model gives {len(found)} results, the program {len(expected)}")
    for value, actual, wanted in zip(program.model.graph.outputs, found, expected, strict=True):
        real = ops["view_as_real"](wanted.resolve_conj()) if wanted.dtype.is_complex else wanted
        assert_close(actual, real.detach(), rtol=rtol, atol=atol, equal_nan=True, check_device=False,
                     msg=lambda text, name=value.name: f"output {name} of the model differs: {text}")
