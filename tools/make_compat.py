"""Write what `rushlight compat` knows of PyTorch, and docs/compatibility.md from it.

Enters: PyTorch 2.13 (`pip install torch==2.13.0`), the records of tests/parity, the table in docs/ecosystem.md. Leaves:
rushlight/compat/records.txt and docs/compatibility.md. With --check it writes nothing, names what is out of date, and
exits with 1. Refuses another PyTorch.

    python tools/make_compat.py [--check]
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

DATA, PAGE = ROOT / "rushlight/compat/records.txt", ROOT / "docs/compatibility.md"
VERSION = "2.13"


def libraries() -> dict[str, dict[str, int]]:
    """Per module of cases: how many there are, and how many equal PyTorch: all but those that docs/ecosystem.md
    lists as different. `tests/ecosystem/test_libraries.py` fails when another one differs."""
    from tests.ecosystem.compare import case_files, cases_of  # noqa: PLC0415 - after the path is set

    table = (ROOT / "docs/ecosystem.md").read_text(encoding="utf-8")
    differ = {m[1].replace(" ", "_"): int(m[3]) - int(m[2])
              for m in re.finditer(r"^\| ([\w ]+?) \|[^|]*\| (\d+)/(\d+):", table, re.M)}
    counts = {path.stem: len(cases_of(path)) for path in case_files()}
    return {stem: {"cases": count, "equal": count - differ.get(stem, 0)} for stem, count in counts.items()}


def own_names() -> dict[str, list[str]]:
    """Public names that are Rushlight's alone, its folders among them: `torch.loops` is no name of PyTorch."""
    import torch  # noqa: PLC0415 - after the path is set

    import rushlight  # noqa: PLC0415 - as above

    theirs = {*dir(torch), *(one.name for one in pkgutil.iter_modules(torch.__path__)), "functorch"}
    ours = {*dir(rushlight), *(one.name for one in pkgutil.iter_modules(rushlight.__path__))}
    pairs = {"torch": (ours, theirs), "torch.Tensor": (set(dir(rushlight.Tensor)), set(dir(torch.Tensor)))}
    return {space: sorted(name for name in mine - others if not name.startswith("_"))
            for space, (mine, others) in pairs.items()}


def records() -> dict[str, Any]:
    import count_status  # noqa: PLC0415 - after the path is set
    import torch  # noqa: PLC0415 - as above

    from rushlight.compat.coverage import MODULES, dotted  # noqa: PLC0415 - as above
    from tests.parity.left_out import LEFT_OUT, applies  # noqa: PLC0415 - as above
    from tests.parity.records import RECORDS  # noqa: PLC0415 - as above

    if not torch.__version__.startswith(VERSION):
        raise SystemExit(f"make_compat: expected PyTorch {VERSION}, got {torch.__version__}")
    checks = sum(applies(check, record) for check in LEFT_OUT for record in RECORDS.values())
    names = {module: sorted(count_status.public_names(count_status.find(dotted(module, "").rstrip("."))))
             for module in MODULES}
    return {"torch": VERSION, "names": names, "own": own_names(), "libraries": libraries(),
            "ops": {"records": len(RECORDS), "checks": checks, "passed": checks - count_status.exceptions(*LEFT_OUT)}}


def write(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def main(words: list[str]) -> int:
    from rushlight.compat import coverage  # noqa: PLC0415 - after the path is set

    data = json.dumps(records(), indent=0).replace(",\n", ", ").replace("[\n", "[") + "\n"
    if "--check" not in words:
        write(DATA, data)
        coverage.records.cache_clear()
        write(PAGE, coverage.page())
        return 0
    old = [str(path.relative_to(ROOT)) for path, text in ((DATA, data), (PAGE, coverage.page()))
           if not path.exists() or path.read_text(encoding="utf-8") != text]
    print("\n".join(f"{path} is out of date: python tools/make_compat.py" for path in old))
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
