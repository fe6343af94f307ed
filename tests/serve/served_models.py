"""Models that the tests of this folder serve.

Enters: a folder. Leaves: files in it: a program of two inputs with a free first size, one that is slow, one of every
type of element, archives with handlers. Refuses: nothing.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.export import Dim, export, save

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


class Mixed(rl.nn.Module):
    """Two inputs, a product and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = rl.nn.Linear(4, 3)

    def forward(self, left: Any, right: Any) -> Any:
        return {"scores": self.layer(left * right), "sum": left + right}


class Picked(rl.nn.Module):
    """Rows of a table: numbers beyond it fail."""

    def __init__(self) -> None:
        super().__init__()
        self.table = rl.nn.Embedding(10, 3)

    def forward(self, words: Any) -> Any:
        return self.table(words)


class Same(rl.nn.Module):
    """What comes in, of every type."""

    def forward(self, *values: Any) -> Any:
        return tuple(~v if v.dtype is rl.bool else v + 1 for v in values)


def mixed(folder: Path) -> tuple[Path, Any]:
    """The program, and the module it was made of."""
    rl.manual_seed(0)
    module, rows = Mixed().eval(), Dim("rows")
    given = (rl.randn(3, 4), rl.randn(3, 4))
    save(export(module, given, dynamic_shapes=({0: rows}, {0: rows})), folder / "mixed.pt2")
    return folder / "mixed.pt2", module


def picked(folder: Path) -> tuple[Path, Any]:
    rl.manual_seed(1)
    module = Picked().eval()
    given = (rl.ones(3, 2, dtype=rl.int64),)
    save(export(module, given, dynamic_shapes=({0: Dim("rows")},)), folder / "picked.pt2")
    return folder / "picked.pt2", module


def typed(folder: Path) -> Path:
    """One fixed shape for each type."""
    given = tuple(rl.zeros(2, 2, dtype=getattr(rl, name)) for name in TYPES)
    save(export(Same().eval(), given), folder / "typed.pt2")
    return folder / "typed.pt2"


def archive(folder: Path, name: str, handler: str, *, version: str = "1.0", more: dict[str, Any] | None = None,
            model: dict[str, Any] | None = None) -> Path:
    """An archive as `torch-model-archiver` lays it out."""
    path = folder / f"{name}.mar"
    said = {"createdOn": "01/01/2026 00:00:00", "runtime": "python", "archiverVersion": "0.12.0",
            "model": {"modelName": name, "handler": "handler.py", "modelVersion": version, **(model or {})}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("MAR-INF/MANIFEST.json", json.dumps(said))
        file.writestr("handler.py", handler)
        for member, content in (more or {}).items():
            file.writestr(member, content)
    return path
