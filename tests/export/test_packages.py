"""Packages of compiled programs: written, loaded in another process with their code, exchanged constants, refusals."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import aot_compile, aoti_compile_and_package, aoti_load_package
from rushlight.export import Dim, export
from rushlight.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package
from rushlight.export.pt2_archive._package import load_pt2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("calls", rl.zeros(()))

    def forward(self, x, *, scale):
        self.calls.add_(1)
        return {"y": self.last(self.first(x).relu()) * scale, "n": self.calls.clone()}


def package(path):
    """A package at `path`, and the model in it."""
    rl.manual_seed(0)
    model, x = Net().eval(), rl.randn(4, 8)
    kwargs = {"scale": rl.tensor(2.0)}
    program = export(model, (x,), kwargs, dynamic_shapes={"x": {0: Dim("b", min=1, max=64)}, "scale": None})
    told = {"aot_inductor.metadata": {"who": "me"}}
    assert aoti_compile_and_package(program, package_path=path, inductor_configs=told) == path
    return model


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("packages") / "net.pt2")
    return package(path), path


def test_a_package_runs_as_the_module_did(packed):
    model, path = packed
    compiled = aoti_load_package(path)
    scale = rl.tensor(3.0)
    for n, size in enumerate((4, 1, 64, 17), 1):
        x = rl.randn(size, 8)
        found = compiled(x, scale=scale)
        assert rl.allclose(found["y"], model.last(model.first(x).relu()) * 3, atol=1e-5)
        assert found["n"].item() == n and not found["y"].requires_grad
    assert model.calls.item() == 0        # neither packaging nor running touches the model
    assert compiled.get_metadata()["who"] == "me" and compiled.get_metadata()["AOTI_DEVICE_KEY"] == "cpu"
    assert list(compiled.call_spec.in_spec.child(1).context) == ["scale"]


PROBE = """
import sys, json
import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache
compiled = rl._inductor.aoti_load_package(sys.argv[1])
x = rl.arange(32.0).reshape(4, 8) / 32
y = compiled(x, scale=rl.tensor(1.0))["y"]
print(json.dumps({"y": y.tolist(), "counts": dict(graph_cache.counts)}))
"""


MAKE = "import sys; from tests.export.test_packages import package; package(sys.argv[1])"


def run_alone(program, path, cache):
    """What a program prints in a process of its own, with an empty cache."""
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "RUSHLIGHT_CACHE": str(cache)}
    run = subprocess.run([sys.executable, "-c", program, path], env=env, capture_output=True, text=True, timeout=300,
                         check=False, cwd=root)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_another_process_finds_the_code_in_the_package(packed, tmp_path):
    """Both start alike: code is for the settings it was made with, which other tests may have changed here."""
    model, path = packed[0], str(tmp_path / "net.pt2")
    run_alone(MAKE, path, tmp_path / "first")
    told = json.loads(run_alone(PROBE, path, tmp_path / "second"))
    assert told["counts"].get("found") and not told["counts"].get("missing")
    x = rl.arange(32.0).reshape(4, 8) / 32
    assert rl.allclose(rl.tensor(told["y"]), model.last(model.first(x).relu()), atol=1e-5)


def test_constants_are_exchanged(packed):
    model, path = packed
    compiled, x, one = aoti_load_package(path), rl.randn(4, 8), rl.tensor(1.0)
    names = compiled.get_constant_fqns()
    assert sorted(names) == ["calls", "first.bias", "first.weight", "last.bias", "last.weight"]
    other = {n: rl.randn_like(t) for n, t in model.state_dict().items()}
    compiled.load_constants(other, check_full_update=True)
    wanted = (x @ other["first.weight"].T + other["first.bias"]).relu() @ other["last.weight"].T + other["last.bias"]
    assert rl.allclose(compiled(x, scale=one)["y"], wanted, atol=1e-4)
    own = rl.zeros(3)
    compiled.load_constants({"last.weight": rl.zeros(3, 16)}, check_full_update=False)
    compiled.load_constants({"last.bias": own}, check_full_update=False, user_managed=True)
    assert rl.equal(compiled(x, scale=one)["y"], rl.zeros(4, 3))
    own.fill_(5)
    assert rl.equal(compiled(x, scale=one)["y"], rl.full((4, 3), 5.0))
    for given, full, words in [
        ({"first.bias": rl.zeros(16)}, True, "'first.weight', 'last.weight'|are not given"),
        ({"nope": rl.zeros(1)}, False, r"no \['nope'\]"),
        ({"first.bias": rl.zeros(4)}, False, r"sizes \(16,\), got .*sizes \(4,\)"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            compiled.load_constants(given, check_full_update=full)


def test_wrong_arguments_are_refused(packed):
    compiled = aoti_load_package(packed[1])
    one = rl.tensor(1.0)
    with pytest.raises(RuntimeError, match=r"x\.size\(0\) must be at least 1 and at most 64, got 65"):
        compiled(rl.zeros(65, 8), scale=one)
    with pytest.raises(RuntimeError, match=r"x\.size\(1\)"):
        compiled(rl.zeros(4, 9), scale=one)
    with pytest.raises(ValueError, match="by name"):
        compiled(rl.zeros(4, 8), one)


def test_damaged_and_foreign_packages_are_refused(packed, tmp_path):
    path = packed[1]
    with zipfile.ZipFile(path) as archive:
        records = {n: archive.read(n) for n in archive.namelist()}
    for part in ("model.code", "data/weights/weight_0"):
        broken = tmp_path / "broken.pt2"
        with zipfile.ZipFile(broken, "w", zipfile.ZIP_STORED) as archive:
            for name, data in records.items():
                archive.writestr(name, data[:-1] + bytes([data[-1] ^ 1]) if name.endswith(part) else data)
        with pytest.raises(RuntimeError, match="damaged"):
            aoti_load_package(str(broken))
    foreign = tmp_path / "foreign.pt2"
    with PT2ArchiveWriter(str(foreign)) as writer:
        writer.write_bytes("data/aotinductor/model/model.so", b"\x7fELF")
    with pytest.raises(RuntimeError, match=r"model\.so, which is not run"):
        aoti_load_package(str(foreign))
    (tmp_path / "junk.pt2").write_bytes(b"junk")
    with pytest.raises(RuntimeError):
        aoti_load_package(str(tmp_path / "junk.pt2"))
    with pytest.raises(RuntimeError, match="no file"):
        aoti_load_package(str(tmp_path / "none.pt2"))


def test_what_is_asked_for_is_checked(packed):
    program = export(nn.Linear(2, 2), (rl.ones(1, 2),))
    with pytest.raises(AssertionError, match="end with .pt2"):
        aoti_compile_and_package(program, package_path="model.so")
    with pytest.raises(AssertionError, match="ExportedProgram"):
        aoti_compile_and_package(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="no_such_option"):
        aoti_compile_and_package(program, inductor_configs={"no_such_option": 1})
    program._example_inputs = None
    with pytest.raises(RuntimeError, match="example inputs"):
        aoti_compile_and_package(program)


def test_code_by_another_version_is_made_anew(packed, tmp_path, monkeypatch):
    from rushlight.codegen.stored import artifacts

    monkeypatch.setattr(artifacts, "generator_identity", lambda: "another")
    with pytest.warns(UserWarning, match="made anew: they were made by another version"):
        compiled = aoti_load_package(packed[1])
    assert compiled(rl.ones(2, 8), scale=rl.tensor(1.0))["y"].shape == (2, 3)


def test_packages_are_programs_too(packed):
    """PyTorch reads the program in a package; so does load_pt2."""
    model, path = packed
    contents = load_pt2(path)
    x = rl.randn(3, 8)
    wanted = model.last(model.first(x).relu())
    assert list(contents.exported_programs) == list(contents.aoti_runners) == ["model"]
    assert rl.allclose(contents.aoti_runners["model"](x, scale=rl.tensor(1.0))["y"], wanted, atol=1e-5)
    pytorch = pytest.importorskip("torch")
    theirs = pytorch.export.load(path).module()
    found = theirs(pytorch.tensor(x.tolist()), scale=pytorch.tensor(1.0))["y"]
    assert rl.allclose(rl.tensor(found.tolist()), wanted, atol=1e-5)


def test_modules_and_streams(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), rl.randn(2, 4)
    assert rl.allclose(aoti_load_package(aot_compile(model, (x,)))(x), model(x), atol=1e-6)
    stream = io.BytesIO()
    aoti_compile_and_package(export(model, (x,)), package_path=stream)
    stream.seek(0)
    assert rl.allclose(aoti_load_package(stream)(x), model(x), atol=1e-6)


def check_records(reader_of, path):
    with reader_of(path) as reader:
        assert reader.read_string("extra/a") == "text" and reader.read_bytes("extra/b") == b"\0\1"
        assert reader.read_string("extra/more/inner/f.txt") == "hi" and reader.archive_version() == 0


def test_records_of_archives(tmp_path):
    path = str(tmp_path / "a.pt2")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "f.txt").write_text("hi")
    with PT2ArchiveWriter(path) as writer:
        writer.write_string("extra/a", "text")
        writer.write_bytes("extra/b", b"\0\1")
        writer.write_folder("extra/more", str(tmp_path / "folder"))
        assert writer.has_record("extra/a") and writer.count_prefix("extra/") == 3
    assert is_pt2_package(path) and not is_pt2_package(b"no")
    check_records(PT2ArchiveReader, path)
    assert set(PT2ArchiveReader(path).get_file_names()) >= {"extra/a", "archive_format"}
    check_records(pytest.importorskip("torch.export.pt2_archive").PT2ArchiveReader, path)
