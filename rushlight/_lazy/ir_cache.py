"""torch._lazy.ir_cache: what was compiled."""

from ..lazy.cache import dump, reset

__all__ = ["dump", "reset"]
