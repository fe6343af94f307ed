"""Fuzz the operators with wrong arguments, and report deaths, hangs, slow calls and errors that betray a bug.

    python -m tests.fuzz --calls 200000             over both cores, restarting a process after each death
    python -m tests.fuzz --calls 1 --start 4711     one call again
    python -m tests.fuzz --guard                    every tensor between forbidden pages
"""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.watch import fuzz


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--guard", action="store_true", help="tensor memory ends at a forbidden page")
    parser.add_argument("--unlimited", action="store_true", help="no limit of memory; needed with AddressSanitizer")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds after which a call counts as hung")
    options = parser.parse_args()
    extra = [f"--{name}" for name in ("guard", "unlimited") if getattr(options, name)]
    findings = fuzz(
        options.seed,
        options.start,
        options.start + options.calls,
        options.processes,
        extra,
        options.patience,
        progress=True,
    )
    for line in findings:
        print(line)
    print(f"{options.calls} calls, {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
