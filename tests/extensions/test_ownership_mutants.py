"""References that are lost, given back twice or never taken: each mistake, made on purpose in csrc/stable, is caught by
the checks of programs/use_probe.py.

The sources are compiled without optimization, once; of a mutant only its own file is compiled again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from . import building

SOURCES = building.ROOT / "csrc"
STABLE = sorted(SOURCES.glob("stable/*.cpp"))
SHARED = [SOURCES / f"{name}.cpp" for name in ("boundary", "dtypes", "geometry", "unlocked")]
CHECKS = ("check_wrong_types_are_refused", "check_calls_of_ops", "check_memory_of_others_is_given_back_once",
          "check_mistakes_with_handles", "check_errors_keep_their_kind_and_cause", "check_warnings",
          "check_no_handle_is_left", "check_errors_that_a_kernel_passes_over_are_let_go")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(building.COMPILER is None, reason="needs a C++ compiler"),
    pytest.mark.skipif(not STABLE, reason="needs the sources of the core"),
]


class Mutant(NamedTuple):
    """A mistake: `before` stands once in the file, `after` takes its place."""

    file: str
    before: str
    after: str


MUTANTS = {
    "a handle that ends keeps its reference": Mutant(
        "handles", "  living--;\n  Py_XDECREF(object);", "  living--;"),
    "a handle that ends gives its reference back twice": Mutant(
        "handles", "  living--;\n  Py_XDECREF(object);", "  living--;\n  Py_XDECREF(object), Py_XDECREF(object);"),
    "a handle takes no reference": Mutant("handles", "  Py_XINCREF(object);\n  *taken", "  *taken"),
    "a handle may end twice": Mutant(
        "handles",
        'if (handle->mark != mark) return fail("%s: the handle was deleted before, or never was one", function);',
        "(void)mark, (void)function;"),
    "an ended handle is asked": Mutant(
        "handles", "if (handle->mark != kLiveTensor && handle->mark != kLiveObject)", "if (false)"),
    "a result's handle stays": Mutant("values", "  end_handle(handle);\n  return object;", "  return object;"),
    "a result takes no reference": Mutant(
        "values", "Py_NewRef(handle->object ? handle->object : Py_None)",
        "(handle->object ? handle->object : Py_None)"),
    "results behind a wrong one stay": Mutant(
        "kernels", "while (++i < self->num_results) drop_value(&type, stack[i]);", ""),
    "items behind a wrong one stay": Mutant(
        "values", "while (++i < list->size) drop_value(&(at = item_type), list->items[i]);", ""),
    "items before one that cannot be given stay": Mutant(
        "values", "for (size_t k = 0; k < list->size; k++) drop_value(&(at = item_type), list->items[k]);", ""),
    "arguments before one that cannot be given stay": Mutant(
        "kernels", "for (uint64_t k = 0; k < i; k++) drop_value(&type, stack[k]);\n      return nullptr;",
        "return nullptr;"),
    "arguments of a called op stay": Mutant(
        "kernels", "for (uint64_t k = 0; k < read; k++) Py_DECREF(args[k]);", ""),
    "the error of a called op is lost": Mutant(
        "handles", "  last.cause = exception;\n", "  last.cause = nullptr;\n"),
    "an error that was passed over stays": Mutant(
        "handles", "  last.cause = nullptr;\n  Py_XDECREF(cause);\n}\n\n// ---",
        "  last.cause = nullptr;\n}\n\n// ---"),
    "a warning that became an error is lost": Mutant("kernels", "if (!has_later()) return found;", "return found;"),
    "what a kernel throws is lost": Mutant(
        "kernels", "if (thrown.kind) return raise_caught(self, thrown);", "if (thrown.kind) free(thrown.text);"),
    "memory of others is never given back": Mutant(
        "tensors", "*lent = {deleter, data, context};", "*lent = {nullptr, data, context};"),
}


def compiled(source: Path, target: Path) -> Path:
    """One source of the module as an object."""
    folders = (SOURCES, building.ROOT / "rushlight" / "devices", sysconfig.get_paths()["include"])
    done = subprocess.run(
        [building.COMPILER, "-std=c++20", "-O0", "-fPIC", "-w", "-fvisibility=hidden", "-DRUSHLIGHT_SECOND_MODULE",
         *(["-fno-exceptions"] if source.name == "unlocked.cpp" else []), *(f"-I{folder}" for folder in folders),
         f"-I{SOURCES / 'stable'}", "-c", str(source), "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return target


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stable_objects")
    made = {}
    for source in (*STABLE, *SHARED):
        made[source.stem if source in STABLE else f"shared_{source.stem}"] = folder / f"{len(made)}_{source.stem}.o"
        compiled(source, list(made.values())[-1])
    return made


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.build(tmp_path_factory.mktemp("mutants"))


def complaints(objects: dict[str, Path], folder: Path, probe: Path) -> str:
    """What the checks say of a module that is linked of these objects; "" where nothing is wrong."""
    module = folder / f"_stable{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([building.COMPILER, "-shared", "-Wl,-soname,librushlight_stable.so", *map(str, objects.values()),
                    "-ldl", "-pthread", "-o", str(module)], check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [sys.executable, str(building.PROGRAMS / "with_stable.py"), str(module), "use_probe.py", str(probe), *CHECKS],
        capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(building.ROOT)})
    if done.returncode:
        return f"it ended with {done.returncode}: {done.stderr[-500:]}"
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(said) == set(CHECKS)
    return "\n".join(filter(None, said.values()))


def test_sources_as_they_are_pass(objects, probe, tmp_path):
    assert complaints(objects, tmp_path, probe) == ""


@pytest.mark.share(6)
@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_caught(objects, probe, tmp_path, name):
    mutant = MUTANTS[name]
    source = SOURCES / "stable" / f"{mutant.file}.cpp"
    text = source.read_text()
    assert text.count(mutant.before) == 1, "the source has changed: write the mistake anew"
    changed = tmp_path / source.name
    changed.write_text(text.replace(mutant.before, mutant.after))
    made = objects | {mutant.file: compiled(changed, tmp_path / "mutant.o")}
    assert complaints(made, tmp_path, probe)
