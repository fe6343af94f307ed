"""The record of an installed package `torch`, for code that reads versions without importing."""

from __future__ import annotations

from importlib.metadata import Distribution

from .. import version

SERVED = "torch"


class TorchDistribution(Distribution):
    """The installed-package record of `torch`, for code that reads versions without importing."""

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {SERVED}\nVersion: {version.follows}\nSummary: Served by Rushlight\n"
        return f"{SERVED}\n" if filename == "top_level.txt" else None

    def locate_file(self, path: object) -> object:
        raise FileNotFoundError(f"{path}: the distribution {SERVED!r} is served by Rushlight and has no files")
