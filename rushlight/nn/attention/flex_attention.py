"""Attention whose scores a user's function changes, and masks by blocks: `flex_attention`, `create_block_mask`,
`BlockMask`.

Enters: queries, keys and values of shape (batch, heads, length, width); `score_mod(score, b, h, q, kv)` and
`mask_mod(b, h, q, kv)`, functions of one score or position, which are mapped over all of them. Leaves: the attention's
result and, if asked for, the log of the sum of exponentials. Scores are held whole, but where a device has a kernel
that skips what a mask hides; gradients flow to everything, captured tensors included. Refuses: lengths that do not fit
the mask, sliced masks without a new `mask_mod`, options of GPU kernels.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from ... import _C
from ...func import vmap
from ...op import ops
from ...op.extern import own_function

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
Tensor = _C.Tensor


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` should return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results asked for; None where not asked."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


# Functions of one position
# ----------------------------------------------------------------------------------------------


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Hides nothing."""
    return batch.new_ones((), dtype=_C.bool)


def _sliced_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    raise RuntimeError(
        "a sliced BlockMask has no usable mask_mod: its positions moved. Set mask_mod from the original mask's, "
        "with the offset added"
    )


def _joined(mask_mods: tuple[Callable, ...], name: str, start: bool) -> Callable[..., Tensor]:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"{name}: every input should be a callable mask_mod, got {mask_mods}")

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=_C.bool)
        for mod in mask_mods:
            hidden = mod(b, h, q_idx, kv_idx)
            result = result & hidden if start else result | hidden
        return result

    return joined


def or_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Shows what any of the masks shows."""
    return _joined(mask_mods, "or_masks", False)


def and_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Shows what all of the masks show."""
    return _joined(mask_mods, "and_masks", True)


def _everywhere(function: Callable, takes_score: bool) -> Callable:
    """A function of one position mapped over kv, q, heads and batch, in that order from the inside out."""
    score = (0,) if takes_score else ()
    for mapped in range(3, -1, -1):
        function = vmap(function, in_dims=score + tuple(0 if i == mapped else None for i in range(4)))
    return function


def _takes_score(function: Callable) -> bool:
    """Whether a function has five positional parameters (a score_mod) rather than four (a mask_mod)."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(
        p.kind in kinds and p.default is inspect.Parameter.empty
        for p in inspect.signature(function).parameters.values()
    )
    if count not in (4, 5):
        raise AssertionError(
            "expected a mask_mod (b, h, q_idx, kv_idx) or a score_mod (score, b, h, q_idx, kv_idx), got a function of"
            f" {count} parameters"
        )
    return count == 5


def _positions(sizes: tuple[int, ...], device: Any) -> list[Tensor]:
    return [ops["arange"](size, device=device) for size in sizes]


def create_mask(mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """The mask of a function, whole: a bool tensor (B, H, Q_LEN, KV_LEN)."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    device = "cpu" if device is None else device
    if _takes_score(mod_fn):
        changed = _everywhere(mod_fn, True)(ops["zeros"](sizes, device=device), *_positions(sizes, device))
        return ~changed.isneginf()
    return _everywhere(mod_fn, False)(*_positions(sizes, device)).expand(sizes)


# Masks by blocks
# --------------------------------------------------------------------------------------------------------


def _to_ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of flags as counts, and the flagged columns first."""
    dense = dense.to(_C.int32)
    return dense.sum(-1).to(_C.int32), dense.argsort(dim=-1, descending=True, stable=True).to(_C.int32)


def _to_dense(counts: Tensor, columns: Tensor, width: int) -> Tensor:
    """The flags behind counts and column lists; lists beyond their count write to a column that is cut off."""
    listed = ops["arange"](columns.shape[-1], device=columns.device) < counts.unsqueeze(-1)
    target = ops["where"](listed, columns, width).to(_C.int64)
    flags = ops["zeros"]((*columns.shape[:-1], width + 1), dtype=_C.int32, device=columns.device)
    return flags.scatter(-1, target, 1)[..., :width].contiguous()


class BlockMask:
    """Which blocks of (query, key) positions take part:
    partly (`kv_*`, where `mask_mod` decides) or wholly (`full_kv_*`)."""

    _TENSORS = (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    )

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None, q_indices: Tensor | None, full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None, BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE,) * 2,
        mask_mod: Callable[..., Tensor] = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError(
                f"BlockMask must have at least 2 dimensions, got kv_indices of shape {tuple(kv_indices.shape)}"
            )
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices come together, or neither does")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Callable[..., Tensor] | None = None, seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask from the key blocks of each row of query blocks; the query blocks of each key block follow."""
        if kv_indices.dim() < 2:
            raise RuntimeError(
                f"BlockMask must have at least 2 dimensions, got kv_indices of shape {tuple(kv_indices.shape)}"
            )
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE

        def transposed(counts: Tensor | None, columns: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
            if not compute_q_blocks or counts is None:
                return None, None
            return _to_ordered(_to_dense(counts, columns, columns.shape[-1]).transpose(-2, -1))

        lengths = seq_lengths or (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *transposed(kv_num_blocks, kv_indices),
            *transposed(full_kv_num_blocks, full_kv_indices),
            BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, the block tensors, block sizes and `mask_mod`."""
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *(getattr(self, name) for name in self._TENSORS), *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Positions in all, masked ones included."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The percentage of positions in blocks that are left out."""
        blocks = self.kv_num_blocks.sum() + (0 if self.full_kv_num_blocks is None else self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """One flag for each block: whether any of it takes part."""
        dense = _to_dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        if self.full_kv_num_blocks is None:
            return dense
        return dense | _to_dense(self.full_kv_num_blocks, self.full_kv_indices, self.full_kv_indices.shape[-1])

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A drawing: full, partial and empty blocks of each batch entry and head, at most `limit` of them."""
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        partial = _to_dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        grids = (partial + 2 * (self.to_dense() - partial)).reshape(-1, *partial.shape[-2:]).tolist()
        drawn = [
            "\n".join(
                "".join("░" * (v == 1) + "█" * (v == 2) + " " * (v == 0) for v in row[:columns]) for row in grid[:rows]
            )
            for grid in grids[:limit]
        ]
        return "\n\n".join(drawn + ([f"... {len(grids) - limit} more"] if len(grids) > limit else []))

    def to(self, device: Any) -> BlockMask:
        """The same mask on another device."""
        return BlockMask(
            self.seq_lengths,
            *(None if (t := getattr(self, name)) is None else t.to(device) for name in self._TENSORS),
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """Some batch entries, heads or rows of blocks. `mask_mod` must then be set anew, since positions moved."""
        wanted = index if isinstance(index, tuple) else (index,)
        wanted = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in wanted)
        parts = [None if (t := getattr(self, name)) is None else t[wanted] for name in self._TENSORS[:4]]
        return BlockMask.from_kv_blocks(
            *parts,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask cut to its upper left corner."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])

        def cut(counts: Tensor | None, indices: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
            return (
                (None, None)
                if counts is None
                else _to_ordered(_to_dense(counts, indices, indices.shape[-1])[..., :rows, :columns])
            )

        return BlockMask.from_kv_blocks(
            *cut(self.kv_num_blocks, self.kv_indices),
            *cut(self.full_kv_num_blocks, self.full_kv_indices),
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        shapes = ",\n".join(
            f"    {name}={None if (t := getattr(self, name)) is None else t.shape}" for name in self._TENSORS
        )
        return (
            f"BlockMask(\n{shapes},\n    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n   "
            f" sparsity={self.sparsity():.2f}%,\n    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}\n)"
        )


def create_block_mask(
    mask_mod: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks that `mask_mod` shows some or all of. `_compile` changes nothing: the mask is made eagerly."""
    if _takes_score(mask_mod):
        raise AssertionError(f"create_block_mask requires a mask_mod (b, h, q_idx, kv_idx), got {mask_mod}")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = ops["constant_pad_nd"](mask, [0, -KV_LEN % columns, 0, -Q_LEN % rows], False)
    blocks = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows)).sum((-3, -1))
    full = blocks == rows * columns
    partial = (blocks > 0) & ~full if separate_full_blocks else blocks > 0
    wholly = _to_ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *_to_ordered(partial), *wholly, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


# Attention
# --------------------------------------------------------------------------------------------------------------


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if any(t.is_nested for t in (query, key, value)):
        raise NotImplementedError("flex_attention: nested tensors are not supported; pad them first")
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError(
            f"flex_attention: query, key and value must have 4 dimensions, got {query.dim()}, {key.dim()} and"
            f" {value.dim()}"
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"flex_attention: query and key must have the same width, got {query.size(-1)} and {key.size(-1)}"
        )
    heads, shared = query.size(1), key.size(1)
    if heads % shared if enable_gqa else heads != shared:
        raise ValueError(
            f"flex_attention: {heads} query heads do not fit {shared} key heads (enable_gqa={enable_gqa}; with it, the"
            " first must be a multiple)"
        )
    if query.size(0) != key.size(0) and (block_mask is None or key.size(0) != 1):
        raise ValueError(f"flex_attention: batch sizes differ: {query.size(0)} and {key.size(0)}")
    if block_mask is not None:
        if block_mask.mask_mod is _sliced_mask:
            raise RuntimeError("a sliced BlockMask has no usable mask_mod: set it from the original mask's")
        if block_mask.seq_lengths != (query.size(-2), key.size(-2)):
            raise ValueError(
                f"flex_attention: block_mask was created for lengths {block_mask.seq_lengths}, got"
                f" {(query.size(-2), key.size(-2))}; create a new mask, or crop a longer one by its _adjust()"
            )


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None,
    enable_gqa: bool = False, return_lse: bool = False, kernel_options: dict[str, Any] | None = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with scores changed by `score_mod` and hidden by `block_mask`.
    `kernel_options` tune GPU kernels and change no result."""
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError(
            "flex_attention: return_lse and return_aux exclude each other; use return_aux=AuxRequest(lse=True)"
        )
    if return_lse:
        warnings.warn("return_lse is deprecated; use return_aux=AuxRequest(lse=True)", FutureWarning, stacklevel=2)
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    if score_mod is None and return_aux is None and not return_lse and _is_skipped(query, key, value, block_mask):
        assert block_mask is not None, "nothing is skipped without a mask"
        positions = _positions((*query.shape[:3], key.size(2)), query.device)
        shown = _once(_everywhere(block_mask.mask_mod, False)(*positions))
        return ops["_attention_hidden"](query, key, value, shown, scale)[0]
    batch, groups = query.size(0), query.size(1) // key.size(1)
    key, value = (t.repeat_interleave(groups, dim=1).expand(batch, -1, -1, -1) for t in (key, value))
    scores = _scores(query, key, score_mod, block_mask, scale)
    result = ops["_safe_softmax"](scores, -1).to(query.dtype) @ value.to(query.dtype)
    if return_lse:
        return result, scores.logsumexp(-1)
    if return_aux is None:
        return result
    return result, AuxOutput(
        scores.logsumexp(-1) if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
    )


def _is_skipped(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None) -> bool:
    """Whether a device has a kernel that skips what the mask hides."""
    half = query.dtype in (_C.float16, _C.bfloat16) and query.dtype is key.dtype is value.dtype
    fits = block_mask is not None and query.size(0) == key.size(0) == value.size(0)
    return half and fits and own_function("_hidden_attention", query.device) is not None


def _once(shown: Tensor) -> Tensor:
    """A mask with batches and heads that are alike there once."""
    for dim in (0, 1):
        if shown.stride(dim) == 0 and shown.shape[dim] > 1:
            shown = shown.narrow(dim, 0, 1)
    return shown


def _scores(
    query: Tensor, key: Tensor, score_mod: Callable | None, block_mask: BlockMask | None, scale: float
) -> Tensor:
    """Scaled products in at least single precision, changed and hidden position by position."""
    working = _C.float64 if query.dtype is _C.float64 else _C.float32
    scores = (query @ key.to(query.dtype).transpose(-2, -1)).to(working) * scale
    positions = _positions(tuple(scores.shape), query.device)
    if score_mod is not None:
        scores = _everywhere(score_mod, True)(scores, *positions).to(working)
    if block_mask is not None:
        shown = _everywhere(block_mask.mask_mod, False)(*positions)
        scores = ops["where"](shown, scores, -math.inf)
    return scores


class FlexKernelOptions(TypedDict, total=False):
    """Options of the compiled kernels; those for the GPU are accepted and change nothing here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BACKEND: str
