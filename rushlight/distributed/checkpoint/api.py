"""`torch.distributed.checkpoint.api`: what is raised on every rank when one of them failed."""

from __future__ import annotations

import traceback

__all__ = ["CheckpointException"]

WRAPPED_EXCEPTION = tuple[BaseException, list[str]]


class CheckpointException(BaseException):
    """Ranks failed while a checkpoint was saved or loaded: `failures` has their errors by rank."""

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """(error, lines of its traceback) by rank."""
        return self._failures

    def __str__(self) -> str:
        parts = [f"CheckpointException ranks:{sorted(self._failures)} (step {self.args[0]!r})\n"]
        for rank, (error, trace) in self._failures.items():
            parts += [f"on rank {rank}:\n", *trace, *traceback.format_exception_only(error)]
        return "".join(parts)
