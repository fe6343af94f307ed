"""`torch._inductor.config`: settings of the inductor under PyTorch's names and ours.

Reading and writing an attribute reads and writes `rushlight.inductor.settings`. Names of PyTorch's that mean nothing
here may be set, which warns once; others do not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ..inductor import settings


class _Group:
    """`config.triton`, `config.cpp`, `config.trace`: names with a dot."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        return getattr(_config(), f"{self._name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_config(), f"{self._name}.{name}", value)


class _Config(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in ("triton", "cpp", "trace", "cuda", "aot_inductor"):
            return _Group(name)
        own = settings._THEIRS.get(name, name)
        if own in settings._NAMES:
            return getattr(settings, own)
        if name == "trace.enabled":
            return bool(settings.debug_folder)
        if name in self.__dict__.get("_kept", {}):
            return self._kept[name]
        if name in settings.WITHOUT_EFFECT:
            return None
        raise AttributeError(f"torch._inductor.config.{name} does not exist here")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
            return
        if name == "trace.debug_dir":
            value = value or ""
        try:
            changes = settings.resolved({name: value})
        except RuntimeError as error:
            raise AttributeError(f"torch._inductor.config.{name}: {error}") from None
        for own, new in changes.items():
            setattr(settings, own, new)
        if not changes:
            self.__dict__.setdefault("_kept", {})[name] = value


def _config() -> Any:
    return sys.modules[__name__]


def get_config_copy() -> dict[str, Any]:
    """All settings that have an effect, by our names."""
    return settings.current()


@contextmanager
def patch(arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> Iterator[None]:
    """Settings for a block (or, as a decorator, a function): `patch("freezing", True)`, `patch({...})` or
    `patch(freezing=True)`."""
    changes = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
    here = _config()
    before = {name: getattr(here, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(here, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                here._kept.pop(name, None)
            else:
                setattr(here, name, value)


sys.modules[__name__].__class__ = _Config
