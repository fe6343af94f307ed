"""`python -m rushlight check --device NAME`: arguments in, a report out, and the exit status."""

from __future__ import annotations

import sys

from .case import Chip, NoSuchDevice
from .runner import AREAS, check


def check_device(name: str, package: str | None, only: str | None, quick: bool) -> int:
    """Run the suite and print what came of it. 0: all passed; 1: something failed; 2: it could not begin."""
    areas = AREAS if only is None else tuple(only.split(","))
    try:
        chip = Chip.find(name, package, quick)
    except NoSuchDevice as refused:
        print(f"rushlight check: {refused}", file=sys.stderr)
        return 2
    report = check(chip, areas)
    return 0 if report.passed else 1
