"""Small real data sets that need no network: scikit-learn's (an extra), and readers for MNIST and CIFAR files.

Enters: nothing, or a folder with the files as their authors distribute them. Leaves: map-style datasets of
(tensor, target) pairs. Refuses: files that are missing, truncated or not what their name says. Nothing is downloaded,
and no pickle found in a folder is executed.
"""

from .cifar import CIFAR10, CIFAR100
from .idx import KMNIST, MNIST, FashionMNIST, read_idx
from .scikit import BreastCancer, Diabetes, Digits, Iris, Linnerud, Wine

__all__ = [
    "BreastCancer",
    "CIFAR10",
    "CIFAR100",
    "Diabetes",
    "Digits",
    "FashionMNIST",
    "Iris",
    "KMNIST",
    "Linnerud",
    "MNIST",
    "Wine",
    "read_idx",
]
