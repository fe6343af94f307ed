"""Running models with ONNX Runtime, where it is installed.

Enters: a model's bytes (or a file's name), and tensors. Leaves: tensors. Inputs are read where they lie; results are
memory of the runtime's own. Refuses to run without `onnxruntime`.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from typing import Any

from .. import _C
from ..tensors.interop import from_numpy
from .model import LARGEST_FILE, Model, element_type


def optional(package: str, what_for: str) -> Any:
    """A package that is not needed but for this."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        top = package.partition(".")[0]
        raise ImportError(f"{what_for} needs the package {top!r}, which is not installed: pip install {top}") from error


def is_installed() -> bool:
    """Whether ONNX Runtime is here."""
    return importlib.util.find_spec("onnxruntime") is not None


def session(model: str | bytes, threads: int | None = None) -> Any:
    """An inference session on the CPU, with as many threads as ops here have."""
    runtime = optional("onnxruntime", "running ONNX models")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = _C.get_num_threads() if threads is None else threads
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def session_of(model: Model, folder: str | None = None) -> Any:
    """A session for a model that is in memory; one over 2 GB goes through a file in `folder`."""
    if model.size() < LARGEST_FILE - 2**24:
        return session(model.bytes())
    assert folder is not None, "a large model needs a folder to lie in"
    path = f"{folder}/model.onnx"
    model.save(path, external_data=True)
    return session(path)


def run(made: Any, inputs: Sequence[Any], outputs: Sequence[str] | None = None) -> list[Any]:
    """What a session makes of tensors (and integers), in the order of its inputs."""
    names = [i.name for i in made.get_inputs()]
    if len(names) != len(inputs):
        raise ValueError(f"onnx: the model takes {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
    if any(_is_unusual(x) for x in inputs) or any(o.type in _UNUSUAL for o in made.get_outputs()):
        return _run_bits(made, names, inputs, outputs)
    feeds = {name: _array(name, value) for name, value in zip(names, inputs, strict=True)}
    return [_tensor(array) for array in made.run(list(outputs) if outputs else None, feeds)]


# Types that numpy does not have, as the runtime calls them: those here, and what holds their bits.
_UNUSUAL = {"tensor(bfloat16)": (_C.bfloat16, _C.int16), "tensor(float8e4m3fn)": (_C.float8_e4m3fn, _C.uint8),
            "tensor(float8e5m2)": (_C.float8_e5m2, _C.uint8), "tensor(float8e4m3fnuz)": (_C.float8_e4m3fnuz, _C.uint8),
            "tensor(float8e5m2fnuz)": (_C.float8_e5m2fnuz, _C.uint8)}
_BITS = {dtype.code: bits for dtype, bits in _UNUSUAL.values()}


def _is_unusual(value: Any) -> bool:
    return isinstance(value, _C.Tensor) and value.dtype.code in _BITS


def _run_bits(made: Any, names: Sequence[str], inputs: Sequence[Any], outputs: Sequence[str] | None) -> list[Any]:
    """The same with types that numpy does not have: their bits are handed over."""
    runtime = optional("onnxruntime", "running ONNX models")
    feeds = {}
    for name, value in zip(names, inputs, strict=True):
        if _is_unusual(value):
            bits = value.detach().cpu().contiguous().view(_BITS[value.dtype.code]).numpy()
            feeds[name] = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element_type(value.dtype))
        else:
            feeds[name] = runtime.OrtValue.ortvalue_from_numpy(_array(name, value))
    wanted = list(outputs) if outputs else [o.name for o in made.get_outputs()]
    return [_of_ort_value(v) for v in made.run_with_ort_values(wanted, feeds)]


def _of_ort_value(value: Any) -> Any:
    import numpy  # noqa: PLC0415

    if value.data_type() not in _UNUSUAL:
        return _tensor(value.numpy())
    dtype, bits = _UNUSUAL[value.data_type()]
    shape = tuple(value.shape())
    memory = numpy.empty(shape, numpy.int16 if bits is _C.int16 else numpy.uint8)
    if memory.size:
        ctypes.memmove(memory.ctypes.data, value.data_ptr(), memory.nbytes)
    return from_numpy(memory).view(dtype)


def _array(name: str, value: Any) -> Any:
    if not isinstance(value, _C.Tensor):
        import numpy  # noqa: PLC0415 - loaded when a model runs

        return numpy.asarray(value, numpy.int64)
    return value.detach().cpu().contiguous().numpy()


def _tensor(array: Any) -> Any:
    import numpy  # noqa: PLC0415

    return from_numpy(array if isinstance(array, numpy.ndarray) else numpy.asarray(array))
