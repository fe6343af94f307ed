"""torch._lazy.ts_backend: which engine is behind the lazy device."""

from ..lazy.engines import use_native as init

__all__ = ["init"]
