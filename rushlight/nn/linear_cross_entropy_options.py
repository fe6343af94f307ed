"""Options of nn.functional.linear_cross_entropy's chunked form.

Enters: how many rows a chunk has, or a rule for it, and the type to compute in. Leaves: a frozen record that answers
`chunk_rows` and `compute_dtype` for one call. Refuses: values PyTorch refuses, with ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _C

POLICIES = ("auto", "accurate", "balanced", "compact")
FLOATS = (_C.float16, _C.bfloat16, _C.float32, _C.float64)


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Work through the batch in pieces, so that the logits of all rows never exist at once.

    Gradients are computed again from the inputs during backward, so `allow_retain_graph` needs nothing extra here, and
    every `acc_policy` adds up in `acc_dtype`.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; expected one of {POLICIES}")
        if self.chunking_method not in (None, "auto"):
            name, mark, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (mark and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(
                    f"invalid chunking_method: {self.chunking_method!r}; expected None, 'auto', 'aspect_ratio' or"
                    " 'aspect_ratio:N'"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size: expected None or an int above 0, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in FLOATS:
            raise ValueError(f"acc_dtype must be None or a floating type, got {self.acc_dtype!r}")

    def compute_dtype(self, dtype: Any) -> Any:
        """The type logits are computed in for inputs of `dtype`."""
        if self.acc_dtype is not None:
            return self.acc_dtype
        return _C.float32 if self.acc_policy == "auto" and dtype in (_C.float16, _C.bfloat16) else dtype

    def chunk_rows(self, batches: int, in_features: int, classes: int, dtype: Any) -> int:
        """Rows of one chunk."""
        method, given = self.chunking_method, self.batch_chunk_size
        if method == "auto":
            half = dtype in (_C.float16, _C.bfloat16)
            method = None if given is not None else "aspect_ratio" if half else "aspect_ratio:2"
        if method is None:
            return max(1, batches if given is None else min(given, batches))
        factor = int(method.partition(":")[2] or 1)
        ratio = -(-classes // max(1, in_features))
        wanted = -(-batches // max(1, ratio))
        rows = min((1 << max(0, wanted - 1).bit_length()) // factor, batches)
        if given is not None and given != rows:
            raise ValueError(
                f"batch_chunk_size (={given}) and chunking_method ('{method}') give different chunk sizes ({given} vs"
                f" {rows}); pass only one."
            )
        return max(1, rows)
