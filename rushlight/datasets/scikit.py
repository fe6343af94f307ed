"""Data sets that scikit-learn carries inside its package.

Enters: nothing. Leaves: float32 rows with int64 classes or float32 targets. Refuses: to work without scikit-learn, an
extra of this package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .._C import float32, int64
from ..tensors.interop import from_numpy
from .paired import PairedDataset


def _load(function: str, name: str) -> Any:
    try:
        package = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise ImportError(
            f"datasets.{name} comes from scikit-learn, which is not installed. Run: pip install rushlight[datasets]"
        ) from None
    return getattr(package, function)()


class _ScikitDataset(PairedDataset):
    """One of scikit-learn's: `function` loads it, `is_classes` says what its targets are."""

    function: str
    is_classes = True

    def __init__(self, transform: Callable | None = None, target_transform: Callable | None = None) -> None:
        loaded = _load(self.function, type(self).__name__)
        data = from_numpy(loaded.data).to(float32)
        targets = from_numpy(loaded.target).to(int64 if self.is_classes else float32)
        self.feature_names = [str(name) for name in getattr(loaded, "feature_names", ())]
        self.classes = [str(name) for name in loaded.target_names] if self.is_classes else []
        super().__init__(data, targets, transform, target_transform)


class Digits(_ScikitDataset):
    """1,797 handwritten digits: (8, 8) images of grey levels 0 to 16, labels 0 to 9."""

    function = "load_digits"

    def __init__(self, transform: Callable | None = None, target_transform: Callable | None = None) -> None:
        super().__init__(transform, target_transform)
        self.data = self.data.reshape(-1, 8, 8)


class Iris(_ScikitDataset):
    """150 irises of 3 species: 4 measurements each."""

    function = "load_iris"


class Wine(_ScikitDataset):
    """178 wines of 3 growers: 13 measurements each."""

    function = "load_wine"


class BreastCancer(_ScikitDataset):
    """569 tumours, malignant or benign: 30 measurements each."""

    function = "load_breast_cancer"


class Diabetes(_ScikitDataset):
    """442 patients: 10 scaled measurements each, and the progress of the disease after a year, a number."""

    function = "load_diabetes"
    is_classes = False


class Linnerud(_ScikitDataset):
    """20 men at a fitness club: 3 exercises, and 3 measurements as the target."""

    function = "load_linnerud"
    is_classes = False
