"""Views: other geometries over the same elements."""

from . import dims, parts, reinterpret, shape  # isort: skip
from . import copies  # isort: skip  (derived from the views above)

__all__ = ["copies", "dims", "parts", "reinterpret", "shape"]
