"""Run the functions of a program called `check_...`, or those that are chosen, and print as JSON what went wrong."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence


def run_all(names: dict[str, object], chosen: Sequence[str] = ()) -> None:
    found = {}
    for name, check in names.items():
        if name.startswith("check_") and callable(check) and (not chosen or name in chosen):
            try:
                check()
                found[name] = ""
            except BaseException:
                found[name] = traceback.format_exc()
    print(json.dumps(found))
