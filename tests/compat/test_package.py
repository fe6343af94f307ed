"""`torch.package`: models with their code in one archive, written and read by both frameworks."""

from __future__ import annotations

import importlib
import io
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight
from rushlight.package import (
    EmptyMatchError,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `pack_lib` whose `net` needs its `parts`, and imports a module that will not be there."""
    home = tmp_path / "pack_lib"
    home.mkdir()
    (home / "__init__.py").write_text("VALUE = 7\n")
    (home / "parts.py").write_text("import math\n\n\ndef twice(x):\n    return x * 2 + math.floor(0.5)\n")
    (home / "extra.py").write_text("def unused():\n    return 1\n")
    (home / "net.py").write_text(textwrap.dedent("""
        import rushlight.nn as nn
        from .parts import twice
        from . import extra, VALUE

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(2, 2)
                self.register_buffer("top", self.inner.weight.detach()[:1])

            def forward(self, x):
                return twice(self.inner(x)) + VALUE
    """))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield home
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack_lib"]:
        del sys.modules[name]


def written(library: Path) -> tuple[io.BytesIO, rushlight.nn.Module, PackageExporter]:
    net, file = importlib.import_module("pack_lib.net").Net(), io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.mock("pack_lib.extra")
        exporter.intern("pack_lib.**")
        exporter.save_pickle("model", "net.pkl", net)
        exporter.save_text("notes", "a.txt", "hello")
        exporter.save_binary("notes", "b.bin", b"\x00\x01")
    file.seek(0)
    return file, net, exporter


def test_a_model_travels_with_its_code(library: Path) -> None:
    file, net, exporter = written(library)
    assert set(exporter.interned_modules()) == {
        "pack_lib",
        "pack_lib.net",
        "pack_lib.parts",
    } and exporter.mocked_modules() == ["pack_lib.extra"]
    importer = PackageImporter(file)
    read = importer.load_pickle("model", "net.pkl")
    assert type(read) is not type(net) and is_from_package(read) and not is_from_package(net)
    x = rushlight.ones(3, 2)
    assert read(x).tolist() == net(x).tolist()
    read.inner.weight.data.zero_()
    assert read.top.tolist() == [[0.0, 0.0]]     # still a view of one storage
    assert importer.load_text("notes", "a.txt") == "hello" and importer.load_binary("notes", "b.bin") == b"\x00\x01"
    assert importer.import_module("pack_lib").VALUE == 7 and importer.import_module("pack_lib.net").Net is type(read)
    with pytest.raises(NotImplementedError, match="mocked"):
        importer.import_module("pack_lib.extra").unused()
    with pytest.raises(ModuleNotFoundError):
        importer.import_module("json.decoder")
    assert importer.file_structure().has_file("pack_lib/net.py") and "pack_lib" in str(importer.file_structure())


def test_a_package_of_a_package(library: Path) -> None:
    importer = PackageImporter(written(library)[0])
    net, file = importer.load_pickle("model", "net.pkl"), io.BytesIO()
    with PackageExporter(file, [importer, sys_importer]) as exporter:
        exporter.intern("pack_lib.**")
        exporter.save_pickle("model", "again.pkl", net)
    file.seek(0)
    assert (
        PackageImporter(file).load_pickle("model", "again.pkl")(rushlight.ones(1, 2)).tolist()
        == net(rushlight.ones(1, 2)).tolist()
    )


def test_modules_without_a_rule_are_named(library: Path) -> None:
    net = importlib.import_module("pack_lib.net").Net()
    exporter = PackageExporter(io.BytesIO())
    exporter.deny("pack_lib.parts")
    exporter.intern("pack_lib.net")
    exporter.save_pickle("model", "net.pkl", net)
    with pytest.raises(PackagingError, match="pack_lib.parts"):
        exporter.close()
    with pytest.raises(EmptyMatchError, match="nothing"), PackageExporter(io.BytesIO()) as exporter:
        exporter.intern("nothing.**", allow_empty=False)
    with pytest.raises(ImportError, match="math"):
        PackageImporter(written(library)[0], lambda name: name != "math")


def test_packages_of_pytorch_and_for_pytorch() -> None:
    torch = pytest.importorskip("torch")
    theirs = importlib.import_module("torch.package")
    file = io.BytesIO()
    with theirs.PackageExporter(file) as exporter:
        exporter.save_source_string("mine.code", "import math\nVALUE = math.floor(2.5)\n")
        exporter.save_pickle("data", "x.pkl", {"x": torch.arange(4.0), "n": [1, 2]})
    file.seek(0)
    read = PackageImporter(file)
    assert (
        read.load_pickle("data", "x.pkl")["x"].tolist() == [0.0, 1.0, 2.0, 3.0]
        and read.import_module("mine.code").VALUE == 2
    )
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.save_source_string("mine.code", "import math\nVALUE = math.floor(2.5)\n")
        exporter.save_pickle(
            "data", "x.pkl", {"x": rushlight.arange(4.0), "n": [1, 2], "model": rushlight.nn.Linear(2, 2).state_dict()}
        )
    file.seek(0)
    read = theirs.PackageImporter(file)
    loaded = read.load_pickle("data", "x.pkl")
    assert (
        loaded["x"].tolist() == [0.0, 1.0, 2.0, 3.0]
        and loaded["model"]["weight"].shape == (2, 2)
        and read.import_module("mine.code").VALUE == 2
    )
