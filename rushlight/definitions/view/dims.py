"""Views that reorder, add, drop or repeat dimensions."""

from __future__ import annotations

from typing import Any

from ...base.shape import holds, is_hidden
from ...op import Composite, Geometry, Meta, View, wrap_dim, wrap_dims


def _permuted(t: Any, order: tuple[int, ...]) -> Geometry:
    sizes, strides = t.shape, t.stride()
    return Geometry(tuple(sizes[d] for d in order), tuple(strides[d] for d in order))


class Permute(View):
    """Dimensions in another order."""

    schema = "permute(Tensor(a) input, int[] dims) -> Tensor(a)"

    def geometry(self, t, dims):
        if len(dims) != t.ndim:
            raise RuntimeError(f"permute: expected a dim for each of the {t.ndim} dimensions, got {len(dims)} dims")
        return _permuted(t, wrap_dims("permute", dims, t.ndim))

    def vjp(self, g, dims):
        inverse = [0] * len(dims)
        for i, d in enumerate(dims):
            inverse[d] = i
        return {"input": g.permute(inverse)}

    def inverse(self, base, new, which, dims):
        return self.vjp(new, [d % len(dims) for d in dims])["input"]


class Transpose(View):
    """Two dimensions exchanged."""

    schema = "transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)"
    aliases = ("swapdims",)

    def geometry(self, t, dim0, dim1):
        a, b = wrap_dim("transpose", dim0, t.ndim), wrap_dim("transpose", dim1, t.ndim)
        order = list(range(t.ndim))
        if t.ndim:
            order[a], order[b] = order[b], order[a]
        return _permuted(t, tuple(order))

    def vjp(self, g, dim0, dim1):
        return {"input": g.transpose(dim0, dim1)}

    def inverse(self, base, new, which, dim0, dim1):
        return new.transpose(dim0, dim1)


class SwapAxes(Composite):
    """`transpose`, in NumPy's words."""

    schema = "swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor(a)"
    replays = True
    out = False

    def compute(self, input, axis0, axis1):
        return input.transpose(axis0, axis1)


class T(View):
    """A matrix turned over; vectors and numbers stay as they are."""

    schema = "t(Tensor(a) input) -> Tensor(a)"

    def geometry(self, t):
        if t.ndim > 2:
            raise RuntimeError(f"t: expected at most 2 dimensions, got {t.ndim}")
        return _permuted(t, tuple(reversed(range(t.ndim))))

    def vjp(self, g):
        return {"input": g.t()}

    def inverse(self, base, new, which):
        return new.t()


class Movedim(Composite):
    """Some dimensions moved to other positions, the rest in their order."""

    schema = "movedim(Tensor(a) input, int[] source, int[] destination) -> Tensor(a)"
    replays = True
    aliases = ("moveaxis",)
    out = False

    def compute(self, input, source, destination):
        if len(source) != len(destination):
            raise RuntimeError(
                f"movedim: expected as many dims in source as in destination, got {list(source)} and"
                f" {list(destination)}"
            )
        source, destination = wrap_dims("movedim", source, input.ndim), wrap_dims("movedim", destination, input.ndim)
        order: list[int] = [-1] * input.ndim
        for s, d in zip(source, destination, strict=True):
            order[d] = s
        rest = iter(d for d in range(input.ndim) if d not in source)
        return input.permute([next(rest) if o < 0 else o for o in order])


class Adjoint(Composite):
    """The matrices' conjugate transpose."""

    schema = "adjoint(Tensor(a) input) -> Tensor(a)"
    out = False

    def compute(self, input):
        if input.ndim < 2:
            raise RuntimeError(f"adjoint: expected a matrix or a batch of matrices, got {input.ndim} dimensions.")
        transposed = input.transpose(-2, -1)
        return transposed.conj() if input.is_complex() else transposed


class Unsqueeze(View):
    """A dimension of size one inserted."""

    schema = "unsqueeze(Tensor(a) input, int dim) -> Tensor(a)"

    def geometry(self, t, dim):
        d = wrap_dim("unsqueeze", dim, t.ndim + 1)
        sizes, strides = tuple(t.shape), t.stride()
        step = sizes[d] * strides[d] if d < t.ndim else 1
        return Geometry((*sizes[:d], 1, *sizes[d:]), (*strides[:d], step, *strides[d:]))

    def vjp(self, g, dim):
        return {"input": g.squeeze(dim)}

    def inverse(self, base, new, which, dim):
        return new.squeeze(dim)


class Squeeze(View):
    """Dimensions of size one dropped: all of them, one, or those listed."""

    schema = (
        "squeeze(Tensor(a) input) -> Tensor(a)",
        "squeeze.dim(Tensor(a) input, int dim) -> Tensor(a)",
        "squeeze.dims(Tensor(a) input, int[] dim) -> Tensor(a)",
    )

    def geometry(self, t, dim=None):
        if dim is None:
            drop = set(range(t.ndim))
        else:
            drop = set(wrap_dims("squeeze", (dim,) if isinstance(dim, int) else dim, t.ndim))
        keep = [d for d in range(t.ndim) if d not in drop or t.shape[d] != 1]
        strides = t.stride()
        return Geometry(tuple(t.shape[d] for d in keep), tuple(strides[d] for d in keep))

    def vjp(self, g, input: Meta):
        return {"input": g.view(input.shape) if g._is_contiguous() else g.reshape(input.shape)}

    def inverse(self, base, new, which, dim=None):
        return new.reshape(base.shape)


class Expand(View):
    """Dimensions of size one repeated without copying; -1 keeps a size."""

    schema = "expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)"
    function = False

    def geometry(self, t, size, implicit=False):
        extra = len(size) - t.ndim
        if extra < 0:
            raise RuntimeError(
                f"expand(FloatTensor{{{list(t.shape)}}}, size={list(size)}): expected at least as many sizes as the"
                f" tensor has dimensions ({t.ndim}), got {len(size)}"
            )
        sizes, strides, own = [], [], t.stride()
        for i, want in enumerate(size):
            have = t.shape[i - extra] if i >= extra else 1
            if want == -1 and i < extra:
                raise RuntimeError(f"expand: -1 keeps the size of a dimension, and the leading dimension {i} is new")
            if want != -1 and have != 1 and not holds(want == have):
                raise RuntimeError(
                    f"expand: The expanded size of the tensor ({want}) must match the existing size ({have}) at"
                    f" non-singleton dimension {i}. Target sizes: {list(size)}. Tensor sizes: {list(t.shape)}"
                )
            if want < -1:
                raise RuntimeError(f"expand: sizes must not be negative, got {list(size)}")
            result = have if want == -1 else want
            sizes.append(result)
            strides.append(0 if have == 1 and result != 1 else None if i < extra else own[i - extra])
        # a new dim of size one has the stride a dense one would have
        for i in reversed(range(extra if t.ndim else 0)):
            strides[i] = sizes[i + 1] * strides[i + 1] if strides[i] is None and i + 1 < len(size) else strides[i]
        return Geometry(tuple(sizes), tuple(s or 0 for s in strides))

    def vjp(self, g, input: Meta):
        return {"input": g.sum_to_size(input.shape)}

    def inverse(self, base, new, which, size, implicit=False):
        """Every place of a repeated dim shows one element: the first is taken."""
        extra = new.ndim - base.ndim
        for _ in range(extra):
            new = new.select(0, 0)
        for d, n in enumerate(base.shape):
            if n == 1 and new.shape[d] != 1:
                new = new.narrow(d, 0, 1)
        return new


class ExpandAs(Composite):
    """`input` expanded to the sizes of `other`."""

    schema = "expand_as(Tensor(a) input, Tensor other) -> Tensor(a)"
    replays = True
    function = False
    out = False

    def compute(self, input, other):
        return input.expand(other.shape)


class BroadcastTo(Composite):
    """`input` expanded to `size`."""

    schema = "broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)"
    replays = True
    out = False

    def compute(self, input, size):
        return input.expand(size)


class SumToSize(Composite):
    """The inverse of broadcasting: sums over what expanding to the present sizes would have repeated."""

    schema = "sum_to_size(Tensor input, int[] size) -> Tensor"
    function = False
    out = False

    def compute(self, input, size):
        if not size:
            return input.sum()
        sizes = tuple(input.shape)      # a Size is sliced in Python
        lead = len(sizes) - len(size)
        if lead < 0 or any(w != 1 and not holds(w == h) for w, h in zip(size, sizes[lead:], strict=True)):
            raise RuntimeError(f"sum_to_size: size {list(size)} is not expandable to size {list(sizes)}.")
        dims = [*range(lead), *(lead + i for i, w in enumerate(size) if w == 1 and sizes[lead + i] != 1)]
        if not dims:      # of a size that is required to be another, the other is left
            return input.reshape(size) if any(map(is_hidden, sizes)) else input
        return input.sum(dims, keepdim=True).reshape(size)
