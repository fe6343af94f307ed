"""The built wheel, installed into an environment of its own where the source tree is not: what users get.

The wheel is built once for all workers. Its environment borrows the dependencies of this one (numpy, llvmlite,
OpenBLAS) by a path file, which brings in packages but not the hooks of an editable install, so that the wheel's own
files are what is imported. RUSHLIGHT_WHEEL=path/of.whl tests a wheel that is built already:
one that is about to be released.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow   # the native core is compiled, unless an earlier build left it under build/


def environment() -> dict[str, str]:
    """The caller's, without anything that would let another Rushlight in."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }


def execute(*command: str | Path, cwd: Path, timeout: float = 300, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=timeout,
                          env={**environment(), **more})


def build_wheel(folder: Path) -> None:
    # With the command that compiled what lies there: another would compile it again.
    before = [cache.read_text() for cache in (ROOT / "build").glob("cp*/CMakeCache.txt")]
    with_ccache = shutil.which("ccache") and all("CMAKE_CXX_COMPILER_LAUNCHER:STRING=ccache" in text for text in before)
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if with_ccache else {}
    done = execute(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        folder,
        ROOT,
        cwd=folder,
        timeout=900,
        **launcher,
    )
    if "No matching distribution found for scikit-build-core" in done.stderr:
        pytest.skip("no package index to get the build back end from")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers see."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    if given := os.environ.get("RUSHLIGHT_WHEEL"):
        return Path(given)
    folder = shared / "wheel"
    with open(shared / "wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            folder.mkdir(exist_ok=True)
            build_wheel(folder)
    (result,) = folder.glob("rushlight-*.whl")
    return result


@pytest.fixture(scope="session")
def python(wheel: Path, shared: Path) -> Path:
    """The interpreter of an environment that holds the wheel."""
    folder = shared / "installed"
    with open(shared / "installed.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            assert execute(sys.executable, "-m", "venv", "--without-pip", folder, cwd=shared).returncode == 0
            site = next((folder / "lib").glob("python3*/site-packages"))
            (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
            done = execute(
                sys.executable,
                "-m",
                "pip",
                "--python",
                folder / "bin" / "python",
                "install",
                "--quiet",
                "--no-deps",
                wheel,
                cwd=shared,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            (folder / "ready").touch()
    return folder / "bin" / "python"


def test_the_wheel_is_what_is_imported_and_it_computes(python: Path, tmp_path: Path) -> None:
    code = ("import rushlight as rl; x = rl.ones(3, 3, requires_grad=True); (x @ x + x.exp()).sum().backward(); "
            "print(rl.__file__); print(x.grad.isfinite().all().item())")
    done = execute(python, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place, good = done.stdout.split()
    assert Path(place).is_relative_to(python.parent.parent) and good == "True"


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    tracked = [
        path
        for path in (ROOT / "rushlight").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    ]
    assert tracked
    missing = sorted(str(path.relative_to(ROOT)) for path in tracked if str(path.relative_to(ROOT)) not in held)
    assert not missing
    assert len([name for name in held if re.fullmatch(r"rushlight/(_C|_extras)\..*\.so", name)]) == 2
    assert not [name for name in held if name.startswith(("tests/", "csrc/", "benchmarks/", "tools/", "docs/"))]


def test_stubs_and_their_mark_are_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {"rushlight/py.typed", "rushlight/__init__.pyi", "rushlight/linalg.pyi", "rushlight/special.pyi"} <= held


def test_a_program_for_pytorch_runs_and_sees_its_distribution(python: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from importlib.metadata import version\n"
        "found = version('torch')\n"
        "import torch, torch.nn as nn\n"
        "print(found, torch.__version__.split('+')[0], tuple(nn.Linear(3, 2)(torch.ones(1, 3)).shape))\n")
    done = execute(python, "-m", "rushlight", "run", "program.py", cwd=tmp_path)
    assert done.stdout.strip() == "2.13.0 2.13.0 (1, 2)", done.stderr


def test_the_command_and_its_version(python: Path, tmp_path: Path) -> None:
    for command in ((python.parent / "rushlight",), (python, "-m", "rushlight")):
        done = execute(*command, "--version", cwd=tmp_path)
        assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout), done.stderr
        assert execute(*command, "info", cwd=tmp_path).returncode == 0


def test_the_demo_learns(python: Path, tmp_path: Path) -> None:
    done = execute(python, ROOT / "examples" / "characters.py", "--steps", "150", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"accuracy: ([\d.]+)%", done.stdout).group(1)) > 15


@pytest.fixture(scope="session")
def checkout(shared: Path, worker_id: str) -> Path:
    """The source tree as it is cloned: no core in it."""
    folder = shared / f"checkout-{worker_id}"
    shutil.copytree(ROOT / "rushlight", folder / "rushlight", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_commands_of_the_readme_work_from_the_root_of_the_checkout(python: Path, checkout: Path) -> None:
    """After `pip install .`, Python started there meets the source tree first, which has no core:
    the installed copy serves."""
    (checkout / "train.py").write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    done = execute(python, "-m", "rushlight", "run", "train.py", cwd=checkout)
    assert done.stdout.strip() == "2.0", done.stderr
    done = execute(
        python, "-c", "import rushlight as rl; print((rl.ones(2) + 1).tolist(), rl.nn.__file__)", cwd=checkout
    )
    assert done.stdout.startswith("[2.0, 2.0]") and str(python.parent.parent) in done.stdout, done.stderr
    done = execute(python, "docs/life_of_add.py", cwd=checkout, PYTHONPATH=str(checkout))
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_checkout_without_any_core_says_what_to_do(checkout: Path) -> None:
    done = execute(sys.executable, "-S", "-c", "import rushlight", cwd=checkout)
    assert "ImportError: rushlight: expected the native modules _C and _extras in" in done.stderr
    assert "pip install -e ." in done.stderr
