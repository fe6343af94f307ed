"""The engine of quantized kernels: a name that programs choose (base/quantized_engines.py)."""

from ..base import quantized_engines
from .flags_of_modules import ContextProp, turn_into


def _get_qengine_id(qengine: str) -> int:
    """PyTorch's number of an engine."""
    name = qengine or "none"
    if name not in quantized_engines.NAMES:
        raise RuntimeError(f"quantized.engine: expected one of {', '.join(quantized_engines.NAMES)}, got {name}")
    return quantized_engines.NAMES.index(name)


def _get_qengine_str(qengine: int) -> str:
    """The engine of a number."""
    return quantized_engines.NAMES[qengine] if 0 <= qengine < len(quantized_engines.NAMES) else "*undefined"


def _refuse(value: object) -> None:
    raise RuntimeError("Assignment not supported")


turn_into(
    __name__,
    engine=ContextProp(quantized_engines.current, quantized_engines.choose),
    supported_engines=ContextProp(quantized_engines.supported, _refuse),
)
