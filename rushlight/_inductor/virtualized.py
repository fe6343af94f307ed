"""`torch._inductor.virtualized`: `ops`, the scalar vocabulary inside of PyTorch's loops. Definitions here have theirs
(`loops.expr`), so every name of this one refuses to be called."""

from __future__ import annotations

from typing import Any

__all__ = ["ops"]


class _Ops:
    """Names of scalar functions."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"_inductor.virtualized.ops.{name}: PyTorch's loops are not made here")

        return refuse


ops = _Ops()
