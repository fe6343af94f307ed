"""Binary extensions through the stable C ABI: values both ways, ownership, errors, and libraries that are refused."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
from pathlib import Path

import pytest

from . import building

pytestmark = [
    pytest.mark.skipif(building.COMPILER is None, reason="needs a C++ compiler"),
    pytest.mark.skipif(importlib.util.find_spec("rushlight._stable") is None, reason="built without rushlight._stable"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("extensions", numbered=True)


@pytest.fixture(scope="module")
def outcome(folder) -> dict[str, str]:
    return building.run("use_probe.py", building.build(folder))


def checks_of(program: str) -> list[str]:
    tree = ast.parse((building.PROGRAMS / program).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]


@pytest.mark.parametrize("check", checks_of("use_probe.py"))
def test_kernels_of_an_extension(outcome, check):
    assert outcome[check] == "", outcome[check]


@pytest.fixture(scope="module")
def refusals(folder) -> dict[str, str]:
    built = [building.build(folder, "first"), building.build(folder, "second")]
    for name in ("BROKEN", "TWICE", "NEWER", "CPP_CLASSES"):
        built.append(building.build(folder, name.lower(), flags=(f"-D{name}", f'-DSPACE="{name.lower()}"')))
    whole = built[0].read_bytes()
    for cut in (0, 20, 64, 2000, len(whole) - 40):
        (folder / f"cut{cut}.so").write_bytes(whole[:cut])
    return building.run("refused.py", folder)


@pytest.mark.parametrize("check", checks_of("refused.py"))
def test_libraries_that_are_refused_leave_nothing(refusals, check):
    assert refusals[check] == "", refusals[check]


def test_symbols_are_those_that_nm_shows(folder):
    from rushlight.library import elf_symbols

    library = building.build(folder, "shown")
    shown = subprocess.run(["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True)
    if shown.returncode:
        pytest.skip("needs nm")
    wanted = {line.split()[1].partition("@")[0] for line in shown.stdout.splitlines() if line.split()[0] == "U"}
    read = elf_symbols.read(str(library))
    assert set(read.undefined) == wanted and "libtorch.so" in read.needed


@pytest.fixture(scope="module")
def by_headers(folder) -> Path:
    return building.build(folder, "by_headers", "stable.cpp", (f"-I{building.ROOT / 'rushlight' / 'include'}",))


@pytest.fixture(scope="module", params=["rushlight", "torch"])
def loaded_into(request, by_headers) -> dict[str, str]:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"needs {request.param}")
    return building.run("use_stable.py", request.param, by_headers)


@pytest.mark.slow
@pytest.mark.parametrize("check", checks_of("use_stable.py"))
def test_one_library_of_our_headers_loads_here_and_in_pytorch(loaded_into, check):
    assert loaded_into[check] == "", loaded_into[check]


@pytest.mark.slow
def test_headers_need_nothing_but_c_functions_of_the_stable_abi(by_headers):
    from rushlight.library import elf_symbols

    of_torch = {name for name in elf_symbols.read(str(by_headers)).undefined if "torch" in name or "c10" in name}
    assert of_torch and all(name.startswith(("aoti_torch_", "torch_")) for name in of_torch)
