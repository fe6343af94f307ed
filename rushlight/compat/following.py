"""What a dotted name of PyTorch leads to here, part by part: modules, classes, methods, ops, dtypes, namespaces.

Enters: a dotted name that begins with `torch`. Leaves: the object, or MISSING; and why it refuses, where it does. A
part of a class may be an annotation alone (`torch.nn.Linear.weight`): its objects have it. Refuses: to take a name for
there because something before it is.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from ..base import late, refusals
from .audit import MISSING


def follow(full: str) -> tuple[object, str | None]:
    """What `full` is here, and why it refuses; the object is MISSING where there is none."""
    found: object = late.provided("package")
    path, known = "rushlight", "torch"
    for part in full.split(".")[1:]:
        path, known = f"{path}.{part}", f"{known}.{part}"
        owner, found = found, part_of(found, part, path)
        reason = refusals.reason_of(known) or (
            vars(found).get("_absent_reason") if isinstance(found, type) else None)
        if reason is not None:      # what is below a name that refuses is asked of nobody
            return found, reason
        if found is MISSING and not is_annotated(owner, part):
            return MISSING, None
    return (None if found is MISSING else found), None


def part_of(owner: object, part: str, path: str) -> object:
    """An attribute, or a module that is not imported yet."""
    try:
        return getattr(owner, part)
    except Exception:   # noqa: BLE001 - names that are made when they are asked for fail in their own ways
        if not isinstance(owner, ModuleType):
            return MISSING
    try:
        return importlib.import_module(path)
    except Exception:   # noqa: BLE001 - a module whose requirements are not met is not there
        return MISSING


def is_annotated(owner: object, part: str) -> bool:
    """Whether a class says that its objects have such an attribute."""
    return isinstance(owner, type) and any(part in vars(base).get("__annotations__", ()) for base in owner.__mro__)


__all__ = ["follow"]
