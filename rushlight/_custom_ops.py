"""`torch._custom_ops`: an older name for parts of `rushlight.library`."""

from .library import get_ctx, impl, register_fake as impl_abstract

__all__ = ["get_ctx", "impl", "impl_abstract"]
