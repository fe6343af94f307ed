"""Sequences of different lengths: packed time step by time step, or padded to the longest.

Enters: tensors of sequences, or lists of them. Leaves: `PackedSequence`s, padded tensors, lists. Refuses: lengths that
are not positive or, unless told to sort, do not fall.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from .. import _C
from .._C import Tensor
from ..op import find_op

_int64 = _C.int64


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Rows of all sequences, step by step: `batch_sizes[t]` of them belong to step t, the longest sequence first."""

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            data, batch_sizes = data  # old programs give a pair
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"batch_sizes should always be on CPU, but they are on {batch_sizes.device}")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data moved or converted; indices only moved."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = (None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a GPU."""
        return self.to(*(args or ("cuda",)), **kwargs)

    def double(self) -> PackedSequence:
        """As float64."""
        return self.to(dtype=_C.float64)

    def float(self) -> PackedSequence:
        """As float32."""
        return self.to(dtype=_C.float32)

    def half(self) -> PackedSequence:
        """As float16."""
        return self.to(dtype=_C.float16)

    def long(self) -> PackedSequence:
        """As int64."""
        return self.to(dtype=_C.int64)

    def int(self) -> PackedSequence:
        """As int32."""
        return self.to(dtype=_C.int32)

    def pin_memory(self) -> PackedSequence:
        """In page-locked memory."""
        return type(self)(self.data.pin_memory(), *self[1:])

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each place went."""
    if permutation is None:
        return None
    places = find_op("arange")(0, permutation.numel(), device=permutation.device)
    return find_op("empty_like")(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack [T, N, …] (or [N, T, …] with batch_first). enforce_sorted: the lengths must fall;
    otherwise they are sorted here."""
    counts = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    order = None
    if not enforce_sorted:
        positions = find_op("sort")(_integers(counts), descending=True)[1]
        order = positions.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
        counts = [counts[i] for i in positions.tolist()]
    steps = input.transpose(0, 1) if batch_first else input
    if len(counts) != steps.shape[1]:
        raise RuntimeError(f"lengths: expected one per sequence (batch_size={steps.shape[1]}), got {len(counts)}")
    if any(a < b for a, b in pairwise(counts)):
        raise RuntimeError("lengths: enforce_sorted=True expects the longest first. "
                           "Sort the sequences, or pass enforce_sorted=False.")
    if not counts or counts[-1] <= 0:
        raise RuntimeError("lengths: expected numbers above 0, got one that is not")
    sizes = [sum(n > t for n in counts) for t in range(counts[0])]
    rows = find_op("cat")([steps[t, :size] for t, size in enumerate(sizes)])
    return PackedSequence(rows, _integers(sizes), order, None)


def _integers(values: list[int]) -> Tensor:
    return find_op("zeros")((0,), dtype=_int64).new_tensor(values)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded [T, N, …] or [N, T, …], lengths), in the order before packing."""
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                f"total_length: expected no less than the longest sequence, got total_length={total_length} "
                f"and max sequence length being {length}"
            )
        length = total_length
    steps = []
    for rows in sequence.data.split(sizes):
        missing = sizes[0] - rows.shape[0]
        steps.append(
            find_op("cat")([rows, rows.new_full((missing, *rows.shape[1:]), padding_value)]) if missing else rows
        )
    steps += [sequence.data.new_full(tuple(steps[0].shape), padding_value)] * (length - len(sizes))
    padded = find_op("stack")(steps, 1 if batch_first else 0)
    counts = _integers([sum(size > i for size in sizes) for i in range(sizes[0])])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        counts = counts[sequence.unsorted_indices.cpu()]
    return padded, counts


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [L_i, …] stacked and padded to the longest, [T, N, …] or [N, T, …]."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side: expected 'left' or 'right', got {padding_side}.")
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: sequences must be an iterable of tensors, got {type(sequences)}")
    sequences = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(t.shape[0] for t in sequences)
    padded = []
    for t in sequences:
        edge = t.new_full((longest - t.shape[0], *t.shape[1:]), padding_value)
        padded.append(find_op("cat")([t, edge] if padding_side == "right" else [edge, t]))
    return find_op("stack")(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows.unbind(0), lengths.tolist())]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences [L_i, …]."""
    lengths = [t.size(0) for t in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of sequences that was packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
