"""XNNPACK is not here."""

from .flags_of_modules import ContextProp, turn_into


def _refuse(value: object) -> None:
    raise RuntimeError("Assignment not supported")


turn_into(__name__, enabled=ContextProp(lambda: False, _refuse))
