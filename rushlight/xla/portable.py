"""StableHLO's portable artifact, and modules whose sizes become known, through jaxlib's own MLIR.

Enters: modules as text, artifacts. Leaves: artifacts, which later versions of StableHLO read, and text. Refuses:
artifacts that are cut or of others.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from . import client

START = b"ML\xefR"      # of MLIR's bytecode


@functools.cache
def _mlir() -> SimpleNamespace:
    """jaxlib's MLIR, with the dialects that such modules have."""
    client.load()
    from jaxlib import _jax  # noqa: PLC0415 - most programs never ask
    from jaxlib.mlir import ir  # noqa: PLC0415
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # noqa: PLC0415
    from jaxlib.mlir.dialects import stablehlo  # noqa: PLC0415

    context, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    return SimpleNamespace(context=context, ir=ir, stablehlo=stablehlo, own=_jax.mlir)


def _parsed(text: str | bytes) -> Any:
    mlir = _mlir()
    try:
        return mlir.ir.Module.parse(text, mlir.context)
    except mlir.ir.MLIRError as error:
        raise ValueError(f"no module: {str(error).splitlines()[0]}") from None


def artifact_of(text: str) -> bytes:
    """A module as a portable artifact."""
    mlir = _mlir()
    return mlir.own.serialize_portable_artifact(_parsed(text), mlir.stablehlo.get_current_version())


def text_of(artifact: bytes) -> str:
    """A portable artifact as text."""
    if not artifact.startswith(START):
        raise ValueError("it is no artifact of StableHLO")
    mlir = _mlir()
    try:
        return str(mlir.own.deserialize_portable_artifact(artifact, mlir.context))
    except client.load().error as error:
        raise ValueError(f"it is no artifact of StableHLO: {str(error).splitlines()[0]}") from None


def refined(text: str, types: Sequence[str]) -> bytes:
    """A module whose `main` takes arguments of these types, in place of such whose sizes vary. Bytecode."""
    module = _parsed(text)
    main = next(op for op in module.body.operations if op.name.value == "main")
    takes, gives = main.type.inputs, main.type.results
    inner = re.sub(r"func\.func( public)? @main\b", "func.func private @with_sizes_that_vary", str(main), count=1)
    names = [f"%a{k}" for k in range(len(types))]
    lines = [f"%c{k} = stablehlo.convert {n} : ({given}) -> {wanted}"
             for k, (n, given, wanted) in enumerate(zip(names, types, takes, strict=True))]
    made = ", ".join(f"%r#{k}" for k in range(len(gives))) if len(gives) > 1 else "%r"
    results = ", ".join(map(str, gives))
    head = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    lines.append(f"%r{f':{len(gives)}' if len(gives) > 1 else ''} = call @with_sizes_that_vary("
                 f"{', '.join(f'%c{k}' for k in range(len(types)))}) : ({', '.join(map(str, takes))}) -> ({results})")
    body = "\n".join([*lines, f"return {made} : {results}"])
    outer = f"func.func public @main({head}) -> ({results}) {{\n{body}\n}}"
    rest = [str(op) for op in module.body.operations if op != main]
    with io.BytesIO() as out:
        _parsed("module {\n" + "\n".join([outer, inner, *rest]) + "\n}").operation.write_bytecode(out)
        try:
            return _mlir().own.refine_polymorphic_shapes(out.getvalue())
        except client.load().error as error:
            raise RuntimeError(f"xla: the program does not take these sizes. {str(error).splitlines()[0]}") from error
