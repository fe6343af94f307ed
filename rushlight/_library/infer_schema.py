"""`torch._library.infer_schema`: a schema from a function's annotations."""

from ..library.schemas import infer_schema

__all__ = ["infer_schema"]
