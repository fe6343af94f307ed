"""Packages whose names arrive late behave as if everything had been imported: attributes, `import *`, `dir`,
pickles."""

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
            if (
                isinstance(item, type)
                and issubclass(item, nn.Module)
                and item.__module__ == module.__name__
                and name[0] != "_"
            ):
                assert name in ("Module", "NonDynamicallyQuantizableLinear") or getattr(nn, name) is item, name


def test_a_function_named_as_its_file_wins() -> None:
    assert callable(nn.utils.remove_weight_norm) and callable(nn.utils.weight_norm) and callable(nn.utils.spectral_norm)


def test_layers_pickle_by_the_file_that_has_them() -> None:
    assert pickle.loads(pickle.dumps(nn.Linear)) is nn.Linear and nn.Linear.__module__ == "rushlight.nn.modules.linear"
    assert nn.modules.activation.MultiheadAttention is nn.MultiheadAttention
    assert rl.nn.modules.linear.Linear is nn.Linear


def test_modules_that_moved_are_found_by_their_former_name():
    """Pickles name modules by the place they had when they were written."""

    import rushlight
    from rushlight.torch_names import home_rows

    for before, now in home_rows.FORMER.items():
        module, found = (importlib.import_module(f"rushlight.{name}") for name in (now, before))
        assert found is module and module.__spec__.name == f"rushlight.{now}"
    written = (
        b"\x80\x04\x8c\x0frushlight.shape\x94\x8c\t_constant\x94\x93\x94\x8c\x11contiguous_format\x94\x85\x94R\x94."
    )
    assert pickle.loads(written) is rushlight.contiguous_format
    # no module took their place
    assert rushlight.tensor(1).item() == 1 and isinstance(rushlight.float32, rushlight.dtype)


def test_roles_are_played():
    """Every role in wiring.py leads to something, and an unknown one says where to register it."""

    from rushlight.base import late

    for role in late._providers:
        assert (late.provided(role) is not None and late.is_loaded(role)) or role == "package"
    with pytest.raises(LookupError, match="wiring.py"):
        late.provided("nobody's role")
    assert not late.is_loaded("nobody's role")
