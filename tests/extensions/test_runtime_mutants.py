"""References that the C++ runtime loses, gives back twice or never takes: each mistake, made on purpose in
rushlight/cxx/runtime, is caught by programs/use_owned.py.

The extension is compiled once; a mutant's own file stands before the archive that all extensions are linked with.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from rushlight.cxx import build

from . import building
from .test_ownership_mutants import Mutant

pytestmark = pytest.mark.slow     # a compiler runs
MUTANTS = {
    "a handle that ends keeps its reference": Mutant("tensor", "  Py_DECREF(static_cast<PyObject*>(object));\n", ""),
    "a handle that ends gives its reference back twice": Mutant(
        "tensor", "  Py_DECREF(static_cast<PyObject*>(object));\n",
        "  Py_DECREF(static_cast<PyObject*>(object)), Py_DECREF(static_cast<PyObject*>(object));\n"),
    "a handle takes no reference": Mutant(
        "tensor", "Py_XINCREF(static_cast<PyObject*>(object)); return stolen(object);", "return stolen(object);"),
    "an exception outlives its error": Mutant("interpreter", "      Py_DECREF(static_cast<PyObject*>(p));\n", ""),
    "an exception is given to Python without a reference": Mutant("interpreter", "      Py_INCREF(value);\n", ""),
    "an op's own exception is lost": Mutant(
        "interpreter", "if (auto* value = static_cast<PyObject*>(ours->python_value())) {",
        "if (auto* value = static_cast<PyObject*>(nullptr)) {"),
    "what a kernel throws is lost": Mutant("library", "    set_current_error();\n", "    Py_RETURN_NONE;\n"),
    "arguments of a called op stay": Mutant(
        "values", "~References() { for (PyObject* value : values) Py_XDECREF(value); }", "~References() {}"),
}


def compiled(compiler: str, source: Path, target: Path, flags: tuple[str, ...] = ()) -> Path:
    folders = (build.HEADERS, build.SOURCES, build.runtime_folder() / "include", *build.python_includes(),
               build.require_pybind11())
    places = (f'-DRUSHLIGHT_HOME="{build.PACKAGE.parent}"', f'-DRUSHLIGHT_PYTHON="{sys.executable}"')
    done = subprocess.run(
        [*shlex.split(compiler), "-std=c++17", "-O0", "-fPIC", "-w", "-fvisibility=hidden", *places, *flags,
         *(f"-I{folder}" for folder in folders), "-c", str(source), "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return target


@pytest.fixture(scope="module")
def extension(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("owned")
    return compiled(compiler, building.PROGRAMS / "owned.cpp", folder / "owned.o", ("-DTORCH_EXTENSION_NAME=owned",))


def complaints(compiler: str, objects: list[Path], folder: Path) -> str:
    """What the checks say of an extension linked of these objects and the runtime."""
    module = folder / f"owned{sysconfig.get_config_var('EXT_SUFFIX')}"
    archive = build.runtime_folder() / "lib" / f"lib{build.LIBRARY}.a"
    subprocess.run([*shlex.split(compiler), "-shared", *map(str, objects), str(archive), "-pthread", "-o", str(module)],
                   check=True, capture_output=True, timeout=120)
    done = subprocess.run([sys.executable, str(building.PROGRAMS / "use_owned.py"), str(module)], capture_output=True,
                          text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(building.ROOT)})
    if done.returncode:
        return f"it ended with {done.returncode}: {done.stderr[-500:]}"
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(said) == 5
    return "\n".join(filter(None, said.values()))


def test_the_runtime_as_it_is_passes(compiler, extension, tmp_path):
    assert complaints(compiler, [extension], tmp_path) == ""


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_caught(compiler, extension, tmp_path, name):
    mutant = MUTANTS[name]
    source = build.SOURCES / f"{mutant.file}.cpp"
    text = source.read_text()
    assert text.count(mutant.before) == 1, "the source has changed: write the mistake anew"
    changed = tmp_path / source.name
    changed.write_text(text.replace(mutant.before, mutant.after))
    assert complaints(compiler, [extension, compiled(compiler, changed, tmp_path / "mutant.o")], tmp_path)
