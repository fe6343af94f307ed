"""Names of PyTorch that programs import but that Rushlight does not have yet: they say so when used, not when imported.

Enters: what is missing and why. Leaves: a class, which may stand in annotations, in `isinstance` and as a base class,
and whose construction, call or class-level use raises NotImplementedError with that reason.
Which names those are is in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A stand-in for `module.name`; `refusals` makes them from its table."""
    return _Absent(
        name, (), {"__module__": module, "_absent_reason": f"{module}.{name} is not available in Rushlight: {reason}"}
    )


def absent_device(module: str, kind: str, refused: dict[str, type]) -> dict[str, Any]:
    """The names of a device's module on a machine without such a device: questions are answered, seeds accepted,
    use is refused."""

    def named(name: str, answer: object) -> Callable[..., Any]:
        def function(*args: object, **kwargs: object) -> Any:
            return answer

        function.__name__ = function.__qualname__ = name
        function.__module__ = f"{__name__.partition('.')[0]}.{module.partition('.')[2]}"
        function.__doc__ = f"There is no {kind} device: {answer!r}."
        return function

    answered = {"is_available": False, "is_initialized": False, "is_bf16_supported": False, "device_count": 0}
    accepted = dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache"))
    return {**{name: named(name, answer) for name, answer in {**answered, **accepted}.items()}, **refused}
