"""The register of compile backends: names, and functions from a graph and example inputs to a callable.

Enters: `register_backend`. Leaves: names for `compile(backend=...)`, and the backend of calls that name none. Refuses:
names nobody registered. What the built-in names do is said in `driver`; names of compilers that are not here (`tvm`,
and `openxla` and `onnxrt` where jaxlib and ONNX Runtime are not installed) are refused when they are asked for.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from ..dynamo.errors import InvalidBackend

# PyTorch's own names that this framework will serve, with PyTorch's tags.
_BUILTIN: dict[str, tuple[str, ...]] = {
    "inductor": (), "cudagraphs": (), "eager": ("debug",), "eager_noexcept": ("debug",), "aot_eager": ("debug",),
    "aot_eager_decomp_partition": ("debug",), "aot_ts": ("debug",), "ts": ("debug",), "openxla": (), "tvm": (),
    "onnxrt": (),
}
_ABSENT = {
    "tvm": "TVM, to which there is no bridge",
}
_registered: dict[str, tuple[Callable, tuple[str, ...]]] = {}
_state: dict[str, Any] = {"backend": "inductor"}


def register_backend(
    compiler_fn: Callable | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable:
    """Register a compile function under its name (or `name`)."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    assert name not in _registered, f"duplicate name: {name}"
    _registered[name] = (compiler_fn, tuple(tags))
    return compiler_fn


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names a compile call may give, those with excluded tags left out."""
    known = {**_BUILTIN, **{name: tags for name, (_, tags) in _registered.items()}}
    excluded = set(exclude_tags or ())
    return sorted(name for name, tags in known.items() if not excluded & set(tags))


def lookup(backend: str | Callable) -> str | Callable:
    """A backend as `compile` uses it: a built-in name, or a function."""
    if isinstance(backend, str):
        check_name(backend)
        refuse_absent(backend)
        return _registered[backend][0] if backend in _registered else backend
    if not callable(backend):
        raise TypeError(f"compile: expected the backend to be a name or a function, got {type(backend).__name__}")
    return backend


def set_default_backend(backend: str | Callable | None) -> None:
    """The backend of `compile()` calls that name none; None for the first one again."""
    if isinstance(backend, str):
        check_name(backend)
    _state["backend"] = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend of `compile()` calls that name none."""
    return _state["backend"]


def check_name(name: str) -> None:
    """Raise for a name nobody registered."""
    if name not in _BUILTIN and name not in _registered and name not in _ABSENT:
        raise InvalidBackend(name, list_backends(None))


def refuse_absent(name: str) -> None:
    """Raise for the name of a compiler that is not here."""
    if name == "onnxrt" and name not in _registered and importlib.util.find_spec("onnxruntime") is None:
        raise RuntimeError(
            "compile: the backend 'onnxrt' hands graphs to ONNX Runtime, which is not installed."
            " pip install onnxruntime, or use 'inductor'."
        )
    if name == "openxla" and name not in _registered and importlib.util.find_spec("jaxlib") is None:
        raise RuntimeError(
            "compile: the backend 'openxla' hands graphs to XLA through jaxlib, which is not installed."
            " pip install 'rushlight[xla]', or use 'inductor'."
        )
    if name in _ABSENT and name not in _registered:
        raise RuntimeError(
            f"compile: the backend {name!r} hands graphs to {_ABSENT[name]}. Use 'inductor', or give the name to a"
            " function of yours with register_backend."
        )
