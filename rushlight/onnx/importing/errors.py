"""Messages of several modules about files that cannot be read."""

from __future__ import annotations


def damaged(why: str) -> ValueError:
    """The error about bytes that are no model."""
    return ValueError(f"onnx: the file is damaged, or no ONNX model: {why}. Get it again from where it came.")
