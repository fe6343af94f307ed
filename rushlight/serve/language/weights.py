"""The tensors of a folder's safetensors files, by name.

Enters: a folder with model.safetensors, or with model.safetensors.index.json and the files it names. Leaves: `Weights`,
which reads a tensor when it is asked for. Refuses: files outside the folder, names that no file has, and shapes that
are not those the model's configuration asks for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from ...serialization.tensor_files import TensorFile
from .config import read_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


class Weights:
    """Tensors by name, within a `with`."""

    def __init__(self, folder: str) -> None:
        self.folder, self.stack = folder, contextlib.ExitStack()
        self.files: dict[str, TensorFile] = {}
        self.homes: dict[str, str] = {}

    def __enter__(self) -> Weights:
        names = [WHOLE] if os.path.isfile(os.path.join(self.folder, WHOLE)) else self.shards()
        try:
            for name in names:
                file = self.files[name] = self.stack.enter_context(TensorFile(os.path.join(self.folder, name)))
                self.homes.update(dict.fromkeys(file.header, name))
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stack.close()

    def shards(self) -> list[str]:
        """The files that the index names, each once."""
        places = read_json(self.folder, INDEX).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise FileNotFoundError(f"{self.folder}: expected {WHOLE} or {INDEX}, got neither")
        names = sorted({str(name) for name in places.values()})
        outside = [name for name in names if os.path.basename(name) != name or name in ("", ".", "..")]
        if outside:
            raise ValueError(f"{self.folder}/{INDEX}: expected names of files in the folder, got {outside[0]!r}")
        return names

    def __contains__(self, name: str) -> bool:
        return name in self.homes

    def take(self, name: str, shape: Sequence[int]) -> Any:
        """A tensor that must have this shape."""
        if name not in self.homes:
            raise ValueError(f"{self.folder}: the files have no tensor {name!r}, which the configuration asks for")
        found = self.files[self.homes[name]].read(name)
        if tuple(found.shape) != tuple(shape):
            raise ValueError(f"{self.folder}: expected {name} of shape {list(shape)}, got {list(found.shape)}")
        if not found.dtype.is_floating_point or found.dtype.itemsize < 2:
            raise ValueError(
                f"{self.folder}: expected {name} of a floating type of 16 bits at least, got {found.dtype.name};"
                " quantized weights are not read here"
            )
        return found
