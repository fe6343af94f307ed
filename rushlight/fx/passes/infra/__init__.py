"""The frame passes stand in: a base class, a manager that orders them, and a partitioner."""

from . import pass_manager  # noqa: F401
