"""Write rushlight/aten/overload_names.txt: which overloads PyTorch has of the ops that Rushlight has too.

Names are part of the API: programs write `ops.aten.sum.dim_IntList`, and ask whether an overload exists.
Run it where PyTorch is installed, after ops were added.
"""

from pathlib import Path

import torch

from rushlight.op import load_all, ops

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten" / "overload_names.txt"
HEAD = "# Overloads that PyTorch has of our ops, an op a line. Written by tools/list_overloads.py; do not edit.\n\n"


def main() -> None:
    load_all()
    found: dict[str, set[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten" and name in ops and schema.overload_name:
            found.setdefault(name, set()).add(schema.overload_name)
    TARGET.write_text(HEAD + "".join(f"{name}: {' '.join(sorted(labels))}\n" for name, labels in sorted(found.items())))
    print(f"{len(found)} ops, {sum(map(len, found.values()))} overloads")


if __name__ == "__main__":
    main()
