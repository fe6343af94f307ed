"""Write rushlight/script/schemas.txt: the signatures that TorchScript has beyond those of our ops.

Enters: an installed PyTorch, asked for the signatures its compiler knows. Leaves: one line per signature, in the order
in which the compiler tries them: whole where rushlight/aten/schemas.txt lacks it, else only its name and overload.

    python tools/script_schemas.py
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "rushlight" / "script" / "schemas.txt"
HEAD = ("# Signatures of TorchScript's builtins, in the order its compiler tries them; a bare name stands in"
        " aten/schemas.txt. Written by tools/script_schemas.py; do not edit.\n\n")
PRIM = frozenset("""EnumName EnumValue IfThenElse ModuleContainerIndex NumToTensor Print RaiseException StringIndex
    TupleIndex TupleUnpack Uninitialized VarConcat VarStack abs awaitable_nowait awaitable_wait data device dtype grad
    id index is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse
    is_sparse_csr is_vulkan is_xla is_xpu itemsize layout max min name nbytes rangelist requires_grad tolist type
    unchecked_cast unchecked_unwrap_optional isinstance""".split())
LEFT_OUT = ("_test_", "_foobar", "cudnn_", "miopen_", "mkldnn_", "mps_", "_mps", "_nnpack", "fbgemm_", "_cudnn",
            "_cufft", "_nested", "_sparse_semi", "_triton", "_cslt", "_philox", "quantized_", "_thnn", "_fused_ada",
            "_fused_sgd",
            "_efficient_", "_flash_", "xnnpack", "_wrapped", "_dyn_quant", "_convert_weight", "_weight_int", "_mkldnn",
            "vulkan", "_validate_", "_jagged", "_padded_dense", "lstm_mps", "_lstm_mps", "_amp_foreach", "owner",
            "to_here", "local_value", "confirmed_by_owner", "is_owner")


def main() -> None:
    import torch  # noqa: PLC0415 - the oracle, which the product does without

    import rushlight  # noqa: PLC0415 - for the names it has

    known = {line.strip() for line in (ROOT / "rushlight/aten/schemas.txt").read_text().splitlines()}
    by_name: dict[str, list] = {}
    for schema in torch._C._jit_get_all_schemas():
        by_name.setdefault(schema.name, [])
    lines: list[str] = []
    for name in sorted(by_name):
        space, _, op = name.partition("::")
        if space not in ("aten", "prim") or (space == "prim" and op not in PRIM) or op.startswith(LEFT_OUT):
            continue
        schemas = torch._C._jit_get_schemas_for_operator(name)
        own = [not _is_dispatched(torch, s) for s in schemas]
        public = hasattr(rushlight, op) or hasattr(rushlight.Tensor, op) or hasattr(rushlight._C._nn, op)
        unknown = space == "aten" and public and not any(str(s).partition("::")[2] in known for s in schemas)
        if not any(own) and not unknown:
            ordered = [str(s).partition("(")[0] for s in schemas if str(s).partition("::")[2] in known]
            lines += ordered if space == "aten" and len(ordered) > 1 else []
            continue
        for schema in schemas:
            text = str(schema)
            plain = text.partition("::")[2]
            lines.append(text.partition("(")[0] if space == "aten" and plain in known else text)
    TARGET.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{TARGET.relative_to(ROOT)}: {len(lines)} signatures")


def _is_dispatched(torch, schema) -> bool:  # noqa: ANN001 - PyTorch's objects
    try:
        torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    except RuntimeError:
        return False
    return True


if __name__ == "__main__":
    main()
