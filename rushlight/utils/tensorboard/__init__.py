"""TensorBoard's event files, written without TensorBoard: `SummaryWriter`. Reading them needs TensorBoard itself."""

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]


def __getattr__(name: str) -> object:
    if name == "RecordWriter":
        from .records import RecordWriter  # noqa: PLC0415

        return RecordWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
