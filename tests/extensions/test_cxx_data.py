"""torch::data in programs: loaders, workers, transforms, samplers, MNIST's files, and datasets read in chunks."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from rushlight.utils import cpp_extension

pytestmark = pytest.mark.slow  # a compiler runs
PROGRAMS = Path(__file__).with_name("programs")
NAMES = {
    name: re.findall(r'holds\(.*"([^"]+)"\);(?: \})?$', (PROGRAMS / f"{name}.cpp").read_text(), re.M)
    for name in ("data", "chunks")
}


def lines(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    return dict(line.rsplit(": ", 1) for line in done.stdout.splitlines()[:-1])


@pytest.fixture(scope="module")
def said(compiler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    images = bytearray(10000 * 28 * 28)
    images[3 * 784:3 * 784 + 3] = b"\xff\xff\xff"      # the fourth picture has three white points
    (folder / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, 10000, 28, 28) + images)
    labels = bytes(i % 10 for i in range(10000))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 10000) + labels)
    program = cpp_extension.load("loaders", PROGRAMS / "data.cpp", extra_cflags=["-O0"], is_standalone=True,
                                 build_directory=folder / "build")
    return lines(program, folder)


@pytest.fixture(scope="module")
def said_of_chunks(compiler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chunks")
    return lines(cpp_extension.load("chunks", PROGRAMS / "chunks.cpp", extra_cflags=["-O0"], is_standalone=True,
                                    build_directory=folder))


@pytest.mark.parametrize("check", NAMES["data"])
def test_programs(said, check):
    assert said[check] == "ok"


@pytest.mark.parametrize("check", NAMES["chunks"])
def test_chunks(said_of_chunks, check):
    assert said_of_chunks[check] == "ok"


def test_a_cache_of_any_size_keeps_every_example(said_of_chunks):
    assert [said_of_chunks[f"a cache of one batch of {size}"] for size in (1, 5, 7, 40)] == ["ok"] * 4


def test_chunks_come_in_pytorchs_random_order(said_of_chunks):
    # what PyTorch 2.13 prints for this program
    assert said_of_chunks["order"] == (
        "10 13 11 12 14 3 7 6 0 4 2 5 1 8 9 18 29 22 32 24 15 21 17 31 28 26 16 34 33 25 27 20 23 19 30"
    )
