"""`python -m rushlight check --device`: what it accepts, what it answers, and scripts that show a failure alone."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight.__main__ import main
from rushlight.conform import AREAS, Chip, cases_of, check, runner, supervise
from rushlight.conform.runner import run_case

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "device_package"

# A chip that forgets the last element of every long loop.
CARELESS = """
from rushlight_tally import Tally
from rushlight.devices import register

class Careless(Tally):
    name = "careless"

    def launch(self, handle, pointers, params, begin, end, index):
        super().launch(handle, pointers, params, begin, end - (end - begin > 5), index)

register(Careless())
"""
# A process that dies in one case, is silent in another, and goes on where it is told to.
CHILD = """
import json, os, signal, sys, time
fd, order = int(sys.argv[1]), json.loads(sys.argv[2])
if "script" in order:
    os.write(fd, f"script of {order['script'][1]}".encode())
    sys.exit()
names = ["first", "dies", "second", "silent", "third", "dies again", "never asked"]
for name in names[names.index(order["after"][1]) + 1 if order["after"] else 0:]:
    for kind in ("begin", "passed"):
        told = {"kind": kind, "area": order["areas"][0], "case": name, "seconds": 0.5}
        os.write(fd, json.dumps(told).encode() + b"\\n")
        if name.startswith("dies"):
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60 * (name == "silent"))
os.write(fd, b'{"done": true}\\n')
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("packages")
    (made / "careless_chip.py").write_text(CARELESS)
    (made / "broken_chip.py").write_text("import nothing_of_that_name\n")
    (made / "silent_chip.py").write_text("raise RuntimeError('no such board')\n")
    sys.path[:0] = [str(made), str(PACKAGE)]
    yield made
    sys.path.remove(str(made))
    sys.path.remove(str(PACKAGE))


@pytest.mark.parametrize("arguments, said", [
    (["--device", "nochip"], "there is no device 'nochip' here"),
    (["--device", "nochip", "--import", "no_module_of_that_name"], "there is no module 'no_module_of_that_name'"),
    (["--device", "nochip", "--import", "broken_chip"], "nothing_of_that_name"),
    (["--device", "nochip", "--import", "silent_chip"], "RuntimeError: no such board"),
    (["--device", "cpu:1"], "without a number"),
    (["--device", "cpu", "--only", "ops,speed"], "there is no area speed; there are ops, dtypes"),
    (["--device", "cpu", "--json", "/no/such/folder/report.json"], "cannot write /no/such/folder/report.json"),
    (["--device", "cpu", "some_file.py"], "either files or --device"),
    (["--quick"], "--quick goes with --device"),
    ([], "name files, folders or packages, or a device"),
])
def test_what_cannot_begin_is_said_in_a_line(folder: Path, capsys, arguments: list[str], said: str) -> None:
    assert main(["check", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1 and "Traceback" not in err


def test_files_are_checked_for_names_as_before(tmp_path: Path, capsys) -> None:
    (tmp_path / "program.py").write_text("import torch\ntorch.no_such_name(1)\n")
    assert main(["check", str(tmp_path / "program.py")]) == 1
    assert "torch.no_such_name" in capsys.readouterr().out


def test_areas_a_device_has_not_are_skipped_and_files_are_written(folder: Path, tmp_path: Path, capsys) -> None:
    data, page = tmp_path / "report.json", tmp_path / "report.html"
    data.write_text("what was there before")
    asked = ["check", "--device", "tally", "--import", "rushlight_tally", "--only", "streams", "--quick"]
    assert main([*asked, "--json", str(data), "--html", str(page)]) == 0
    report = json.loads(data.read_text())
    area = report["areas"]["streams"]
    assert list(report["areas"]) == ["streams"] and area["skipped"] >= 1 and area["failed"] == 0
    assert "skipped in streams" in capsys.readouterr().out and "the device has no streams" in page.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_process_that_dies_or_is_silent_has_failed_in_that_case_and_the_suite_goes_on(monkeypatch) -> None:
    monkeypatch.setattr(supervise, "CHILD", ("-c", CHILD))
    monkeypatch.setattr(supervise, "SILENCE_QUICK", 1.0)
    report = supervise.supervised("chip", None, ["memory"], quick=True)
    area = report.areas["memory"]
    assert (area.passed, area.failed, area.skipped) == (3, 3, 1)
    assert [(one.case, one.repro) for one in report.failures] == [
        ("dies", "script of dies"), ("silent", "script of silent"), ("dies again", "script of dies again")
    ]
    assert "SIGSEGV" in report.failures[0].message and "no answer for 1 s" in report.failures[1].message
    assert area.reasons == {"its cases ended the process 3 times": ["the rest"]}


def find(area: str, name: str, chip: Chip) -> object:
    return next(one for one in cases_of(area, chip) if one.name == name)


@pytest.mark.parametrize("area, name", [("gradients", "larger_gradients"), ("ops", "sum of rows")])
def test_a_script_shows_its_failure_alone(folder: Path, tmp_path: Path, area: str, name: str) -> None:
    chip = Chip.find("careless", "careless_chip", quick=True)
    failure = run_case(find(area, name, chip), chip)
    assert failure.kind == "failed"
    script = tmp_path / "alone.py"
    for text, status in ((failure.repro, 1), (mended(failure.repro), 0)):
        script.write_text(text)
        ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
        assert ended.returncode == status, ended.stderr
        assert (failure.message in ended.stderr) is bool(status)


def mended(script: str) -> str:
    """The same script for the chip that is sound."""
    return script.replace("import careless_chip", "import rushlight_tally").replace("'careless'", "'tally'")


def test_scripts_of_all_cases_define_what_they_use() -> None:
    chip = Chip.find("cpu")
    count = 0
    for area in AREAS:
        for one in cases_of(area, chip):
            count += 1
            missing = undefined(ast.parse(one.repro(chip)))
            assert not missing, f"{area}: {one.name}: {missing}"
    assert count > 600


def undefined(tree: ast.Module) -> set[str]:
    """Names that are used and nowhere given."""
    given = set(dir(builtins)) | {"__name__", "__file__"}
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else given).add(node.id)
        elif isinstance(node, ast.arg):
            given.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            given.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            given.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            given.add(node.name)
    if used <= given:
        return set()
    notes = {id(n) for node in ast.walk(tree) for note in annotations(node) for n in ast.walk(note)}
    only_notes = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) in notes} - {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in notes
    }
    return used - given - only_notes


def annotations(node: ast.AST) -> list[ast.AST]:
    """Annotations, which are not evaluated."""
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [note for note in found if note is not None]


def test_the_quick_suite_is_large_enough_and_its_cases_have_names_of_their_own() -> None:
    chip = Chip.find("cpu", quick=True)
    names = [(one.area, one.name) for area in AREAS for one in cases_of(area, chip)]
    assert len(names) >= 300
    assert len(set(names)) == len(names), sorted(name for name in set(names) if names.count(name) > 1)
    assert {area for area, _ in names} == set(AREAS)


def test_what_the_host_computes_is_counted_and_is_no_failure(folder: Path, monkeypatch) -> None:
    chip = Chip.find("tally", "rushlight_tally", quick=True)
    solve = find("ops", "solve", chip)
    monkeypatch.setattr(runner, "cases_of", lambda area, chip: [solve])
    report = check(chip, ["ops"])
    assert report.passed and report.count("passed") == 1 and report.on_host["_linalg_solve_same"] >= 1
    assert "own_or_report" not in vars(chip.handler)      # the device is left as it was


def test_types_that_are_not_claimed_are_not_asked_for(folder: Path) -> None:
    chip = Chip.find("tally", "rushlight_tally", quick=True)
    chip.dtypes = (rushlight.float32, rushlight.int32, rushlight.bool)
    asked = (("ops", "argmax"), ("ops", "add"), ("gradients", "gradients_by_differences"))
    told = [run_case(find(area, name, chip), chip) for area, name in asked]
    assert [event.kind for event in told] == ["skipped", "passed", "skipped"]
    assert "int64" in told[0].message and "float64" in told[2].message
    kinds = {one.name.partition(":")[0] for one in cases_of("dtypes", chip) if ":" in one.name}
    assert kinds == {"float32", "int32", "bool"}


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys, rushlight; sys.exit('rushlight.conform' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
