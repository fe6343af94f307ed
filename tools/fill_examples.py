"""Write into every help.txt of the definitions what its examples print.

Enters: lines `>>> code` of `rushlight/definitions/*/help.txt`, or of the files named. Leaves: the same files, with what
each line prints below it. Refuses to write a file in which a line fails: it says which, and exits with 1. Read what it
wrote before you commit it: the tests only see that it stays so.

    python tools/fill_examples.py [FILE ...]
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import rushlight as rl  # noqa: E402 - the tree this program stands in


def filled(text: str, name: str) -> str:
    """The text, with what its examples print now."""
    lines, space = [], {"rl": rl}
    pending = text.splitlines()
    while pending:
        line = pending.pop(0)
        if not line.startswith("    >>> "):
            shown = line.startswith("    ") and bool(lines) and bool(space.get("in_example"))
            if not shown:
                space = space if line.startswith("    ") else {"rl": rl}
                lines.append(line)
            continue
        code = [line[8:]]
        lines.append(line)
        while pending and pending[0].startswith("    ..."):
            code.append(pending[0][8:])
            lines.append(pending.pop(0))
        space["in_example"] = True
        shown = printed("\n".join(code) + "\n", space, name).splitlines()
        lines += [f"    {line or '<BLANKLINE>'}" for line in shown]
    return "\n".join(lines) + "\n"


def printed(code: str, space: dict, name: str) -> str:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, name, "single"), space)
    except Exception as wrong:
        raise RuntimeError(f"{name}: {code.strip()}: {type(wrong).__name__}: {wrong}") from wrong
    return out.getvalue()


def main(names: list[str]) -> int:
    files = [Path(name) for name in names] or sorted(ROOT.glob("rushlight/definitions/**/help.txt"))
    for file in files:
        try:
            text = filled(file.read_text(encoding="utf-8"), str(file))
        except RuntimeError as wrong:
            print(wrong, file=sys.stderr)
            return 1
        fresh = file.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
