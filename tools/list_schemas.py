"""Write rushlight/aten/schemas.txt: the signatures PyTorch's ATen ops have, of those that Rushlight has too; and
rushlight/aten_view/implicit.txt: which of those PyTorch takes apart above autograd.

Signatures are part of the API: exported graphs name the overload that PyTorch would call, and files name arguments.
Run it where PyTorch is installed, after ops were added.
"""

from pathlib import Path

import torch

from rushlight.aten.namespaces import _alias
from rushlight.op import load_all, ops

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten" / "schemas.txt"
HEAD = "# Signatures that PyTorch has of our ops, one a line. Written by tools/list_schemas.py; do not edit.\n\n"
IMPLICIT = TARGET.parents[1] / "aten_view" / "implicit.txt"
IMPLICIT_HEAD = ("# Overloads that PyTorch takes apart above autograd, of those we have, one a line. "
                 "Written by tools/list_schemas.py; do not edit.\n\n")
OTHERS = ("_foreach", "quantized", "cudnn", "miopen", "mkldnn", "sparse", "_nested", "_jagged")


def is_wanted(schema: torch._C.FunctionSchema, name: str) -> bool:
    """Whether graphs can hold it: tensors in or out, nothing named, no memory to write to."""
    text = str(schema)
    if any(word in name for word in OTHERS) or "Dict" in text or "Dimname" in text or "hacked_twin" in text:
        return False
    if any(a.is_out for a in schema.arguments) or "= annotate" in text:
        return False
    return any("Tensor" in str(a.type) for a in (*schema.arguments, *schema.returns))


def is_implicit(schema: torch._C.FunctionSchema) -> bool:
    """Whether autograd of PyTorch sees the parts, not the op."""
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    except RuntimeError:      # no op of the dispatcher
        return False


def main() -> None:
    load_all()
    rows, implicit = [], []
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten" and is_wanted(schema, name) and (name in ops or _alias(name) is not None):
            rows.append(str(schema).removeprefix("aten::"))
            implicit += [f"{name}.{schema.overload_name or 'default'}"] if is_implicit(schema) else []
    TARGET.write_text(HEAD + "".join(f"{row}\n" for row in sorted(set(rows))))
    IMPLICIT.write_text(IMPLICIT_HEAD + "".join(f"{row}\n" for row in sorted(set(implicit))))
    print(f"{len(rows)} signatures")


if __name__ == "__main__":
    main()
