"""Write rushlight/aten_view/private_use/forms.txt: what PyTorch has for ATen's overloads on every back end.

A row is an overload, what computes it where a back end has no kernel for it (`structured`: its form with out=;
`explicit`: a function below autograd; `-`: nothing), and its form with out= with the names of what that writes to.
Back ends of programs (PrivateUse1) are asked in that order. Run it where PyTorch is installed, after ops were added.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from rushlight.aten.overloads import all_schemas

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten_view" / "private_use" / "forms.txt"
HEAD = "# overload: kind, form with out= and what it writes to. Written by tools/composite_kernels.py; do not edit.\n\n"
KINDS = {"structured": "CompositeExplicitAutogradNonFunctional", "explicit": "CompositeExplicitAutograd"}


def kind_of(name: str) -> str:
    """What computes an overload on any back end."""
    for kind, key in KINDS.items():
        if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
            return kind
    return "-"


def out_form(schema: torch._C.FunctionSchema, others: list[torch._C.FunctionSchema]) -> str:
    """The overload that takes the same and writes where it is told, with the names of what it writes to."""
    given = [(a.name, str(a.type)) for a in schema.arguments]
    for other in others:
        outs = [a.name for a in other.arguments if a.is_out]
        taken = [(a.name, str(a.type)) for a in other.arguments if not a.is_out]
        if outs and taken == given[: len(taken)] and len(given) - len(taken) in (0, 4):   # dtype, layout, device, pin
            full = f"{other.name}.{other.overload_name}"
            is_copied = torch._C._dispatch_has_kernel_for_dispatch_key(full, KINDS["explicit"])
            return f" {other.overload_name} {','.join(outs)}{' copied' * is_copied}"
    return ""


def table() -> Iterator[str]:
    by_name: dict[str, list[torch._C.FunctionSchema]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            by_name.setdefault(schema.name[6:], []).append(schema)
    known = {s.op for s in all_schemas()} | {n for n in by_name if n.startswith("_foreach")}
    registered = set(torch._C._dispatch_get_all_op_names())
    for name in sorted(known & set(by_name)):
        plain = name[:-1] if name.endswith("_") and name[:-1] in by_name else name
        for schema in sorted(by_name[name], key=lambda s: s.overload_name):
            full = f"{name}.{schema.overload_name}" if schema.overload_name else name
            if f"aten::{full}" not in registered or any(a.is_out for a in schema.arguments):
                continue
            kind, out = kind_of(full), out_form(schema, by_name[plain])
            if kind != "-" or out:
                yield f"{name}.{schema.overload_name or 'default'}: {kind}{out}"


if __name__ == "__main__":
    rows = list(table())
    TARGET.write_text(HEAD + "".join(f"{row}\n" for row in rows))
    print(f"{len(rows)} overloads")
