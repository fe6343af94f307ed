"""Names of PyTorch that programs import but that Rushlight does not have yet: they say so when used, not when imported.

Enters: what is missing and why. Leaves: a class, which may stand in annotations, in `isinstance` and as a base class, and
whose construction, call or class-level use raises NotImplementedError with that reason. Nothing here pretends to work.
"""

from __future__ import annotations

from typing import Any


class _Absent(type):
    """The class of absent classes: a touch of a missing class attribute says what is missing."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("_absent_reason") is None:   # a user's subclass of an absent class
            return super().__call__(*args, **kwargs)
        raise NotImplementedError(cls._absent_reason)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise NotImplementedError(f"{cls._absent_reason} (asked for its {name!r})")


def absent(module: str, name: str, reason: str) -> type:
    """A stand-in for `module.name`."""
    return _Absent(name, (), {"__module__": module, "_absent_reason": f"{module}.{name} is not available in Rushlight: {reason}"})


def absent_names(module: str, reason: str, names: str) -> dict[str, type]:
    """Stand-ins for many names (separated by blanks) that are missing for one reason."""
    return {name: absent(module, name, reason) for name in names.split()}
