"""rushlight.compiler: questions and marks about compilation that programs make.
`driver` does it, `registry` names backends, `decorators` are the marks."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..base import late
from ..dynamo.record import tracing
from ..loops.record import Record
from . import config
from .decorators import allow_in_graph, assume_constant_result, disable, set_stance, substitute_in_graph
from .registry import get_default_backend, list_backends, set_default_backend

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe", "list_backends", "load_cache_artifacts",
    "load_compiled_function", "nested_compile_region", "reset", "save_cache_artifacts", "set_default_backend",
    "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
]

__getattr__, __dir__ = late.names(globals(), {"compile": "driver"}, files=("driver",))

_is_compiling_flag = False
_is_exporting_flag = False


def is_compiling() -> bool:
    """Whether the program is being captured or exported."""
    return _is_compiling_flag or tracing.is_compiling()


def is_dynamo_compiling() -> bool:
    """Whether the program is being captured."""
    return tracing.is_compiling()


def is_exporting() -> bool:
    """Whether the program is being exported: never yet."""
    return _is_exporting_flag


def reset() -> None:
    """Forget everything compiled."""
    from . import driver  # noqa: PLC0415 - programs that compile nothing do not load it

    driver.reset()


def cudagraph_mark_step_begin() -> None:
    """A new step begins: outputs of the last one may be overwritten. They need not be here: a replay that would
    overwrite what somebody holds moves it elsewhere first, so there is nothing to mark."""


def wrap_numpy(fn: Callable) -> Callable:
    """A function of NumPy arrays as one of tensors, and the same for its results."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from ..tensors.interop import from_numpy  # noqa: PLC0415 - for those who have arrays
        from ..utils._pytree import tree_map  # noqa: PLC0415

        args, kwargs = tree_map(lambda x: x.numpy() if isinstance(x, Tensor) else x, (args, kwargs))
        return tree_map(lambda x: from_numpy(x) if type(x).__module__ == "numpy" and hasattr(x,
            "__array_interface__") and type(x).__name__ == "ndarray" else x,
                        fn(*args, **kwargs))

    return wrapped


def nested_compile_region(
    fn: Callable | None = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """A function to compile once and call from many places."""
    return fn if fn is not None else (lambda inner: inner)


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether ranks agree on recompiling; the setting before."""
    return False


class CacheInfo(Record):
    """Which kernels and graphs (and captured frames) a packed cache holds."""

    kernels: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()

    @property
    def artifacts(self) -> dict[str, list[str]]:
        """By the part of the compiler that made them."""
        parts = {"inductor": list(self.kernels), "aot_autograd": list(self.graphs)}
        return {part: names for part, names in parts.items() if names}

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        return list(self.graphs)

    @property
    def inductor_artifacts(self) -> list[str]:
        return list(self.kernels)


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """The machine code of all kernels that this process uses and what it made of graphs, to be loaded where the same
    program will run: on the same kind of processor, by the same version of this package. None where there is none."""
    from ..codegen.stored import artifacts  # noqa: PLC0415 - for those who move caches

    result = artifacts.packed()
    return None if result is None else (result[0], CacheInfo(tuple(result[1]), tuple(result[2])))


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Take over what `save_cache_artifacts` gave elsewhere: kernels and graphs found in it need not be made again. What
    does not fit here is left, with a warning, and None returned. It is machine code: load what you would run."""
    if not isinstance(serialized_artifacts, bytes):
        raise TypeError(f"load_cache_artifacts: expected bytes, got {type(serialized_artifacts).__name__}")
    from ..codegen.stored import artifacts  # noqa: PLC0415 - as above

    try:
        kernels, graphs = artifacts.unpacked(serialized_artifacts)
        return CacheInfo(tuple(kernels), tuple(graphs))
    except ValueError as error:
        warnings.warn(f"load_cache_artifacts: the artifacts are not used: {error}.", stacklevel=2)
        return None


def load_compiled_function(
    file: Any, *, f_globals: dict[str, Any] | None = None, external_data: dict[str, Any] | None = None
) -> Any:
    """Take over a function compiled ahead of time."""
    raise NotImplementedError("compiler.load_compiled_function: ahead-of-time compilation is not written yet")


def _guard_filter(name: str) -> Callable[..., list[bool]]:
    """A function to pass as `options={"guard_filter_fn": ...}`, which `compile` does not take: all guards are kept."""

    def keep(guard_entries: Any, *args: Any, **kwargs: Any) -> list[bool]:
        raise NotImplementedError(
            f"compiler.{name}: guards cannot be chosen (the option guard_filter_fn). set_stance(...,"
            " skip_guard_eval_unsafe=True) runs what was compiled without a look at them."
        )

    keep.__name__ = keep.__qualname__ = name
    return keep


keep_portable_guards_unsafe = _guard_filter("keep_portable_guards_unsafe")
keep_tensor_guards_unsafe = _guard_filter("keep_tensor_guards_unsafe")
skip_all_guards_unsafe = _guard_filter("skip_all_guards_unsafe")
skip_guard_on_globals_unsafe = _guard_filter("skip_guard_on_globals_unsafe")
skip_guard_on_inbuilt_nn_modules_unsafe = _guard_filter("skip_guard_on_inbuilt_nn_modules_unsafe")
skip_guard_on_all_nn_modules_unsafe = _guard_filter("skip_guard_on_all_nn_modules_unsafe")
