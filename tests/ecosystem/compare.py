"""Run a module of cases on both sides and say, case by case, whether the results agree.

Enters: the path of a module of cases. Leaves: `Outcome`s. The comparison allows for rounding that grows through a
network: floats agree within 1e-4 (or a module's own `TOLERANCE`) of the largest value in their array, gradients and
parameters after steps included; everything else must be equal.

    python -m tests.ecosystem.compare transformers_models [--only bert] [--docs docs/ecosystem.md]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import pickle
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TOLERANCE = 1e-4
TIME_LIMIT = 1200


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: str
    ok: bool
    detail: str      # what differed, or the traceback
    seconds: float   # on Rushlight
    torch_seconds: float


def run_side(path: Path, served: bool, only: list[str]) -> dict[str, dict]:
    """The results of the cases of a file, on Rushlight (`served`) or on PyTorch, in a process of its own. The runner's
    own arguments may be among the names of the cases."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.pickle"
        program = [str(HERE / "runner.py"), str(path), str(results), *only]
        command = [sys.executable, *(["-m", "rushlight", "run"] if served else []), *program]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIME_LIMIT, cwd=folder)
        if not results.exists():
            raise RuntimeError(
                f"{'Rushlight' if served else 'PyTorch'} could not run {path.name} (exit"
                f" {done.returncode}):\n{done.stderr[-3000:]}"
            )
        return pickle.loads(results.read_bytes())


def difference(ours: object, theirs: object, where: str, tolerance: float = TOLERANCE) -> str | None:
    """What differs between two results, or None."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if set(ours) != set(theirs):
            return f"{where}: names differ: {sorted(set(ours) ^ set(theirs))[:5]}"
        return next(
            (found for name in theirs if (found := difference(ours[name], theirs[name], f"{where}.{name}", tolerance))),
            None,
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{where}: {len(ours)} items, PyTorch has {len(theirs)}"
        return next(
            (
                found
                for i, pair in enumerate(zip(ours, theirs))
                if (found := difference(*pair, f"{where}[{i}]", tolerance))
            ),
            None,
        )
    if isinstance(theirs, (numpy.ndarray, numpy.generic, float, complex)) and not isinstance(theirs, bool):
        return array_difference(numpy.asarray(ours), numpy.asarray(theirs), where, tolerance)
    return None if ours == theirs else f"{where}: {ours!r:.200}, PyTorch has {theirs!r:.200}"


def array_difference(ours: numpy.ndarray, theirs: numpy.ndarray, where: str, tolerance: float) -> str | None:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{where}: {ours.dtype}{ours.shape}, PyTorch has {theirs.dtype}{theirs.shape}"
    if theirs.dtype.kind not in "fc":
        return (
            None
            if (ours == theirs).all()
            else f"{where}: {int((ours != theirs).sum())} of {theirs.size} elements differ"
        )
    finite = numpy.isfinite(theirs)
    if not (finite == numpy.isfinite(ours)).all():
        return f"{where}: infinite or NaN in other places"
    scale = max(1e-3, float(abs(theirs[finite]).max(initial=0)))
    worst = float(abs(ours[finite] - theirs[finite]).max(initial=0))
    return None if worst <= tolerance * scale else f"{where}: off by {worst:.3g} where the largest value is {scale:.3g}"


def compare(path: Path, only: list[str] | None = None) -> list[Outcome]:
    """Every case of a file, run on both sides."""
    theirs, ours = run_side(path, False, only or []), run_side(path, True, only or [])
    outcomes, tolerance = [], float(setting(path, "TOLERANCE") or TOLERANCE)
    for case, reference in theirs.items():
        mine = ours[case]
        if reference["error"]:
            detail = f"PyTorch itself failed:\n{reference['error']}"
        elif mine["error"]:
            detail = mine["error"]
        else:
            detail = difference(mine["values"], reference["values"], case, tolerance) or ""
        outcomes.append(Outcome(case, not detail, detail, mine["seconds"], reference["seconds"]))
    return outcomes


def cases_of(path: Path) -> list[str]:
    """The names of the cases of a file, without importing it."""
    return re.findall(r"^def case_(\w+)", path.read_text(), re.MULTILINE)


def case_files() -> list[Path]:
    """The modules of cases, by name."""
    return sorted(path for path in (HERE / "cases").glob("*.py") if path.stem != "__init__")


def setting(path: Path, name: str) -> str:
    """What a module of cases says on its line `name = …`, without importing it; empty if there is none."""
    line = next((line for line in path.read_text().splitlines() if line.startswith(f"{name} = ")), f'{name} = ""')
    return line.partition(" = ")[2].partition("#")[0].strip().strip('"')


def needs(path: Path) -> list[str]:
    """The distributions a module of cases says it needs."""
    return setting(path, "NEEDS").split()


def missing(path: Path) -> list[str]:
    """Those of them that are not installed."""
    def absent(name: str) -> bool:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return True
        return False

    return [name for name in [*needs(path), "torch"] if absent(name)]


def table(results: dict[str, list[Outcome]]) -> str:
    """The page of what runs."""
    lines = ["| library | version | cases that equal PyTorch | those that do not |", "| --- | --- | --- | --- |"]
    for stem, outcomes in results.items():
        path = HERE / "cases" / f"{stem}.py"
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in needs(path))
        good = ", ".join(outcome.case for outcome in outcomes if outcome.ok)
        bad = ", ".join(outcome.case for outcome in outcomes if not outcome.ok) or "none"
        lines.append(
            f"| {stem.replace('_', ' ')} | {versions} | {sum(o.ok for o in outcomes)}/{len(outcomes)}: {good} | {bad} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="modules of cases (all)")
    parser.add_argument("--only", nargs="*", default=[], help="names of cases")
    parser.add_argument("--docs", help="write the table into this page, after its marker line")
    parser.add_argument("-v", "--verbose", action="store_true", help="whole tracebacks")
    chosen = parser.parse_args()
    results: dict[str, list[Outcome]] = {}
    for path in case_files():
        if chosen.modules and path.stem not in chosen.modules:
            continue
        if absent := missing(path):
            print(f"{path.stem}: skipped, not installed: {', '.join(absent)}")
            continue
        results[path.stem] = compare(path, chosen.only)
        for outcome in results[path.stem]:
            print(
                f"{path.stem}.{outcome.case}: {'ok' if outcome.ok else 'FAILED'} ({outcome.seconds:.1f} s, PyTorch"
                f" {outcome.torch_seconds:.1f} s)"
            )
            if not outcome.ok:
                print(outcome.detail if chosen.verbose else outcome.detail[-600:])
    if chosen.docs:
        page = Path(chosen.docs)
        head = page.read_text().split("<!-- table -->")[0]
        page.write_text(f"{head}<!-- table -->\n\n{table(results)}")
    return int(any(not outcome.ok for outcomes in results.values() for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
