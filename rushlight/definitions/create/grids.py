"""Combinations of vectors: grids, products, blocks, powers, and positions of flattened grids.

Enters: vectors (block_diag: matrices). Leaves: composites of views, copies and gathers, so that gradients and shapes
without data follow. Refuses: more dims than the op speaks of, and mixed dtypes where PyTorch does.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from rushlight import _C
from rushlight.base.promotion import rank, result_type_of
from rushlight.base.shape import INTS
from rushlight.op import Composite, find_op, wrap_dim


class MeshGrid(Composite):
    """Coordinates of the grid spanned by vectors, one tensor per vector; 'xy' exchanges the first two dims."""

    schema = "meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]"
    method = False
    out = False
    spread = True

    def compute(self, tensors, indexing):
        if not tensors:
            raise RuntimeError("meshgrid expects a non-empty TensorList")
        for t in tensors:
            if t.ndim > 1:
                raise RuntimeError(f"meshgrid: expected tensors with 0 or 1 dimensions, got shape {list(t.shape)}")
            if t.dtype is not tensors[0].dtype:
                raise RuntimeError(
                    f"meshgrid: expected tensors of one dtype, got {tensors[0].dtype.name} and {t.dtype.name}"
                )
            if t.device != tensors[0].device:
                raise RuntimeError(
                    f"meshgrid: expected tensors on the same device, got {tensors[0].device} and {t.device}"
                )
        if indexing not in (None, "ij", "xy"):
            raise RuntimeError(f'meshgrid: expected indexing="xy" or indexing="ij", got {indexing}')
        swapped = indexing == "xy" and len(tensors) > 1
        order = [tensors[1], tensors[0], *tensors[2:]] if swapped else list(tensors)
        sizes = [t.numel() for t in order]
        outs = [t.reshape([-1 if k == d else 1 for k in range(len(order))]).expand(sizes) for d, t in enumerate(order)]
        return tuple([outs[1], outs[0], *outs[2:]] if swapped else outs)


class CartesianProd(Composite):
    """Every choice of one element from each vector, as rows."""

    schema = "cartesian_prod(Tensor[] tensors) -> Tensor"
    replays = True
    method = False
    out = False
    spread = True

    def compute(self, tensors):
        for t in tensors:
            if t.ndim != 1:
                raise RuntimeError(f"cartesian_prod: expected vectors, got shape {list(t.shape)}")
        if len(tensors) == 1:
            return tensors[0]
        grids = find_op("meshgrid")(tensors, indexing="ij")
        return find_op("stack")([g.reshape(-1) for g in grids], 1)


class Combinations(Composite):
    """Every choice of `r` elements of a vector in their order, as rows."""

    schema = "combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor"
    method = False
    out = False

    def compute(self, input, r, with_replacement):
        if input.ndim != 1:
            raise RuntimeError(f"combinations: expected a vector, got shape {list(input.shape)}")
        if r < 0:
            raise RuntimeError(f"combinations: expected r of at least 0, got {r}")
        if r == 0:
            return input.new_empty(0)
        n = input.numel()
        count = math.comb(n + r - 1, r) if with_replacement and n else math.comb(n, r)
        grid = find_op("meshgrid")([find_op("arange")(n, device=input.device)] * r, indexing="ij")
        keep = grid[0] >= 0
        for before, after in itertools.pairwise(grid):
            keep = keep & (before <= after if with_replacement else before < after)
        flat = keep.reshape(-1).nonzero_static(size=count).reshape(-1)
        return input[find_op("stack")(find_op("unravel_index")(flat, (n,) * r), 1)] if n else input.new_empty((0, r))


class BlockDiag(Composite):
    """Matrices along the diagonal of a matrix of zeros; vectors count as rows, numbers as 1x1."""

    schema = "block_diag(Tensor[] tensors) -> Tensor"
    replays = True
    method = False
    out = False
    spread = True

    def compute(self, tensors):
        if not tensors:
            raise RuntimeError("torch.block_diag: expected at least one tensor")
        for k, t in enumerate(tensors):
            if t.ndim > 2:
                raise RuntimeError(
                    f"block_diag: expected tensors with at most 2 dimensions, got {t.ndim} in number {k}"
                )
            if t.device != tensors[0].device:
                raise RuntimeError(
                    f"block_diag: expected tensors on the same device, got number 0 on {tensors[0].device} and number"
                    f" {k} on {t.device}"
                )
        dtype = result_type_of(tensors)
        blocks = [t.to(dtype).reshape((1,) * (2 - t.ndim) + tuple(t.shape)) for t in tensors]
        width = sum(b.shape[1] for b in blocks)
        pad, rows, left = find_op("constant_pad_nd"), [], 0
        for b in blocks:
            rows.append(pad(b, (left, width - left - b.shape[1])))
            left += b.shape[1]
        return find_op("cat")(rows, 0)


class Vander(Composite):
    """The powers of each element of a vector as rows, falling from N - 1 unless `increasing`."""

    schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor"
    replays = True
    method = False
    out = False

    def compute(self, x, N, increasing):
        if x.ndim != 1:
            raise RuntimeError(f"x must be a one-dimensional tensor, got shape {list(x.shape)}")
        count = x.shape[0] if N is None else N
        if count < 0:
            raise RuntimeError(f"N must be non-negative, got {count}")
        dtype = _C.int64 if rank(x.dtype) < 2 else x.dtype
        ones = x.new_ones((x.shape[0], min(count, 1)), dtype=dtype)
        if count < 2:
            return ones
        powers = x.to(dtype).unsqueeze(1).expand(x.shape[0], count - 1).cumprod(1)
        result = find_op("cat")([ones, powers], 1)
        return result if increasing else result.flip(1)


class UnravelIndex(Composite):
    """The coordinates, in a grid of `shape`, of positions in its flattened form."""

    schema = (
        "unravel_index(Tensor indices, int[] shape) -> Tensor[]",
        "unravel_index(Tensor indices, int shape) -> Tensor[]",
    )
    method = False
    out = False

    def compute(self, indices, shape):
        shape = (shape,) if isinstance(shape, INTS) else tuple(shape)
        if rank(indices.dtype) != 1:
            raise ValueError(f"expected 'indices' to be an integer tensor, but got {indices.dtype.name}")
        if any(n < 0 for n in shape):
            raise ValueError(f"shape: expected sizes of at least 0, got {shape}")
        indices = indices.to(_C.int64)
        result, step = [], math.prod(shape)
        for n in shape:
            step = step // n if n else 1
            result.append(indices.div(step, rounding_mode="floor").remainder(n) if n else indices)
        return tuple(result)


class ChunkCat(Composite):
    """Tensors cut into `num_chunks` along `dim` (zeros fill the last), each chunk's rest flattened, then joined."""

    schema = "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor"
    method = False
    differentiable = False

    def compute(self, tensors, dim, num_chunks):
        if not tensors:
            raise RuntimeError("_chunk_cat: expected at least one tensor, got a list that is empty")
        if num_chunks < 1:
            raise RuntimeError(f"_chunk_cat expects positive num_chunks, got {num_chunks}")
        first = tensors[0]
        dim = wrap_dim("_chunk_cat", dim, first.ndim)
        parts = []
        for t in tensors:
            self.check(t, first, dim)
            pad = -t.shape[dim] % num_chunks
            if pad:
                t = find_op("cat")([t, t.new_zeros((*t.shape[:dim], pad, *t.shape[dim + 1 :]))], dim)
            parts.append(t.reshape((*t.shape[:dim], num_chunks, -1)))
        return find_op("cat")(parts, dim + 1)

    def check(self, t: Any, first: Any, dim: int) -> None:
        if t.numel() == 0:
            raise RuntimeError(f"_chunk_cat expects non-empty tensors, got shape {list(t.shape)}")
        if dim >= t.ndim:
            raise RuntimeError(
                f"_chunk_cat: expected every tensor to have dimension dim={dim}, got one with ndim {t.ndim}"
            )
        if t.dtype is not first.dtype:
            raise RuntimeError(f"_chunk_cat: expected tensors of one dtype, got {first.dtype.name} and {t.dtype.name}")
        if tuple(t.shape[:dim]) != tuple(first.shape[:dim]):
            raise RuntimeError(
                f"_chunk_cat: expected equal sizes in the dimensions before dim, got {list(first.shape)} and"
                f" {list(t.shape)}"
            )
