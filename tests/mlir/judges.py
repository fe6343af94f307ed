"""Who judges MLIR text: jaxlib compiles and runs StableHLO, torch-mlir parses and verifies all dialects.

Leaves: `run(text, tensors)`, results of `main` under jaxlib; `verify(text)`, which raises for text that is no module.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import rushlight as torch

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@functools.cache
def _client() -> tuple[Any, Any]:
    from jaxlib import xla_client

    client = xla_client.make_cpu_client()
    return client, client.local_devices()[0]


class _Held:
    """A buffer of XLA, as something that tensors are made of."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __dlpack__(self, **options: Any) -> Any:
        from jaxlib import _jax

        return _jax.buffer_to_dlpack_managed_tensor(self.buffer)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def given(t: torch.Tensor) -> Any:
    """A tensor as a buffer of XLA."""
    from jaxlib import _jax

    _, device = _client()
    plain = t.detach().resolve_conj().resolve_neg().contiguous().clone()
    return _jax.dlpack_managed_tensor_to_buffer(plain.__dlpack__(), device, None, True)


def run(text: str, tensors: Any) -> list[torch.Tensor]:
    """What `main` gives under XLA on this processor."""
    from jaxlib import xla_client

    client, device = _client()
    program = client.compile_and_load(text, [device], xla_client.CompileOptions())
    return [taken(b) for b in program.execute([given(t) for t in tensors])]


def taken(buffer: Any) -> torch.Tensor:
    """A buffer of XLA as a tensor."""
    return torch.from_dlpack(_Held(buffer)).clone()


def verify(text: str) -> str:
    """The text as torch-mlir prints it, after it has parsed and verified it."""
    from torch_mlir import ir
    from torch_mlir._mlir_libs import _stablehlo
    from torch_mlir.dialects import torch as torch_dialect

    with ir.Context() as context:
        _stablehlo.register_dialect(context)
        torch_dialect.register_dialect(context)
        module = ir.Module.parse(text)
        assert module.operation.verify()
        return str(module)
