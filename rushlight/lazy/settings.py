"""Settings of lazy devices.

Enters: which ops are to be computed on the host. Leaves: kernels for them that do so.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..library import Library
from ..utils._pytree import tree_map
from . import metrics

_forced: dict[str, Library] = {}


def get_force_fallback() -> str:
    """Names of the ops that are computed on the host, as they were set."""
    return ",".join(sorted(_forced))


def set_force_fallback(configval: str) -> None:
    """Compute these ops on the host from now on: names like `aten::add`, commas between; an empty text ends it."""
    if not isinstance(configval, str):
        raise TypeError(f"set_force_fallback: expected names with commas between, got {type(configval).__name__}")
    wanted = {name.strip() for name in configval.split(",") if name.strip()}
    for name in set(_forced) - wanted:
        _forced.pop(name)._destroy()
    for name in wanted - set(_forced):
        _forced[name] = _on_host(name)


def _on_host(name: str) -> Library:
    """A registration that computes every overload of an op on the host, counted."""
    from .. import ops  # noqa: PLC0415 - the namespace of all ops

    short = name.rpartition("::")[2]
    packet = getattr(ops.aten, short)
    library = Library("aten", "IMPL")
    for overload in packet.overloads():
        target = getattr(packet, overload)

        def kernel(*args: Any, _target: Any = target, **kwargs: Any) -> Any:
            metrics.count(f"aten::{short}")
            host = tree_map(_to_host, (args, kwargs))
            return tree_map(_to_lazy, _target(*host[0], **host[1]))

        library.impl(short if overload == "default" else f"{short}.{overload}", kernel, "Lazy")
    return library


def _to_host(value: Any) -> Any:
    return value.cpu() if isinstance(value, _C.Tensor) and _C.records(value.device) else value


def _to_lazy(value: Any) -> Any:
    return value.to("lazy") if isinstance(value, _C.Tensor) else value


def set_reuse_ir(val: bool) -> None:
    """Nodes are words here, and nothing is gained by sharing them: taken, and without effect either way."""
    if not isinstance(val, bool):
        raise TypeError(f"set_reuse_ir: expected a bool, got {type(val).__name__}")
