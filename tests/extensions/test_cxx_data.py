"""torch::data in a program: loaders, workers, transforms, samplers, MNIST's files."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from rushlight.utils import cpp_extension

pytestmark = pytest.mark.slow  # a compiler runs
SOURCE = Path(__file__).with_name("programs") / "data.cpp"


@pytest.fixture(scope="module")
def said(compiler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    images = bytearray(10000 * 28 * 28)
    images[3 * 784:3 * 784 + 3] = b"\xff\xff\xff"      # the fourth picture has three white points
    (folder / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, 10000, 28, 28) + images)
    labels = bytes(i % 10 for i in range(10000))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 10000) + labels)
    program = cpp_extension.load("loaders", SOURCE, extra_cflags=["-O0"], is_standalone=True,
                                 build_directory=folder / "build")
    done = subprocess.run([program, folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines()[:-1])


@pytest.mark.parametrize("check", re.findall(r'holds\(.*"([^"]+)"\);$', SOURCE.read_text(), re.M))
def test_programs(said, check):
    assert said[check] == "ok"
