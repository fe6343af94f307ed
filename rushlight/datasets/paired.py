"""What the data sets here have in common: rows and their targets, each through an optional function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._C import Tensor
from ..utils.data import Dataset


class PairedDataset(Dataset[tuple[Any, Any]]):
    """Pairs (data[i], targets[i]), after `transform` and `target_transform` where they are given.

    `data` and `targets` are tensors with one row per sample; a target without dims is given as a Python number.
    """

    classes: list[str] = []

    def __init__(
        self, data: Tensor, targets: Tensor, transform: Callable | None, target_transform: Callable | None
    ) -> None:
        self.data = data
        self.targets = targets
        self.transform = transform
        self.target_transform = target_transform
        self._numbers = targets.tolist() if targets.ndim == 1 else None

    def __len__(self) -> int:
        return self.data.size(0)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        sample = self.data[index]
        target = self.targets[index] if self._numbers is None else self._numbers[index]
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Numbers of the classes by name."""
        return {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples of shape {tuple(self.data.shape[1:])})"


def find_file(root: str | Path, folders: tuple[str, ...], names: tuple[str, ...]) -> Path:
    """The first of `names` that exists in `root` or one of its `folders`;
    FileNotFoundError says what was looked for."""
    base = Path(root).expanduser()
    for folder in ("", *folders):
        for name in names:
            path = base / folder / name
            if path.is_file():
                return path
    raise FileNotFoundError(
        f"no file {' or '.join(names)} in {base}{' or its folders ' + ', '.join(folders) if folders else ''}. "
        "Nothing is downloaded: put the files there as their authors distribute them."
    )
