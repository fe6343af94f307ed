"""torch._lazy.config: settings."""

from ..lazy.settings import get_force_fallback, set_force_fallback, set_reuse_ir

__all__ = ["get_force_fallback", "set_force_fallback", "set_reuse_ir"]
