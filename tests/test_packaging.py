"""The outside of the project: documented commands exist, start-up stays light, tools and examples run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).resolve().parent.parent


def run_python(*arguments: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds the same rushlight as this one, wherever that is installed."""
    installed = str(Path(rushlight.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=timeout,
        env=dict(os.environ, PYTHONPATH=installed, **environment),
    )


def test_import_loads_no_heavy_dependency():
    code = ("import sys, rushlight; "
            "print([name for name in ('numpy', 'llvmlite', 'scipy_openblas64', 'torch') if name in sys.modules])")
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_readme_names_files_that_exist():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "index.md").read_text()
    names = re.findall(r"`((?:csrc|rushlight|benchmarks|examples|docs|tools)/[\w/.]*)`", text)
    missing = [name for name in names if not (ROOT / name).exists()]
    assert not missing


def test_ci_runs_the_command_of_the_readme_before_pytorch_is_there():
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if "-m pytest" in line]
    assert len(commands) == 1 and commands[0].startswith("    python3 -m venv .venv && ")
    script = (ROOT / ".ci" / "run").read_text()
    assert 0 < script.index("grep -m1 -- '-m pytest' README.md") < script.index("install torch==")


def test_readme_has_every_row_of_the_map():
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 36))


def test_demo_learns():
    """A few hundred steps beat guessing the most frequent character by far."""
    done = run_python(str(ROOT / "examples" / "characters.py"), "--steps", "150")
    assert done.returncode == 0, done.stderr
    accuracy = float(re.search(r"accuracy: ([\d.]+)%", done.stdout).group(1))
    assert accuracy > 15
    assert "steps/s" in done.stdout


@pytest.mark.parametrize("tour", ["life_of_add", "life_of_backward",
                                  pytest.param("life_of_compile", marks=pytest.mark.slow)])
def test_tours_run(tour):
    """Each asserts what it tells."""
    done = run_python(str(ROOT / "docs" / f"{tour}.py"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_benchmark_reports_and_survives_a_failing_case(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.cases import Case, Group
    from benchmarks.harness import Session
    from benchmarks.report import show_section

    cases = (Case("add", "x + x", "x = torch.ones(4, 4)", unroll=10), Case("broken", "torch.no_such_function()"),
             Case("crash", "import os; os._exit(3)"), Case("mul", "x * x", "x = torch.ones(4, 4)", unroll=10))
    section = Session(rounds=2, processes=1, at_least=0.001).compare(Group("test", "Test", cases))
    rows = {row.case: row for row in section.rows}
    assert rows["add"].ratio() > 0 and rows["mul"].ratio() > 0
    assert set(rows["broken"].errors) == set(rows["crash"].errors) == {"torch", "rushlight"}
    assert "no_such_function" in show_section(section)


@pytest.mark.slow
def test_stubs_are_made_from_the_registry(tmp_path):
    """The generator gives valid Python that types ops by their schemas. Committed stubs may lag behind a new op.

    Methods that are no ops have their signatures even where the tables of ops had to be filled first."""
    code = ("import runpy, sys; sys.argv = ['make_stubs']; "
            f"made = runpy.run_path({str(ROOT / 'tools' / 'make_stubs.py')!r})['make_stubs'](); "
            "[compile(text, str(path), 'exec') for path, text in made.items()]; print(next(iter(made.values())))")
    done = run_python("-c", code, RUSHLIGHT_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "def crow_indices(self) -> Any: ..." in done.stdout
    assert "def view(self, *size: builtins.int) -> Tensor: ..." in done.stdout
    assert "def tanh(input: Tensor" in done.stdout


def test_the_audit_of_a_wheel_says_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_wheels

    (unnamed := tmp_path / "rushlight-0.1.0-cp311-cp311-linux_x86_64.whl").write_bytes(b"")
    assert "manylinux" in build_wheels.audit(unnamed)[0]
    hollow = tmp_path / "rushlight-0.1.0-cp312-cp312-manylinux_2_28_aarch64.whl"
    with zipfile.ZipFile(hollow, "w") as archive:
        archive.writestr("rushlight/py.typed", "")
        archive.writestr("rushlight/stray.py", "")
        archive.writestr("rushlight/loops/stray.txt", "")
    found = build_wheels.audit(hollow)
    assert (
        "it lacks rushlight/op/ops.tables" in found
        and "it lacks rushlight/_C.cpython-312-aarch64-linux-gnu.so" in found
    )
    assert "it has a file that the tree has not: rushlight/stray.py" in found
    assert "it has a file that the tree has not: rushlight/loops/stray.txt" in found
    assert any("egg-info" in sentence for sentence in found) and any(
        "lacks the source" in sentence for sentence in found
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("-DCMAKE_SYSTEM_NAME=Windows",), "Rushlight runs on Linux on x86-64 or AArch64, and this is Windows"),
        (
            ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=s390x"),
            "Rushlight runs on Linux on x86-64 or AArch64, and this is Linux on s390x",
        ),
    ],
)
def test_cmake_refuses_other_platforms_in_one_sentence(tmp_path, settings, reason):
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    done = subprocess.run(
        [cmake, "-S", str(ROOT), "-B", str(tmp_path), *settings], capture_output=True, text=True, timeout=120
    )
    assert done.returncode and reason in " ".join(done.stderr.split())


@pytest.mark.slow
def test_the_status_table_has_the_numbers_of_today():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's op records need it")
    done = run_python(str(ROOT / "tools" / "count_status.py"), "--check")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    words = re.findall(r"^\| \d+ \| [^|]* \| ([^|]*) \| ([^|]*)\|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(words) == 35 and {word for word, _ in words} <= {"complete", "works", "begun", "not started"}
    assert all(number.strip() for word, number in words if word != "not started")
