"""Write rushlight/aten/graph/nodes.txt: the graph nodes that PyTorch has for ATen's ops.

Names of nodes, which arguments they have an edge for and what they keep are what programs that walk a graph rely on.
Run it where PyTorch and PyYAML are installed: PyTorch's code generator brings the list of its derivatives.
"""

from pathlib import Path
from typing import Any

import torchgen
from torchgen.packaged.autograd.load_derivatives import load_derivatives

TARGET = Path(__file__).resolve().parents[1] / "rushlight" / "aten" / "graph" / "nodes.txt"
HEAD = (
    "# Graph nodes that PyTorch has: `op.overload Node arguments with an edge | what it keeps`, an overload a line.\n"
    "# Written by tools/list_nodes.py; do not edit.\n\n"
)
OTHERS = ("_foreach", "cudnn", "miopen", "mkldnn", "sparse", "nested", "jagged", "_thnn", "_test_", "mps", "_cuda")
HIDDEN = ("_scalar_type", "_options", "_layout", "_info", "_args_sizes", "_args_sizes_symint", "_args_scalartypes")


def kept(info: Any) -> list[str]:
    """Names of the `_saved_` attributes that Python can read."""
    names = [str(getattr(s.nctype.name, "name", s.nctype.name)) for s in (*info.all_saved_inputs,
                                                                          *info.all_saved_outputs)]
    return sorted(n for n in dict.fromkeys(names) if not n.endswith(HIDDEN))


def main() -> None:
    home = Path(torchgen.__file__).parent / "packaged"
    native = home / "ATen" / "native"
    found, _ = load_derivatives(
        str(home / "autograd" / "derivatives.yaml"), str(native / "native_functions.yaml"), str(native / "tags.yaml")
    )
    rows = []
    for schema, by_key in found.items():
        info = by_key.get("Default") or next(iter(by_key.values()))
        name = str(schema.name)
        if info.op is None or any(word in name for word in OTHERS):
            continue
        edges = " ".join(a.name for a in info.args_with_derivatives)
        rows.append(" ".join(f"{name} {info.op} {edges} | {' '.join(kept(info))}".split()))
    TARGET.write_text(HEAD + "".join(f"{row}\n" for row in sorted(rows)))
    print(f"{len(rows)} nodes")


if __name__ == "__main__":
    main()
