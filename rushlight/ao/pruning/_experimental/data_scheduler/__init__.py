"""Schedules of a setting of a data sparsifier."""

from .base_data_scheduler import BaseDataScheduler

__all__ = ["BaseDataScheduler"]
