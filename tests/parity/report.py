"""`python -m tests.parity`: how much of PyTorch's op records passes, per namespace.

    python -m tests.parity                                   every record, every check
    python -m tests.parity --only 'fft.*,nn.functional.pad*' some records
    python -m tests.parity --check forward,errors -v         some checks, with the reason of every failure
    python -m tests.parity --json results.json --jobs 2      in two processes, results kept
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from multiprocessing import get_context

from tests.parity.checks import CHECKS, NotApplicable
from tests.parity.left_out import LEFT_OUT, Left
from tests.parity.records import RECORDS, namespace


def outcome(name: str, check: str) -> str:
    """"pass", "none" (nothing to check) or the reason of the failure."""
    try:
        CHECKS[check](RECORDS[name])
    except NotApplicable:
        return "none"
    except Exception as error:   # noqa: BLE001  a report must survive every failure
        return f"{type(error).__name__}: {error}"
    return "pass"


def outcomes(name: str, checks: list[str]) -> tuple[str, dict[str, str]]:
    return name, {check: outcome(name, check) for check in checks}


def table(results: dict[str, dict[str, str]], checks: list[str]) -> str:
    """Passed / applicable, a row per namespace."""
    passed: dict[str, Counter] = defaultdict(Counter)
    total: dict[str, Counter] = defaultdict(Counter)
    for name, found in results.items():
        for check, result in found.items():
            for space in (namespace(RECORDS[name]), "all"):
                total[space][check] += result != "none"
                passed[space][check] += result == "pass"
    rows = [f"| {'namespace':16} | " + " | ".join(f"{check:>14}" for check in checks) + " |"]
    rows.append("| --- " + "| --- " * len(checks) + "|")
    for space in sorted(total, key=lambda s: (s == "all", s)):
        cells = []
        for check in checks:
            n, k = total[space][check], passed[space][check]
            cells.append(f"{k:>4}/{n:<4} {k / n:4.0%}" if n else "-")
        rows.append(f"| {space:16} | " + " | ".join(f"{cell:>14}" for cell in cells) + " |")
    return "\n".join(rows)


DOCUMENT = """# Operators against PyTorch's records

PyTorch 2.13 describes its operators in {count} records (`op_db`): sample inputs, dtypes, variants, errors. Each runs
on both libraries from the same elements and the same seed; `tests/parity/checks.py` says what is compared.
Passed / applicable, per namespace:

{table}

## What is left out

{reasons}
"""


def where(left: Left) -> str:
    """The dtypes and the machine that an entry is limited to."""
    return (f" ({', '.join(left.dtypes.split())})" if left.dtypes else "") + (
        f" on {left.machine}" if left.machine else ""
    )


def document(results: dict[str, dict[str, str]], checks: list[str]) -> str:
    """The page `docs/operators.md`."""
    reasons = []
    for check, records in LEFT_OUT.items():
        reasons += [f"- **{check}**, `{name}`{where(left)}: {left.reason}" for name, left in records.items()]
    return DOCUMENT.format(count=len(RECORDS), table=table(results, checks), reasons="\n".join(reasons) or "Nothing.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity")
    parser.add_argument("--only", default="*", help="glob patterns over record names, separated by commas")
    parser.add_argument("--check", default=",".join(CHECKS), help="checks, separated by commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", help="write the results of every record here")
    parser.add_argument("--docs", help="write the page docs/operators.md here (needs every record and check)")
    parser.add_argument("-v", action="store_true", help="print the reason of every failure")
    options = parser.parse_args()
    checks = options.check.split(",")
    chosen = [name for name in RECORDS if any(fnmatchcase(name, p) for p in options.only.split(","))]
    results: dict[str, dict[str, str]] = {}
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            done = pool.map(outcomes, chosen, [checks] * len(chosen), chunksize=4)
            for number, (name, found) in enumerate(done):
                results[name] = found
                if sys.stderr.isatty():
                    print(f"\r{number + 1}/{len(chosen)} {name:50}", end="", file=sys.stderr)
    else:
        for name in chosen:
            results[name] = outcomes(name, checks)[1]
            bad = {check: why for check, why in results[name].items() if why not in ("pass", "none")}
            if options.v:
                print(f"{name}: " + ("ok" if not bad else ""), flush=True)
                for check, why in bad.items():
                    print(f"    {check}: {why[:600]}", flush=True)
    print(table(results, checks))
    if options.json:
        with open(options.json, "w") as handle:
            json.dump(results, handle, indent=1)
    if options.docs:
        with open(options.docs, "w") as handle:
            handle.write(document(results, checks))
    return 0
