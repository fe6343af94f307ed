"""Programs of other libraries, compiled: whether they compute what they do uncompiled, and where their graphs break.

Enters: the path of a module of cases (see cases/; what a case compiles, it hands to `compiling.prepared`). Leaves:
`Finding`s. Outputs, gradients, parameters after steps and generated tokens are compared, by the rules of compare.py.

    python -m tests.ecosystem.compiled transformers_models [--only bert] [--docs docs/compiled_programs.md]
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.ecosystem.compare import TOLERANCE, case_files, difference, missing, run_side, setting

MARKER = "<!-- table -->"


@dataclass(frozen=True)
class Program:
    """One model or function that a case compiled."""

    name: str
    breaks: list[str]       # reasons, each with the line
    graphs: int


@dataclass(frozen=True)
class Finding:
    """What became of one case."""

    case: str
    detail: str             # what differed, or the traceback; empty: the results are equal
    programs: list[Program]
    seconds: float          # of the processor, compiled, the compilation included
    eager_seconds: float

    @property
    def breaks(self) -> list[str]:
        return [reason for program in self.programs for reason in program.breaks]


def findings(path: Path, only: list[str] | None = None) -> list[Finding]:
    """The cases of a file that compile something."""
    tolerance = float(setting(path, "TOLERANCE") or TOLERANCE)
    found = []
    for case, done in run_side(path, True, ["--compiled", *(only or [])]).items():
        eager = done["eager"]
        if not done["programs"]:
            continue
        detail = eager["error"] or done["error"] or difference(done["values"], eager["values"], case, tolerance) or ""
        programs = [Program(name_of(case, p["name"], done["programs"]), [*map(brief, p["breaks"])], p["graphs"])
                    for p in done["programs"]]
        found.append(Finding(case, detail, programs, done["cpu_seconds"], eager["cpu_seconds"]))
    return found


def name_of(case: str, own: str, programs: list[dict]) -> str:
    """What a program is called: by its case, and where that has several by its own name too."""
    return case if len({program["name"] for program in programs}) == 1 else f"{case}.{own}"


def brief(reason: str) -> str:
    """A reason for a break with its line, as the page has it: no hints, and no folders of this machine."""
    said = re.match(r"(.*?) at (\S+?):(\d+) in (\S+?)(?:\. |$)", reason, re.DOTALL)
    if said is None:
        return reason.splitlines()[0]
    why, file, line, function = said.groups()
    why = re.sub(r",? and was wanted(?: by \S+)? at \S+ in \S+", ", and was wanted", why)
    why = re.sub(r"(, asked by \S+)?( at /\S+ in \S+)+", r"\1", why)      # no paths of this machine
    where = re.sub(rf".*(site-packages|tests|{sysconfig.get_path('stdlib')})/", "", file)
    return f"{' '.join(why.split())} ({where}:{line}, `{function}`)"


def page(results: dict[str, list[Finding]], before: str = "") -> str:
    """Two tables: a line for each library, and every program with breaks. What did not run keeps its lines."""
    rows = {name: [int(n) for n in numbers.split("|")]
            for name, numbers in re.findall(r"^\| (\w+) \| (\d+ \| \d+ \| \d+) \|$", before, re.MULTILINE)}
    breaks = re.findall(r"^\| \w+\.[\w.]+ \|.*$", before, re.MULTILINE)
    for stem, found in results.items():
        programs = [program for finding in found for program in finding.programs]
        equal = sum(len(finding.programs) for finding in found if not finding.detail)
        rows[stem] = [len(programs), equal, sum(not program.breaks for program in programs)]
        breaks = [row for row in breaks if not row.startswith(f"| {stem}.")]
        breaks += [f"| {stem}.{p.name} | {p.graphs} | {'<br>'.join(p.breaks).replace('|', ',')} |"
                   for p in programs if p.breaks]
    rows.pop("all", None)
    rows = {**dict(sorted(rows.items())), "all": [sum(numbers) for numbers in zip(*rows.values())]}
    lines = ["| library | programs | equal | without a break |", "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {' | '.join(map(str, numbers))} |" for name, numbers in rows.items()]
    lines += ["", "| program | graphs | breaks |", "| --- | --- | --- |", *sorted(breaks)]
    return "\n".join(lines) + "\n"


def named_in(page: Path) -> set[str]:
    """The programs that a page says have breaks."""
    return set(re.findall(r"^\| (\w+\.[\w.]+) \|", page.read_text(encoding="utf-8"), re.MULTILINE))


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
            said = "WRONG" if f.detail else "equal"
            print(f"{path.stem}.{f.case}: {said}, {len(f.programs)} programs, {len(f.breaks)} breaks,"
                  f" {f.seconds:.1f} s of CPU (uncompiled {f.eager_seconds:.1f} s)")
            for line in [*f.breaks, *f.detail[-600:].splitlines()]:
                print(f"    {line}", flush=True)
    if chosen.docs:
        text = Path(chosen.docs)
        head, _, before = text.read_text(encoding="utf-8").partition(MARKER)
        text.write_text(f"{head}{MARKER}\n\n{page(results, before)}", encoding="utf-8")
    return int(any(f.detail for found in results.values() for f in found))


if __name__ == "__main__":
    sys.exit(main())
