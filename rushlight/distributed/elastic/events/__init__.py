"""`torch.distributed.elastic.events`: what happens in a job, written to a logger."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, dataclass, field
from enum import StrEnum

__all__ = ["Event", "EventMetadataValue", "EventSource", "get_logging_handler",
           "record"]

EventMetadataValue = str | int | float | bool | None
_HANDLERS = {"null": logging.NullHandler, "console": lambda: logging.StreamHandler(sys.stderr)}


class EventSource(StrEnum):
    """Who an event is of."""

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass
class Event:
    """Something that happened: its name, whose it is, when (milliseconds), and more."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """From JSON."""
        if isinstance(data, Event):
            return data
        row = json.loads(data)
        return Event(row["name"], EventSource[row["source"]], row["timestamp"], row["metadata"])


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """Where events go: "null" or "console"."""
    if destination not in _HANDLERS:
        raise ValueError(f"events: destination must be one of {sorted(_HANDLERS)}, got {destination!r}")
    return _HANDLERS[destination]()


def _logger(destination: str) -> logging.Logger:
    logger = logging.getLogger(f"rushlight.elastic-events-{destination}")
    if not logger.handlers:
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
    return logger


def record(event: Event, destination: str = "null") -> None:
    """Write an event down."""
    _logger(destination).info(event.serialize())
