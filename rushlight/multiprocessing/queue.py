"""Queues under PyTorch's names: Python's own, which pickle tensors by what `sharing` registered."""

from multiprocessing.connection import Connection as ConnectionWrapper
from multiprocessing.queues import Queue, SimpleQueue

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]
