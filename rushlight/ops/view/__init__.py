"""Views: other geometries over the same elements."""

from . import dims, parts, reinterpret, shape

__all__ = ["dims", "parts", "reinterpret", "shape"]
