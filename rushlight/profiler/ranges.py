"""`emit_nvtx` and `emit_itt`: a range for every op, seen by the tools of NVIDIA and Intel around the program.

Enters: whether arguments' sizes are to be in the names of ranges. Leaves: a context in which each op opens and closes a
range. Refuses: to be entered twice (RuntimeError), and NVTX where there is no CUDA (AssertionError).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late
from . import itt
from .op_watcher import LabelWatcher, OpWatcher


def _sizes(value: Any) -> list:
    """What a range says of an argument: the sizes of tensors, in lists as in arguments."""
    if isinstance(value, _C.Tensor):
        return list(value.shape)
    if isinstance(value, (list, tuple)) and any(isinstance(item, _C.Tensor) for item in value):
        return [_sizes(item) for item in value]
    return []


class _Emitter:
    """Opens and closes a range around every op and label of the thread."""

    what = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.what} annotation context manager is not reentrant")
        push, pop = self._ranges()
        self.entered = True

        def begin(op: Any, args: tuple, kwargs: dict) -> None:
            schema = getattr(op, "_schema", None)
            name = getattr(schema, "name", None) or str(op)
            shapes = f", sizes = {[_sizes(value) for value in (*args, *kwargs.values())]}" if self.record_shapes else ""
            push(f"{name}{shapes}")

        self._ops = OpWatcher(begin, lambda told, result: pop())
        self._labels = LabelWatcher(push, lambda told: pop())
        self._labels.start()
        self._ops.__enter__()
        return self

    def __exit__(self, *error: object) -> bool | None:
        if not self.enabled:
            return None
        self._ops.__exit__(*error)
        self._labels.stop()
        return False


class emit_itt(_Emitter):  # noqa: N801 - PyTorch's name
    """A range of Intel's VTune for every op within."""

    what = "ITT"

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        return itt.range_push, itt.range_pop


class emit_nvtx(_Emitter):  # noqa: N801 - PyTorch's name
    """A range of NVIDIA's profilers for every op within."""

    what = "NVTX"

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        cuda = late.import_module("..cuda", __package__)
        if not cuda.is_available():
            raise AssertionError("emit_nvtx: there is no CUDA device whose tools would show ranges")
        cuda.synchronize()
        nvtx = late.import_module("..cuda.nvtx", __package__)
        return nvtx.range_push, nvtx.range_pop

    def __exit__(self, *error: object) -> bool | None:
        if self.enabled and self.entered:
            late.import_module("..cuda", __package__).synchronize()
        return super().__exit__(*error)
