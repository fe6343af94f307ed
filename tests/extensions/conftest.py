"""What builds of extensions need: a compiler, ninja or not, and pybind11."""

from __future__ import annotations

import shlex
import shutil

import pytest

from rushlight.cxx import build


@pytest.fixture(scope="session")
def compiler() -> str:
    """The C++ compiler; tests that need one are skipped where there is none."""
    command = build.cxx_compiler()
    if shutil.which(shlex.split(command)[0]) is None:
        pytest.skip(f"no C++ compiler {command} here")
    pytest.importorskip("pybind11")
    return command
