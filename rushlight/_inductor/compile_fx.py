"""`torch._inductor.compile_fx`: the inductor as a backend, and as a compiler of one graph.

Enters: a captured graph and example inputs. Leaves: a callable. `compile_fx` differentiates the graph, as
`compile(backend="inductor")` does; `compile_fx_inner` compiles one that is a forward or a backward already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..compiler.driver import graph_backend, run_inductor

__all__ = ["compile_fx", "compile_fx_inner"]


def compile_fx(model_: Any, example_inputs_: Sequence[Any], inner_compile: Callable | None = None,
               config_patches: Mapping[str, Any] | None = None, decompositions: Mapping | None = None,
               ignore_shape_env: bool = False) -> Callable:
    """A function like the captured graph `model_`, whose forward and backward are native code."""
    if ignore_shape_env:
        raise NotImplementedError("compile_fx: ignore_shape_env=True is not supported: sizes keep their guards")
    if inner_compile is None and decompositions is None:
        return graph_backend("inductor", dict(config_patches) if config_patches else None)(
            model_, list(example_inputs_))
    from .._dynamo.backends.common import aot_autograd  # noqa: PLC0415 - for compilers of one's own alone

    backend = aot_autograd(fw_compiler=inner_compile or compile_fx_inner, decompositions=decompositions)
    return backend(model_, list(example_inputs_))


def compile_fx_inner(gm: Any, example_inputs: Sequence[Any], **options: Any) -> Callable:
    """One graph without writes as native code: a function of one list of its inputs."""
    return run_inductor(gm, list(example_inputs))
