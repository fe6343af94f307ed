"""Packages whose names arrive late behave as if everything had been imported: attributes, `import *`, `dir`, pickles."""

from __future__ import annotations

import importlib
import pickle
import pkgutil

import pytest

import rushlight as rl
from rushlight import nn


@pytest.mark.parametrize("name", ["nn", "nn.modules", "nn.utils", "optim", "autograd", "op"])
def test_every_listed_name_is_there(name: str) -> None:
    package = importlib.import_module(f"rushlight.{name}")
    for known in (*dir(package), *getattr(package, "__all__", ())):
        assert getattr(package, known, package) is not package, known
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        package.no_such_name  # noqa: B018


def test_star_import_gives_layers_and_files() -> None:
    found: dict = {}
    exec("from rushlight.nn import *", found)
    assert found["Linear"] is nn.Linear and found["functional"] is nn.functional and found["init"] is nn.init


def test_every_layer_is_listed() -> None:
    for info in pkgutil.iter_modules(nn.modules.__path__):
        module = importlib.import_module(f"rushlight.nn.modules.{info.name}")
        for name, item in vars(module).items():
            if isinstance(item, type) and issubclass(item, nn.Module) and item.__module__ == module.__name__ and name[0] != "_":
                assert name in ("Module", "NonDynamicallyQuantizableLinear") or getattr(nn, name) is item, name


def test_a_function_named_as_its_file_wins() -> None:
    assert callable(nn.utils.remove_weight_norm) and callable(nn.utils.weight_norm) and callable(nn.utils.spectral_norm)


def test_layers_pickle_by_the_file_that_has_them() -> None:
    assert pickle.loads(pickle.dumps(nn.Linear)) is nn.Linear and nn.Linear.__module__ == "rushlight.nn.modules.linear"
    assert nn.modules.activation.MultiheadAttention is nn.MultiheadAttention
    assert rl.nn.modules.linear.Linear is nn.Linear
