"""Programs in C++ that load scripts, write archives and read pickles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.jit import _archives as archives
from rushlight.utils import cpp_extension

pytestmark = pytest.mark.slow  # a compiler runs
SOURCE = Path(__file__).with_name("programs") / "scripts.cpp"


class Net(rl.nn.Module):
    scale: float
    words: list[str]

    def __init__(self):
        super().__init__()
        self.linear = rl.nn.Linear(3, 4)
        self.register_buffer("offset", rl.ones(4))
        self.scale, self.words = 2.5, ["a", "b"]

    def forward(self, x):
        return self.linear(x) + self.offset

    @rl.jit.export
    def parts(self, x: rl.Tensor, n: int) -> tuple[rl.Tensor, int, str]:
        return x * n, n, "two"

    @rl.jit.export
    def table(self, x: rl.Tensor, scale: float = 1.0) -> dict[str, rl.Tensor]:
        return {"sum": (x * scale).sum()}

    @rl.jit.export
    def rows(self, xs: list[rl.Tensor]) -> list[rl.Tensor]:
        return [x[0] for x in xs]

    @rl.jit.export
    def maybe(self, x: rl.Tensor | None) -> rl.Tensor | None:
        return x


@pytest.fixture(scope="module")
def said(compiler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    rl.jit.script(Net()).save(str(folder / "net.pt"))
    rl.save({"x": rl.arange(4.0), "n": 4}, folder / "from_python.pt")
    program = cpp_extension.load("scripts", SOURCE, extra_cflags=["-O0"], is_standalone=True,
                                 build_directory=folder / "build")
    done = subprocess.run([program, folder], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    return folder, dict(line.split(": ") for line in done.stdout.splitlines()[:-1])


@pytest.mark.parametrize("check", re.findall(r'holds\(.*"([^"]+)"\);$', SOURCE.read_text(), re.M))
def test_programs(said, check):
    assert said[1][check] == "ok"


def test_python_reads_what_programs_write(said):
    folder, _ = said
    values = rl.load(folder / "values.pt", weights_only=True)
    assert values["tensor"].tolist() == [1, 1] and values["list"] == [1, 2]
    tensor = rl.jit.load(folder / "tensor.pt")
    assert [(name, t.tolist()) for name, t in tensor.named_parameters()] == [("0", [[0, 1, 2], [3, 4, 5]])]
    archive = rl.jit.load(folder / "archive.pt")
    assert archive.inner.steps == 3 and dict(archive.named_buffers())["inner.mean"].item() == 2.5
    assert rl.jit.load(folder / "saved.pt").scale == 3.0


def test_pytorch_reads_what_programs_write(said, tmp_path):
    torch = pytest.importorskip("torch")
    folder, _ = said
    assert torch.load(folder / "values.pt", weights_only=True)["tensor"].tolist() == [1, 1]
    archive = torch.jit.load(folder / "archive.pt")
    assert archive.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and archive.inner.mean.item() == 2.5
    assert torch.jit.load(folder / "saved.pt").scale == 3.0


def test_names_of_archives_are_given_once():
    made = archives.make_module("__torch__.Module")
    archives.put(made, "n", 1, "attribute")
    with pytest.raises(RuntimeError, match="'n'"):
        archives.put(made, "n", 2, "attribute")
    assert archives.find(made, "m") is None and archives.names(made) == ["n"]
