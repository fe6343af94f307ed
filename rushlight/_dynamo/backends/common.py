"""Backends made of compilers: `aot_autograd(fw_compiler=...)` is a backend for `compile`.

Enters: compilers of forward and backward graphs, a partitioner, a decomposition table. Leaves: a function from a
captured graph and example inputs to a callable. Refuses: arguments that nobody knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["AotAutograd", "aot_autograd", "device_from_inputs", "dtype_from_inputs"]

_TAKEN = frozenset(("fw_compiler", "bw_compiler", "inference_compiler", "partition_fn", "decompositions",
                    "keep_inference_input_mutations"))


class AotAutograd:
    """A backend that hands the forward and the backward graph, spelled with ATen's ops, to compilers."""

    def __init__(self, **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - _TAKEN)
        if unknown:
            raise TypeError(f"aot_autograd: unexpected arguments {unknown}; it takes {sorted(_TAKEN)}")
        if "fw_compiler" not in kwargs:
            raise TypeError("aot_autograd: fw_compiler is missing: a function of a graph and example inputs")
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    @functools.cached_property
    def aot_config(self) -> Any:
        """Who compiles what, as `aot` takes it."""
        from ..._functorch.aot_autograd import compilers  # noqa: PLC0415 - when it is first used

        return compilers(**self.kwargs)

    def __call__(self, gm: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Callable:
        if kwargs:
            raise TypeError(f"aot_autograd: the backend takes no options, got {sorted(kwargs)}")
        from ...compiler.driver import graph_backend  # noqa: PLC0415 - as above

        return graph_backend(self)(gm, example_inputs)


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """A backend for `compile(backend=...)` or `register_backend`."""
    return AotAutograd(**kwargs)


def device_from_inputs(example_inputs: Sequence[Any]) -> Any:
    """The device of the first input that has one."""
    return next(x.device for x in example_inputs if hasattr(x, "device"))


def dtype_from_inputs(example_inputs: Sequence[Any]) -> Any:
    """The type of the first input that has one."""
    return next(x.dtype for x in example_inputs if hasattr(x, "dtype"))
