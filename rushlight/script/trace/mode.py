"""What sees the program's calls while it is traced: a mode that writes each op down and warns where values leave.

Enters: calls of ops, functions of Python, reads of attributes, as the program makes them. Leaves: their results.
Composite functions that PyTorch writes in Python (`functional`, `methods`) run their own bodies, so that the ops inside
are the trace's; every other op is one node.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import late
from ...dispatch.modes import TorchFunctionMode
from . import functional, indexing, methods
from .aten import lifted
from .calls import record
from .recorder import _PACKAGE, Recorder
from .state import TracerWarning

Tensor = _C.Tensor


_FLOW = (" might cause the trace to be incorrect: from here on its value is Python's, so the trace holds it as a"
         " constant and does the same for every other input.")
_LEAVING = {
    "__bool__": "Converting a tensor to a Python boolean", "__int__": "Converting a tensor to a Python integer",
    "__float__": "Converting a tensor to a Python float",
    "__complex__": "Converting a tensor to a Python complex", "item": "Converting a tensor to a Python number",
    "tolist": "Converting a tensor to a Python list", "numpy": "Converting a tensor to a NumPy array",
    "__array__": "Converting a tensor to a NumPy array",
}


def warn(message: str) -> None:
    """A TracerWarning at the line of the program; nothing for what libraries of this package do."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and _is_passed(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    if frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE + os.sep):
        warnings.warn(message, TracerWarning, stacklevel=level)


_PASSED = tuple(os.path.join(_PACKAGE, part) + os.sep for part in ("script", "dispatch", "base", "tensors", "jit"))


_LIBRARY = os.path.join(_PACKAGE, "script", "functional") + os.sep        # bodies of functions of the library


def _is_passed(filename: str) -> bool:
    return filename.startswith(_PASSED) and not filename.startswith(_LIBRARY)


class TracingMode(TorchFunctionMode):
    """Active on the thread whose program is traced."""

    sees_programs = True

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    # --- the ways in
    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if isinstance(func, _C.Op):
            if name == "unbind" and len(args) == 1 and not kwargs and _is_iteration():
                warn("Iterating over a tensor might cause the trace to be incorrect: it holds as many rounds as there"
                     " were rows now, also for tensors that have more or fewer.")
            body = functional.BODIES.get(id(func)) or methods.OPERATORS.get(name)
            return self._inside(body, args, kwargs) if body is not None else self.op(func, name, args, kwargs)
        if name == "__get__":
            return self._attribute(func, args)
        if name in _LEAVING:
            return self._leaving(name, func, args, kwargs)
        handle = getattr(self, f"_on_{name.strip('_')}", None)
        if handle is not None:
            return handle(func, args, kwargs)
        body = functional.BODIES.get(id(func)) or methods.METHODS.get(name)
        if body is not None:
            return self._inside(body, args, kwargs)
        if callable(func) and hasattr(func, "__code__"):          # a function of Python: what it calls is seen
            with self:
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _inside(self, body: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        with self:
            return body(*args, **kwargs)

    def op(self, func: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One op, as one node."""
        if "::" in name:
            return func(*args, **kwargs)
        return record(self.recorder, methods.NAMES.get(name, name), args, kwargs, func)

    # --- sizes
    def _attribute(self, func: Any, args: tuple) -> Any:
        owner = func.__self__
        name = getattr(owner, "__name__", "") or getattr(getattr(owner, "fget", None), "__name__", "")
        if name == "shape":
            return self._shape(args[0])
        body = methods.ATTRIBUTES.get(name)
        if body is not None:
            return self._inside(body, args[:1], {})
        return func(*args)

    def _shape(self, tensor: Any) -> Any:
        sizes = [self.recorder.size(tensor, dim) for dim in range(tensor.dim())]
        return tuple.__new__(late.provided("package").Size, sizes)

    def _on_size(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        func(args[0], dim) if dim is not None else None               # refuses a dimension that is not there
        return self._shape(args[0]) if dim is None else self.recorder.size(args[0], int(dim))

    def _on_numel(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.recorder.numel(args[0])

    _on_nelement = _on_numel

    def _on_len(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        warn("Using len to get tensor shape might cause the trace to be incorrect: it is a number of Python, the same"
             " for every other input. `tensor.shape[0]` is recorded.")
        return func(*args)

    # --- values that leave
    def _leaving(self, name: str, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        warn(_LEAVING[name] + _FLOW)
        return func(*args, **kwargs)

    # --- indexing, iteration, tensors from numbers
    def _on_getitem(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        with self:
            return indexing.read(self.recorder, *args)

    def _on_setitem(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        with self:
            return indexing.write(self.recorder, *args)

    def _on_tensor(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        warn(f"torch.{func.__name__} results are registered as constants in the trace. That is right for numbers that"
             " are the same at every call; with others the trace goes wrong.")
        made = func(*args, **kwargs)
        with self:
            return lifted(made, "detach")

    def _on_as_tensor(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if isinstance(args[0] if args else kwargs.get("data"), Tensor):
            return func(*args, **kwargs)
        return self._on_tensor(func, args, kwargs)

    def _on_from_numpy(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        warn("torch.from_numpy results are registered as constants in the trace. That is right for arrays that are the"
             " same at every call; with others the trace goes wrong.")
        return func(*args, **kwargs)

    def _on_detach(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return record(self.recorder, func.__name__, args, kwargs, func)

    def _on_detach_(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self._on_detach(func, args, kwargs)


def _is_iteration() -> bool:
    """Whether the op that is called now walks over a tensor: then the program's code does not name it."""
    frame = sys._getframe(2)
    while frame is not None and _is_passed(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and "unbind" not in frame.f_code.co_names
