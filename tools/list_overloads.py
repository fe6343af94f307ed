"""Write rushlight/aten/overload_names.py: which overloads PyTorch has of the ops that Rushlight has too.

Names are part of the API: programs write `ops.aten.sum.dim_IntList`, and ask whether an overload exists.
Run it where PyTorch is installed, after ops were added.
"""

import textwrap
from pathlib import Path

import torch

from rushlight.op import load_all, ops

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten" / "overload_names.py"
HEAD = '''"""Overloads that PyTorch has of our ops, by name: see tools/list_overloads.py, which writes this file."""

TEXT = """
'''


def main() -> None:
    load_all()
    found: dict[str, set[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten" and name in ops and schema.overload_name:
            found.setdefault(name, set()).add(schema.overload_name)
    words = [f"{name}:{','.join(sorted(labels))}" for name, labels in sorted(found.items())]
    # Words are broken at spaces; one that is longer than a line gets some, behind commas.
    words = [word if len(word) <= 120 else word.replace(",", ", ") for word in words]
    table = textwrap.fill(" ".join(words), 120, break_long_words=False, break_on_hyphens=False).replace(", ", ",")
    TARGET.write_text(f'{HEAD}{table}\n"""\n')
    print(f"{len(found)} ops, {sum(map(len, found.values()))} overloads")


if __name__ == "__main__":
    main()
