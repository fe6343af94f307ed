"""Runs the chosen groups and prints one report.

    python -m benchmarks                     everything but the long groups (layers, compiled, profiler, script, ...)
    python -m benchmarks small chain         some groups
    python -m benchmarks small --only add    the cases whose name contains "add"
    python -m benchmarks --json report.json  also write every round's times

Times are medians; a ratio is torch's time / rushlight's, so above 1 means rushlight is faster; spread is half the
distance between the quartiles. The exit status is 0 whether or not bars are met, unless --strict is given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from benchmarks import (
    ablation,
    chain,
    compiled,
    data,
    files,
    first_calls,
    kernels,
    large,
    layers,
    lazy,
    matmul,
    models,
    optim,
    profiler,
    quantized,
    script,
    shapes,
    small,
    startup,
)
from benchmarks.cases import Section
from benchmarks.harness import Session
from benchmarks.report import Neighbours, as_data, describe_machine, show_machine, show_section

GROUPS: dict[str, Callable[[Session], list[Section]]] = {
    "small": small.run,
    "chain": chain.run,
    "large": large.run,
    "kernels": kernels.run,
    "matmul": matmul.run,
    "layers": layers.run,
    "optim": optim.run,
    "startup": startup.run,
    "first_calls": first_calls.run,
    "models": models.run,
    "compiled": compiled.run,
    "data": data.run,
    "files": files.run,
    "shapes": shapes.run,
    "profiler": profiler.run,
    "script": script.run,
    "lazy": lazy.run,
    "quantized": quantized.run,
    "ablation": ablation.run,
}


# groups that run only when asked for
LONG = ("layers", "compiled", "first_calls", "profiler", "script", "lazy", "quantized", "ablation")


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Rushlight against PyTorch.")
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all but {', '.join(LONG)})"
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=5, help="turns per case and process pair (default 5)")
    parser.add_argument("--processes", type=int, default=2, help="process pairs (default 2)")
    parser.add_argument("--threads", type=int, default=2, help="threads for each library (default 2)")
    parser.add_argument("--time", type=float, default=0.05, help="seconds one turn should last (default 0.05)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: processor time, which a busy machine distorts less; with --threads 1 (default wall)")
    parser.add_argument("--batches", default="1,8", help="batch sizes of the layers group (default 1,8; 32 takes long)")
    parser.add_argument("--quick", action="store_true", help="one case of each path of the ablation")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 when a bar is missed")
    options = parser.parse_args(arguments)
    try:
        options.batches = tuple(int(number) for number in options.batches.split(","))
    except ValueError:
        parser.error(f"--batches: expected numbers separated by commas, got {options.batches!r}")
    unknown = [name for name in options.groups if name not in GROUPS]
    if unknown:
        parser.error(f"no group called {unknown[0]!r}; there are {', '.join(GROUPS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    session = Session(rounds=options.rounds, processes=options.processes, threads=options.threads,
                      at_least=options.time, only=options.only, clock=options.clock, batches=options.batches,
                      quick=options.quick)
    sections: list[Section] = []
    neighbours = Neighbours()
    for name in options.groups or (name for name in GROUPS if name not in LONG):
        for section in GROUPS[name](session):
            sections.append(section)
            print(show_section(section) + "\n", flush=True)
    machine = describe_machine(session.threads, session.versions)
    print(show_machine(machine))
    share = machine["others"] = neighbours.share()
    if share > 0.05:
        print(f"Other programs used {share:.0%} of the machine meanwhile: the times above are not to be trusted.")
    missed = [check for section in sections for check in section.checks if check.passed is False]
    print(f"{len(missed)} bars missed" if missed else "every bar met")
    if options.json:
        with open(options.json, "w") as handle:
            json.dump({"machine": machine, "sections": [as_data(section) for section in sections]}, handle, indent=1)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
