"""Order: sort, topk, unique, searchsorted, bincount, histc.

Short dims are sorted by a kernel; longer ones have no loop form, so NumPy sorts the tensors' own memory. NaN sorts as
the largest number.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, Extern, Meta, Spec, find_op, result_type, wrap_dim
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.ranks import rank_plan
from rushlight.ops.reduction.extremes import selected_gradient
from rushlight.promotion import rank

CPU = _C.device("cpu")


def array(t: Any) -> Any:
    """A host tensor's elements as NumPy sees them; half types, which it cannot order fast or at all, as float32."""
    t = t.detach()
    if t.device.type != "cpu":
        t = t.to("cpu")
    if t.dtype in (_C.bfloat16, _C.float16):
        t = t.to(_C.float32)
    return t.numpy()


def from_array(a: Any, dtype: Any, device: Any) -> Any:
    """A tensor holding a copy of a NumPy array."""
    host = dtype if dtype not in (_C.bfloat16, _C.float16) else _C.float32
    out = _C.empty(a.shape, None, host, CPU)
    out.numpy()[...] = a
    out = out if host is dtype else out.to(dtype)
    return out if device.type == "cpu" else out.to(device)


def refuse_complex(name: str, t: Any) -> None:
    if t.dtype.is_complex:
        raise RuntimeError(f"{name}: does not support complex dtypes, got {t.dtype.name}")


def sorted_positions(a: Any, axis: int, descending: bool) -> Any:
    """Stable argsort; equal elements keep their order whichever the direction."""
    import numpy as np  # loaded with the first call that needs it

    if not descending:
        return np.argsort(a, axis=axis, kind="stable")
    found = np.argsort(np.flip(a, axis), axis=axis, kind="stable")
    return np.flip(a.shape[axis] - 1 - found, axis)


class Sort(Extern):
    """The elements in order along `dim`, and where each came from."""

    schema = (
        "sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "sort(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    )

    kind = KIND_PLANNED

    def plan(self, args):
        input = args[0]
        self.meta(*args)
        dim, descending = self.options(*args)
        return rank_plan(input, dim, input.shape[dim] if input.ndim else 1, descending, result_type("sort", self.spec.return_names))

    def options(self, *args: Any) -> tuple[int, bool]:
        given = {p.name: a for p, a in zip(self.spec.params, args, strict=True)}
        return wrap_dim("sort", given["dim"], given["input"].ndim), given["descending"]

    def meta(self, input, *rest):
        refuse_complex("sort", input)
        self.options(input, *rest)
        shape = tuple(input.shape)
        return Spec(shape, input.dtype), Spec(shape, _C.int64)

    def cpu(self, out, input, *rest):
        dim, descending = self.options(input, *rest)
        if not input.ndim:
            out[0].copy_(input)
            out[1].zero_()
            return
        out[1].numpy()[...] = sorted_positions(array(input), dim, descending)
        out[0].copy_(input.gather(dim, out[1]))

    def vjp(self, g, input: Meta, dim, result):
        return {"input": None if g[0] is None else selected_gradient(g[0], input.shape, result[1], dim, True)}


class ArgSort(Composite):
    """Where the elements in order along `dim` come from."""

    schema = (
        "argsort(Tensor input, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
        "argsort(Tensor input, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    )

    def compute(self, input, *rest):
        given = {p.name: a for p, a in zip(self.spec.params, (input, *rest), strict=True)}
        return input.detach().sort(given["dim"], given["descending"])[1]


class MSort(Composite):
    """The elements in order along the first dim."""

    schema = "msort(Tensor input) -> Tensor"

    def compute(self, input):
        return input.sort(0)[0]


class TopK(Extern):
    """The `k` largest (or smallest) elements along `dim`, and where they are."""

    schema = "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"

    kind = KIND_PLANNED

    def plan(self, args):
        input, k, dim, largest, _ = args
        self.meta(*args)
        return rank_plan(input, wrap_dim("topk", dim, input.ndim), k, largest, result_type("topk", self.spec.return_names))

    def meta(self, input, k, dim, largest, sorted):
        refuse_complex("topk", input)
        dim = wrap_dim("topk", dim, input.ndim)
        size = input.shape[dim] if input.ndim else 1
        if not 0 <= k <= size:
            raise RuntimeError(f"selected index k out of range: k is {k}, size of dim {dim} is {size}")
        shape = tuple(k if d == dim else n for d, n in enumerate(input.shape))
        return Spec(shape, input.dtype), Spec(shape, _C.int64)

    def cpu(self, out, input, k, dim, largest, sorted):
        import numpy as np  # loaded with the first call that needs it

        if not input.ndim or 0 in out[0].shape:
            out[0].copy_(input if out[0].numel() else out[0])
            out[1].zero_()
            return
        dim = wrap_dim("topk", dim, input.ndim)
        a = array(input)
        n = a.shape[dim]
        positions = None
        if k < n and n > 16:
            kth = n - k if largest else k - 1
            chosen = np.argpartition(a, kth, axis=dim)
            positions = np.take(chosen, range(n - k, n) if largest else range(k), axis=dim)
            part = np.take_along_axis(a, positions, dim)
            positions = np.take_along_axis(positions, sorted_positions(part, dim, largest), dim)
        else:
            positions = np.take(sorted_positions(a, dim, largest), range(k), axis=dim)
        out[1].numpy()[...] = positions
        out[0].copy_(input.gather(dim, out[1]))

    def vjp(self, g, input: Meta, dim, result):
        return {"input": None if g[0] is None else selected_gradient(g[0], input.shape, result[1], dim, True)}


# --- distinct elements ------------------------------------------------------------------------------------------------


class _Results(OpDefinition):
    """Ops whose output sizes depend on data: they run on the host and return one tensor or several."""

    differentiable = False
    out = False

    def run(self, *args: Any) -> Any:
        if args[0].device.type == "meta":
            raise NotImplementedError(f"{self.name}: the number of results depends on data, and meta tensors have none")
        made = self.compute(*args)
        return made[0] if len(made) == 1 else tuple(made)

    def compute(self, *args: Any) -> list[Any]:
        raise NotImplementedError


class Unique(_Results):
    """The distinct elements in order, where each went, and how often it occurs."""

    schema = "unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor"

    def compute(self, input, sorted, return_inverse, return_counts, dim):
        import numpy as np  # loaded with the first call that needs it

        refuse_complex("unique", input)
        a, axis = array(input), None
        if dim is None:
            a = a.reshape(-1)
        else:
            axis = wrap_dim("unique", dim, input.ndim)
        found = np.unique(a, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
        inverse = found[1].reshape(tuple(input.shape) if axis is None else (-1,))
        made = [from_array(found[0], input.dtype, input.device)]
        if return_inverse:
            made.append(from_array(inverse, _C.int64, input.device))
        if return_counts:
            made.append(from_array(found[2], _C.int64, input.device))
        return made


class UniqueConsecutive(_Results):
    """The elements without repetitions of neighbours."""

    schema = "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor"

    def compute(self, input, return_inverse, return_counts, dim):
        import numpy as np  # loaded with the first call that needs it

        a, axis = array(input), 0
        if dim is None:
            a = a.reshape(-1)
        else:
            axis = wrap_dim("unique_consecutive", dim, input.ndim)
        n = a.shape[axis]
        rows = np.moveaxis(a, axis, 0)
        starts = np.ones(n, dtype=bool)
        starts[1:] = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
        first = np.flatnonzero(starts)
        made = [from_array(np.take(a, first, axis=axis), input.dtype, input.device)]
        if return_inverse:
            inverse = np.cumsum(starts) - 1
            made.append(from_array(inverse.reshape(tuple(input.shape)) if dim is None else inverse, _C.int64, input.device))
        if return_counts:
            made.append(from_array(np.diff(np.append(first, n)), _C.int64, input.device))
        return made


# --- search and counting ----------------------------------------------------------------------------------------------


class SearchSorted(Extern):
    """Where each value would be inserted to keep the last dim of `sorted_sequence` in order."""

    schema = "searchsorted(Tensor sorted_sequence, Tensor|Scalar input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"
    differentiable = False
    method = False

    def check(self, sequence: Any, input: Any, right: bool, side: Any, sorter: Any) -> bool:
        """Whether to insert behind equal elements."""
        if side not in (None, "left", "right"):
            raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
        if side == "left" and right:
            raise RuntimeError("searchsorted(): side and right can't be set to opposites, got side of left while right was True")
        if isinstance(input, _C.Tensor):
            if sequence.ndim != 1 and tuple(sequence.shape[:-1]) != tuple(input.shape[:-1]):
                raise RuntimeError(
                    "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
                    f"value tensor must match, but we got boundaries tensor {list(sequence.shape)} and input value tensor {list(input.shape)}"
                )
        elif sequence.ndim != 1:
            raise RuntimeError(f"searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, got {sequence.ndim}")
        if sorter is not None and (sorter.shape != sequence.shape or sorter.dtype is not _C.int64):
            raise RuntimeError(f"searchsorted(): sorter must be an int64 tensor of the boundaries' shape {list(sequence.shape)}, got {list(sorter.shape)} {sorter.dtype.name}")
        return right or side == "right"

    def meta(self, sequence, input, out_int32, right, side, sorter):
        self.check(sequence, input, right, side, sorter)
        shape = tuple(input.shape) if isinstance(input, _C.Tensor) else ()
        return Spec(shape, _C.int32 if out_int32 else _C.int64)

    def cpu(self, out, sequence, input, out_int32, right, side, sorter):
        import numpy as np  # loaded with the first call that needs it

        where = "right" if self.check(sequence, input, right, side, sorter) else "left"
        edges = array(sequence)
        if sorter is not None:
            order = array(sorter)
            if order.size and (order.min() < 0 or order.max() >= edges.shape[-1]):
                raise IndexError("searchsorted(): sorter index out of range")
            edges = np.take_along_axis(edges, order, -1)
        values = array(input) if isinstance(input, _C.Tensor) else np.asarray(input)
        if edges.ndim <= 1:
            out.numpy()[...] = np.searchsorted(edges.reshape(-1), values, side=where)
            return
        found = out.numpy().reshape(-1, values.shape[-1])
        for row, (e, v) in enumerate(zip(edges.reshape(-1, edges.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)):
            found[row] = np.searchsorted(e, v, side=where)


class Bucketize(Composite):
    """The bucket of each value between 1-D `boundaries`."""

    schema = "bucketize(Tensor|Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"
    method = False

    def compute(self, input, boundaries, out_int32, right):
        if boundaries.ndim != 1:
            raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
        return find_op("searchsorted")(boundaries, input, out_int32=out_int32, right=right)


class BinCount(OpDefinition):
    """How often each non-negative integer occurs, or the sum of its weights."""

    schema = "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor"
    differentiable = False

    def run(self, input, weights, minlength):
        import numpy as np  # loaded with the first call that needs it

        if rank(input.dtype) != 1:
            raise NotImplementedError(f'"bincount" not implemented for {input.dtype.name} tensors')
        if input.ndim != 1:
            raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got shape {list(input.shape)} of {input.dtype.name}")
        if minlength < 0:
            raise RuntimeError("minlength should be >= 0")
        if weights is not None and weights.shape != input.shape:
            raise RuntimeError(f"weights should be 1-d and have the same length as input, got {list(weights.shape)} and {list(input.shape)}")
        a = array(input)
        if a.size and a.min() < 0:
            raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got {a.min()}")
        dtype = _C.int64
        if weights is not None:
            dtype = weights.dtype if weights.dtype is _C.float32 else _C.float64
        counts = np.bincount(a.astype(np.int64), None if weights is None else array(weights), minlength)
        return from_array(counts, dtype, input.device)


class HistC(OpDefinition):
    """How many elements fall into each of `bins` equal ranges between `min` and `max`."""

    schema = "histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"
    differentiable = False

    def run(self, input, bins, min, max):
        import numpy as np  # loaded with the first call that needs it

        if bins <= 0:
            raise RuntimeError("bins must be > 0")
        if rank(input.dtype) != 2:
            raise NotImplementedError(f'"histc" not implemented for {input.dtype.name} tensors')
        a = array(input).reshape(-1)
        low, high = min, max
        if low == high and a.size:
            low, high = a.min(), a.max()
        if low == high:
            low, high = low - 1, high + 1
        if not (np.isfinite(low) and np.isfinite(high)):
            raise RuntimeError(f"range of [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"max must be larger than min, got min {low} and max {high}")
        a = a[(a >= low) & (a <= high)]
        at = ((a - a.dtype.type(low)) * bins / a.dtype.type(high - low)).astype(np.int64)
        counts = np.bincount(np.minimum(at, bins - 1), minlength=bins)
        return from_array(counts, input.dtype, input.device)
