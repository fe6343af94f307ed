"""How a tensor lies on the processes of a mesh dimension: in parts, whole, or as terms of a reduction.

Enters: sizes and places in a mesh. Leaves: how long each process's part is and which elements it has. Nothing here
communicates: `_redistribute.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...dynamo.record import marks
from ...op import find_op

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
_cat, _arange = find_op("cat"), find_op("arange")


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

    def __reduce__(self) -> tuple:
        return _rebuilt, (type(self).__name__, dict(self.__dict__))


def _rebuilt(name: str, values: dict[str, Any]) -> Placement:
    """A placement as it was pickled."""
    kinds = {cls.__name__: cls for cls in (Shard, _StridedShard, Replicate, Partial, _NormPartial)}
    result = object.__new__(kinds[name])
    for key, value in values.items():
        object.__setattr__(result, key, value)
    return result


@dataclass(frozen=True, repr=False)
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

    def part_size(self, size: int, num_chunks: int, rank: int) -> int:
        """How long the part of a process is."""
        return self.local_shard_size_and_offset(size, num_chunks, rank)[0]

    def parts(self, tensor: Any, num_chunks: int) -> list[Any]:
        """The parts of a tensor, in the order of the processes; views."""
        size = tensor.shape[self.dim]
        places = [self.local_shard_size_and_offset(size, num_chunks, rank) for rank in range(num_chunks)]
        return [tensor.narrow(self.dim, start, length) for length, start in places]

    def joined(self, parts: Sequence[Any]) -> Any:
        """What `parts` were cut from."""
        return _cat(list(parts), self.dim)

    def at(self, dim: int) -> Shard:
        """The same way of cutting, along another dimension."""
        return Shard(dim)

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """The parts of a tensor, padded to one length if asked; how much each was padded."""
        parts = self.parts(tensor, num_chunks)
        longest = max(part.shape[self.dim] for part in parts)
        paddings = [longest - part.shape[self.dim] for part in parts]
        if with_padding:
            parts = [padded(part, self.dim, longest) for part in parts]
        return [part.contiguous() if contiguous else part for part in parts], paddings

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """Parts of parts: the dimension is cut into `split_factor` first, and each process has a part of each of those.

    So that a later mesh dimension that cuts the same tensor dimension gets whole pieces: data parallelism over tensor
    parallelism is written so.
    """

    dim: int
    split_factor: int = 1

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def is_shard(self, dim: int | None = None) -> bool:
        return False     # as PyTorch says it: what asks for shards means those that are one stretch

    def parts(self, tensor: Any, num_chunks: int) -> list[Any]:
        """The parts of a tensor, in the order of the processes."""
        cut = Shard(self.dim)
        pieces = [cut.parts(piece, num_chunks) for piece in cut.parts(tensor, self.split_factor)]
        return [cut.joined([piece[rank] for piece in pieces]) for rank in range(num_chunks)]

    def part_size(self, size: int, num_chunks: int, rank: int) -> int:
        """How long the part of a process is."""
        cut = Shard(self.dim)
        pieces = (cut.part_size(size, self.split_factor, i) for i in range(self.split_factor))
        return sum(cut.part_size(piece, num_chunks, rank) for piece in pieces)

    def local_shard_size_and_offset(self, curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """How long the part is, and where its first element lies; -1 where it has none."""
        places = self.places(curr_local_size, num_chunks)[rank]
        return len(places), places[0] if places else -1

    _local_shard_size_and_offset = local_shard_size_and_offset

    def places(self, size: int, num_chunks: int) -> list[list[int]]:
        """Which elements along the dimension each process has."""
        whole = _arange(size).view([1] * self.dim + [size])
        return [part.reshape(-1).tolist() for part in self.parts(whole, num_chunks)]

    def joined(self, parts: Sequence[Any]) -> Any:
        """What `parts` were cut from."""
        size = sum(part.shape[self.dim] for part in parts)
        order = [place for part in self.places(size, len(parts)) for place in part]
        back = _arange(size)
        back[back.new_tensor(order)] = back.clone()
        return _cat(list(parts), self.dim).index_select(self.dim, back.to(parts[0].device))

    def at(self, dim: int) -> _StridedShard:
        """The same way of cutting, along another dimension."""
        return _StridedShard(dim, split_factor=self.split_factor)

    _split_tensor = Shard._split_tensor

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """The whole tensor on every process."""

    def is_replicate(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """A term on every process; their reduction is the tensor."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None or reduce_op == self.reduce_op

    def term(self, whole: Any, num_terms: int) -> Any:
        """One of equal terms whose reduction is `whole`."""
        if self.reduce_op == "sum":
            return whole / num_terms
        if self.reduce_op in ("avg", "min", "max"):
            return whole
        raise ValueError(f"Partial({self.reduce_op}): a tensor cannot be written as such a reduction of equal terms")

    def before(self, tensor: Any) -> Any:
        """What is handed to the reduction."""
        return tensor

    def after(self, tensor: Any) -> Any:
        """What the reduction gives."""
        return tensor

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """Norms of parts: the norm of the whole is the root of the sum of their powers."""

    reduce_op: str = "sum"
    norm_type: float = 2.0

    def __init__(self, norm_type: float = 2.0) -> None:
        object.__setattr__(self, "reduce_op", "sum")
        object.__setattr__(self, "norm_type", norm_type)

    @property
    def is_power(self) -> bool:
        return self.norm_type not in (0, 1)

    def term(self, whole: Any, num_terms: int) -> Any:
        return whole / num_terms ** (1.0 / self.norm_type) if self.norm_type else whole / num_terms

    def before(self, tensor: Any) -> Any:
        return tensor**self.norm_type if self.is_power else tensor

    def after(self, tensor: Any) -> Any:
        return tensor ** (1.0 / self.norm_type) if self.is_power else tensor

    def __repr__(self) -> str:
        return f"_NormPartial(reduce_op={self.reduce_op}, norm_type={self.norm_type})"

    def __str__(self) -> str:
        order = int(self.norm_type) if self.norm_type == int(self.norm_type) else self.norm_type
        return f"_NormP({order})"


marks.stands_for_itself(Placement, is_value=True)


def is_cut(placement: Placement) -> bool:
    """Whether each process has a part, in one stretch or in several."""
    return isinstance(placement, (Shard, _StridedShard))


def padded(part: Any, dim: int, length: int) -> Any:
    """A tensor made longer along `dim`, with zeros."""
    if part.shape[dim] == length:
        return part
    shape = list(part.shape)
    shape[dim] = length
    result = part.new_zeros(shape)
    result.narrow(dim, 0, part.shape[dim]).copy_(part)
    return result
