"""Write rushlight/aten/schemas.py: the signatures PyTorch's ATen ops have, of those that Rushlight has too.

Signatures are part of the API: exported graphs name the overload that PyTorch would call, and files name arguments.
Run it where PyTorch is installed, after ops were added.
"""

import re
import textwrap
from pathlib import Path

import torch

from rushlight.aten.namespaces import _alias
from rushlight.op import load_all, ops

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten" / "schemas.py"
HEAD = '''"""Signatures that PyTorch has of our ops: see tools/list_schemas.py, which writes this file.

Separated by semicolons; what is not written returns one Tensor, and `self` without a type is one.
"""

TEXT = """
'''
OTHERS = ("_foreach", "quantized", "cudnn", "miopen", "mkldnn", "sparse", "_nested", "_jagged")


def is_wanted(schema: torch._C.FunctionSchema, name: str) -> bool:
    """Whether graphs can hold it: tensors in or out, nothing named, no memory to write to."""
    text = str(schema)
    if any(word in name for word in OTHERS) or "Dict" in text or "Dimname" in text or "hacked_twin" in text:
        return False
    if any(a.is_out for a in schema.arguments) or "= annotate" in text:
        return False
    return any("Tensor" in str(a.type) for a in (*schema.arguments, *schema.returns))


def main() -> None:
    load_all()
    rows = []
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten" and is_wanted(schema, name) and (name in ops or _alias(name) is not None):
            text = str(schema).removeprefix("aten::")
            text = re.sub(r" -> Tensor(\([a-z!]\))?$", "", text)
            text = text.replace("(Tensor self", "(self").replace("\\", "\\\\")
            rows.append(text)
    table = textwrap.fill("; ".join(sorted(set(rows))), 119, break_long_words=False, break_on_hyphens=False)
    TARGET.write_text(f'{HEAD}{table}\n"""\n')
    print(f"{len(rows)} signatures")


if __name__ == "__main__":
    main()
