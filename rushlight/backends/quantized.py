"""Engines of quantized kernels. There are none yet; "none" is the only engine."""

from .flags_of_modules import ContextProp, turn_into

_NAMES = ("none", "fbgemm", "qnnpack", "onednn", "x86")


def _set_engine(value: str) -> None:
    if value not in (*_NAMES, "", None):
        raise RuntimeError(f"quantized.engine: {value} is not a valid value")
    if value not in ("none", "", None):
        raise RuntimeError(f"quantized engine {value} is not supported")


def _refuse(value: object) -> None:
    raise RuntimeError("Assignment not supported")


turn_into(
    __name__, engine=ContextProp(lambda: "none", _set_engine), supported_engines=ContextProp(lambda: ["none"], _refuse)
)
