"""How a tensor lies on the processes of a mesh dimension: in parts, whole, or as terms of a sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One way to lie on one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part (of that dimension)."""
        return False

    def is_replicate(self) -> bool:
        """Whether each process has the whole."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each process has a term, to be reduced."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Parts along a dimension: as equal as can be, the first ones longer."""

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """How long the part of a process is, and where it begins, as `chunk` cuts."""
        length = -(-curr_local_size // num_chunks) if num_chunks else 0
        start = min(length * rank, curr_local_size)
        return min(length, curr_local_size - start), start

    _local_shard_size_and_offset = local_shard_size_and_offset

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """The parts of a tensor, padded to one length if asked; how much each was padded."""
        size = tensor.shape[self.dim]
        longest = -(-size // num_chunks)
        parts, paddings = [], []
        for rank in range(num_chunks):
            length, start = self.local_shard_size_and_offset(size, num_chunks, rank)
            part = tensor.narrow(self.dim, start, length)
            paddings.append(longest - length)
            if with_padding and longest > length:
                shape = list(part.shape)
                shape[self.dim] = longest
                padded = part.new_zeros(shape)
                padded.narrow(self.dim, 0, length).copy_(part)
                part = padded
            parts.append(part.contiguous() if contiguous else part)
        return parts, paddings

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Parts of parts: the dimension is cut `split_factor` times by a later mesh dimension first."""

    split_factor: int = 1

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor on every process."""

    def is_replicate(self) -> bool:
        return True

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """A term on every process; their reduction is the tensor."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None or reduce_op == self.reduce_op

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
