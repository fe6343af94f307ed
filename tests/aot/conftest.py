"""What tests of the cache on disk share."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.dispatch import table
from rushlight.dynamo.record import marks
from rushlight.inductor import settings


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs and frames are kept, for a program that says nothing of how functions are to be captured and registers no
    rules over our ops, as other tests do."""
    monkeypatch.setattr(settings, "cache_graphs", True)
    monkeypatch.setattr(marks, "_weak", weakref.WeakKeyDictionary())
    monkeypatch.setattr(marks, "_strong", {})
    monkeypatch.setattr(marks, "substitutes", {})
    for registered in ("kernels", "fallbacks", "python_rules"):
        monkeypatch.setattr(table, registered, type(getattr(table, registered))())
    yield
    rl.compiler.reset()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeping: None) -> Path:
    """Where they are kept: an empty folder."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
