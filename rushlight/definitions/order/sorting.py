"""Order: sort and topk.

Short dims are sorted by a kernel, longer ones by digits; what has no loop form NumPy orders in the tensors' own memory.
NaN sorts as the largest number. One element by its rank is selected, not sorted for.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.definitions.reduction.extremes import selected_gradient
from rushlight.op import Composite, Library, Meta, Spec, wrap_dim
from rushlight.op.extern import own_function
from rushlight.op.layout import Layout, by_stride, strides_in, strides_like
from rushlight.planners.order.few_first import few_launches
from rushlight.planners.order.radix import radix_launches
from rushlight.planners.order.radix_device import finds_few, sort_launches
from rushlight.planners.order.rank_select import ranked_launches
from rushlight.planners.order.ranks import rank_launches

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


def ordered(input: Any, dim: int, count: int, descending: bool) -> Any:
    """Kernels for the first `count` elements in order along `dim`: one after another if they are few, by ranks where
    the dim is short, else by digits."""
    by_loops = None if finds_few(input, dim, count) else (
        few_launches(input, dim, count, descending) or rank_launches(input, dim, count, descending)
    )
    if by_loops is not None:
        return by_loops
    by_digits = radix_launches if input.device.type == "cpu" else sort_launches
    return by_digits(input, dim, count, descending)


class Sort(Library):
    """The elements in order along `dim`, and where each came from."""

    batch = "dim"
    computes = False
    schema = (
        "sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "sort(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    )
    layout = Layout.INPUT

    def launches(self, args):
        input = args[0]
        dim, descending = self.options(*args)
        if not input._is_contiguous():   # the dims as results have them in memory: these are dense rows then
            order = by_stride(input.shape, strides_like(input))[::-1]
            input, dim = input.permute(order), order.index(dim)
        return ordered(input, dim, input.shape[dim] if input.ndim else 1, descending)

    def options(self, *args: Any) -> tuple[int, bool]:
        given = {p.name: a for p, a in zip(self.spec.params, args, strict=True)}
        return wrap_dim("sort", given["dim"], given["input"].ndim), given["descending"]

    def meta(self, input, *rest):
        refuse_complex("sort", input)
        self.options(input, *rest)
        shape, strides = tuple(input.shape), strides_in(self.layout, input)
        return Spec(shape, input.dtype, strides), Spec(shape, _C.int64, strides)

    def cpu(self, out, input, *rest):
        dim, descending = self.options(input, *rest)
        if not input.ndim:
            out[0].copy_(input)
            out[1].zero_()
            return
        out[1].numpy()[...] = sorted_positions(array(input), dim, descending)
        out[0].copy_(input.gather(dim, out[1]))

    saved_results = (1,)

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


class TopK(Library):
    """The `k` largest (or smallest) elements along `dim`, and where they are."""

    batch = "dim"
    computes = False
    schema = (
        "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"
    )

    def launches(self, args):
        input, k, dim, largest, _ = args
        return ordered(input, wrap_dim("topk", dim, input.ndim), k, largest)

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

    saved_results = (1,)

    def vjp(self, g, input: Meta, dim, result):
        return {"input": None if g[0] is None else selected_gradient(g[0], input.shape, result[1], dim, True)}


class RankedElement(Library):
    """The element at `position` in order along `dim`, and where it is:
    of equals that which a stable sort would have there.

    With `missing` "first" a NaN in the row is the answer; with "skipped" `position` is not used,
    and the answer is the middle of the numbers.
    """

    batch = "dim"
    computes = False
    schema = "_ranked_element(Tensor input, int position, str missing, int dim) -> (Tensor values, Tensor indices)"
    function = method = out = False

    def meta(self, input, position, missing, dim):
        shape = tuple(1 if d == dim else n for d, n in enumerate(input.shape))
        return Spec(shape, input.dtype), Spec(shape, _C.int64)

    def launches(self, args):
        return ranked_launches(*args)

    def cpu(self, out, input, position, missing, dim):
        if not out[0].numel():
            return
        values, order = input.sort(dim)
        wanted = out[1].new_full(out[1].shape, position)
        if input.dtype.is_floating_point and missing != "kept":
            n = input.shape[dim]
            gone = input.isnan().sum(dim, True)
            middle = (n - gone - 1).clamp(min=0) // 2
            wanted = middle if missing == "skipped" else wanted.where(gone == 0, n - gone)
        out[0].copy_(values.gather(dim, wanted))
        out[1].copy_(order.gather(dim, wanted))

    def elsewhere(self, out, input, position, missing, dim):
        own = own_function("_ranked_rows", input.device)
        if own is None or not own(out, input, position, missing, dim):
            self.cpu(out, input, position, missing, dim)

    saved_results = (1,)

    def vjp(self, g, input: Meta, dim, result):
        return {"input": None if g[0] is None else selected_gradient(g[0], input.shape, result[1], dim, True)}
