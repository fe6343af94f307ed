"""Programs of other libraries, compiled: whether they compute what they do uncompiled, and where their graphs break.

Enters: the path of a module of cases (see cases/; what a case compiles, it hands to `compiling.prepared`). Leaves:
`Finding`s. Outputs, gradients, parameters after steps and generated tokens are compared, by the rules of compare.py.

    python -m tests.ecosystem.compiled transformers_models [--only bert] [--docs docs/compiled_programs.md]
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.ecosystem.compare import TOLERANCE, case_files, difference, missing, run_side, setting

MARKER = "<!-- table -->"


@dataclass(frozen=True)
class Finding:
    """What became of one case."""

    case: str
    detail: str             # what differed, or the traceback; empty: the results are equal
    breaks: list[str]       # reasons, each with the line of the program
    graphs: int
    seconds: float          # compiled, the compilation included
    eager_seconds: float


def findings(path: Path, only: list[str] | None = None) -> list[Finding]:
    """The cases of a file that compile something."""
    tolerance = float(setting(path, "TOLERANCE") or TOLERANCE)
    found = []
    for case, done in run_side(path, True, ["--compiled", *(only or [])]).items():
        eager = done["eager"]
        if not done["programs"]:
            continue
        detail = eager["error"] or done["error"] or difference(done["values"], eager["values"], case, tolerance) or ""
        breaks = [brief(reason) for reason in done["breaks"]]
        found.append(Finding(case, detail, breaks, done["graphs"], done["seconds"], eager["seconds"]))
    return found


def brief(reason: str) -> str:
    """A reason for a break with its line, as the page has it: no hints, and no folders of this machine."""
    said = re.match(r"(.*?) at (\S+?):(\d+) in (\S+?)(?:\. |$)", reason, re.DOTALL)
    if said is None:
        return reason.splitlines()[0]
    why, file, line, function = said.groups()
    where = file.rpartition("site-packages/")[2].rpartition("tests/")[2]
    return f"{' '.join(why.split())} ({where}:{line}, `{function}`)"


def page(results: dict[str, list[Finding]]) -> str:
    """Two tables: a line for each library, and every break."""
    total = [finding for found in results.values() for finding in found]
    lines = ["| library | programs | equal | without a break |", "| --- | --- | --- | --- |"]
    for stem, found in {**results, "all": total}.items():
        equal, whole = sum(not f.detail for f in found), sum(not f.breaks for f in found)
        lines.append(f"| {stem.replace('_', ' ')} | {len(found)} | {equal} | {whole} |")
    lines += ["", "| program | graphs | breaks |", "| --- | --- | --- |"]
    for stem, found in results.items():
        lines += [f"| {stem}.{f.case} | {f.graphs} | {'; '.join(f.breaks).replace('|', ',')} |"
                  for f in found if f.breaks]  # fmt: skip
    wrong = [f"{stem}.{f.case}" for stem, found in results.items() for f in found if f.detail]
    return "\n".join(lines) + "\n" + (f"\nNot equal: {', '.join(wrong)}.\n" if wrong else "")


def named_in(page: Path) -> set[str]:
    """The programs that a page says have breaks."""
    return set(re.findall(r"^\| (\w+\.\w+) \|", page.read_text(encoding="utf-8"), re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="modules of cases (all that compile something)")
    parser.add_argument("--only", nargs="*", default=[], help="names of cases")
    parser.add_argument("--docs", help="write the tables into this page, after its marker line")
    chosen = parser.parse_args()
    results: dict[str, list[Finding]] = {}
    for path in case_files():
        is_wanted = path.stem in chosen.modules or (not chosen.modules and "import prepared" in path.read_text())
        if not is_wanted:
            continue
        if absent := missing(path):
            print(f"{path.stem}: skipped, not installed: {', '.join(absent)}")
            continue
        results[path.stem] = findings(path, chosen.only)
        for f in results[path.stem]:
            print(f"{path.stem}.{f.case}: {'WRONG' if f.detail else 'equal'}, {f.graphs} graphs, {len(f.breaks)}"
                  f" breaks, {f.seconds:.1f} s (uncompiled {f.eager_seconds:.1f} s)", flush=True)  # fmt: skip
            for line in [*f.breaks, *f.detail[-600:].splitlines()]:
                print(f"    {line}")
    if chosen.docs:
        text = Path(chosen.docs)
        head = text.read_text(encoding="utf-8").split(MARKER)[0]
        text.write_text(f"{head}{MARKER}\n\n{page(results)}", encoding="utf-8")
    return int(any(f.detail for found in results.values() for f in found))


if __name__ == "__main__":
    sys.exit(main())
